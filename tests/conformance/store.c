/* STORE, where the server copies: what its answer says, when the chunks are there, and what a
 * request that cannot be carried out leaves behind. */
#include "tests/conformance/transfer_fixture.h"

/* STORE by hand; a server may leave it unanswered. It does not succeed, and no chunk of it
 * becomes a hit. */
static void expect_not_stored(struct kvc_ctx *ctx, struct kvc_worker *worker,
                              const struct kvc_key *key, struct kvc_int_lists blocks)
{
    struct kvc_request request = kvc_transfer_request(KVC_OP_STORE, worker, key);
    request.block_ids = blocks;
    kvc_expect_false(ctx, "success of STORE", kvc_succeeds(ctx, worker, &request));
    kvc_expect_settled_hits(ctx, worker, key, 0);
}

/* ---- answers and hits ---- */

static void becomes_visible(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_expect_true(ctx, "success of STORE",
                    kvc_store(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3)));
    kvc_expect_visible(ctx, worker, &key, 3);
}

KVC_CHECK(becomes_visible, .id = "store/becomes-visible",
          .clause = "STORE says true, and soon after its chunks are a hit.",
          .source = "protocol 4.13, B36", .exchange = "STORE, LOOKUP until it finds them",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN, .run = becomes_visible);

static void all_cached(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_expect_true(ctx, "success of STORE of what is cached",
                    kvc_store(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2)));
}

KVC_CHECK(all_cached, .id = "store/all-cached",
          .clause = "STORE of chunks that are all cached says true.", .source = "protocol 4.13",
          .exchange = "STORE, LOOKUP, STORE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .run = all_cached);

static void any_event_handle(struct kvc_ctx *ctx)
{
    static const uint8_t garbage[64] = {0xc1, 0x80, 0xff};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_request request =
        kvc_blocks_request(ctx, KVC_OP_STORE, worker, &key, kvc_chunk_blocks(ctx, worker, 1));
    if (kvc_ctx_variant_is(ctx, "64-bytes"))
        request.event_handle = (struct kvc_bytes){garbage, sizeof garbage};
    kvc_expect_true(ctx, "success of STORE",
                    kvc_call(ctx, &worker->rpc, &request)->transfer.success);
    kvc_expect_visible(ctx, worker, &key, 1);
}

KVC_CHECK(any_event_handle, .id = "store/any-event-handle",
          .clause = "For a worker on the CPU the bytes of the event handle do not matter.",
          .source = "protocol 3.7", .exchange = "STORE, LOOKUP", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"empty", "64-bytes", NULL}, .run = any_event_handle);

static void empty_window(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key empty = kvc_key_window(&key, 0, 0);
    const struct kvc_request request =
        kvc_blocks_request(ctx, KVC_OP_STORE, worker, &empty, (struct kvc_ints){0});
    kvc_expect_true(ctx, "success of STORE",
                    kvc_call(ctx, &worker->rpc, &request)->transfer.success);
}

KVC_CHECK(empty_window, .id = "store/empty-window",
          .clause = "STORE of an empty window without block ids says true.",
          .source = "protocol 4.13", .exchange = "STORE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .run = empty_window);

/* ---- refused ---- */

static const struct kvc_ints no_blocks = {0};

static void too_few_ids(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    if (kvc_ctx_variant_is(ctx, "one-less"))
        blocks.count--;
    else if (kvc_ctx_variant_is(ctx, "one-chunk-less"))
        blocks = kvc_blocks_of_chunks(worker, blocks, 0, 1);
    else
        blocks = no_blocks;
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){&blocks, 1});
}

KVC_CHECK(too_few_ids, .id = "store/too-few-ids",
          .clause = "STORE with fewer block ids than the window has blocks does not say true, and "
                    "stores nothing.",
          .source = "protocol 4.13, B63", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"one-less", "one-chunk-less", "none", NULL},
          .run = too_few_ids);

static void too_many_ids(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key key = kvc_key_chunks(worker, &whole, 0, 1);
    const struct kvc_ints blocks = kvc_ints_slice(kvc_chunk_blocks(ctx, worker, 2), 0,
                                                  (size_t)kvc_blocks_per_chunk(worker) + 1);
    const struct kvc_request request = kvc_blocks_request(ctx, KVC_OP_STORE, worker, &key, blocks);
    kvc_expect_silence(ctx, &worker->rpc, &request, "one block id more than whole chunks have");
}

