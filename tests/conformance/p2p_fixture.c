#include "tests/conformance/p2p_fixture.h"

#include "src/base/clock.h"

struct kvc_object_keys kvc_object_keys(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                       const struct kvc_key *key)
{
    struct kvc_arena *arena = kvc_ctx_arena(ctx);
    const int64_t chunk_size = worker->options.chunk_size;
    const size_t most = key->token_ids.count / (size_t)chunk_size;
    uint8_t *hashes = kvc_arena_alloc_array(arena, most, KVC_BLAKE3_SIZE);
    struct kvc_object_key *keys = kvc_arena_alloc_array(arena, most, sizeof *keys);
    const size_t count =
        kvc_chunk_hashes(key->token_ids.items, key->token_ids.count, chunk_size, hashes);
    for (size_t i = 0; i < count; i++)
        keys[i] =
            (struct kvc_object_key){.chunk_hash = {hashes + i * KVC_BLAKE3_SIZE, KVC_BLAKE3_SIZE},
                                    .model_name = key->model_name,
                                    .kv_rank = 1 << 24 | 1 << 8};
    return (struct kvc_object_keys){keys, count};
}

int64_t kvc_p2p_lock(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_object_keys keys,
                     struct kvc_ints shape, struct kvc_str dtype)
{
    const struct kvc_request look = {.op = KVC_OP_P2P_LOOKUP_AND_LOCK,
                                     .object_keys = keys,
                                     .object_layout = {{&shape, 1}, {&dtype, 1}}};
    return kvc_call(ctx, rpc, &look)->count;
}

struct kvc_object_addresses kvc_p2p_addresses(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                                              int64_t task)
{
    const struct kvc_request query = {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .task_id = task};
    const int64_t deadline = kvc_now_ms() + rpc->timeout_ms;
    const struct kvc_reply *reply = kvc_call(ctx, rpc, &query);
    while (reply->is_void && kvc_now_ms() < deadline) {
        kvc_sleep_ms(1);
        reply = kvc_call(ctx, rpc, &query);
    }
    KVC_EXPECT(ctx, !reply->is_void, "P2P_QUERY_LOOKUP_RESULTS has no result");
    return reply->addresses;
}

void kvc_p2p_unlock(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_object_keys keys)
{
    const struct kvc_request unlock = {.op = KVC_OP_P2P_UNLOCK_OBJECTS, .object_keys = keys};
    kvc_call(ctx, rpc, &unlock);
}
