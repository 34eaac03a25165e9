/* When the pool is full: what goes to make room, and what must stay. */
#include "src/base/clock.h"
#include "tests/conformance/eviction_fixture.h"

static void makes_room(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    kvc_crowd(ctx, worker, 2 * kvc_pool_chunks(worker));
    const struct kvc_key key = kvc_store_pressed(ctx, worker, 2);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(makes_room, .id = "eviction/makes-room",
          .clause = "A store into a full pool finds room: chunks that nobody has locked go.",
          .source = "protocol 4.16",
          .exchange = "REGISTER, (store, LOOKUP) until the pool was filled twice, retrieve",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .setup = &kvc_tiny_pool, .run = makes_room);

static void spares_locked(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    kvc_store_in_pairs(ctx, worker, &key);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), 4);
    kvc_crowd(ctx, other, 2 * kvc_pool_chunks(worker));
    kvc_retrieve_in_pairs(ctx, worker, &key, 0);
}
KVC_CHECK(spares_locked, .id = "eviction/spares-locked",
          .clause = "Chunks that a lookup has locked are not dropped to make room, and keep their "
                    "bytes, however much is stored meanwhile.",
          .source = "protocol 4.6, 4.16, B28",
          .exchange =
              "REGISTER x 2, store, LOOKUP; (store, LOOKUP) by the other until the pool was "
              "filled twice; retrieve",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .setup = &kvc_tiny_pool, .run = spares_locked);

static void spares_pending(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_slots(ctx, worker, &key, 2), 0);
    kvc_crowd(ctx, other, 2 * kvc_pool_chunks(worker));
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &key));
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(
    spares_pending, .id = "eviction/spares-pending",
    .clause = "Slots that a worker is writing are given to nobody else, however much is stored "
              "meanwhile.",
    .source = "protocol 4.10, 4.16, B33, N05",
    .exchange = "REGISTER x 2, PREPARE_STORE; (store, LOOKUP) by the other until the pool was "
                "filled twice; COMMIT_STORE, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool, .run = spares_pending);

static void drops_least_recent(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const int64_t chunks = kvc_pool_chunks(worker);
    const struct kvc_key used = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key unused = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &used, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_store_stamped(ctx, worker, &unused, kvc_chunk_blocks(ctx, worker, 1), 1);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &used), 2);
    kvc_crowd(ctx, worker, chunks - 5); /* used after the LOOKUP */
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, worker, &used, kvc_chunk_blocks(ctx, worker, 2), 0));
    kvc_crowd(ctx, worker, 3);                /* one more than there is room for */
    kvc_expect_hits(ctx, worker, &unused, 0); /* whether or not more than one has gone */
}
KVC_CHECK(
    drops_least_recent, .id = "eviction/least-recent-first",
    .clause =
        "When chunks go, the one that was not used for longest is among them; being retrieved counts as use.",
    .source = "protocol 4.16",
    .exchange = "REGISTER, store a, store b, LOOKUP a, store others, retrieve a, store others, "
                "LOOKUP b",
    .level = KVC_LEVEL_OBSERVED, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
    .setup = &kvc_tiny_pool, .run = drops_least_recent);

/* ---- room that is made ahead of need ---- */

enum { HOUSEKEEPING_MS = 1200 }; /* room is made once a second */

static void leaves_locked_alone(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const struct kvc_key key = kvc_fill_with_locked(ctx, worker);
    kvc_sleep_ms(HOUSEKEEPING_MS);
    kvc_retrieve_in_pairs(ctx, worker, &key, 0);
}
KVC_CHECK(leaves_locked_alone, .id = "eviction/full-of-locked-stays",
          .clause =
              "A pool full of locked chunks stays as it is while nobody asks for anything, and "
              "each of them can be retrieved.",
          .source = "protocol 4.6, 4.16, B28",
          .exchange = "REGISTER, store until the pool is full, LOOKUP; a pause; retrieve",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool,
          .run = leaves_locked_alone);

static int64_t count_found(struct kvc_ctx *ctx, struct kvc_worker *worker,
                           const struct kvc_key *keys, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += kvc_peek(ctx, worker, &keys[i]);
    return found;
}

static void drops_a_fifth(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    const int64_t count = kvc_pool_chunks(worker) - 1;
    struct kvc_key *keys = kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)count, sizeof *keys);
    for (int64_t i = 0; i < count; i++) {
        keys[i] = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
        kvc_store_stamped(ctx, worker, &keys[i], kvc_chunk_blocks(ctx, worker, 1), 0);
    }
    const int64_t deadline = kvc_now_ms() + 2 * HOUSEKEEPING_MS;
    int64_t found = count;
    while (found == count && kvc_now_ms() < deadline) {
        kvc_sleep_ms(100);
        found = count_found(ctx, worker, keys, count);
    }
    KVC_EXPECT(ctx, found >= count - count / 5,
               "of %lld chunks in a pool that holds one more, %lld are left", (long long)count,
               (long long)found);
}
KVC_CHECK(drops_a_fifth, .id = "eviction/a-fifth-at-most",
          .clause = "Where room is made before it is needed, no more than a fifth of the chunks go "
                    "at once.",
          .source = "protocol 4.16",
          .exchange = "REGISTER, store until the pool has room for one chunk more, LOOKUP of each "
                      "until one is gone",
          .level = KVC_LEVEL_OBSERVED, .flags = KVC_FLAG_EXCLUSIVE, .setup = &kvc_tiny_pool,
          .run = drops_a_fifth);

/* ---- locked chunks that are let go ---- */

