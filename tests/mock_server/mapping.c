#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/gpu.h"
#include "tests/mock_server/registry.h"

/* Maps one layer's tensor; every number of the handle is checked against the segment there is. */
static kvc_status map_layer(const struct kvc_tensor_handle *handle, bool length_unchecked,
                            struct mock_layer *layer, struct kvc_error *err)
{
    char name[sizeof(layer->segment.name)];
    if (handle->shm_name.size >= sizeof(name) ||
        memchr(handle->shm_name.data, '\0', handle->shm_name.size) != NULL)
        return kvc_fail(err, KVC_EFORMAT, "the segment's name is none");
    memcpy(name, handle->shm_name.data, handle->shm_name.size);
    name[handle->shm_name.size] = '\0';

    const int64_t item = (int64_t)layer->shape.dtype->size;
    int64_t tensor_bytes = item;
    for (size_t i = 0; i < handle->shape.count; i++) {
        if (__builtin_mul_overflow(tensor_bytes, handle->shape.items[i], &tensor_bytes))
            return kvc_fail(err, KVC_EFORMAT, "the tensor is larger than any memory");
    }
    int64_t first = 0;
    if (handle->storage_offset < 0 || handle->nbytes <= 0 ||
        __builtin_mul_overflow(handle->storage_offset, item, &first) || first > handle->nbytes ||
        tensor_bytes > handle->nbytes - first)
        return kvc_fail(err, KVC_EFORMAT,
                        "the tensor of %lld bytes at element %lld does not fit into %lld bytes",
                        (long long)tensor_bytes, (long long)handle->storage_offset,
                        (long long)handle->nbytes);
    const int64_t bytes = length_unchecked ? first + tensor_bytes : handle->nbytes;
    KVC_GUARD(kvc_segment_open(name, (size_t)bytes, &layer->segment, err));
    layer->data = layer->segment.data + first;
    return KVC_OK;
}

/* The engine group that a layer was put into. NULL: groups were given and none has it; a group of
 * defaults when no groups were given. */
static const struct kvc_engine_group_info *
engine_group_of(const struct kvc_engine_group_infos *infos, int64_t layer)
{
    static const struct kvc_engine_group_info any = {.sw_size_tokens = -1};
    if (infos->count == 0)
        return &any;
    for (size_t i = 0; i < infos->count; i++) {
        const struct kvc_ints *layers = &infos->items[i].layer_indices;
        for (size_t j = 0; j < layers->count; j++) {
            if (layers->items[j] == layer)
                return &infos->items[i];
        }
    }
    return NULL;
}

static kvc_status check_layer_indices(const struct kvc_engine_group_infos *infos, size_t layers,
                                      struct kvc_error *err)
{
    for (size_t i = 0; i < infos->count; i++) {
        const struct kvc_ints *indices = &infos->items[i].layer_indices;
        for (size_t j = 0; j < indices->count; j++) {
            if (indices->items[j] < 0 || (uint64_t)indices->items[j] >= layers)
                return kvc_fail(err, KVC_EFORMAT, "engine group %zu names layer %lld of %zu", i,
                                (long long)indices->items[j], layers);
        }
    }
    return KVC_OK;
}

static kvc_status begin_group(struct mock_instance *instance, const struct kvc_group *shape,
                              const struct kvc_engine_group_info *engine, int64_t chunk_tokens,
                              struct kvc_error *err)
{
    if (instance->group_count == KVC_MAX_GROUPS)
        return kvc_fail(err, KVC_EUNSUPPORTED, "more than %d kernel groups", KVC_MAX_GROUPS);
    const int64_t tokens =
        engine->tokens_per_block == 0 ? shape->block_size : engine->tokens_per_block;
    if (tokens < 0 || tokens % shape->block_size != 0)
        return kvc_fail(err, KVC_EFORMAT, "%lld tokens a block is no multiple of its %lld slots",
                        (long long)tokens, (long long)shape->block_size);
    if (chunk_tokens % tokens != 0)
        return kvc_fail(err, KVC_EFORMAT,
                        "a chunk of %lld tokens is no whole number of blocks of %lld",
                        (long long)chunk_tokens, (long long)tokens);
    struct mock_kernel_group *group = &instance->groups[instance->group_count++];
    *group = (struct mock_kernel_group){
        .shape = *shape,
        .engine_group_id = engine->engine_group_id,
        .tokens_per_block = tokens,
        .blocks_per_chunk = chunk_tokens / tokens,
        .chunk_slots = chunk_tokens / tokens * shape->block_size,
        .tensors = kvc_alloc_zero(instance->layer_count, sizeof(uint8_t *)),
    };
    return KVC_OK;
}