KVC_CHECK(too_many_ids, .id = "store/too-many-ids",
          .clause = "STORE with block ids that are no whole number of chunks is not answered.",
          .source = "protocol 4.13", .exchange = "STORE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .run = too_many_ids);

static void wrong_group_count(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    const struct kvc_ints lists[2] = {blocks, blocks};
    const size_t count = kvc_ctx_variant_is(ctx, "none") ? 0 : 2;
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){lists, count});
}

KVC_CHECK(wrong_group_count, .id = "store/wrong-group-count",
          .clause =
              "STORE with another number of block id lists than the worker has groups does not "
              "say true, and stores nothing.",
          .source = "protocol 4.13, 6.4", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"none", "two", NULL}, .run = wrong_group_count);

/* The blocks with the last but one replaced by an id that does not exist. */
static struct kvc_ints with_bad_block(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                      struct kvc_ints blocks)
{
    const int64_t num_blocks = worker->options.geometry.groups[0].num_blocks;
    int64_t *copy = kvc_arena_alloc_array(kvc_ctx_arena(ctx), blocks.count, sizeof *copy);
    for (size_t i = 0; i < blocks.count; i++)
        copy[i] = blocks.items[i];
    copy[blocks.count - 2] = num_blocks;
    if (kvc_ctx_variant_is(ctx, "far-behind"))
        copy[blocks.count - 2] = num_blocks + 1000000;
    else if (kvc_ctx_variant_is(ctx, "negative"))
        copy[blocks.count - 2] = -1;
    return (struct kvc_ints){copy, blocks.count};
}

static void block_out_of_range(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = with_bad_block(ctx, worker, kvc_chunk_blocks(ctx, worker, 2));
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){&blocks, 1});
}

#define BAD_BLOCKS                                                                                 \
    {                                                                                              \
        "behind-the-last", "far-behind", "negative", NULL                                          \
    }

KVC_CHECK(block_out_of_range, .id = "store/block-out-of-range",
          .clause = "STORE of a block that does not exist does not say true, and stores nothing.",
          .source = "protocol 4.13, N01", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[])BAD_BLOCKS, .run = block_out_of_range);

static void bad_list_of_one_group(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.geometry.group_count = 2;
    options.geometry.groups[1] = options.geometry.groups[0];
    options.geometry.groups[1].num_heads = 1;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    const size_t variant = kvc_variant_index(ctx);
    struct kvc_ints lists[2] = {blocks, blocks};
    lists[variant % 2] = variant < 2 ? kvc_ints_slice(blocks, 0, blocks.count - 1)
                                     : with_bad_block(ctx, worker, blocks);
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){lists, 2});
}

KVC_CHECK(
    bad_list_of_one_group, .id = "store/bad-list-of-one-group",
    .clause =
        "STORE with too few block ids, or a block that does not exist, for one of two groups of "
        "layers does not say true, and stores nothing.",
    .source = "protocol 4.13, 6.4, B53, N01", .exchange = "STORE; another STORE, LOOKUP",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
    .variants = (const char *const[]){"first-too-few", "second-too-few", "first-out-of-range",
                                      "second-out-of-range", NULL},
    .run = bad_list_of_one_group);

static void works_after_a_bad_store(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    struct kvc_ints bad = with_bad_block(ctx, worker, blocks);
    if (kvc_ctx_variant_is(ctx, "too-few-ids"))
        bad = kvc_ints_slice(blocks, 0, blocks.count - 1);
    const struct kvc_request request = kvc_blocks_request(ctx, KVC_OP_STORE, worker, &key, bad);
    kvc_expect_false(ctx, "success of STORE", kvc_succeeds(ctx, worker, &request));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, worker, &again, blocks, 0);
    kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2), 0);
}

KVC_CHECK(works_after_a_bad_store, .id = "store/works-after-a-bad-store",
          .clause = "After a STORE that failed the same chunks can be stored at once.",
          .source = "protocol 4.13, B33",
          .exchange = "STORE (bad block ids), STORE, LOOKUP, RETRIEVE", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"block-out-of-range", "too-few-ids", NULL},
          .run = works_after_a_bad_store);

