/* chunk_indices: which chunks of a window PREPARE_STORE wants written, and that the cached ones
 * stay as they are. */
#include <stdio.h>

#include "tests/conformance/transfer_fixture.h"

enum { CHUNKS = 4 };

/* Stores, each in a transfer of its own, the chunks whose bit is set. */
static void store_subset(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                         unsigned chunks, uint64_t request)
{
    for (int64_t i = 0; i < CHUNKS; i++) {
        const struct kvc_key one = kvc_key_chunks(worker, key, i, 1);
        if (chunks & 1u << i)
            kvc_store_slots(ctx, worker, &one, request);
    }
}

/* The indices are those of the chunks whose bit is set, in order. */
static void expect_indices(struct kvc_ctx *ctx, const struct kvc_transfer_context *context,
                           unsigned chunks)
{
    size_t at = 0;
    for (int64_t i = 0; i < CHUNKS; i++) {
        char what[64];
        snprintf(what, sizeof what, "chunk_indices[%zu] of PREPARE_STORE", at);
        if ((chunks & 1u << i) == 0)
            continue;
        KVC_EXPECT(ctx, at < context->chunk_indices.count,
                   "PREPARE_STORE does not name chunk %lld, which is missing", (long long)i);
        kvc_expect_int(ctx, what, context->chunk_indices.items[at], i);
        at++;
    }
    kvc_expect_int(ctx, "chunk_indices of PREPARE_STORE", (int64_t)context->chunk_indices.count,
                   (int64_t)at);
    kvc_expect_int(ctx, "slots of PREPARE_STORE", (int64_t)context->slots.count, (int64_t)at);
}

/* Subsets of four chunks, by variant; bit i is chunk i. */
static const unsigned subsets[] = {0x0, 0x1, 0x6, 0x8, 0x4, 0x5, 0x9, 0xe, 0x7, 0xf};
static const char *const subset_names[] = {"none",         "first",       "middle", "last",
                                           "one-inner",    "alternating", "ends",   "all-but-first",
                                           "all-but-last", "all",         NULL};

static void only_missing(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const unsigned cached = subsets[kvc_variant_index(ctx)];
    store_subset(ctx, worker, &key, cached, 0);
    const struct kvc_key whole = kvc_key_renamed(ctx, &key);
    expect_indices(ctx, kvc_prepare_store(ctx, worker, &whole), ~cached & 0xf);
}

KVC_CHECK(
    only_missing, .id = "chunk-indices/only-missing",
    .clause = "PREPARE_STORE gives a slot for each chunk that is not cached and for no other, "
              "and chunk_indices name them in order.",
    .source = "protocol 3.3, 4.10, LMCache test_engine_driven_transfer",
    .exchange = "PREPARE_STORE, COMMIT_STORE of some chunks; PREPARE_STORE of all",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .variants = subset_names, .run = only_missing);

static void fill_the_rest(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const unsigned cached = subsets[kvc_variant_index(ctx)];
    store_subset(ctx, worker, &key, cached, 0);
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_store(ctx, worker, &key), 1);
    kvc_commit_store(ctx, worker, &key); /* false when there was nothing to write */
    kvc_expect_hits(ctx, worker, &key, CHUNKS);
    const struct kvc_slots *slots = kvc_open_slots(ctx, worker, &key);
    for (int64_t i = 0; i < CHUNKS; i++) {
        const struct kvc_key one = kvc_key_chunks(worker, &key, i, 1);
        const struct kvc_slots slot = {&slots->items[i], 1};
        kvc_expect_slots_stamped(ctx, worker, &one, &slot, cached & 1u << i ? 0 : 1);
    }
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(fill_the_rest, .id = "chunk-indices/fill-the-rest",
          .clause = "After the missing chunks are written and committed all chunks are a hit, each "
                    "with the bytes of whoever wrote it first.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE, COMMIT_STORE of some chunks, then of all; LOOKUP, "
                      "PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .variants = subset_names,
          .run = fill_the_rest);

static void relative_to_start(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 6));
    const struct kvc_key later = kvc_key_chunks(worker, &key, 2, CHUNKS);
    const struct kvc_key cached = kvc_key_chunks(worker, &key, 3, 1);
    kvc_store_slots(ctx, worker, &cached, 0);
    expect_indices(ctx, kvc_prepare_store(ctx, worker, &later), 0xd);
}

KVC_CHECK(relative_to_start, .id = "chunk-indices/relative-to-start",
          .clause = "chunk_indices count from the start of the window, not from token 0.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE, COMMIT_STORE of chunk 3; PREPARE_STORE of chunks 2 to 5",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = relative_to_start);

static void later_window_is_no_prefix(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const struct kvc_key later = kvc_key_chunks(worker, &key, 1, CHUNKS - 1);
    const struct kvc_key first = kvc_key_chunks(worker, &key, 0, 1);
    kvc_store_slots(ctx, worker, &later, 0);
    kvc_expect_hits(ctx, worker, &key, 0);
    kvc_store_slots(ctx, worker, &first, 0);
    kvc_expect_hits(ctx, worker, &key, CHUNKS);
}

