#include "tests/conformance/fixture.h"

#include <stdlib.h>

#include "src/base/clock.h"

/* ---- fresh names and numbers ---- */

int64_t kvc_fresh_instance_id(struct kvc_ctx *ctx)
{
    const int64_t lowest = 1 << 20; /* above what people and other tools choose */
    return lowest + (int64_t)kvc_random_below(kvc_ctx_random(ctx), INT32_MAX - (1 << 20));
}

struct kvc_str kvc_fresh_name(struct kvc_ctx *ctx, const char *tag)
{
    char *text = kvc_format("kvconform-%s-%016llx", tag,
                            (unsigned long long)kvc_random_next(kvc_ctx_random(ctx)));
    const struct kvc_str name = kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(text));
    free(text);
    return name;
}

struct kvc_ints kvc_fresh_tokens(struct kvc_ctx *ctx, int64_t count)
{
    int64_t *tokens = kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)count, sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int64_t)kvc_random_below(kvc_ctx_random(ctx), INT32_MAX);
    return (struct kvc_ints){tokens, (size_t)count};
}

struct kvc_ints kvc_fresh_chunks(struct kvc_ctx *ctx, int64_t chunks)
{
    return kvc_fresh_tokens(ctx, chunks * kvc_ctx_facts(ctx)->chunk_size);
}

struct kvc_int_lists kvc_one_list(struct kvc_ctx *ctx, struct kvc_ints blocks)
{
    struct kvc_ints *list = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *list);
    *list = blocks;
    return (struct kvc_int_lists){list, 1};
}

struct kvc_ints kvc_ints_slice(struct kvc_ints ints, size_t first, size_t count)
{
    return (struct kvc_ints){ints.items + first, count};
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

static void shuffle(struct kvc_random *random, int64_t *items, int64_t count)
{
    for (int64_t i = count - 1; i > 0; i--)
        swap(&items[i], &items[kvc_random_below(random, (uint64_t)i + 1)]);
}

/* A server that takes the first id and counts on, or that sorts the ids, must go wrong with it. */
static bool is_scattered(const int64_t *blocks, int64_t count)
{
    bool descends = count < 2;
    for (int64_t i = 1; i < count; i++) {
        if (blocks[i] == blocks[i - 1] + 1)
            return false;
        descends |= blocks[i] < blocks[i - 1];
    }
    return descends;
}

struct kvc_ints kvc_fresh_blocks(struct kvc_ctx *ctx, int64_t num_blocks, int64_t count)
{
    static bool edges_given; /* a check is a process of its own */
    const int64_t available = num_blocks - 1;
    if (count > available) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_fail(&err, KVC_EUSAGE, "%lld blocks of a cache that has %lld", (long long)count,
                 (long long)available);
        kvc_ctx_error(ctx, "choosing blocks", &err);
    }
    struct kvc_random *random = kvc_ctx_random(ctx);
    int64_t *blocks = kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)available, sizeof *blocks);
    for (int64_t i = 0; i < available; i++)
        blocks[i] = i + 1;
    int64_t edges = 0;
    if (!edges_given && count >= 2) {
        swap(&blocks[1], &blocks[available - 1]); /* now 1 and the last one come first */
        edges = 2;
        edges_given = true;
    }
    shuffle(random, blocks + edges, available - edges);
    /* One shuffle in three is scattered, so this always ends soon. */
    for (int tries = 0; tries < 200 && !is_scattered(blocks, count); tries++)
        shuffle(random, blocks, count);
    return (struct kvc_ints){blocks, (size_t)count};
}

size_t kvc_variant_index(struct kvc_ctx *ctx)
{
    const char *const *variants = kvc_ctx_check(ctx)->variants;
    size_t index = 0;
    while (!kvc_ctx_variant_is(ctx, variants[index]))
        index++;
    return index;
}

/* ---- workers ---- */

/* A chunk's worth of blocks times six, and an odd number more, so that num_blocks is no multiple of
 * anything. */
static int64_t small_num_blocks(const struct kvc_facts *facts)
{
    return 6 * (facts->chunk_size / facts->block_size) + 5;
}

