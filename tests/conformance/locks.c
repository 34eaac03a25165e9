/* The read locks of a lookup, told by what can be retrieved: a chunk without a lock cannot. */
#include "src/base/clock.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* A worker with four stored chunks, and blocks to retrieve them into. */
struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
    struct kvc_ints blocks;
};

enum { CHUNKS = 4 };

static struct stored store_four(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    return (struct stored){worker, key, kvc_chunk_blocks(ctx, worker, CHUNKS)};
}

static void look_up(struct kvc_ctx *ctx, const struct stored *stored, const struct kvc_key *key)
{
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, stored->worker, key), CHUNKS);
}

/* `chunks` chunks from chunk `first` on can be retrieved: they are locked. Releases the locks. */
static void expect_locked(struct kvc_ctx *ctx, const struct stored *stored,
                          const struct kvc_key *key, int64_t first, int64_t chunks)
{
    const struct kvc_key window = kvc_key_chunks(stored->worker, key, first, chunks);
    const struct kvc_ints blocks =
        kvc_blocks_of_chunks(stored->worker, stored->blocks, first, chunks);
    kvc_poison(stored->worker);
    kvc_expect_true(ctx, "success of the retrieve of locked chunks",
                    kvc_retrieve(ctx, stored->worker, &window, blocks, 0));
    kvc_expect_stamped(ctx, stored->worker, &window, blocks, 0);
}

/* They cannot be retrieved. */
static void expect_unlocked(struct kvc_ctx *ctx, const struct stored *stored,
                            const struct kvc_key *key)
{
    kvc_expect_false(ctx, "success of the retrieve of chunks that are not locked",
                     kvc_retrieve(ctx, stored->worker, key, stored->blocks, 0));
}

/* The same after a retrieve: RETRIEVE may release its locks a little after its answer. */
static void expect_soon_unlocked(struct kvc_ctx *ctx, const struct stored *stored,
                                 const struct kvc_key *key)
{
    const int64_t deadline = kvc_now_ms() + 1000;
    while (stored->worker->path == KVC_PATH_LMCACHE_DRIVEN && kvc_now_ms() < deadline &&
           kvc_retrieve(ctx, stored->worker, key, stored->blocks, 0))
        kvc_sleep_ms(10);
    expect_unlocked(ctx, stored, key);
}

/* ---- releasing ---- */

static void frees_what_lookup_took(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    look_up(ctx, &stored, &stored.key);
    kvc_free_locks(ctx, stored.worker, &stored.key);
    expect_unlocked(ctx, &stored, &stored.key);
}
KVC_CHECK(frees_what_lookup_took, .id = "locks/free",
          .clause = "FREE_LOOKUP_LOCKS releases what the request's lookup has locked.",
          .source = "protocol 4.8, B26", .exchange = "REGISTER, store, LOOKUP, FREE, retrieve",
          .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .run = frees_what_lookup_took);

static const char *const freed_ranges[] = {
    "none", "first-half", "second-half", "one-chunk", "far-behind-the-tokens", NULL};
static const int64_t freed_first[] = {1, 0, 2, 3, 2};
static const int64_t freed_chunks[] = {0, 2, 2, 1, (int64_t)1 << 36};
static const int64_t kept_first[] = {0, 2, 0, 0, 0};
static const int64_t kept_chunks[] = {4, 2, 2, 3, 2};

static void frees_only_range(struct kvc_ctx *ctx)
{
    const size_t i = kvc_variant_index(ctx);
    const struct stored stored = store_four(ctx);
    const struct kvc_key range =
        kvc_key_chunks(stored.worker, &stored.key, freed_first[i], freed_chunks[i]);
    look_up(ctx, &stored, &stored.key);
    kvc_free_locks(ctx, stored.worker, &range);
    expect_locked(ctx, &stored, &stored.key, kept_first[i], kept_chunks[i]);
}
KVC_CHECK(frees_only_range, .id = "locks/free-range",
          .clause =
              "FREE_LOOKUP_LOCKS of a part of the chunks leaves the others locked, also where its "
              "window ends far behind the tokens.",
          .source = "protocol 4.8, B26",
          .exchange = "REGISTER, store, LOOKUP, FREE, retrieve the rest", .level = KVC_LEVEL_MUST,
          .paths = KVC_PATHS_ALL, .variants = freed_ranges, .run = frees_only_range);

static const char *const other_salts[] = {"none-for-some", "some-for-none", NULL};

static void frees_nothing_with_other_salt(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    struct kvc_key freed = key;
    if (kvc_ctx_variant_is(ctx, "none-for-some"))
        key.cache_salt = kvc_fresh_name(ctx, "salt");
    else
        freed.cache_salt = kvc_fresh_name(ctx, "salt");
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    const struct stored stored = {worker, key, kvc_chunk_blocks(ctx, worker, CHUNKS)};
    look_up(ctx, &stored, &key);
    kvc_free_locks(ctx, worker, &freed);
    expect_locked(ctx, &stored, &key, 0, CHUNKS);
}
KVC_CHECK(frees_nothing_with_other_salt, .id = "locks/free-other-salt",
          .clause = "FREE_LOOKUP_LOCKS with another salt releases nothing.",
          .source = "protocol 4.8, 7.1, B17", .exchange = "REGISTER, store, LOOKUP, FREE, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = other_salts,
          .run = frees_nothing_with_other_salt);