/* Puts a layer into the group of its shape and engine group, which is made if it is the first. */
static kvc_status join_group(struct mock_instance *instance, struct mock_layer *layer,
                             const struct kvc_engine_group_info *engine, int64_t chunk_tokens,
                             struct kvc_error *err)
{
    size_t index = 0;
    while (index < instance->group_count &&
           (instance->groups[index].engine_group_id != engine->engine_group_id ||
            !mock_same_shape(&instance->groups[index].shape, &layer->shape)))
        index++;
    if (index == instance->group_count)
        KVC_GUARD(begin_group(instance, &layer->shape, engine, chunk_tokens, err));
    struct mock_kernel_group *group = &instance->groups[index];
    group->tensors[group->shape.num_layers++] = layer->data;
    layer->group = index;
    return KVC_OK;
}

static void describe_chunk(struct mock_instance *instance)
{
    instance->layout.part_count = instance->group_count;
    for (size_t i = 0; i < instance->group_count; i++) {
        const struct mock_kernel_group *group = &instance->groups[i];
        instance->layout.parts[i] = (struct mock_part){
            .kv = group->shape.kv_size,
            .layers = group->shape.num_layers,
            .tokens = group->chunk_slots,
            .hidden = kvc_group_hidden(&group->shape),
            .dtype = group->shape.dtype,
        };
    }
    mock_chunk_layout_seal(&instance->layout);
}

kvc_status mock_instance_map(struct mock_instance *instance,
                             const struct kvc_tensor_handles *handles,
                             const struct kvc_layout_hints *hints,
                             const struct kvc_engine_group_infos *infos, int64_t chunk_tokens,
                             struct mock_reading reading, struct kvc_error *err)
{
    static const struct kvc_engine_group_infos none = {0};
    if (reading.groups_ignored)
        infos = &none;
    if (handles->count == 0)
        return kvc_fail(err, KVC_EFORMAT, "there is no tensor");
    KVC_GUARD(check_layer_indices(infos, handles->count, err));
    instance->layers = kvc_alloc_zero(handles->count, sizeof(instance->layers[0]));
    instance->layer_count = handles->count;
    instance->on_gpu = handles->items[0].kind != KVC_HANDLE_CPU;
    for (size_t i = 0; i < handles->count; i++) {
        struct mock_layer *layer = &instance->layers[i];
        if ((handles->items[i].kind != KVC_HANDLE_CPU) != instance->on_gpu)
            return kvc_fail(err, KVC_EFORMAT, "some tensors are on a GPU, and some are not");
        KVC_GUARD(mock_layout_detect(&handles->items[i], hints, reading, &layer->shape, err));
        KVC_GUARD(instance->on_gpu
                      ? mock_gpu_map(&handles->items[i], reading, layer, err)
                      : map_layer(&handles->items[i], reading.length_unchecked, layer, err));
        const struct kvc_engine_group_info *engine = engine_group_of(infos, (int64_t)i);
        layer->group = SIZE_MAX;
        if (engine != NULL)
            KVC_GUARD(join_group(instance, layer, engine, chunk_tokens, err));
    }
    describe_chunk(instance);
    if (instance->layout.bytes == 0)
        return kvc_fail(err, KVC_EFORMAT, "no layer is in a group");
    return KVC_OK;
}
