/* RETRIEVE, and PREPARE_RETRIEVE with COMMIT_RETRIEVE: what succeeds, what must leave the
 * destination alone, and the locks that come and go with it. */
#include "src/base/clock.h"
#include "tests/conformance/transfer_fixture.h"

static const char read_locks[] = "storage_manager.l1_manager.read_locked_count";

/* A worker that has stored `stored` chunks of a key of `chunks` chunks. */
struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
};

static struct stored store_some(struct kvc_ctx *ctx, int64_t stored, int64_t chunks)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    const struct kvc_key first = kvc_key_chunks(worker, &key, 0, stored);
    if (stored > 0)
        kvc_store_stamped(ctx, worker, &first, kvc_chunk_blocks(ctx, worker, stored), 0);
    return (struct stored){worker, key};
}

/* RETRIEVE must say false and write nothing. */
static void expect_refused(struct kvc_ctx *ctx, struct kvc_worker *worker,
                           const struct kvc_key *key, struct kvc_ints blocks)
{
    kvc_poison(worker);
    kvc_expect_false(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, key, blocks, 0));
    kvc_expect_untouched(ctx, worker);
}

/* ---- misses ---- */

static void miss(struct kvc_ctx *ctx)
{
    const struct stored none = store_some(ctx, 0, 2);
    expect_refused(ctx, none.worker, &none.key, kvc_chunk_blocks(ctx, none.worker, 2));
}

KVC_CHECK(miss, .id = "retrieve/miss",
          .clause = "Retrieving chunks that were never stored says false and writes nothing.",
          .source = "protocol 4.12, 4.14", .exchange = "RETRIEVE | PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = miss);

static void partial_miss(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 3);
    struct kvc_key wanted = some.key;
    if (kvc_ctx_variant_is(ctx, "one-behind"))
        wanted = kvc_key_chunks(some.worker, &some.key, 1, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    expect_refused(ctx, some.worker, &wanted,
                   kvc_chunk_blocks(ctx, some.worker,
                                    (wanted.end - wanted.start) / some.worker->options.chunk_size));
}

KVC_CHECK(partial_miss, .id = "retrieve/partial-miss",
          .clause = "Retrieving a window that is not all there says false and writes nothing.",
          .source = "protocol 4.12, 4.14, N08, N16",
          .exchange = "store chunks 0 and 1, LOOKUP, retrieve chunk 2 with them",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"whole-window", "one-behind", NULL},
          .run = partial_miss);

static void works_after_a_miss(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 3);
    const struct kvc_key there = kvc_key_chunks(some.worker, &some.key, 0, 2);
    kvc_lookup(ctx, some.worker, &some.key);
    kvc_expect_false(
        ctx, "success of a retrieve with a chunk missing",
        kvc_retrieve(ctx, some.worker, &some.key, kvc_chunk_blocks(ctx, some.worker, 3), 0));
    const struct kvc_key again = kvc_key_renamed(ctx, &there);
    kvc_retrieve_stamped(ctx, some.worker, &again, kvc_chunk_blocks(ctx, some.worker, 2), 0);
}

KVC_CHECK(
    works_after_a_miss, .id = "retrieve/works-after-a-miss",
    .clause = "After a retrieve that failed, a lookup and retrieve of what is there succeeds.",
    .source = "protocol 4.12, N01",
    .exchange = "store 2 chunks, LOOKUP, retrieve 3 chunks; LOOKUP, retrieve 2 chunks",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = works_after_a_miss);

/* ---- locks ---- */

static void needs_a_lookup(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    expect_refused(ctx, some.worker, &some.key, kvc_chunk_blocks(ctx, some.worker, 2));
}

KVC_CHECK(needs_a_lookup, .id = "retrieve/needs-a-lookup",
          .clause = "Retrieving chunks that no lookup has locked says false and writes nothing.",
          .source = "protocol 4.12, 4.14", .exchange = "store, retrieve without LOOKUP",
          .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ALL, .run = needs_a_lookup);

static void not_after_free(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_free_locks(ctx, some.worker, &some.key);
    expect_refused(ctx, some.worker, &some.key, kvc_chunk_blocks(ctx, some.worker, 2));
}

KVC_CHECK(not_after_free, .id = "retrieve/not-after-free",
          .clause = "A retrieve after FREE_LOOKUP_LOCKS says false and writes nothing.",
          .source = "protocol 4.8, 4.14", .exchange = "store, LOOKUP, FREE_LOOKUP_LOCKS, retrieve",
          .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ALL, .run = not_after_free);

