/* Bytes that pass from one worker to another, also of another transfer mode or geometry, and
 * layers of more than one shape. */
#include "tests/conformance/transfer_fixture.h"

static void another_worker(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *reader = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3), 0);
    if (kvc_ctx_variant_is(ctx, "writer-gone")) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    }
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_retrieve_stamped(ctx, reader, &again, kvc_chunk_blocks(ctx, reader, 3), 0);
}

KVC_CHECK(
    another_worker, .id = "data/another-worker",
    .clause = "What one worker stored another worker of the same model gets back, also when the "
              "first has unregistered.",
    .source = "protocol 4.4, B23",
    .exchange = "store; UNREGISTER; from another instance: LOOKUP, "
                "retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
    .variants = (const char *const[]){"writer-there", "writer-gone", NULL}, .run = another_worker);

static void both_ways(struct kvc_ctx *ctx)
{
    struct kvc_worker *copier = kvc_default_worker(ctx);
    struct kvc_worker *mapped =
        kvc_partner_worker(ctx, copier, KVC_PATH_LMCACHE_DRIVEN, &copier->options.geometry);
    const bool in_by_copier = kvc_ctx_variant_is(ctx, "engine-driven-in");
    struct kvc_worker *writer = in_by_copier ? copier : mapped;
    struct kvc_worker *reader = in_by_copier ? mapped : copier;
    const struct kvc_key key = kvc_key_for(ctx, writer, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, writer, &key, kvc_chunk_blocks(ctx, writer, 3), 0);
    kvc_retrieve_stamped(ctx, reader, &again, kvc_chunk_blocks(ctx, reader, 3), 0);
}

KVC_CHECK(both_ways, .id = "data/both-ways",
          .clause = "What was stored in one transfer mode is retrieved byte for byte in the other.",
          .source = "protocol 5.1", .exchange = "COMMIT_STORE, RETRIEVE | STORE, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .paths = KVC_PATHS_ENGINE_DRIVEN,
          .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_HND) | KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
          .dtypes = (const char *const[]){"float16", "bfloat16", "uint8", NULL},
          .variants = (const char *const[]){"engine-driven-in", "lmcache-driven-in", NULL},
          .run = both_ways);

static void other_hidden_size(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_geometry wide = worker->options.geometry;
    wide.groups[0].num_heads *= 2;
    struct kvc_worker *other = kvc_partner_worker(ctx, worker, worker->path, &wide);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key others = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_store_stamped(ctx, other, &others, kvc_chunk_blocks(ctx, other, 2), 1);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, other, &others, kvc_chunk_blocks(ctx, other, 2), 1);
}

KVC_CHECK(
    other_hidden_size, .id = "data/other-hidden-size",
    .clause = "Workers of one model that registered other hidden sizes each get their own chunks "
              "back.",
    .source = "protocol 4.3, B24, B53", .exchange = "store from two instances, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = other_hidden_size);

static void chunk_of_other_hidden_size(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_geometry other_geometry = worker->options.geometry;
    if (kvc_ctx_variant_is(ctx, "one-element-more"))
        other_geometry.groups[0].head_size++;
    else
        other_geometry.groups[0].num_heads *= 2;
    struct kvc_worker *other = kvc_partner_worker(ctx, worker, worker->path, &other_geometry);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, other, 1);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_lookup(ctx, other, &again);
    kvc_poison(other);
    other->rpc.timeout_ms = kvc_ctx_facts(ctx)->silence_ms; /* silence is one way to refuse */
    bool success = false;
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status = kvc_worker_retrieve(other, &again, blocks, 0, &success, &err);
    if (status == KVC_ETIMEOUT || status == KVC_EFORMAT)
        return; /* not answered, or the answer tells the chunk's own size */
    kvc_expect_ok(ctx, "the retrieve", status, &err);
    kvc_expect_false(ctx, "success of a retrieve of chunks that have another size", success);
    kvc_expect_untouched(ctx, other);
}

KVC_CHECK(chunk_of_other_hidden_size, .id = "data/chunk-of-other-hidden-size",
          .clause =
              "A chunk that was stored with another hidden size is not served to a worker as if "
              "it had this worker's.",
          .source = "B53, N30",
          .exchange = "store; from an instance of another hidden size: LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"one-element-more", "twice-the-heads", NULL},
          .run = chunk_of_other_hidden_size);

/* ---- groups ---- */

/* What makes the second group of layers another one. */
struct second_group {
    int64_t num_heads, head_size;
    const char *dtype;
    bool is_registered; /* as a group; if not, the server has to find it by the shape */
};

static const char *const second_group_names[] = {
    "registered",         "found-by-the-server", "two-dtypes", "found-by-heads",
    "found-by-head-size", "found-by-dtype",      NULL};
/* The first group has 2 heads of 8 elements, float16. */
static const struct second_group second_groups[] = {
    {1, 32, "float16", true}, {1, 32, "float16", false}, {1, 32, "float32", true},
    {1, 8, "float16", false}, {2, 16, "float16", false}, {2, 8, "bfloat16", false}};

static struct kvc_worker *two_group_worker(struct kvc_ctx *ctx, const struct second_group *second)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_geometry *geometry = &options.geometry;
    geometry->group_count = 2;
    geometry->groups[1] = geometry->groups[0];
    geometry->groups[0].num_layers = 3;
    geometry->groups[1].num_layers = 1;
    geometry->groups[1].num_heads = second->num_heads;
    geometry->groups[1].head_size = second->head_size;
    geometry->groups[1].dtype = kvc_dtype_find(kvc_str_of(second->dtype));
    options.keep_groups_empty = !second->is_registered;
    return kvc_open_worker(ctx, &options);
}

static void two_groups(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = two_group_worker(ctx, &second_groups[kvc_variant_index(ctx)]);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 3);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3), 0);
    kvc_poison(worker);
    kvc_retrieve_stamped(ctx, worker, &key, blocks, 0);
    kvc_expect_untouched_except(ctx, worker, blocks);
}

KVC_CHECK(
    two_groups, .id = "data/two-groups",
    .clause =
        "Layers of two shapes, registered as two groups or found to be two by heads, head size or "
        "element type alone, all come back.",
    .source = "protocol 6.4, B53, B55",
    .exchange = "STORE with two block id lists, LOOKUP, RETRIEVE", .level = KVC_LEVEL_MUST,
    .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = second_group_names, .run = two_groups);

static void skip_in_every_group(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = two_group_worker(ctx, &second_groups[0]);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    const struct kvc_ints written = kvc_ints_slice(blocks, 3, blocks.count - 3);
    struct kvc_key rest = key;
    rest.start = 3 * worker->options.geometry.groups[0].block_size;
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), 2);
    kvc_poison(worker);
    kvc_expect_true(ctx, "success of RETRIEVE",
                    kvc_retrieve(ctx, worker, &key, blocks, rest.start));
    kvc_expect_stamped(ctx, worker, &rest, written, 0);
    kvc_expect_untouched_except(ctx, worker, written);
}

KVC_CHECK(skip_in_every_group, .id = "skip/every-group",
          .clause = "skip_first_n_tokens applies to each group of layers.",
          .source = "protocol 4.14, 6.4, B63", .exchange = "STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .run = skip_in_every_group);
