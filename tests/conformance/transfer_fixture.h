/* The steps of a transfer one by one, where a worker makes them in one go: for the families about
 * preparing, slots, storing and retrieving. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_TRANSFER_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_TRANSFER_FIXTURE_H

#include "tests/conformance/fixture.h"

/* ---- workers ---- */

/* A worker of the same model as another: on that path, with that geometry, its own instance id and
 * its own connection. */
struct kvc_worker *kvc_partner_worker(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                      enum kvc_path path, const struct kvc_geometry *geometry);
/* The engine-driven path that works here: over the pool where one is offered, else inline. */
enum kvc_path kvc_engine_driven_path(struct kvc_ctx *ctx);

/* ---- windows ---- */

int64_t kvc_blocks_per_chunk(const struct kvc_worker *worker);
/* Fresh blocks for that many chunks. */
struct kvc_ints kvc_chunk_blocks(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                 int64_t chunks);
/* Of such blocks, those of `chunks` chunks from chunk `first` on. */
struct kvc_ints kvc_blocks_of_chunks(const struct kvc_worker *worker, struct kvc_ints blocks,
                                     int64_t first, int64_t chunks);
/* The key with the window of `chunks` chunks from chunk `first` on. */
struct kvc_key kvc_key_chunks(const struct kvc_worker *worker, const struct kvc_key *key,
                              int64_t first, int64_t chunks);

/* ---- what is there ---- */

/* LOOKUP finds exactly that many leading chunks, now. */
void kvc_expect_hits(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                     int64_t chunks);
/* LOOKUP finds at least that many leading chunks before the time limit. */
void kvc_expect_visible(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                        int64_t chunks);
/* LOOKUP finds so many and no more, also after everything that the worker stored before has become
 * visible: a STORE is visible some time after its reply. */
void kvc_expect_settled_hits(struct kvc_ctx *ctx, struct kvc_worker *worker,
                             const struct kvc_key *key, int64_t chunks);

/* ---- engine-driven, step by step ---- */

const struct kvc_transfer_context *
kvc_prepare_store(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key);
/* Expects that many slots, and as many chunk indices. */
const struct kvc_transfer_context *kvc_prepare_slots(struct kvc_ctx *ctx,
                                                     const struct kvc_worker *worker,
                                                     const struct kvc_key *key, int64_t count);
/* What COMMIT_STORE answers; no data. */
bool kvc_commit_store(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                      const struct kvc_key *key);
const struct kvc_prepare_retrieve_result *kvc_prepare_retrieve(struct kvc_ctx *ctx,
                                                               const struct kvc_worker *worker,
                                                               const struct kvc_key *key);
bool kvc_commit_retrieve(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                         const struct kvc_key *key);
/* LOOKUP, then PREPARE_RETRIEVE, which must succeed with one slot for each chunk of the window. */
const struct kvc_slots *kvc_open_slots(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                       const struct kvc_key *key);

/* The bytes of a slot, which must lie in the pool and hold one chunk of the worker's geometry. */
uint8_t *kvc_slot_bytes(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                        const struct kvc_slot *slot);
/* Writes the stamps of the chunks that the slots are for. request numbers the stamp's source. */
void kvc_stamp_slots(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, const struct kvc_transfer_context *context,
                     uint64_t request);
/* Slot i holds the stamps of chunk i of the key's window. */
void kvc_expect_slots_stamped(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                              const struct kvc_key *key, const struct kvc_slots *slots,
                              uint64_t request);
/* PREPARE_STORE, stamps into every slot, COMMIT_STORE, which must say true. */
void kvc_store_slots(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, uint64_t request);

/* ---- requests made by hand ---- */

/* op is one of those whose payload begins with key and instance id. */
struct kvc_request kvc_transfer_request(enum kvc_op op, const struct kvc_worker *worker,
                                        const struct kvc_key *key);
/* STORE or RETRIEVE of these blocks, the same list for each of the worker's groups. */
struct kvc_request kvc_blocks_request(struct kvc_ctx *ctx, enum kvc_op op,
                                      const struct kvc_worker *worker, const struct kvc_key *key,
                                      struct kvc_ints blocks);
/* Sends it; the `success` of the answer, or false when there is none. For requests that a server
 * may refuse in silence. */
bool kvc_succeeds(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                  const struct kvc_request *request);
/* The same, where an answer is likely: it is waited for as long as a call may take. */
bool kvc_soon_succeeds(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                       const struct kvc_request *request);

/* The two halves of kvc_call, for requests of several workers at once. */
uint64_t kvc_send(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                  const struct kvc_request *request);
const struct kvc_reply *kvc_receive(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, uint64_t uid,
                                    enum kvc_op op);

/* ---- memory ---- */

/* Fills the whole cache with the poison byte. */
void kvc_poison(struct kvc_worker *worker);
/* Nothing of the cache was written since kvc_poison. */
void kvc_expect_untouched(struct kvc_ctx *ctx, struct kvc_worker *worker);

#endif
