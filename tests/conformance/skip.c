/* skip_first_n_tokens of RETRIEVE: blocks that a worker already shares with others must not be
 * written again. The block ids still cover the whole window. */
#include "tests/conformance/transfer_fixture.h"

enum { CHUNKS = 3 };

/* A worker whose CHUNKS chunks are stored and looked up, with poisoned memory to retrieve into. */
struct hit {
    struct kvc_worker *worker;
    struct kvc_key key;
    struct kvc_ints blocks;
};

static struct hit prepare_hit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), CHUNKS);
    kvc_poison(worker);
    return (struct hit){worker, key, kvc_chunk_blocks(ctx, worker, CHUNKS)};
}

/* The first `skipped` blocks of the window and all blocks outside it are as they were, the rest
 * holds what was stored. */
static void expect_skipped(struct kvc_ctx *ctx, const struct hit *hit, const struct kvc_key *key,
                           struct kvc_ints blocks, int64_t skipped)
{
    const int64_t block_size = hit->worker->options.geometry.groups[0].block_size;
    const struct kvc_ints written =
        kvc_ints_slice(blocks, (size_t)skipped, blocks.count - (size_t)skipped);
    struct kvc_key rest = *key;
    rest.start += skipped * block_size;
    kvc_expect_stamped(ctx, hit->worker, &rest, written, 0);
    kvc_expect_untouched_except(ctx, hit->worker, written);
}

/* How many tokens a variant skips, and how many whole blocks that is. */
struct skip {
    int64_t tokens;
    int64_t blocks;
};

static struct skip skip_of(struct kvc_ctx *ctx)
{
    const int64_t block = kvc_ctx_facts(ctx)->block_size;
    const int64_t chunk = kvc_ctx_facts(ctx)->chunk_size;
    const int64_t per_chunk = chunk / block;
    const struct {
        const char *variant;
        struct skip skip;
    } skips[] = {
        {"zero", {0, 0}},
        {"below-one-block", {block - 1, 0}},
        {"one-block", {block, 1}},
        {"no-whole-blocks", {2 * block + block / 2, 2}},
        {"below-one-chunk", {chunk - 1, per_chunk - 1}},
        {"one-chunk", {chunk, per_chunk}},
        {"past-one-chunk", {chunk + 3 * block + 1, per_chunk + 3}},
        {"all-but-one-token", {CHUNKS * chunk - 1, CHUNKS * per_chunk - 1}},
    };
    size_t i = 0;
    while (!kvc_ctx_variant_is(ctx, skips[i].variant))
        i++;
    return skips[i].skip;
}

static void rounded_down(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    const struct skip skip = skip_of(ctx);
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, hit.worker, &hit.key, hit.blocks, skip.tokens));
    expect_skipped(ctx, &hit, &hit.key, hit.blocks, skip.blocks);
}

KVC_CHECK(rounded_down, .id = "skip/rounded-down",
          .clause = "RETRIEVE leaves the first skip_first_n_tokens tokens, rounded down to whole "
                    "blocks, untouched and writes the rest of the window.",
          .source = "protocol 4.14, B63, LMCache test_engine_driven_transfer",
          .exchange = "store 3 chunks, LOOKUP, RETRIEVE", .level = KVC_LEVEL_MUST,
          .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"zero", "below-one-block", "one-block",
                                            "no-whole-blocks", "below-one-chunk", "one-chunk",
                                            "past-one-chunk", "all-but-one-token", NULL},
          .run = rounded_down);

KVC_CHECK(worker_skips, .id = "skip/worker-skips",
          .clause = "A worker that copies for itself and skips tokens gets the right bytes for the "
                    "rest.",
          .source = "LMCache test_engine_driven_transfer",
          .exchange = "store 3 chunks, LOOKUP, PREPARE_RETRIEVE", .level = KVC_LEVEL_MUST,
          .paths = KVC_PATHS_ENGINE_DRIVEN,
          .variants = (const char *const[]){"one-block", "no-whole-blocks", "past-one-chunk", NULL},
          .run = rounded_down);

static void relative_to_start(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    const struct kvc_key window = kvc_key_chunks(hit.worker, &hit.key, 1, 2);
    const struct kvc_ints blocks = kvc_blocks_of_chunks(hit.worker, hit.blocks, 1, 2);
    const int64_t tokens = 2 * hit.worker->options.geometry.groups[0].block_size;
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, hit.worker, &window, blocks, tokens));
    expect_skipped(ctx, &hit, &window, blocks, 2);
}

KVC_CHECK(relative_to_start, .id = "skip/relative-to-start",
          .clause = "skip_first_n_tokens counts from the start of the window, not from token 0.",
          .source = "protocol 4.14", .exchange = "store 3 chunks, LOOKUP, RETRIEVE of the last two",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .run = relative_to_start);

static int64_t past_the_end(struct kvc_ctx *ctx)
{
    const int64_t window = CHUNKS * kvc_ctx_facts(ctx)->chunk_size;
    if (kvc_ctx_variant_is(ctx, "whole-window"))
        return window;
    return kvc_ctx_variant_is(ctx, "one-more") ? window + 1 : INT32_MAX;
}

static void past_the_end_writes_nothing(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    kvc_retrieve(ctx, hit.worker, &hit.key, hit.blocks, past_the_end(ctx));
    kvc_expect_untouched(ctx, hit.worker);
}

KVC_CHECK(past_the_end_writes_nothing, .id = "skip/past-the-end",
          .clause = "RETRIEVE that skips the whole window or more writes nothing.",
          .source = "protocol 4.14, B63", .exchange = "store 3 chunks, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"whole-window", "one-more", "int32-max", NULL},
          .run = past_the_end_writes_nothing);

static void past_the_end_succeeds(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, hit.worker, &hit.key, hit.blocks, past_the_end(ctx)));
}

KVC_CHECK(past_the_end_succeeds, .id = "skip/past-the-end-succeeds",
          .clause = "RETRIEVE that skips the whole window or more says true.",
          .source = "protocol 4.14", .exchange = "store 3 chunks, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"whole-window", "one-more", NULL},
          .run = past_the_end_succeeds);

static void negative(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, hit.worker, &hit.key, hit.blocks, -17));
    expect_skipped(ctx, &hit, &hit.key, hit.blocks, 0);
}

KVC_CHECK(negative, .id = "skip/negative", .clause = "A negative skip_first_n_tokens counts as 0.",
          .source = "protocol 4.14", .exchange = "store 3 chunks, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = negative);

static void ids_cover_the_window(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx);
    const int64_t skipped = kvc_blocks_per_chunk(hit.worker);
    struct kvc_request request =
        kvc_blocks_request(ctx, KVC_OP_RETRIEVE, hit.worker, &hit.key,
                           kvc_blocks_of_chunks(hit.worker, hit.blocks, 1, CHUNKS - 1));
    request.skip_first_n_tokens = skipped * hit.worker->options.geometry.groups[0].block_size;
    kvc_expect_false(ctx, "success of RETRIEVE", kvc_succeeds(ctx, hit.worker, &request));
    kvc_expect_untouched(ctx, hit.worker);
}

KVC_CHECK(ids_cover_the_window, .id = "skip/ids-cover-the-window",
          .clause =
              "RETRIEVE whose block ids leave out the skipped blocks does not succeed and writes "
              "nothing.",
          .source = "protocol 4.14", .exchange = "store 3 chunks, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .run = ids_cover_the_window);
