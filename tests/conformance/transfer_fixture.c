#include "tests/conformance/transfer_fixture.h"

/* ---- workers ---- */

struct kvc_worker *kvc_partner_worker(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                      enum kvc_path path, const struct kvc_geometry *geometry)
{
    struct kvc_worker template = *worker;
    template.options.geometry = *geometry;
    template.options.mode =
        path == KVC_PATH_LMCACHE_DRIVEN ? KVC_MODE_LMCACHE_DRIVEN : KVC_MODE_ENGINE_DRIVEN;
    template.options.force_inline = path == KVC_PATH_ENGINE_DRIVEN_INLINE;
    return kvc_sibling_worker(ctx, &template);
}

enum kvc_path kvc_engine_driven_path(struct kvc_ctx *ctx)
{
    const bool over_pool = kvc_ctx_facts(ctx)->paths & 1u << KVC_PATH_ENGINE_DRIVEN;
    return over_pool ? KVC_PATH_ENGINE_DRIVEN : KVC_PATH_ENGINE_DRIVEN_INLINE;
}

/* ---- windows ---- */

int64_t kvc_blocks_per_chunk(const struct kvc_worker *worker)
{
    return worker->options.chunk_size / worker->options.geometry.groups[0].block_size;
}

struct kvc_ints kvc_chunk_blocks(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                 int64_t chunks)
{
    return kvc_fresh_blocks(ctx, worker->options.geometry.groups[0].num_blocks,
                            chunks * kvc_blocks_per_chunk(worker));
}

struct kvc_ints kvc_blocks_of_chunks(const struct kvc_worker *worker, struct kvc_ints blocks,
                                     int64_t first, int64_t chunks)
{
    const int64_t per_chunk = kvc_blocks_per_chunk(worker);
    return kvc_ints_slice(blocks, (size_t)(first * per_chunk), (size_t)(chunks * per_chunk));
}

struct kvc_key kvc_key_chunks(const struct kvc_worker *worker, const struct kvc_key *key,
                              int64_t first, int64_t chunks)
{
    const int64_t chunk_size = worker->options.chunk_size;
    return kvc_key_window(key, first * chunk_size, (first + chunks) * chunk_size);
}

/* ---- what is there ---- */

void kvc_expect_hits(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                     int64_t chunks)
{
    kvc_expect_int(ctx, "leading chunks that LOOKUP finds", kvc_peek(ctx, worker, key), chunks);
}

void kvc_expect_visible(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                        int64_t chunks)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(
        ctx, "LOOKUP sees what was stored",
        kvc_worker_wait_visible(worker, key, chunks, kvc_ctx_facts(ctx)->timeout_ms, &err), &err);
}

void kvc_expect_settled_hits(struct kvc_ctx *ctx, struct kvc_worker *worker,
                             const struct kvc_key *key, int64_t chunks)
{
    /* Stores of one connection become visible in order: one that is visible is a fence. */
    const struct kvc_key fence = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_expect_true(ctx, "success of a store after the one in question",
                    kvc_store(ctx, worker, &fence, kvc_chunk_blocks(ctx, worker, 1)));
    kvc_expect_visible(ctx, worker, &fence, 1);
    kvc_expect_hits(ctx, worker, key, chunks);
}

/* ---- engine-driven, step by step ---- */

struct kvc_request kvc_transfer_request(enum kvc_op op, const struct kvc_worker *worker,
                                        const struct kvc_key *key)
{
    return (struct kvc_request){.op = op, .key = *key, .instance_id = worker->options.instance_id};
}

static const struct kvc_reply *call(struct kvc_ctx *ctx, enum kvc_op op,
                                    const struct kvc_worker *worker, const struct kvc_key *key)
{
    const struct kvc_request request = kvc_transfer_request(op, worker, key);
    return kvc_call(ctx, &worker->rpc, &request);
}

const struct kvc_transfer_context *
kvc_prepare_store(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key)
{
    return &call(ctx, KVC_OP_PREPARE_STORE, worker, key)->context;
}

