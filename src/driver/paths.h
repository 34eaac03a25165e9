/* The three paths and what they share. For this folder only. */
#ifndef KVC_DRIVER_PATHS_H
#define KVC_DRIVER_PATHS_H

#include "src/driver/worker.h"

extern const struct kvc_worker_ops kvc_engine_driven_ops;
extern const struct kvc_worker_ops kvc_engine_driven_inline_ops;
extern const struct kvc_worker_ops kvc_lmcache_driven_ops;

/* kvc_rpc_call that also adds to the worker's timing. */
kvc_status kvc_worker_call(struct kvc_worker *worker, const struct kvc_request *request,
                           struct kvc_reply *reply, struct kvc_error *err);
/* The same for a request that is already frames (taken over). */
kvc_status kvc_worker_call_frames(struct kvc_worker *worker, enum kvc_op op,
                                  struct kvc_frames *frames, struct kvc_reply *reply,
                                  struct kvc_error *err);
/* For calls answered by a bool. */
kvc_status kvc_worker_call_bool(struct kvc_worker *worker, const struct kvc_request *request,
                                bool *ok, struct kvc_error *err);
/* Sends an operation that has nothing but the instance id, and expects void. */
kvc_status kvc_worker_call_instance(struct kvc_worker *worker, enum kvc_op op,
                                    struct kvc_error *err);

/* ---- engine-driven, over the pool or inline (engine_driven.c) ---- */

/* Registers, and sets the path that the reply leads to. */
kvc_status kvc_engine_driven_enroll(struct kvc_worker *worker, struct kvc_error *err);
kvc_status kvc_engine_driven_withdraw(struct kvc_worker *worker, struct kvc_error *err);

/* A window as the copies need it: whole chunks, and block ids that exist. */
struct kvc_window {
    int64_t chunks;
    int64_t blocks_per_chunk;
    int64_t chunk_tokens;
    int64_t chunk_bytes;
    const int64_t *block_ids;
    const struct kvc_group *group;
    uint8_t **tensors; /* the group's layers; freed with kvc_window_close */
};

/* KVC_EUSAGE for a window that is not whole chunks, too few or too many ids, or an id that the
 * cache does not have: nothing has been sent then. */
kvc_status kvc_window_open(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, struct kvc_window *window,
                           struct kvc_error *err);
void kvc_window_close(struct kvc_window *window);
/* Copy one chunk out of the worker's blocks, or into them. Add to the worker's timing. On a GPU they begin the
 * copy: it is done after kvc_window_finish, and until then its memory must stay. */
kvc_status kvc_window_gather(struct kvc_worker *worker, const struct kvc_window *window,
                             int64_t chunk, uint8_t *to, struct kvc_error *err);
kvc_status kvc_window_scatter(struct kvc_worker *worker, const struct kvc_window *window,
                              int64_t chunk, int64_t skip_first_n_tokens, const uint8_t *from,
                              struct kvc_error *err);
/* Waits for what was begun, whatever became of it. Returns `status` if that is an error already. */
kvc_status kvc_window_finish(struct kvc_worker *worker, kvc_status status, struct kvc_error *err);

/* The shape of one chunk: [2, layers, tokens, hidden], or [layers, tokens, hidden] for MLA. Returns
 * its rank. */
size_t kvc_window_shape(const struct kvc_window *window, int64_t shape[4]);
/* True when shape and dtype are the chunk's; a leading 1 is allowed (what STORE makes of MLA). */
bool kvc_window_matches(const struct kvc_window *window, struct kvc_ints shape,
                        struct kvc_str dtype);

/* Fills err for a shape or dtype that is not the chunk's: what it had to be, and what came. */
kvc_status kvc_window_mismatch(const struct kvc_window *window, struct kvc_ints shape,
                               struct kvc_str dtype, struct kvc_error *err);

/* ---- what a server says about its slots (slots.c) ---- */

/* What a PREPARE_STORE or PREPARE_RETRIEVE answered, before a byte is touched: the slots by
 * kvc_slots_check, each of the chunk's shape and dtype. For a store, chunk_indices must ascend, be in
 * range, and be as many as the slots; for a retrieve there must be one slot for each chunk. */
kvc_status kvc_slots_check_context(enum kvc_op op, const struct kvc_transfer_context *context,
                                   const struct kvc_window *window, int64_t pool_size,
                                   struct kvc_error *err);

#endif
