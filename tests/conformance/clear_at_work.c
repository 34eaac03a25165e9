/* CLEAR while others are at work. Each empties the server's whole cache. */
#include "tests/conformance/transfer_fixture.h"

static void expect_round_trip(struct kvc_ctx *ctx, struct kvc_worker *worker, uint64_t request)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), request);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), request);
}

/* What is found of a key is its own. */
static void expect_whole(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    const struct kvc_key asked = kvc_key_renamed(ctx, key);
    const int64_t found = kvc_peek(ctx, worker, &asked);
    const struct kvc_key part = kvc_key_chunks(worker, &asked, 0, found);
    if (found > 0)
        kvc_retrieve_stamped(ctx, worker, &part, kvc_chunk_blocks(ctx, worker, found), 0);
}

static void clears_during_stores(struct kvc_ctx *ctx)
{
    enum { STORES = 4 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, STORES));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, STORES);
    const struct kvc_request clear = {.op = KVC_OP_CLEAR, .force = true};
    uint64_t stores[STORES], clears[STORES];
    kvc_stamp(ctx, worker, &key, blocks, 0);
    for (int64_t i = 0; i < STORES; i++) {
        const struct kvc_key part = kvc_key_chunks(worker, &key, i, 1);
        const struct kvc_request store = kvc_blocks_request(
            ctx, KVC_OP_STORE, worker, &part, kvc_blocks_of_chunks(worker, blocks, i, 1));
        stores[i] = kvc_send(ctx, &worker->rpc, &store);
        clears[i] = kvc_send(ctx, kvc_ctx_rpc(ctx), &clear);
    }
    for (int i = 0; i < STORES; i++) {
        kvc_receive(ctx, &worker->rpc, stores[i], KVC_OP_STORE);
        kvc_receive(ctx, kvc_ctx_rpc(ctx), clears[i], KVC_OP_CLEAR);
    }
    expect_round_trip(ctx, worker, 1);
    expect_whole(ctx, worker, &key);
}
KVC_CHECK(
    clears_during_stores, .id = "control/clear-during-stores",
    .clause =
        "STOREs and forced CLEARs in flight together are all answered, what is found afterwards "
        "is whole, and further stores work.",
    .source = "protocol 1.5, 4.13, 4.15, B70",
    .exchange = "REGISTER, (STORE, CLEAR) x 4 without waiting, store, retrieve, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,
    .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = clears_during_stores);

static void clears_while_reading(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_store_slots(ctx, worker, &key, 0);
    kvc_open_slots(ctx, worker, &key);
    kvc_expect_ok(ctx, "CLEAR", kvc_rpc_clear(&other->rpc, true, &err), &err);
    const struct kvc_key fresh = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, other, &fresh, kvc_chunk_blocks(ctx, other, 2), 1);
    kvc_commit_retrieve(ctx, worker, &key);
    kvc_expect_hits(ctx, worker, &key, 0);
    kvc_retrieve_stamped(ctx, other, &fresh, kvc_chunk_blocks(ctx, other, 2), 1);
    expect_round_trip(ctx, worker, 2);
}
KVC_CHECK(clears_while_reading, .id = "control/clear-while-reading",
          .clause =
              "COMMIT_RETRIEVE after a forced CLEAR is answered, brings nothing back, and takes "
              "nothing from what was stored since.",
          .source = "protocol 4.12, 4.15, 11.3, B70",
          .exchange = "REGISTER x 2, store, LOOKUP, PREPARE_RETRIEVE, CLEAR, store by the other, "
                      "COMMIT_RETRIEVE, LOOKUP, retrieve by the other",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .run = clears_while_reading);
