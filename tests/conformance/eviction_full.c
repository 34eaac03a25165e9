/* A pool in which nothing may go: what a store into it is told, and how it recovers. */
#include "src/base/clock.h"
#include "tests/conformance/eviction_fixture.h"

static void offers_nothing(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const struct kvc_key locked = kvc_fill_with_locked(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_prepare_slots(ctx, worker, &key, 0);
    kvc_free_locks(ctx, worker, &locked);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_slots(ctx, worker, &again, 1);
    kvc_expect_slots_stamped(ctx, worker, &again, kvc_open_slots(ctx, worker, &again), 1);
    kvc_commit_retrieve(ctx, worker, &again);
}
KVC_CHECK(offers_nothing, .id = "eviction/full-pool-offers-nothing",
          .clause =
              "PREPARE_STORE gives no slot while the pool has no room, and the same chunks get "
              "theirs as soon as it has.",
          .source = "protocol 4.10, 4.16",
          .exchange = "REGISTER, store, LOOKUP, PREPARE_STORE, FREE, PREPARE_STORE, COMMIT_STORE, "
                      "LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool, .run = offers_nothing);

static void says_true(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    kvc_fill_with_locked(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_expect_true(ctx, "the answer to a store for which there is no room",
                    kvc_store(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1)));
    kvc_sleep_ms(kvc_ctx_facts(ctx)->silence_ms);
    kvc_expect_hits(ctx, worker, &key, 0);
}
KVC_CHECK(says_true, .id = "eviction/full-pool-says-true",
          .clause = "STORE, and COMMIT_STORE with the bytes, answer true also when the pool has no "
                    "room and nothing is stored.",
          .source = "protocol 4.11, 4.13, 4.16",
          .exchange = "REGISTER, store, LOOKUP, store, LOOKUP", .level = KVC_LEVEL_OBSERVED,
          .flags = KVC_FLAG_EXCLUSIVE,
          .paths = 1u << KVC_PATH_ENGINE_DRIVEN_INLINE | 1u << KVC_PATH_LMCACHE_DRIVEN,
          .setup = &kvc_tiny_pool, .run = says_true);

/* ---- reservations that fill the pool and are given up ---- */

static const char *const abandonments[] = {"instance-leaves", "cache-is-cleared", NULL};

/* Reserves the whole pool and writes nothing. */
static struct kvc_worker *reserve_whole_pool(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const int64_t chunks = kvc_pool_chunks(worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_prepare_slots(ctx, worker, &key, chunks);
    return worker;
}

static void room_returns(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = reserve_whole_pool(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 1));
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_prepare_slots(ctx, other, &key, 0);
    if (kvc_ctx_variant_is(ctx, "instance-leaves"))
        kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    else
        kvc_expect_ok(ctx, "CLEAR", kvc_rpc_clear(&other->rpc, true, &err), &err);
    kvc_crowd(ctx, other, kvc_pool_chunks(other));
}
KVC_CHECK(room_returns, .id = "eviction/abandoned-room-returns",
          .clause =
              "The room of chunks that were prepared and never committed is there again when their "
              "instance leaves, or the cache is cleared by force.",
          .source = "protocol 4.4, 4.15, 11.3, N09",
          .exchange = "REGISTER x 2, PREPARE_STORE of the whole pool, PREPARE_STORE by the other, "
                      "UNREGISTER | CLEAR, stores by the other until the pool is full",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .variants = abandonments, .setup = &kvc_tiny_pool,
          .run = room_returns);

enum { LEASE_MS = 150 };
static const struct kvc_target_setup tiny_and_short = {KVC_TINY_POOL, .read_ttl_ms = LEASE_MS,
                                                       .write_ttl_ms = LEASE_MS};

static void expired_room_returns(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = reserve_whole_pool(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    KVC_EXPECT(ctx, kvc_soon_finds_room(ctx, other),
               "no chunk can be stored 2 s after a preparation whose lease is %d ms", LEASE_MS);
    kvc_crowd(ctx, other, kvc_pool_chunks(other));
}
KVC_CHECK(expired_room_returns, .id = "eviction/expired-room-returns",
          .clause = "The room of chunks that were prepared and never committed is there again when "
                    "their lease has ended.",
          .source = "protocol 4.10, 11.3, B32, N09",
          .exchange =
              "REGISTER x 2, PREPARE_STORE of the whole pool, stores by the other until the "
              "pool is full",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .setup = &tiny_and_short, .run = expired_room_returns);
