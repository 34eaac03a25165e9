/* Retrieves that a server must not carry out, though the chunks are there and locked: it says
 * false, or nothing, and leaves every byte of the destination alone. */
#include <string.h>

#include "tests/conformance/transfer_fixture.h"

/* A worker whose chunks are stored and locked, with poisoned memory to retrieve into. */
struct hit {
    struct kvc_worker *worker;
    struct kvc_key key;
};

/* Servers that keep the locks of a refused retrieve would keep them for minutes. */
static void free_locks(void *arg)
{
    const struct hit *hit = arg;
    struct kvc_key all_ranks = hit->key;
    all_ranks.worker_id = KVC_NIL_INT;
    kvc_rpc_free_locks(&hit->worker->rpc, &all_ranks, 1, NULL);
}

static struct hit prepare_hit(struct kvc_ctx *ctx, int64_t chunks)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), chunks);
    kvc_poison(worker);
    struct hit *hit = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *hit);
    *hit = (struct hit){worker, key};
    kvc_ctx_defer(ctx, free_locks, hit);
    return *hit;
}

static struct kvc_request retrieve_request(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                           const struct kvc_key *key, struct kvc_ints blocks)
{
    return worker->path == KVC_PATH_LMCACHE_DRIVEN
               ? kvc_blocks_request(ctx, KVC_OP_RETRIEVE, worker, key, blocks)
               : kvc_transfer_request(KVC_OP_PREPARE_RETRIEVE, worker, key);
}

static void expect_refused(struct kvc_ctx *ctx, struct kvc_worker *worker,
                           const struct kvc_request *request)
{
    kvc_expect_false(ctx, "success of the retrieve", kvc_succeeds(ctx, worker, request));
    kvc_expect_untouched(ctx, worker);
}

/* ---- keys ---- */

static void unaligned_window(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 2);
    struct kvc_key key = hit.key;
    if (kvc_ctx_variant_is(ctx, "start"))
        key.start = hit.worker->options.geometry.groups[0].block_size;
    else
        key.end--;
    const struct kvc_request request =
        retrieve_request(ctx, hit.worker, &key, kvc_chunk_blocks(ctx, hit.worker, 2));
    expect_refused(ctx, hit.worker, &request);
}

KVC_CHECK(unaligned_window, .id = "retrieve/unaligned-window",
          .clause = "A retrieve of a window that is not whole chunks does not succeed and writes "
                    "nothing.",
          .source = "protocol 4.12, 4.14", .exchange = "store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"start", "end", NULL}, .run = unaligned_window);

static void unknown_instance(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 1);
    struct kvc_request request =
        retrieve_request(ctx, hit.worker, &hit.key, kvc_chunk_blocks(ctx, hit.worker, 1));
    request.instance_id = kvc_fresh_instance_id(ctx);
    expect_refused(ctx, hit.worker, &request);
}

KVC_CHECK(unknown_instance, .id = "retrieve/unknown-instance",
          .clause = "A retrieve for an instance that is not registered does not succeed and writes "
                    "into no other's memory.",
          .source = "protocol 4.12, 4.14, N01", .exchange = "store, LOOKUP, retrieve (another id)",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = unknown_instance);

static void nil_worker(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 1);
    struct kvc_request request =
        retrieve_request(ctx, hit.worker, &hit.key, kvc_chunk_blocks(ctx, hit.worker, 1));
    request.key.worker_id = KVC_NIL_INT;
    expect_refused(ctx, hit.worker, &request);
}

KVC_CHECK(nil_worker, .id = "retrieve/nil-worker",
          .clause = "A retrieve with a key that names no worker does not succeed.",
          .source = "protocol 3.1, 4.12", .exchange = "store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = nil_worker);

/* ---- block ids ---- */

static struct kvc_ints too_few(struct kvc_ctx *ctx, struct kvc_ints blocks)
{
    return kvc_ints_slice(blocks, 0, kvc_ctx_variant_is(ctx, "none") ? 0 : blocks.count - 1);
}

static void too_few_ids(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 2);
    const struct kvc_request request = retrieve_request(
        ctx, hit.worker, &hit.key, too_few(ctx, kvc_chunk_blocks(ctx, hit.worker, 2)));
    expect_refused(ctx, hit.worker, &request);
}