struct kvc_geometry kvc_small_geometry(struct kvc_ctx *ctx)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    const struct kvc_check *check = kvc_ctx_check(ctx);
    struct kvc_group group = {
        .kv_size = 2,
        .num_blocks = small_num_blocks(facts),
        .block_size = facts->block_size,
        .num_heads = 2,
        .head_size = 8,
        .num_layers = 2,
        .dtype = kvc_dtype_find(KVC_STR("float16")),
        .layout =
            kvc_ctx_has(ctx, KVC_FEATURE_LAYOUT_HINT_ON_CPU) ? KVC_LAYOUT_NHD : KVC_LAYOUT_HND,
    };
    if (check->dtypes != NULL)
        group.dtype = kvc_ctx_dtype(ctx);
    if (check->layouts != 0)
        group.layout = kvc_ctx_layout(ctx);
    if (group.layout == KVC_LAYOUT_MLA) {
        group.kv_size = 1;
        group.num_heads = 1;
        group.head_size = 32;
    }
    return (struct kvc_geometry){.groups = {group}, .group_count = 1};
}

/* The check's path; for a check without that axis the first one that works and that it needs. */
static enum kvc_path default_path(struct kvc_ctx *ctx)
{
    const struct kvc_check *check = kvc_ctx_check(ctx);
    if (check->paths != 0)
        return kvc_ctx_path(ctx);
    uint32_t paths = kvc_ctx_facts(ctx)->paths;
    const uint32_t needs = check->needs & (KVC_NEED_LMCACHE_DRIVEN | KVC_NEED_ENGINE_DRIVEN);
    if (needs == KVC_NEED_LMCACHE_DRIVEN)
        paths &= 1u << KVC_PATH_LMCACHE_DRIVEN;
    if (needs == KVC_NEED_ENGINE_DRIVEN)
        paths &= KVC_PATHS_ENGINE_DRIVEN;
    for (int path = 0; path < KVC_PATH_COUNT; path++) {
        if (paths & 1u << path)
            return (enum kvc_path)path;
    }
    kvc_ctx_skip(ctx, "no transfer path works on this server");
}

struct kvc_worker_options kvc_worker_defaults(struct kvc_ctx *ctx)
{
    const enum kvc_path path = default_path(ctx);
    return (struct kvc_worker_options){
        .geometry = kvc_small_geometry(ctx),
        .instance_id = kvc_fresh_instance_id(ctx),
        .model_name = kvc_fresh_name(ctx, "model"),
        .world_size = 1,
        .worker_id = 0,
        .num_kv_readers = 1,
        .mode = path == KVC_PATH_LMCACHE_DRIVEN ? KVC_MODE_LMCACHE_DRIVEN : KVC_MODE_ENGINE_DRIVEN,
        .force_inline = path == KVC_PATH_ENGINE_DRIVEN_INLINE,
        .chunk_size = kvc_ctx_facts(ctx)->chunk_size,
        .device = kvc_ctx_check(ctx)->needs & KVC_NEED_CUDA ? &kvc_device_cuda : NULL,
    };
}

/* An unregistration that fails is not what the check is about; the runner asks for life signs. */
static void close_worker(void *worker)
{
    kvc_worker_close(worker, NULL);
}

static struct kvc_worker *open_worker_on(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                                         const struct kvc_worker_options *options)
{
    struct kvc_worker *worker = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "registration", kvc_worker_open(rpc, options, &worker, &err), &err);
    kvc_ctx_defer(ctx, close_worker, worker);
    return worker;
}

struct kvc_worker *kvc_open_worker(struct kvc_ctx *ctx, const struct kvc_worker_options *options)
{
    return open_worker_on(ctx, kvc_ctx_rpc(ctx), options);
}

struct kvc_worker *kvc_try_worker(struct kvc_ctx *ctx, const struct kvc_worker_options *options)
{
    struct kvc_worker *worker = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status = kvc_worker_open(kvc_ctx_rpc(ctx), options, &worker, &err);
    if (status == KVC_ETIMEOUT)
        return NULL;
    kvc_expect_ok(ctx, "registration", status, &err);
    kvc_ctx_defer(ctx, close_worker, worker);
    return worker;
}

struct kvc_worker *kvc_default_worker(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    return kvc_open_worker(ctx, &options);
}

struct kvc_worker *kvc_rank_of_two(struct kvc_ctx *ctx, struct kvc_str model, int64_t rank)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.model_name = model;
    options.world_size = 2;
    options.worker_id = rank;
    return kvc_open_worker(ctx, &options);
}

void kvc_clear(struct kvc_ctx *ctx, bool force)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "CLEAR", kvc_rpc_clear(kvc_ctx_rpc(ctx), force, &err), &err);
}

struct kvc_worker *kvc_sibling_worker(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    struct kvc_worker_options options = worker->options;
    options.instance_id = kvc_fresh_instance_id(ctx);
    return open_worker_on(ctx, kvc_ctx_rpc_new(ctx), &options);
}