static void unaligned_window(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    struct kvc_key key = kvc_key_chunks(worker, &whole, 0, 2);
    if (kvc_ctx_variant_is(ctx, "start"))
        key.start = worker->options.geometry.groups[0].block_size;
    else if (kvc_ctx_variant_is(ctx, "end"))
        key.end++;
    else
        key = kvc_key_window(&whole, 1, 1 + worker->options.chunk_size);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){&blocks, 1});
}

KVC_CHECK(
    unaligned_window, .id = "store/unaligned-window",
    .clause = "STORE of a window that is not whole chunks does not say true, and stores nothing.",
    .source = "protocol 4.13", .exchange = "STORE; another STORE, LOOKUP", .level = KVC_LEVEL_MUST,
    .needs = KVC_NEED_LMCACHE_DRIVEN,
    .variants = (const char *const[]){"start", "end", "both", NULL}, .run = unaligned_window);

static void end_beyond_tokens(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key beyond = kvc_key_chunks(worker, &key, 0, 2);
    const struct kvc_request request =
        kvc_blocks_request(ctx, KVC_OP_STORE, worker, &beyond, kvc_chunk_blocks(ctx, worker, 2));
    kvc_expect_false(ctx, "success of STORE", kvc_succeeds(ctx, worker, &request));
}

KVC_CHECK(end_beyond_tokens, .id = "store/end-beyond-tokens",
          .clause = "STORE of a window that ends behind the last token does not say true.",
          .source = "protocol 10 row 21", .exchange = "STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .run = end_beyond_tokens);

static void nil_worker(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    key.worker_id = KVC_NIL_INT;
    expect_not_stored(ctx, worker, &key, (struct kvc_int_lists){&blocks, 1});
}

KVC_CHECK(nil_worker, .id = "store/nil-worker",
          .clause = "STORE with a key that names no worker does not say true, and stores nothing.",
          .source = "protocol 3.1, 4.13", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN, .run = nil_worker);

static void unknown_instance(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker stranger = *worker;
    stranger.options.instance_id = kvc_fresh_instance_id(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_request request =
        kvc_blocks_request(ctx, KVC_OP_STORE, &stranger, &key, kvc_chunk_blocks(ctx, worker, 1));
    kvc_expect_false(ctx, "success of STORE", kvc_succeeds(ctx, worker, &request));
    kvc_expect_settled_hits(ctx, worker, &key, 0);
}

KVC_CHECK(unknown_instance, .id = "store/unknown-instance",
          .clause = "STORE for an instance that is not registered does not say true, and stores "
                    "nothing.",
          .source = "protocol 4.13, B02", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN, .run = unknown_instance);

/* ---- null blocks ---- */

static void null_blocks_only(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const size_t per_chunk = (size_t)kvc_blocks_per_chunk(worker);
    int64_t *zeros = kvc_arena_alloc_array(kvc_ctx_arena(ctx), per_chunk, sizeof *zeros);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_expect_true(ctx, "success of STORE",
                    kvc_store(ctx, worker, &key, (struct kvc_ints){zeros, per_chunk}));
    kvc_expect_settled_hits(ctx, worker, &key, 0);
}

KVC_CHECK(null_blocks_only, .id = "store/null-blocks-only",
          .clause = "STORE of a chunk whose blocks are all block 0 says true and stores nothing.",
          .source = "protocol 4.13, 10 row 18, B57", .exchange = "STORE; another STORE, LOOKUP",
          .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_NULL_BLOCK,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .run = null_blocks_only);

/* ---- what is left behind ---- */

static void no_write_lock_left(struct kvc_ctx *ctx)
{
    static const char count[] = "storage_manager.l1_manager.write_locked_count";
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t before = kvc_status_count(ctx, count);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    const bool bad = kvc_ctx_variant_is(ctx, "bad-block");
    const struct kvc_request request = kvc_blocks_request(
        ctx, KVC_OP_STORE, worker, &key, bad ? with_bad_block(ctx, worker, blocks) : blocks);
    kvc_succeeds(ctx, worker, &request);
    kvc_expect_status_count(ctx, count, before);
}

KVC_CHECK(no_write_lock_left, .id = "store/no-write-lock-left",
          .clause = "After STORE, failed or not, no chunk stays locked for writing.",
          .source = "protocol 4.13, B33; /status counters", .exchange = "STORE; GET /status",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_LMCACHE_DRIVEN | KVC_NEED_STATUS,
          .flags = KVC_FLAG_EXCLUSIVE, .variants = (const char *const[]){"good", "bad-block", NULL},
          .run = no_write_lock_left);