KVC_CHECK(too_few_ids, .id = "retrieve/too-few-ids",
          .clause = "RETRIEVE with fewer block ids than the window has blocks does not succeed and "
                    "writes nothing.",
          .source = "protocol 4.14, B63", .exchange = "store, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"one-less", "none", NULL}, .run = too_few_ids);

static void too_few_ids_release_locks(struct kvc_ctx *ctx)
{
    static const char locked[] = "storage_manager.l1_manager.read_locked_count";
    const int64_t before = kvc_status_count(ctx, locked);
    const struct hit hit = prepare_hit(ctx, 2);
    const struct kvc_request request = retrieve_request(
        ctx, hit.worker, &hit.key, too_few(ctx, kvc_chunk_blocks(ctx, hit.worker, 2)));
    kvc_expect_false(ctx, "success of RETRIEVE", kvc_succeeds(ctx, hit.worker, &request));
    kvc_expect_status_count(ctx, locked, before);
}

KVC_CHECK(too_few_ids_release_locks, .id = "retrieve/too-few-ids-release-locks",
          .clause = "RETRIEVE that fails for its block ids releases the locks of its chunks.",
          .source = "protocol 4.14, 11.3; /status counters",
          .exchange = "store, LOOKUP, RETRIEVE, GET /status", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_LMCACHE_DRIVEN | KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .variants = (const char *const[]){"one-less", "none", NULL},
          .run = too_few_ids_release_locks);

static void too_many_ids(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 1);
    const size_t needed = (size_t)kvc_blocks_per_chunk(hit.worker);
    const size_t given = kvc_ctx_variant_is(ctx, "one-more") ? needed + 1 : 2 * needed;
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, hit.worker, 2);
    const struct kvc_request request =
        retrieve_request(ctx, hit.worker, &hit.key, kvc_ints_slice(blocks, 0, given));
    kvc_succeeds(ctx, hit.worker, &request);
    kvc_expect_untouched_except(ctx, hit.worker, kvc_ints_slice(blocks, 0, needed));
}

KVC_CHECK(
    too_many_ids, .id = "retrieve/too-many-ids",
    .clause = "RETRIEVE with more block ids than the window has blocks writes nothing into the "
              "surplus blocks.",
    .source = "protocol 4.13, 4.14, B63", .exchange = "store, LOOKUP, RETRIEVE",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
    .variants = (const char *const[]){"one-more", "one-chunk-more", NULL}, .run = too_many_ids);

static void wrong_group_count(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 1);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, hit.worker, 1);
    const struct kvc_ints lists[2] = {blocks, blocks};
    struct kvc_request request = retrieve_request(ctx, hit.worker, &hit.key, blocks);
    request.block_ids = (struct kvc_int_lists){lists, kvc_ctx_variant_is(ctx, "none") ? 0 : 2};
    expect_refused(ctx, hit.worker, &request);
}

KVC_CHECK(wrong_group_count, .id = "retrieve/wrong-group-count",
          .clause =
              "RETRIEVE with another number of block id lists than the worker has groups does "
              "not succeed and writes nothing.",
          .source = "protocol 4.13, 6.4", .exchange = "store, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"none", "two", NULL}, .run = wrong_group_count);

static void block_out_of_range(struct kvc_ctx *ctx)
{
    const struct hit hit = prepare_hit(ctx, 1);
    const struct kvc_ints good = kvc_chunk_blocks(ctx, hit.worker, 1);
    int64_t *blocks = kvc_arena_alloc_array(kvc_ctx_arena(ctx), good.count, sizeof *blocks);
    memcpy(blocks, good.items, good.count * sizeof *blocks);
    const int64_t num_blocks = hit.worker->options.geometry.groups[0].num_blocks;
    blocks[good.count - 1] = kvc_ctx_variant_is(ctx, "negative") ? -1 : num_blocks;
    const struct kvc_request request =
        retrieve_request(ctx, hit.worker, &hit.key, (struct kvc_ints){blocks, good.count});
    kvc_expect_false(ctx, "success of RETRIEVE", kvc_succeeds(ctx, hit.worker, &request));
    kvc_expect_untouched_except(ctx, hit.worker, good);
}

KVC_CHECK(block_out_of_range, .id = "retrieve/block-out-of-range",
          .clause = "RETRIEVE into a block that does not exist does not succeed and writes into no "
                    "block that was not named.",
          .source = "N01, N23", .exchange = "store, LOOKUP, RETRIEVE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"behind-the-last", "negative", NULL},
          .run = block_out_of_range);