const struct kvc_transfer_context *kvc_prepare_slots(struct kvc_ctx *ctx,
                                                     const struct kvc_worker *worker,
                                                     const struct kvc_key *key, int64_t count)
{
    const struct kvc_transfer_context *context = kvc_prepare_store(ctx, worker, key);
    kvc_expect_int(ctx, "slots of PREPARE_STORE", (int64_t)context->slots.count, count);
    kvc_expect_int(ctx, "chunk_indices of PREPARE_STORE", (int64_t)context->chunk_indices.count,
                   count);
    return context;
}

bool kvc_commit_store(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                      const struct kvc_key *key)
{
    return call(ctx, KVC_OP_COMMIT_STORE, worker, key)->ok;
}

const struct kvc_prepare_retrieve_result *kvc_prepare_retrieve(struct kvc_ctx *ctx,
                                                               const struct kvc_worker *worker,
                                                               const struct kvc_key *key)
{
    return &call(ctx, KVC_OP_PREPARE_RETRIEVE, worker, key)->retrieve;
}

bool kvc_commit_retrieve(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                         const struct kvc_key *key)
{
    return call(ctx, KVC_OP_COMMIT_RETRIEVE, worker, key)->ok;
}

const struct kvc_slots *kvc_open_slots(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                       const struct kvc_key *key)
{
    const int64_t chunk_size = worker->options.chunk_size;
    const int64_t hits = kvc_lookup(ctx, worker, key);
    KVC_EXPECT(ctx, hits >= key->end / chunk_size, "LOOKUP finds %lld chunks, %lld are stored",
               (long long)hits, (long long)(key->end / chunk_size));
    const struct kvc_prepare_retrieve_result *result = kvc_prepare_retrieve(ctx, worker, key);
    kvc_expect_true(ctx, "success of PREPARE_RETRIEVE", result->success);
    kvc_expect_int(ctx, "slots of PREPARE_RETRIEVE", (int64_t)result->context.slots.count,
                   (key->end - key->start) / chunk_size);
    return &result->context.slots;
}

uint8_t *kvc_slot_bytes(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                        const struct kvc_slot *slot)
{
    const struct kvc_slots slots = {slot, 1};
    const int64_t chunk_bytes =
        kvc_geometry_chunk_bytes(&worker->options.geometry, worker->options.chunk_size);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "a slot lies in the pool and holds one chunk",
                  kvc_slots_check(slots, worker->pool_size, chunk_bytes, &err), &err);
    return worker->pool.data + slot->offset;
}

static struct kvc_stamp_source stamp_source(struct kvc_ctx *ctx, uint64_t request)
{
    return (struct kvc_stamp_source){.seed = kvc_ctx_seed(ctx), .request = request};
}

/* Nothing is written before every slot and index is known to be good. */
static void expect_usable(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                          const struct kvc_key *key, const struct kvc_transfer_context *context)
{
    const int64_t chunks = (key->end - key->start) / worker->options.chunk_size;
    const struct kvc_ints indices = context->chunk_indices;
    struct kvc_error err = KVC_ERROR_INIT;
    KVC_EXPECT(ctx, context->slots.count == indices.count,
               "PREPARE_STORE gives %zu slots and %zu chunk_indices", context->slots.count,
               indices.count);
    for (size_t i = 0; i < indices.count; i++)
        KVC_EXPECT(ctx,
                   indices.items[i] >= (i == 0 ? 0 : indices.items[i - 1] + 1) &&
                       indices.items[i] < chunks,
                   "chunk_indices[%zu] of PREPARE_STORE is %lld: they ascend, and lie below %lld",
                   i, (long long)indices.items[i], (long long)chunks);
    kvc_expect_ok(ctx, "the slots lie in the pool, each of one chunk, apart from each other",
                  kvc_slots_check(context->slots, worker->pool_size,
                                  kvc_geometry_chunk_bytes(&worker->options.geometry,
                                                           worker->options.chunk_size),
                                  &err),
                  &err);
}

