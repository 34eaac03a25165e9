/* The inline half of the engine-driven operations: bytes inside the message (protocol.md 4.11). For
 * engine_driven.c. */
#ifndef KVC_TESTS_MOCK_SERVER_INLINE_TRANSFER_H
#define KVC_TESTS_MOCK_SERVER_INLINE_TRANSFER_H

#include "tests/mock_server/window.h"

/* COMMIT_STORE with data: stores the window's chunks that are not cached yet. */
enum mock_answer mock_commit_inline(struct mock_call *call, const struct mock_window *window,
                                    const struct mock_instance *instance);
/* The data of PREPARE_RETRIEVE: the objects as a list of tensors, into the call's reply. */
enum mock_answer mock_retrieve_inline(struct mock_call *call, struct mock_object *const *objects,
                                      size_t count);

#endif
