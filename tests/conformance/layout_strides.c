/* Tensors whose strides leave gaps: refused, or read and written by their strides. */
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* Memory with twice the blocks that its worker tells of: block i of the tensors is block 2 i of the
 * memory, and those in between belong to somebody else. */
struct gappy {
    const struct kvc_worker *model; /* of the same model, for keys and lookups */
    struct kvc_paged *memory;
    int64_t instance_id;
};

static struct kvc_ints in_memory(struct kvc_ctx *ctx, struct kvc_ints blocks)
{
    int64_t *places = kvc_arena_alloc_array(kvc_ctx_arena(ctx), blocks.count, sizeof *places);
    for (size_t i = 0; i < blocks.count; i++)
        places[i] = 2 * blocks.items[i];
    return (struct kvc_ints){places, blocks.count};
}

/* Where the tensor's shape has its blocks. */
static size_t block_axis(enum kvc_layout layout)
{
    return layout == KVC_LAYOUT_NHD || layout == KVC_LAYOUT_HND ? 1 : 0;
}

/* Tells of every second block. */
static void leave_gaps(struct kvc_ctx *ctx, size_t axis, struct kvc_tensor_handle *handle)
{
    const size_t rank = handle->shape.count;
    int64_t *numbers = kvc_arena_alloc_array(kvc_ctx_arena(ctx), 2 * rank, sizeof *numbers);
    for (size_t i = 0; i < rank; i++) {
        numbers[i] = handle->shape.items[i] / (i == axis ? 2 : 1);
        numbers[rank + i] = handle->stride.items[i] * (i == axis ? 2 : 1);
    }
    handle->shape.items = numbers;
    handle->stride.items = numbers + rank;
}

/* Whether the registration is answered. */
static bool open_gappy(struct kvc_ctx *ctx, struct gappy *gappy)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    gappy->model = kvc_default_worker(ctx);
    options.model_name = gappy->model->options.model_name;
    options.geometry.groups[0].num_blocks *= 2;
    gappy->instance_id = options.instance_id;
    gappy->memory = kvc_shared_cache(ctx, &options.geometry);
    struct kvc_request registration = kvc_registration(ctx, &options, gappy->memory);
    struct kvc_tensor_handle *handles = kvc_own_handles(ctx, &registration);
    for (size_t i = 0; i < registration.handles.count; i++)
        leave_gaps(ctx, block_axis(options.geometry.groups[0].layout), &handles[i]);
    struct kvc_reply *reply;
    return kvc_try_call(ctx, kvc_ctx_rpc(ctx), &registration, &reply);
}

static bool transfer(struct kvc_ctx *ctx, const struct gappy *gappy, enum kvc_op op,
                     const struct kvc_key *key, struct kvc_ints blocks)
{
    struct kvc_request request = kvc_blocks_request(ctx, op, gappy->model, key, blocks);
    request.instance_id = gappy->instance_id;
    return kvc_soon_succeeds(ctx, gappy->model, &request);
}

static void follows_strides(struct kvc_ctx *ctx)
{
    struct gappy gappy;
    if (!open_gappy(ctx, &gappy))
        return; /* refused */
    struct kvc_worker finder = *gappy.model;
    const struct kvc_key key = kvc_key_for(ctx, gappy.model, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints from = kvc_chunk_blocks(ctx, gappy.model, 1);
    const struct kvc_ints into = kvc_chunk_blocks(ctx, gappy.model, 1);
    const struct kvc_ints from_memory = in_memory(ctx, from), into_memory = in_memory(ctx, into);
    const struct kvc_stamp_source source = {.seed = kvc_ctx_seed(ctx)};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_paged_fill(gappy.memory, KVC_POISON);
    kvc_stamp_blocks(gappy.memory, source, 0, from_memory.items, from_memory.count);
    if (!transfer(ctx, &gappy, KVC_OP_STORE, &key, from))
        return;
    kvc_expect_visible(ctx, &finder, &key, 1);
    kvc_paged_fill(gappy.memory, KVC_POISON);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, &finder, &key), 1);
    if (!transfer(ctx, &gappy, KVC_OP_RETRIEVE, &key, into))
        return;
    kvc_expect_ok(ctx, "the retrieved bytes are those that were stored",
                  kvc_stamp_check_blocks(gappy.memory, source, 0, into_memory.items,
                                         into_memory.count, NULL, 0, &err),
                  &err);
}
KVC_CHECK(
    follows_strides, .id = "layout/strides",
    .clause =
        "A tensor with gaps between its blocks is refused, when it is registered or with each "
        "transfer, or read and written by its strides.",
    .source = "protocol 3.6, 6.1, B52", .exchange = "REGISTER_KV_CACHE, STORE, LOOKUP, RETRIEVE",
    .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_HND) | KVC_LAYOUT_BIT(KVC_LAYOUT_FLASHINFER_HND) |
               KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
    .run = follows_strides);