KVC_CHECK(later_window_is_no_prefix, .id = "chunk-indices/later-window",
          .clause = "Chunks stored from a later start on are a hit once the chunks before them are "
                    "there, and not before.",
          .source = "protocol 4.6, 4.10",
          .exchange = "PREPARE_STORE, COMMIT_STORE of chunks 1 to 3, LOOKUP; the same of chunk 0",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = later_window_is_no_prefix);

static const int64_t arrivals[][CHUNKS] = {{3, 2, 1, 0}, {1, 3, 0, 2}, {2, 1, 3, 0}};
static const char *const arrival_names[] = {"backwards", "odd-first", "inside-out", NULL};

static void any_order_of_arrival(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const int64_t *order = arrivals[kvc_variant_index(ctx)];
    for (size_t i = 0; i < CHUNKS; i++) {
        const struct kvc_key one = kvc_key_chunks(worker, &key, order[i], 1);
        kvc_store_slots(ctx, worker, &one, 0);
    }
    kvc_expect_slots_stamped(ctx, worker, &key, kvc_open_slots(ctx, worker, &key), 0);
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(any_order_of_arrival, .id = "chunk-indices/any-order",
          .clause = "Chunks may be stored in any order, and each keeps its own bytes.",
          .source = "protocol 4.10, B61",
          .exchange = "PREPARE_STORE, COMMIT_STORE of each chunk; LOOKUP, PREPARE_RETRIEVE of all",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .variants = arrival_names,
          .run = any_order_of_arrival);

static void busy_chunks_left_out(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const struct kvc_key inner = kvc_key_chunks(worker, &key, 1, 2);
    const struct kvc_key whole = kvc_key_renamed(ctx, &key);
    kvc_prepare_slots(ctx, worker, &inner, 2);
    expect_indices(ctx, kvc_prepare_store(ctx, other, &whole), 0x9);
}

KVC_CHECK(
    busy_chunks_left_out, .id = "chunk-indices/busy-chunks",
    .clause = "Chunks that another instance is writing are left out of chunk_indices, and the "
              "others are not.",
    .source = "protocol 4.10",
    .exchange = "PREPARE_STORE of chunks 1 and 2; from another instance: PREPARE_STORE of all",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = busy_chunks_left_out);

/* The tokens with one changed. */
static struct kvc_ints with_other_token(struct kvc_ctx *ctx, struct kvc_ints tokens, size_t at)
{
    int64_t *copy = kvc_arena_alloc_array(kvc_ctx_arena(ctx), tokens.count, sizeof *copy);
    for (size_t i = 0; i < tokens.count; i++)
        copy[i] = i == at ? tokens.items[i] ^ 1 : tokens.items[i];
    return (struct kvc_ints){copy, tokens.count};
}

static void tokens_decide(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, CHUNKS);
    const size_t chunk_size = (size_t)worker->options.chunk_size;
    size_t at = 0;
    unsigned missing = 0xf;
    if (kvc_ctx_variant_is(ctx, "last-of-first-chunk")) {
        at = chunk_size - 1;
    } else if (kvc_ctx_variant_is(ctx, "first-of-third-chunk")) {
        at = 2 * chunk_size;
        missing = 0xc;
    } else if (kvc_ctx_variant_is(ctx, "last-token")) {
        at = tokens.count - 1;
        missing = 0x8;
    }
    const struct kvc_key key = kvc_key_for(ctx, worker, tokens);
    kvc_store_slots(ctx, worker, &key, 0);
    const struct kvc_key other = kvc_key_for(ctx, worker, with_other_token(ctx, tokens, at));
    expect_indices(ctx, kvc_prepare_store(ctx, worker, &other), missing);
}

KVC_CHECK(tokens_decide, .id = "chunk-indices/tokens-decide",
          .clause =
              "A sequence that differs in one token shares the chunks before that token's, and "
              "no chunk from there on.",
          .source = "protocol 7.1, 7.3, B20",
          .exchange = "PREPARE_STORE, COMMIT_STORE; PREPARE_STORE of other tokens",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL,
          .variants = (const char *const[]){"first-token", "last-of-first-chunk",
                                            "first-of-third-chunk", "last-token", NULL},
          .run = tokens_decide);

static void cached_chunks_stay(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key first = kvc_key_chunks(worker, &key, 0, 1);
    const struct kvc_key rest = kvc_key_chunks(worker, &key, 1, 2);
    kvc_store_stamped(ctx, worker, &first, kvc_chunk_blocks(ctx, worker, 1), 0);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 3), 1);
    kvc_retrieve_stamped(ctx, worker, &first, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &rest, kvc_chunk_blocks(ctx, worker, 2), 1);
}

KVC_CHECK(cached_chunks_stay, .id = "chunk-indices/cached-chunks-stay",
          .clause =
              "Storing a window again writes what is missing and leaves cached chunks as they "
              "are.",
          .source = "protocol 4.10, 4.11, 4.13",
          .exchange = "store chunk 0, store chunks 0 to 2 with other bytes, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = cached_chunks_stay);
