#include "tests/conformance/registration_fixture.h"

#include <string.h>

static void close_cache(void *paged)
{
    kvc_paged_close(paged);
}

struct kvc_paged *kvc_shared_cache(struct kvc_ctx *ctx, const struct kvc_geometry *geometry)
{
    struct kvc_paged *paged = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *paged);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the cache of the check", kvc_paged_open(geometry, true, paged, &err), &err);
    kvc_ctx_defer(ctx, close_cache, paged);
    return paged;
}

struct kvc_request kvc_unregistration(enum kvc_transfer_mode mode, int64_t instance_id)
{
    return (struct kvc_request){.op = mode == KVC_MODE_LMCACHE_DRIVEN
                                          ? KVC_OP_UNREGISTER_KV_CACHE
                                          : KVC_OP_UNREGISTER_ENGINE_DRIVEN,
                                .instance_id = instance_id};
}

struct enrolment {
    const struct kvc_rpc *rpc;
    struct kvc_request leave;
};

/* An instance that was never registered, or has left, may be unregistered too. */
static void end_enrolment(void *arg)
{
    const struct enrolment *enrolment = arg;
    kvc_rpc_call_void(enrolment->rpc, &enrolment->leave, NULL);
}

static void unregister_at_end(struct kvc_ctx *ctx, const struct kvc_worker_options *options)
{
    struct enrolment *enrolment = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *enrolment);
    *enrolment = (struct enrolment){kvc_ctx_rpc(ctx),
                                    kvc_unregistration(options->mode, options->instance_id)};
    kvc_ctx_defer(ctx, end_enrolment, enrolment);
}

static struct kvc_ints copy_ints(struct kvc_ctx *ctx, const int64_t *items, size_t count)
{
    int64_t *copy = kvc_arena_alloc_array(kvc_ctx_arena(ctx), count, sizeof *copy);
    memcpy(copy, items, count * sizeof *copy);
    return (struct kvc_ints){copy, count};
}

static struct kvc_tensor_handle handle_of(struct kvc_ctx *ctx, const struct kvc_paged *paged,
                                          const struct kvc_tensor *tensor)
{
    const struct kvc_group *group = &paged->geometry.groups[tensor->group];
    int64_t shape[5], stride[5];
    const size_t rank = kvc_group_tensor_shape(group, shape, stride);
    return (struct kvc_tensor_handle){
        .shm_name = kvc_str_of(tensor->segment.name),
        .nbytes = tensor->storage_offset + tensor->bytes,
        .dtype = kvc_str_of(group->dtype->name),
        .shape = copy_ints(ctx, shape, rank),
        .stride = copy_ints(ctx, stride, rank),
        .storage_offset = tensor->storage_offset / (int64_t)group->dtype->size,
        .device_uuid = KVC_STR("cpu"),
    };
}

static struct kvc_tensor_handles handles_of(struct kvc_ctx *ctx, const struct kvc_paged *paged)
{
    struct kvc_tensor_handle *items =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), paged->tensor_count, sizeof *items);
    for (size_t i = 0; i < paged->tensor_count; i++)
        items[i] = handle_of(ctx, paged, &paged->tensors[i]);
    return (struct kvc_tensor_handles){items, paged->tensor_count};
}

static struct kvc_engine_group_infos groups_of(struct kvc_ctx *ctx, const struct kvc_group *group)
{
    struct kvc_engine_group_info *info = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *info);
    int64_t *layers =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)group->num_layers, sizeof *layers);
    for (int64_t i = 0; i < group->num_layers; i++)
        layers[i] = i;
    *info = (struct kvc_engine_group_info){
        .layer_indices = {layers, (size_t)group->num_layers},
        .tokens_per_block = group->block_size,
        .sw_size_tokens = -1,
    };
    return (struct kvc_engine_group_infos){info, 1};
}

struct kvc_request kvc_registration(struct kvc_ctx *ctx, const struct kvc_worker_options *options,
                                    const struct kvc_paged *paged)
{
    const struct kvc_group *group = &options->geometry.groups[0];
    unregister_at_end(ctx, options);
    if (options->mode == KVC_MODE_LMCACHE_DRIVEN)
        return (struct kvc_request){
            .op = KVC_OP_REGISTER_KV_CACHE,
            .instance_id = options->instance_id,
            .handles = handles_of(ctx, paged),
            .model_name = options->model_name,
            .world_size = options->world_size,
            .engine_type = KVC_STR("vllm"),
            .layout_hints = {.kv_layout = kvc_str_of(kvc_layout_hint(group->layout))},
            .groups = groups_of(ctx, group),
        };
    return (struct kvc_request){
        .op = KVC_OP_REGISTER_ENGINE_DRIVEN,
        .engine_driven = {.instance_id = options->instance_id,
                          .model_name = options->model_name,
                          .world_size = options->world_size,
                          .block_size = group->block_size,
                          .num_layers = group->num_layers,
                          .hidden_dim_size = kvc_group_hidden(group),
                          .dtype_str = kvc_str_of(group->dtype->name),
                          .use_mla = group->kv_size == 1},
    };
}

struct kvc_request kvc_fresh_registration(struct kvc_ctx *ctx,
                                          const struct kvc_worker_options *options)
{
    const struct kvc_paged *paged =
        options->mode == KVC_MODE_LMCACHE_DRIVEN ? kvc_shared_cache(ctx, &options->geometry) : NULL;
    return kvc_registration(ctx, options, paged);
}

struct kvc_tensor_handle *kvc_own_handles(struct kvc_ctx *ctx, struct kvc_request *registration)
{
    const size_t count = registration->handles.count;
    struct kvc_tensor_handle *items =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), count, sizeof *items);
    memcpy(items, registration->handles.items, count * sizeof *items);
    registration->handles.items = items;
    return items;
}
