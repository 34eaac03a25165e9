/* Texts that outlive the message they came in. For the mock's tables. */
#ifndef KVC_TESTS_MOCK_SERVER_TEXT_H
#define KVC_TESTS_MOCK_SERVER_TEXT_H

#include "src/base/bytes.h"

/* A copy, NUL-terminated behind its last byte; freed with mock_text_free. */
struct kvc_str mock_text_copy(struct kvc_str text);
void mock_text_free(struct kvc_str text);

#endif