static void end_session_releases(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    const struct kvc_key asked = kvc_key_renamed(ctx, &stored.key);
    look_up(ctx, &stored, &asked);
    kvc_end_session(ctx, stored.worker, &asked);
    expect_unlocked(ctx, &stored, &stored.key);
}
KVC_CHECK(
    end_session_releases, .id = "locks/end-session",
    .clause = "END_SESSION releases what the request's lookup has locked and nobody released yet.",
    .source = "protocol 4.9, 11.3, B26, B30",
    .exchange = "REGISTER, store, LOOKUP, QUERY, END_SESSION, retrieve", .level = KVC_LEVEL_SHOULD,
    .paths = KVC_PATHS_ALL, .run = end_session_releases);

static void answers_free_after_leaving(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    look_up(ctx, &stored, &stored.key);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(stored.worker, &err), &err);
    kvc_free_locks(ctx, stored.worker, &stored.key);
}
KVC_CHECK(
    answers_free_after_leaving, .id = "locks/free-after-leaving",
    .clause = "FREE_LOOKUP_LOCKS is answered also when the last instance of the model has left.",
    .source = "protocol 4.8", .exchange = "REGISTER, store, LOOKUP, UNREGISTER, FREE",
    .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .run = answers_free_after_leaving);

/* ---- locks of others ---- */

static const char *const strangers[] = {"without-lookup", "whose-lookup-is-freed",
                                        "whose-lookup-found-less", NULL};

/* A request that has no locks left on the last two chunks: it never looked up, has freed them all, or
 * asked for less. */
static struct kvc_key stranger(struct kvc_ctx *ctx, const struct stored *stored)
{
    const struct kvc_key key = kvc_key_renamed(ctx, &stored->key);
    if (kvc_ctx_variant_is(ctx, "whose-lookup-is-freed")) {
        look_up(ctx, stored, &key);
        kvc_free_locks(ctx, stored->worker, &key);
    } else if (kvc_ctx_variant_is(ctx, "whose-lookup-found-less")) {
        struct kvc_key half = kvc_key_chunks(stored->worker, &key, 0, CHUNKS / 2);
        half.token_ids = kvc_ints_slice(key.token_ids, 0, key.token_ids.count / 2);
        kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, stored->worker, &half),
                       CHUNKS / 2);
    }
    return key;
}

static void frees_nothing_of_others(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    look_up(ctx, &stored, &stored.key);
    const struct kvc_key other = stranger(ctx, &stored);
    kvc_free_locks(ctx, stored.worker, &other);
    expect_locked(ctx, &stored, &stored.key, 0, CHUNKS);
}
KVC_CHECK(
    frees_nothing_of_others, .id = "locks/free-others",
    .clause = "FREE_LOOKUP_LOCKS releases no more than the request's own lookup has locked: what "
              "another request locked stays so.",
    .source = "protocol 4.8, B28",
    .exchange = "REGISTER, store, LOOKUP by one request, FREE by another, retrieve by the first",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = strangers,
    .run = frees_nothing_of_others);

/* ---- several locks on one chunk ---- */

static void two_requests_add_up(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    const struct kvc_key other = kvc_key_renamed(ctx, &stored.key);
    look_up(ctx, &stored, &stored.key);
    look_up(ctx, &stored, &other);
    expect_locked(ctx, &stored, &stored.key, 0, CHUNKS);
    expect_locked(ctx, &stored, &other, 0, CHUNKS);
    expect_soon_unlocked(ctx, &stored, &other);
}
KVC_CHECK(two_requests_add_up, .id = "locks/two-requests",
          .clause =
              "Two requests that look up the same chunks each lock them, and each can retrieve "
              "once.",
          .source = "protocol 4.1, 4.6, B26",
          .exchange = "REGISTER, store, LOOKUP by two requests, retrieve x 3",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = two_requests_add_up);

static void two_lookups_add_up(struct kvc_ctx *ctx)
{
    const struct stored stored = store_four(ctx);
    look_up(ctx, &stored, &stored.key);
    look_up(ctx, &stored, &stored.key);
    expect_locked(ctx, &stored, &stored.key, 0, CHUNKS);
    expect_locked(ctx, &stored, &stored.key, 0, CHUNKS);
}
KVC_CHECK(two_lookups_add_up, .id = "locks/two-lookups",
          .clause = "The locks of two lookups of one request add up.", .source = "protocol 4.6",
          .exchange = "REGISTER, store, (LOOKUP, QUERY) x 2, retrieve x 2",
          .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ALL, .run = two_lookups_add_up);

static const char *const reader_counts[] = {"one", "two", "four", NULL};
static const int64_t readers[] = {1, 2, 4};

/* The number of readers is in the key; where the dialect has no such field it is tp_size. */
static void look_up_for_readers(struct kvc_ctx *ctx, const struct stored *stored, int64_t count)
{
    struct kvc_key key = stored->key;
    key.worker_id = KVC_NIL_INT;
    key.num_kv_readers = count;
    int64_t chunks = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "LOOKUP", kvc_rpc_lookup(&stored->worker->rpc, &key, count, &chunks, &err),
                  &err);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", chunks, CHUNKS);
}

static void locks_for_each_reader(struct kvc_ctx *ctx)
{
    const int64_t count = readers[kvc_variant_index(ctx)];
    const struct stored stored = store_four(ctx);
    look_up_for_readers(ctx, &stored, count);
    for (int64_t i = 0; i < count; i++)
        expect_locked(ctx, &stored, &stored.key, 0, CHUNKS);
    expect_soon_unlocked(ctx, &stored, &stored.key);
}
KVC_CHECK(locks_for_each_reader, .id = "locks/readers",
          .clause = "A lookup for n readers of one rank's chunks lets them be retrieved n times.",
          .source = "protocol 4.6, 10.20, B27",
          .exchange = "REGISTER, store, LOOKUP for n readers, retrieve x (n + 1)",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = reader_counts,
          .run = locks_for_each_reader);
