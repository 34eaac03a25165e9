/* Defects: the blocks of a STORE are read when its chunks become visible, long after its reply; or then
 * once more, when another instance has the id of the one that stored. For lmcache_driven.c, and the
 * mock's loop. */
#ifndef KVC_TESTS_MOCK_SERVER_LATE_COPY_H
#define KVC_TESTS_MOCK_SERVER_LATE_COPY_H

#include "tests/mock_server/window.h"

/* Puts the transfer off, and notes which blocks to read then. */
void mock_late_copy_begin(const struct mock_window *window, const struct mock_instance *instance,
                          const struct kvc_ints *lists, struct mock_transfer *transfer);
/* Reads the blocks of those transfers whose time has come. */
void mock_late_copies_make(struct mock *mock);

#endif
