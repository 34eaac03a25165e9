/* A pool in which nothing may go: what a store into it is told, and how it recovers. */
#include <stdlib.h>

#include "src/base/clock.h"
#include "tests/conformance/eviction_fixture.h"

/* What PREPARE_STORE gives once there is room, which a server may make a little after it could. */
static const struct kvc_transfer_context *
soon_prepared(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    const int64_t deadline = kvc_now_ms() + kvc_ctx_facts(ctx)->timeout_ms;
    const struct kvc_transfer_context *context = kvc_prepare_store(ctx, worker, key);
    while (context->slots.count == 0) {
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "PREPARE_STORE gives no slot, though no chunk in the pool is locked any more");
        kvc_sleep_ms(10);
        context = kvc_prepare_store(ctx, worker, key);
    }
    return context;
}

static void offers_nothing(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const struct kvc_key locked = kvc_fill_with_locked(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_prepare_slots(ctx, worker, &key, 0);
    kvc_free_locks(ctx, worker, &locked);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    const struct kvc_transfer_context *context = soon_prepared(ctx, worker, &again);
    kvc_stamp_slots(ctx, worker, &again, context, 1);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &again));
    kvc_expect_slots_stamped(ctx, worker, &again, kvc_open_slots(ctx, worker, &again), 1);
    kvc_commit_retrieve(ctx, worker, &again);
}
KVC_CHECK(offers_nothing, .id = "eviction/full-pool-offers-nothing",
          .clause =
              "PREPARE_STORE gives no slot while the pool has no room, and the same chunks get "
              "theirs once it has.",
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

/* ---- room in pieces ---- */

/* A chunk that is being read, and so stays where it is. */
struct held {
    struct kvc_key key;
    const struct kvc_slots *slot;
};

static int by_offset(const void *a, const void *b)
{
    const int64_t first = ((const struct held *)a)->slot->items[0].offset;
    const int64_t second = ((const struct held *)b)->slot->items[0].offset;
    return (first > second) - (first < second);
}

/* Of a pool full of chunks every second one is held, and the others may go: the room between them is in
 * pieces of one chunk, and one of two at the pool's start. */
static struct held *hold_every_second(struct kvc_ctx *ctx, struct kvc_worker *worker, size_t *count)
{
    const struct kvc_key all = kvc_fill_with_locked(ctx, worker);
    const size_t chunks = (size_t)kvc_pool_chunks(worker);
    struct held *held = kvc_arena_alloc_array(kvc_ctx_arena(ctx), chunks, sizeof *held);
    for (size_t i = 0; i < chunks; i++) {
        held[i].key = kvc_key_chunks(worker, &all, (int64_t)i, 1);
        const struct kvc_prepare_retrieve_result *result =
            kvc_prepare_retrieve(ctx, worker, &held[i].key);
        kvc_expect_int(ctx, "slots of PREPARE_RETRIEVE", (int64_t)result->context.slots.count, 1);
        held[i].slot = &result->context.slots;
    }
    qsort(held, chunks, sizeof *held, by_offset);
    *count = 0;
    for (size_t i = 0; i < chunks; i++) {
        if (i % 2 == 0 && i > 0)
            held[(*count)++] = held[i];
        else
            kvc_commit_retrieve(ctx, worker, &held[i].key);
    }
    return held;
}

/* How many chunks of so many bytes the room before, between and behind the held ones has place for. */
static int64_t places_between(const struct kvc_worker *worker, const struct held *held,
                              size_t count, int64_t bytes)
{
    int64_t places = 0, end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct kvc_slot *slot = &held[i].slot->items[0];
        places += (slot->offset - end) / bytes;
        end = slot->offset + slot->length;
    }
    return places + (worker->pool_size - end) / bytes;
}

/* A worker of another model whose chunks are twice as large. */
static struct kvc_worker *open_wide(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    struct kvc_worker_options options = worker->options;
    options.model_name = kvc_fresh_name(ctx, "model");
    options.instance_id = kvc_fresh_instance_id(ctx);
    options.geometry.groups[0].head_size *= 2;
    return kvc_open_worker(ctx, &options);
}

