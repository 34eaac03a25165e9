/* Layers whose tensors differ in nothing but the number of their blocks. */
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

enum { LAYERS = 2, MORE_BLOCKS = 10 };

/* One cache a layer, the second with more blocks than the first. */
struct uneven {
    const struct kvc_worker *model; /* of the same model, for keys and lookups */
    struct kvc_paged *layers[LAYERS];
    int64_t instance_id;
    size_t lists; /* of block ids: one for all layers, or one for each */
};

/* Whether the registration is answered. */
static bool open_uneven(struct kvc_ctx *ctx, struct uneven *uneven)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    struct kvc_request registration = {0};
    struct kvc_tensor_handle *handles =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), LAYERS, sizeof *handles);
    uneven->model = kvc_default_worker(ctx);
    options.model_name = uneven->model->options.model_name;
    uneven->instance_id = options.instance_id;
    group->num_layers = 1;
    for (size_t i = 0; i < LAYERS; i++) {
        uneven->layers[i] = kvc_shared_cache(ctx, &options.geometry);
        registration = kvc_registration(ctx, &options, uneven->layers[i]);
        handles[i] = registration.handles.items[0];
        group->num_blocks += MORE_BLOCKS;
    }
    registration.handles = (struct kvc_tensor_handles){handles, LAYERS};
    registration.groups = (struct kvc_engine_group_infos){0}; /* the server finds them */
    struct kvc_reply *reply;
    return kvc_try_call(ctx, kvc_ctx_rpc(ctx), &registration, &reply);
}

static struct kvc_request request_of(struct kvc_ctx *ctx, const struct uneven *uneven,
                                     enum kvc_op op, const struct kvc_key *key,
                                     struct kvc_ints blocks)
{
    struct kvc_ints *lists = kvc_arena_alloc_array(kvc_ctx_arena(ctx), LAYERS, sizeof *lists);
    for (size_t i = 0; i < LAYERS; i++)
        lists[i] = blocks;
    struct kvc_request request = kvc_transfer_request(op, uneven->model, key);
    request.instance_id = uneven->instance_id;
    request.block_ids = (struct kvc_int_lists){lists, uneven->lists};
    return request;
}

/* Into how many groups the server has put the layers shows in how many lists it takes. */
static bool store(struct kvc_ctx *ctx, struct uneven *uneven, const struct kvc_key *key,
                  struct kvc_ints blocks)
{
    uneven->lists = LAYERS;
    struct kvc_request request = request_of(ctx, uneven, KVC_OP_STORE, key, blocks);
    if (kvc_succeeds(ctx, uneven->model, &request))
        return true;
    uneven->lists = 1;
    request = request_of(ctx, uneven, KVC_OP_STORE, key, blocks);
    return kvc_soon_succeeds(ctx, uneven->model, &request);
}

static void keeps_uneven_layers(struct kvc_ctx *ctx)
{
    struct uneven uneven;
    if (!open_uneven(ctx, &uneven))
        return; /* refused */
    struct kvc_worker finder = *uneven.model;
    const struct kvc_key key = kvc_key_for(ctx, uneven.model, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints from = kvc_chunk_blocks(ctx, uneven.model, 1);
    const struct kvc_ints into = kvc_chunk_blocks(ctx, uneven.model, 1);
    struct kvc_stamp_source sources[LAYERS];
    for (uint64_t i = 0; i < LAYERS; i++) {
        sources[i] = (struct kvc_stamp_source){.seed = kvc_ctx_seed(ctx), .request = i};
        kvc_stamp_blocks(uneven.layers[i], sources[i], 0, from.items, from.count);
    }
    if (!store(ctx, &uneven, &key, from))
        return;
    kvc_expect_visible(ctx, &finder, &key, 1);
    for (size_t i = 0; i < LAYERS; i++)
        kvc_paged_fill(uneven.layers[i], KVC_POISON);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, &finder, &key), 1);
    const struct kvc_request retrieve = request_of(ctx, &uneven, KVC_OP_RETRIEVE, &key, into);
    kvc_expect_true(ctx, "success of RETRIEVE",
                    kvc_call(ctx, &uneven.model->rpc, &retrieve)->transfer.success);
    for (size_t i = 0; i < LAYERS; i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_expect_ok(ctx,
                      i == 0 ? "the first layer is as stored" : "the second layer is as stored",
                      kvc_stamp_check_blocks(uneven.layers[i], sources[i], 0, into.items,
                                             into.count, &sources[1 - i], 1, &err),
                      &err);
    }
}
KVC_CHECK(
    keeps_uneven_layers, .id = "data/uneven-layers",
    .clause =
        "Layers whose tensors have other numbers of blocks are refused, or come back byte for "
        "byte, in one group or in two.",
    .source = "protocol 6.3, 6.4, B53",
    .exchange =
        "REGISTER_KV_CACHE, STORE with one list of block ids, or else two, LOOKUP, RETRIEVE",
    .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_HND) | KVC_LAYOUT_BIT(KVC_LAYOUT_FLASHINFER_HND) |
               KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
    .run = keeps_uneven_layers);