static const char *const releases[] = {"freed", "retrieved", "session-ended", NULL};

static void drops_what_is_released(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_fill_with_locked(ctx, worker);
    KVC_EXPECT(ctx, !kvc_finds_room(ctx, other),
               "a chunk is stored though every chunk in the pool is locked");
    if (kvc_ctx_variant_is(ctx, "freed"))
        kvc_free_locks(ctx, worker, &key);
    else if (kvc_ctx_variant_is(ctx, "retrieved"))
        kvc_retrieve_in_pairs(ctx, worker, &key, 0);
    else
        kvc_end_session(ctx, worker, &key);
    KVC_EXPECT(ctx, kvc_soon_finds_room(ctx, other),
               "no chunk can be stored though no chunk in the pool is locked any more");
}
KVC_CHECK(drops_what_is_released, .id = "eviction/released-may-go",
          .clause = "A pool full of locked chunks takes no further one until they are released: by "
                    "FREE_LOOKUP_LOCKS with their salt, a retrieve, or the end of the session.",
          .source = "protocol 4.8, 4.9, 4.16, B17, B26",
          .exchange = "REGISTER x 2, store, LOOKUP; store by the other; FREE | retrieve | "
                      "END_SESSION; store by the other",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .variants = releases, .setup = &kvc_tiny_pool, .run = drops_what_is_released);

static void drops_only_what_is_freed(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_fill_with_locked(ctx, worker);
    const int64_t half = kvc_pool_chunks(worker) / 2;
    const struct kvc_key first_half = kvc_key_chunks(worker, &key, 0, half);
    kvc_free_locks(ctx, worker, &first_half);
    kvc_crowd(ctx, other, 2 * half);
    kvc_retrieve_in_pairs(ctx, worker, &key, half);
}
KVC_CHECK(drops_only_what_is_freed, .id = "eviction/freed-half-goes",
          .clause =
              "Of a lookup whose first half is freed only that half goes to make room, and the "
              "other can still be retrieved.",
          .source = "protocol 4.8, 4.16, B26",
          .exchange = "REGISTER x 2, store, LOOKUP, FREE of the first half; stores by the other; "
                      "retrieve the second half",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .setup = &kvc_tiny_pool, .run = drops_only_what_is_freed);

static void drops_after_the_lease(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    kvc_fill_with_locked(ctx, worker);
    KVC_EXPECT(ctx, kvc_soon_finds_room(ctx, other),
               "no chunk can be stored 2 s after the end of a lookup's lease of %lld ms",
               (long long)kvc_ctx_setup(ctx)->read_ttl_ms);
}
KVC_CHECK(
    drops_after_the_lease, .id = "eviction/lease-ends",
    .clause = "Chunks that were locked and never retrieved may go when their lease has ended.",
    .source = "protocol 4.1, 4.16, B26, B31",
    .exchange = "REGISTER x 2, store, LOOKUP; stores by the other until one is found",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
    .setup = &kvc_tiny_pool_short_lease, .run = drops_after_the_lease);

/* ---- what was found is there ---- */

static void keeps_what_was_found(struct kvc_ctx *ctx)
{
    enum { ROUNDS = 8 };
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    struct kvc_key keys[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        keys[i] = kvc_store_pressed(ctx, worker, 3);
        const struct kvc_key asked = kvc_key_renamed(ctx, &keys[i == 0 ? 0 : i - 1]);
        const int64_t found = kvc_lookup(ctx, worker, &asked);
        kvc_crowd(ctx, other, kvc_pool_chunks(worker));
        const struct kvc_key there = kvc_key_chunks(worker, &asked, 0, found);
        kvc_retrieve_in_pairs(ctx, worker, &there, 0);
    }
}
KVC_CHECK(keeps_what_was_found, .id = "eviction/found-means-there",
          .clause =
              "However full the pool is, as many chunks as LOOKUP reports can be retrieved, with "
              "their own bytes.",
          .source = "protocol 4.6, 4.16, N16",
          .exchange = "REGISTER x 2, (store, LOOKUP of an earlier sequence, stores by the other, "
                      "retrieve what was found) x 8",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .setup = &kvc_tiny_pool, .limit_ms = 90 * 1000, .run = keeps_what_was_found);

static void keeps_for_each_reader(struct kvc_ctx *ctx)
{
    enum { READERS = 3 };
    struct kvc_worker *worker = kvc_crowding_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    kvc_store_in_pairs(ctx, worker, &key);
    key.worker_id = KVC_NIL_INT;
    key.num_kv_readers = READERS;
    int64_t chunks = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "LOOKUP", kvc_rpc_lookup(&worker->rpc, &key, READERS, &chunks, &err), &err);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", chunks, 4);
    for (int i = 0; i < READERS; i++) {
        struct kvc_worker *reader = kvc_sibling_worker(ctx, worker);
        kvc_crowd(ctx, other, kvc_pool_chunks(worker));
        kvc_retrieve_in_pairs(ctx, reader, &key, 0);
    }
}
KVC_CHECK(keeps_for_each_reader, .id = "eviction/every-reader-reads",
          .clause = "Chunks that a lookup has locked for n readers stay until the last of them has "
                    "read, however much is stored in between.",
          .source = "protocol 4.6, 4.16, B27",
          .exchange =
              "REGISTER x 5, store, LOOKUP for 3 readers, (stores by another until the pool "
              "was filled, retrieve by a reader) x 3",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_MLA), .setup = &kvc_tiny_pool,
          .run = keeps_for_each_reader);
