/* Between a worker's blocks and a chunk in the pool: the data path of STORE and RETRIEVE, with every way
 * in which a defect makes it wrong. For lmcache_driven.c. */
#ifndef KVC_TESTS_MOCK_SERVER_BLOCK_COPY_H
#define KVC_TESTS_MOCK_SERVER_BLOCK_COPY_H

#include "tests/mock_server/state.h"

/* Copies the blocks of the window's chunk number `chunk` into data, or back; lists are the window's block
 * ids, one list a kernel group, checked. A retrieve leaves the blocks alone that the call wants skipped.
 * False when the worker's memory is gone (it may cut its segments short at any time). */
bool mock_gather(struct mock_call *call, const struct mock_instance *instance,
                 const struct kvc_ints *lists, int64_t chunk, uint8_t *data);
bool mock_scatter(struct mock_call *call, const struct mock_instance *instance,
                  const struct kvc_ints *lists, int64_t chunk, const uint8_t *data);

#endif