static void lock_of_anyone(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    struct kvc_worker *other = kvc_sibling_worker(ctx, some.worker);
    const struct kvc_key renamed = kvc_key_renamed(ctx, &some.key);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, other, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_expect_true(ctx, "success of another request's retrieve",
                    kvc_retrieve(ctx, other, &renamed, blocks, 0));
    kvc_expect_stamped(ctx, other, &renamed, blocks, 0);
}

KVC_CHECK(lock_of_anyone, .id = "retrieve/lock-of-anyone",
          .clause = "A retrieve succeeds with the locks of another request's lookup.",
          .source = "protocol 4.1, 4.12",
          .exchange = "store, LOOKUP; from another instance and request: retrieve",
          .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ALL, .run = lock_of_anyone);

static void one_lock_for_each_lookup(struct kvc_ctx *ctx)
{
    enum { READERS = 3 };
    const struct stored some = store_some(ctx, 2, 2);
    struct kvc_key keys[READERS];
    for (size_t i = 0; i < READERS; i++) {
        keys[i] = kvc_key_renamed(ctx, &some.key);
        kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &keys[i]), 2);
    }
    for (size_t i = 0; i < READERS; i++) {
        const struct kvc_ints blocks = kvc_chunk_blocks(ctx, some.worker, 2);
        kvc_poison(some.worker);
        kvc_expect_true(ctx, "success of the retrieve",
                        kvc_retrieve(ctx, some.worker, &keys[i], blocks, 0));
        kvc_expect_stamped(ctx, some.worker, &keys[i], blocks, 0);
    }
}

KVC_CHECK(one_lock_for_each_lookup, .id = "retrieve/one-lock-for-each-lookup",
          .clause = "Each of several lookups of the same chunks pays for a retrieve of its own.",
          .source = "protocol 4.1, 4.6, B27", .exchange = "store; LOOKUP x3; retrieve x3",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = one_lock_for_each_lookup);

static void uses_its_lock_up(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, some.worker, 2);
    const int64_t deadline = kvc_now_ms() + 2000; /* the lock may go some time after the answer */
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, some.worker, &some.key, blocks, 0));
    while (kvc_retrieve(ctx, some.worker, &some.key, blocks, 0)) {
        KVC_EXPECT(ctx, kvc_now_ms() < deadline,
                   "retrieves go on succeeding two seconds after the one that was paid for");
        kvc_sleep_ms(5);
    }
}

KVC_CHECK(uses_its_lock_up, .id = "retrieve/uses-its-lock-up",
          .clause = "A lookup pays for one retrieve: soon after it a further one says false.",
          .source = "protocol 4.12, 4.14",
          .exchange = "store, LOOKUP, retrieve until it says false", .level = KVC_LEVEL_OBSERVED,
          .paths = KVC_PATHS_ALL, .run = uses_its_lock_up);

static void keeps_locks_outside_the_window(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 3, 3);
    const struct kvc_key first = kvc_key_chunks(some.worker, &some.key, 0, 1);
    const struct kvc_key rest = kvc_key_chunks(some.worker, &some.key, 1, 2);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, some.worker, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 3);
    kvc_free_locks(ctx, some.worker, &first);
    kvc_expect_true(ctx, "success of the retrieve of the rest",
                    kvc_retrieve(ctx, some.worker, &rest, blocks, 0));
    kvc_expect_stamped(ctx, some.worker, &rest, blocks, 0);
}

KVC_CHECK(
    keeps_locks_outside_the_window, .id = "retrieve/keeps-locks-outside-the-window",
    .clause = "Freeing the locks of some chunks leaves the others of the lookup retrievable.",
    .source = "protocol 4.8, B26",
    .exchange = "store 3 chunks, LOOKUP, FREE_LOOKUP_LOCKS of chunk 0, retrieve chunks 1 and 2",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = keeps_locks_outside_the_window);

static void miss_releases_locks(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 3);
    const int64_t before = kvc_status_count(ctx, read_locks);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_expect_false(
        ctx, "success of a retrieve with a chunk missing",
        kvc_retrieve(ctx, some.worker, &some.key, kvc_chunk_blocks(ctx, some.worker, 3), 0));
    kvc_expect_status_count(ctx, read_locks, before);
}

KVC_CHECK(miss_releases_locks, .id = "retrieve/miss-releases-locks",
          .clause = "A retrieve that fails for a missing chunk releases the locks of the others.",
          .source = "protocol 4.12; /status counters",
          .exchange = "store 2 chunks, LOOKUP, retrieve 3 chunks, GET /status",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .run = miss_releases_locks);

enum { LEASE_MS = 60 };

