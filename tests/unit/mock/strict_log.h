/* A mock with --strict in a child process, and what it says. */
#ifndef KVC_TESTS_UNIT_MOCK_STRICT_LOG_H
#define KVC_TESTS_UNIT_MOCK_STRICT_LOG_H

#include "tests/unit/mock/child.h"

/* child_start with strict set, and a pool of 1 MiB if the options name none. */
void strict_start(struct child *child, struct kvc_mock_options options);
/* Stops it; returns the lines it has said, which stay valid until the next call. */
const char *strict_finish(struct child *child);

#endif
