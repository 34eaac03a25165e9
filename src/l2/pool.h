/* An open store and the threads that work on it, each with a lane of its own. For the bench and
 * checks. */
#ifndef KVC_L2_POOL_H
#define KVC_L2_POOL_H

#include "src/l2/l2.h"

struct kvc_l2_pool;

/* Opens the store and its lanes; lanes 0: as many as the config asks for, else one a processor. Errors
 * as for the adapter's open. */
kvc_status kvc_l2_pool_open(const struct kvc_l2_config *config, const struct kvc_l2_memory *memory,
                            size_t lanes, struct kvc_l2_pool **pool, struct kvc_error *err);
size_t kvc_l2_pool_lanes(const struct kvc_l2_pool *pool);

/* Hands items to the lanes and returns at once. They must stay where they are until
 * kvc_l2_pool_wait has returned KVC_OK. */
void kvc_l2_pool_submit(struct kvc_l2_pool *pool, enum kvc_l2_operation operation,
                        struct kvc_l2_item *items, size_t count);
/* Waits for everything handed over: KVC_OK when it is done, whatever came of it. KVC_ETIMEOUT, or
 * KVC_EINTERRUPTED when *stop (which may be NULL) has become non-zero: what no lane has begun is then
 * dropped, and what is under way may still touch its items until the pool is closed. */
kvc_status kvc_l2_pool_wait(struct kvc_l2_pool *pool, int64_t timeout_ms, const volatile int *stop);
/* The first error of any item since the last call; KVC_OK when none failed. */
kvc_status kvc_l2_pool_take_error(struct kvc_l2_pool *pool, struct kvc_error *err);

/* Closes lanes and store. Work that does not end within a second is left behind, with the store and
 * its threads: then KVC_ETIMEOUT, and the items' memory must stay. Else KVC_OK, or what kept the
 * store from closing well. */
kvc_status kvc_l2_pool_close(struct kvc_l2_pool *pool, struct kvc_error *err);

#endif