static const struct kvc_target_setup short_lease = {
    .name = "short-lease", .read_ttl_ms = LEASE_MS, .write_ttl_ms = LEASE_MS};

static void after_the_lease(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, some.worker, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_sleep_ms(2 *
                 kvc_ctx_setup(ctx)
                     ->read_ttl_ms); /* there is no sign of a lease that has run out to wait for */
    kvc_poison(some.worker);
    if (kvc_retrieve(ctx, some.worker, &some.key, blocks, 0)) {
        kvc_expect_stamped(ctx, some.worker, &some.key, blocks, 0);
        kvc_expect_untouched_except(ctx, some.worker, blocks);
    } else {
        kvc_expect_untouched(ctx, some.worker);
    }
}

KVC_CHECK(after_the_lease, .id = "retrieve/after-the-lease",
          .clause =
              "A retrieve after the lookup's lease either succeeds with the right bytes or says "
              "false and writes nothing.",
          .source = "B31, N10", .exchange = "store, LOOKUP; after the lease: retrieve",
          .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_WAITS, .setup = &short_lease,
          .paths = KVC_PATHS_ALL, .run = after_the_lease);

static void lease_runs_out(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 2, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, some.worker, &some.key), 2);
    kvc_expect_status_count(ctx, read_locks, 2);
    kvc_expect_status_count(ctx, read_locks, 0);
}

KVC_CHECK(lease_runs_out, .id = "retrieve/lease-runs-out",
          .clause = "Locks that no retrieve follows are gone after their lease.",
          .source = "protocol 4.1, B26; /status counters",
          .exchange = "store, LOOKUP, GET /status until the lease has run out",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS,
          .flags = KVC_FLAG_EXCLUSIVE | KVC_FLAG_WAITS, .setup = &short_lease,
          .run = lease_runs_out);

/* ---- windows ---- */

static void window(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 4, 4);
    struct kvc_key part = kvc_key_chunks(some.worker, &some.key, 1, 2);
    if (kvc_ctx_variant_is(ctx, "first"))
        part = kvc_key_chunks(some.worker, &some.key, 0, 1);
    else if (kvc_ctx_variant_is(ctx, "last"))
        part = kvc_key_chunks(some.worker, &some.key, 3, 1);
    const int64_t chunks = (part.end - part.start) / some.worker->options.chunk_size;
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, some.worker, chunks);
    kvc_poison(some.worker);
    kvc_retrieve_stamped(ctx, some.worker, &part, blocks, 0);
    kvc_expect_untouched_except(ctx, some.worker, blocks);
}

KVC_CHECK(window, .id = "retrieve/window",
          .clause = "A retrieve of a part of the tokens writes that part into the given blocks and "
                    "nothing into any other.",
          .source = "protocol 4.12, 4.14",
          .exchange = "store 4 chunks, LOOKUP, retrieve some of them", .level = KVC_LEVEL_MUST,
          .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"first", "middle", "last", NULL}, .run = window);

static void empty_window(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 1, 1);
    const struct kvc_key empty = kvc_key_window(&some.key, 0, 0);
    kvc_lookup(ctx, some.worker, &some.key);
    expect_refused(ctx, some.worker, &empty, (struct kvc_ints){0});
    kvc_free_locks(ctx, some.worker, &some.key);
}

KVC_CHECK(empty_window, .id = "retrieve/empty-window",
          .clause = "A retrieve of an empty window says false.", .source = "protocol 4.12, 4.14",
          .exchange = "store, LOOKUP, retrieve [0, 0)", .level = KVC_LEVEL_OBSERVED,
          .paths = KVC_PATHS_ALL, .run = empty_window);

/* ---- COMMIT_RETRIEVE ---- */

static void commit_of_nothing(struct kvc_ctx *ctx)
{
    const struct stored some = store_some(ctx, 1, 1);
    if (kvc_ctx_variant_is(ctx, "twice")) {
        kvc_open_slots(ctx, some.worker, &some.key);
        kvc_commit_retrieve(ctx, some.worker, &some.key);
    }
    kvc_expect_true(ctx, "the answer of COMMIT_RETRIEVE",
                    kvc_commit_retrieve(ctx, some.worker, &some.key));
}

KVC_CHECK(commit_of_nothing, .id = "retrieve/commit-of-nothing",
          .clause = "COMMIT_RETRIEVE answers true also when nothing is being read.",
          .source = "protocol 4.12", .exchange = "COMMIT_RETRIEVE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_POOL,
          .variants = (const char *const[]){"never-prepared", "twice", NULL},
          .run = commit_of_nothing);