static void fits_no_piece(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *wide = open_wide(ctx, worker);
    const int64_t bytes =
        kvc_geometry_chunk_bytes(&wide->options.geometry, wide->options.chunk_size);
    size_t count;
    const struct held *held = hold_every_second(ctx, worker, &count);
    if (places_between(worker, held, count, bytes) != 1)
        kvc_ctx_skip(ctx, "the server leaves other pieces of its pool free");
    const struct kvc_key key = kvc_key_for(ctx, wide, kvc_fresh_chunks(ctx, 2));
    kvc_prepare_slots(ctx, wide, &key, 0);
    for (size_t i = 0; i < count; i++) {
        kvc_expect_slots_stamped(ctx, worker, &held[i].key, held[i].slot, 0);
        kvc_commit_retrieve(ctx, worker, &held[i].key);
    }
    kvc_clear(ctx, true);
    kvc_prepare_slots(ctx, wide, &key, 2);
}
KVC_CHECK(
    fits_no_piece, .id = "eviction/room-in-pieces",
    .clause =
        "PREPARE_STORE gives no slot for chunks that would have room in sum, where the pieces of "
        "the pool that may be used are too small for them, and gives them theirs when larger "
        "ones are free.",
    .source = "protocol 4.10, 4.16, B55, N05",
    .exchange =
        "REGISTER x 2, store until the pool is full, LOOKUP, PREPARE_RETRIEVE of each chunk, "
        "COMMIT_RETRIEVE of every second one; PREPARE_STORE of chunks of twice the size; "
        "COMMIT_RETRIEVE of the others, CLEAR, PREPARE_STORE",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool, .run = fits_no_piece);

/* What was used last goes last: read from the last chunk to the first, they are dropped in that order. */
static void joins_pieces(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *wide = open_wide(ctx, worker);
    const int64_t chunks = kvc_pool_chunks(wide);
    const struct kvc_key small = kvc_fill_with_locked(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, wide, kvc_fresh_chunks(ctx, chunks));
    for (int64_t i = kvc_pool_chunks(worker) - 1; i >= 0; i--) {
        const struct kvc_key one = kvc_key_chunks(worker, &small, i, 1);
        kvc_expect_true(ctx, "success of the retrieve",
                        kvc_retrieve(ctx, worker, &one, kvc_chunk_blocks(ctx, worker, 1), 0));
    }
    kvc_clear(ctx, true);
    kvc_prepare_slots(ctx, wide, &key, chunks);
}
KVC_CHECK(joins_pieces, .id = "eviction/cleared-pool-is-whole",
          .clause =
              "A pool that was full of small chunks and was cleared has room for large ones, as "
              "many as it holds.",
          .source = "protocol 4.10, 4.15, 4.16, B55",
          .exchange = "REGISTER x 2, store until the pool is full, LOOKUP, retrieve from the last "
                      "chunk to the first, CLEAR, PREPARE_STORE of chunks of twice the size",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool, .run = joins_pieces);

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
        kvc_clear(ctx, true);
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

static void expired_room_returns(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = reserve_whole_pool(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    KVC_EXPECT(ctx, kvc_soon_finds_room(ctx, other),
               "no chunk can be stored 2 s after the end of a preparation's lease of %lld ms",
               (long long)kvc_ctx_setup(ctx)->write_ttl_ms);
    kvc_crowd(ctx, other, kvc_pool_chunks(other));
}
KVC_CHECK(
    expired_room_returns, .id = "eviction/expired-room-returns",
    .clause = "The room of chunks that were prepared and never committed is there again when "
              "their lease has ended.",
    .source = "protocol 4.10, 11.3, B32, N09",
    .exchange = "REGISTER x 2, PREPARE_STORE of the whole pool, stores by the other until the "
                "pool is full",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool_short_lease, .run = expired_room_returns);
