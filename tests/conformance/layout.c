/* How the axes of a worker's tensors become the one layout of a chunk, and back. A server that
 * reads axes wrongly both ways gives back what was stored, so most of these read a chunk in
 * another layout than it was written in. */
#include "tests/conformance/transfer_fixture.h"

#define ALL_LAYOUTS (KVC_LAYOUT_BIT(KVC_LAYOUT_COUNT) - 1)
#define KV_LAYOUTS  (ALL_LAYOUTS & ~KVC_LAYOUT_BIT(KVC_LAYOUT_MLA))

static void round_trip(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_poison(worker);
    kvc_retrieve_stamped(ctx, worker, &key, blocks, 0);
    kvc_expect_untouched_except(ctx, worker, blocks);
}

KVC_CHECK(round_trip, .id = "layout/round-trip",
          .clause = "Chunks of every layout and dtype come back byte for byte.",
          .source = "protocol 6.1, 6.2, LMCache test_engine_driven_transfer",
          .exchange = "store, LOOKUP, retrieve", .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .layouts = ALL_LAYOUTS,
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
          .run = round_trip);

/* A worker of the check's layout whose memory the server maps, and one of the same model that
 * copies for itself, from tensors in the order of a chunk. */
struct pair {
    struct kvc_worker *mapped;
    struct kvc_worker *copier;
};

static struct pair open_pair(struct kvc_ctx *ctx, const struct kvc_geometry *geometry)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct pair pair;
    options.geometry = *geometry;
    if (geometry->groups[0].layout != KVC_LAYOUT_MLA)
        options.geometry.groups[0].layout = KVC_LAYOUT_NHD;
    pair.copier = kvc_open_worker(ctx, &options);
    pair.mapped = kvc_partner_worker(ctx, pair.copier, KVC_PATH_LMCACHE_DRIVEN, geometry);
    return pair;
}

/* Two chunks go in from one worker and come out into the other. */
static void expect_passed_on(struct kvc_ctx *ctx, struct kvc_worker *from, struct kvc_worker *to)
{
    const struct kvc_key key = kvc_key_for(ctx, from, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, from, &key, kvc_chunk_blocks(ctx, from, 2), 0);
    kvc_retrieve_stamped(ctx, to, &again, kvc_chunk_blocks(ctx, to, 2), 0);
}

static void stored_chunk(struct kvc_ctx *ctx)
{
    const struct kvc_geometry geometry = kvc_small_geometry(ctx);
    const struct pair pair = open_pair(ctx, &geometry);
    expect_passed_on(ctx, pair.mapped, pair.copier);
}

KVC_CHECK(stored_chunk, .id = "layout/stored-chunk",
          .clause = "STORE writes a chunk as [K and V][layer][token][head x element], whatever the "
                    "layout of the worker's tensors.",
          .source = "protocol 5.1, 6.2, B52", .exchange = "STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .paths = KVC_PATHS_ENGINE_DRIVEN, .layouts = ALL_LAYOUTS, .run = stored_chunk);

static void retrieved_chunk(struct kvc_ctx *ctx)
{
    const struct kvc_geometry geometry = kvc_small_geometry(ctx);
    const struct pair pair = open_pair(ctx, &geometry);
    expect_passed_on(ctx, pair.copier, pair.mapped);
}

KVC_CHECK(retrieved_chunk, .id = "layout/retrieved-chunk",
          .clause =
              "RETRIEVE puts each element of a chunk where the layout of the worker's tensors has "
              "it.",
          .source = "protocol 5.1, 6.2, B52", .exchange = "COMMIT_STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .paths = KVC_PATHS_ENGINE_DRIVEN, .layouts = ALL_LAYOUTS, .run = retrieved_chunk);

static void between_layouts(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_geometry other_layout = worker->options.geometry;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    for (int layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        if ((KV_LAYOUTS & KVC_LAYOUT_BIT(layout)) == 0)
            continue;
        other_layout.groups[0].layout = (enum kvc_layout)layout;
        struct kvc_worker *reader = kvc_partner_worker(ctx, worker, worker->path, &other_layout);
        const struct kvc_key again = kvc_key_renamed(ctx, &key);
        kvc_retrieve_stamped(ctx, reader, &again, kvc_chunk_blocks(ctx, reader, 2), 0);
    }
}

KVC_CHECK(between_layouts, .id = "layout/between-layouts",
          .clause = "Chunks stored from one layout are retrieved into a worker of any other.",
          .source = "protocol 6.2, B52",
          .exchange = "STORE; from workers of each layout: LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .layouts = KV_LAYOUTS,
          .run = between_layouts);

/* ---- shapes that read the same in two layouts ---- */

static void ambiguous_shape(struct kvc_ctx *ctx)
{
    const int64_t two_chunks = 2 * kvc_ctx_facts(ctx)->chunk_size;
    struct kvc_geometry geometry = kvc_small_geometry(ctx);
    struct kvc_group *group = &geometry.groups[0];
    if (kvc_ctx_variant_is(ctx, "as-many-heads-as-slots")) {
        group->num_heads = group->block_size;
    } else if (kvc_ctx_variant_is(ctx, "as-many-elements-as-slots")) {
        group->head_size = group->block_size;
    } else {
        group->num_heads = two_chunks / group->block_size + 2;
        group->num_blocks = group->num_heads;
        group->head_size = 2;
    }
    const struct pair pair = open_pair(ctx, &geometry);
    expect_passed_on(ctx, pair.mapped, pair.copier);
    expect_passed_on(ctx, pair.copier, pair.mapped);
}

KVC_CHECK(ambiguous_shape, .id = "layout/ambiguous-shape",
          .clause = "Axes are told apart by the layout hint, not by sizes that happen to be equal.",
          .source = "protocol 6.1, B52",
          .exchange = "STORE, PREPARE_RETRIEVE; COMMIT_STORE, RETRIEVE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_LMCACHE_DRIVEN, .paths = KVC_PATHS_ENGINE_DRIVEN, .layouts = KV_LAYOUTS,
          .variants = (const char *const[]){"as-many-heads-as-slots", "as-many-elements-as-slots",
                                            "as-many-heads-as-blocks", NULL},
          .run = ambiguous_shape);

static void shape(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    if (kvc_ctx_variant_is(ctx, "one-layer"))
        group->num_layers = 1;
    else if (kvc_ctx_variant_is(ctx, "seven-layers"))
        group->num_layers = 7;
    else if (kvc_ctx_variant_is(ctx, "one-head"))
        group->num_heads = 1;
    else if (kvc_ctx_variant_is(ctx, "five-heads"))
        group->num_heads = 5;
    else if (kvc_ctx_variant_is(ctx, "odd-head-size"))
        group->head_size = 7;
    else
        group->block_size = options.chunk_size;
    if (group->block_size == options.chunk_size)
        group->num_blocks = 9;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}

KVC_CHECK(shape, .id = "layout/shape",
          .clause =
              "Chunks come back whatever the number of layers and heads, the head size and the "
              "block size.",
          .source = "protocol 5.1, 6.2, B53, B55", .exchange = "store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"one-layer", "seven-layers", "one-head", "five-heads",
                                            "odd-head-size", "one-block-a-chunk", NULL},
          .run = shape);