void kvc_stamp_slots(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, const struct kvc_transfer_context *context,
                     uint64_t request)
{
    const int64_t chunk_size = worker->options.chunk_size;
    expect_usable(ctx, worker, key, context);
    for (size_t i = 0; i < context->slots.count; i++)
        kvc_stamp_chunk(&worker->options.geometry, stamp_source(ctx, request),
                        key->start + context->chunk_indices.items[i] * chunk_size, chunk_size,
                        kvc_slot_bytes(ctx, worker, &context->slots.items[i]));
}

void kvc_expect_slots_stamped(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                              const struct kvc_key *key, const struct kvc_slots *slots,
                              uint64_t request)
{
    enum { OTHER_REQUESTS = 8 }; /* checks number their requests from 0 */
    struct kvc_stamp_source others[OTHER_REQUESTS];
    for (size_t i = 0; i < OTHER_REQUESTS; i++)
        others[i] = stamp_source(ctx, i);
    const int64_t chunk_size = worker->options.chunk_size;
    for (size_t i = 0; i < slots->count; i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_expect_ok(ctx, "the slots hold what was stored",
                      kvc_stamp_check_chunk(&worker->options.geometry, stamp_source(ctx, request),
                                            key->start + (int64_t)i * chunk_size, chunk_size,
                                            kvc_slot_bytes(ctx, worker, &slots->items[i]), others,
                                            OTHER_REQUESTS, &err),
                      &err);
    }
}

void kvc_store_slots(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, uint64_t request)
{
    kvc_stamp_slots(ctx, worker, key, kvc_prepare_store(ctx, worker, key), request);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, key));
}

/* ---- requests made by hand ---- */

struct kvc_request kvc_blocks_request(struct kvc_ctx *ctx, enum kvc_op op,
                                      const struct kvc_worker *worker, const struct kvc_key *key,
                                      struct kvc_ints blocks)
{
    const size_t groups = worker->options.geometry.group_count;
    struct kvc_ints *lists = kvc_arena_alloc_array(kvc_ctx_arena(ctx), groups, sizeof *lists);
    for (size_t i = 0; i < groups; i++)
        lists[i] = blocks;
    struct kvc_request request = kvc_transfer_request(op, worker, key);
    request.block_ids = (struct kvc_int_lists){lists, groups};
    return request;
}

static bool says_success(enum kvc_op op, const struct kvc_reply *reply)
{
    switch (op) {
    case KVC_OP_STORE:
    case KVC_OP_RETRIEVE:
        return reply->transfer.success;
    case KVC_OP_PREPARE_RETRIEVE:
        return reply->retrieve.success;
    default: /* COMMIT_* */
        return reply->ok;
    }
}

bool kvc_succeeds(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                  const struct kvc_request *request)
{
    struct kvc_reply *reply = NULL;
    return kvc_try_call(ctx, &worker->rpc, request, &reply) && says_success(request->op, reply);
}

bool kvc_soon_succeeds(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                       const struct kvc_request *request)
{
    struct kvc_reply reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    const uint64_t uid = kvc_send(ctx, &worker->rpc, request);
    const bool answered = kvc_rpc_receive(&worker->rpc, uid, request->op, worker->rpc.timeout_ms,
                                          &reply, &err) == KVC_OK;
    const bool success = answered && says_success(request->op, &reply);
    kvc_reply_clear(&reply);
    return success;
}

uint64_t kvc_send(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, const struct kvc_request *request)
{
    uint64_t uid = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op), kvc_rpc_send(rpc, request, &uid, &err), &err);
    return uid;
}

static void clear_reply(void *reply)
{
    kvc_reply_clear(reply);
}

const struct kvc_reply *kvc_receive(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, uint64_t uid,
                                    enum kvc_op op)
{
    struct kvc_reply *reply = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *reply);
    kvc_ctx_defer(ctx, clear_reply, reply);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(op), kvc_rpc_receive(rpc, uid, op, rpc->timeout_ms, reply, &err),
                  &err);
    return reply;
}

/* ---- memory ---- */

void kvc_poison(struct kvc_worker *worker)
{
    kvc_paged_fill(&worker->paged, KVC_POISON);
}

void kvc_expect_untouched(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    kvc_expect_untouched_except(ctx, worker, (struct kvc_ints){0});
}
