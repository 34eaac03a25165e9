#include "tests/mock_server/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "src/wire/handle.h"

static bool queue_is_open(struct mock *mock)
{
    return mock->gpu.queue != NULL || kvc_cuda_queue_open(&mock->gpu.queue, NULL) == KVC_OK;
}

/* ---- memory ---- */

static kvc_status check_gpu(const struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    struct kvc_device_text uuid;
    KVC_GUARD(kvc_cuda_uuid(&uuid, err));
    if (kvc_str_is(handle->device_uuid, uuid.text))
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "no GPU here is " KVC_STR_FMT,
                    KVC_STR_ARG(handle->device_uuid));
}

static kvc_status check_range(const struct kvc_tensor_handle *handle, int64_t allocated,
                              struct kvc_error *err)
{
    if (handle->nbytes > 0 && handle->alloc_offset <= allocated &&
        handle->nbytes <= allocated - handle->alloc_offset)
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "%lld bytes at %lld are not in an allocation of %lld",
                    (long long)handle->nbytes, (long long)handle->alloc_offset,
                    (long long)allocated);
}

kvc_status mock_gpu_map(const struct kvc_tensor_handle *handle, struct mock_reading reading,
                        struct mock_layer *layer, struct kvc_error *err)
{
    struct kvc_cu_ipc_memory memory;
    const uint8_t *ipc_handle;
    uint8_t *base;
    int64_t allocated = 0;
    KVC_GUARD(kvc_handle_ipc(handle, &ipc_handle, err));
    memcpy(&memory, ipc_handle, sizeof(memory));
    KVC_GUARD(kvc_cuda_map(&memory, &base, &allocated, err));
    kvc_status status = check_gpu(handle, err);
    if (status == KVC_OK)
        status = check_range(handle, allocated, err);
    if (status != KVC_OK) {
        kvc_cuda_unmap(base);
        return status;
    }
    layer->mapped = base;
    layer->data = base + (reading.alloc_offset_ignored ? 0 : handle->alloc_offset) +
                  (reading.storage_offset_ignored ? 0 : handle->storage_offset) *
                      (int64_t)layer->shape.dtype->size;
    return KVC_OK;
}

void mock_gpu_unmap(struct mock_layer *layer)
{
    if (layer->mapped != NULL)
        kvc_cuda_unmap(layer->mapped);
    layer->mapped = NULL;
}

bool mock_gpu_may_map(struct mock *mock, const struct kvc_tensor_handles *handles)
{
    if (!mock_has(mock, MOCK_DEFECT_MAPPED_ONCE_ONLY))
        return true;
    for (size_t i = 0; i < handles->count; i++) {
        if (handles->items[i].kind != KVC_HANDLE_CPU &&
            mock_memory_has(&mock->gpu.mapped_before, handles->items[i].ipc_handle))
            return false;
    }
    for (size_t i = 0; i < handles->count; i++)
        mock_memory_add(&mock->gpu.mapped_before, handles->items[i].ipc_handle);
    return true;
}

kvc_status mock_gpu_await_owner(struct mock *mock, const struct kvc_tensor_handles *handles,
                                struct kvc_error *err)
{
    for (size_t i = 0; i < handles->count; i++) {
        const struct kvc_torch_share *torch = &handles->items[i].torch;
        struct kvc_cu_ipc_event event;
        if (!torch->has_event)
            continue;
        if (torch->ready_event.size != sizeof(event))
            return kvc_fail(err, KVC_EFORMAT, "an event handle of %zu bytes, not %zu",
                            torch->ready_event.size, sizeof(event));
        memcpy(&event, torch->ready_event.data, sizeof(event));
        if (mock->gpu.queue == NULL)
            KVC_GUARD(kvc_cuda_queue_open(&mock->gpu.queue, err));
        KVC_GUARD(kvc_cuda_queue_after(mock->gpu.queue, &event, err));
    }
    return KVC_OK;
}

/* Whether the two have an allocation in common. */
static bool share_memory(const struct mock_instance *a, const struct mock_instance *b)
{
    for (size_t i = 0; i < a->layer_count; i++) {
        for (size_t j = 0; j < b->layer_count; j++) {
            if (a->layers[i].mapped != NULL && a->layers[i].mapped == b->layers[j].mapped)
                return true;
        }
    }
    return false;
}

void mock_gpu_leave(struct mock *mock, struct mock_instance *instance)
{
    struct mock_instance *other;
    LIST_FOREACH(other, &mock->registry.instances[MOCK_LMCACHE_DRIVEN], in_table)
    {
        if (other != instance && mock_has(mock, MOCK_DEFECT_MAPPING_UNCOUNTED))
            other->mapping_is_lost |= share_memory(instance, other);
    }
    for (size_t i = 0; i < instance->layer_count && mock_has(mock, MOCK_DEFECT_MAPPING_KEPT); i++)
        instance->layers[i].mapped = NULL;
}

/* ---- copies ---- */

static struct kvc_cuda_transfer transfer_of(const struct mock_kernel_group *group,
                                            const struct kvc_cuda_chunk *chunk)
{
    return (struct kvc_cuda_transfer){
        .group = &group->shape,
        .tensors = group->tensors,
        .chunk_tokens = group->chunk_slots,
        .chunks = chunk,
        .chunk_count = 1,
    };
}

bool mock_gpu_gather(struct mock *mock, const struct mock_kernel_group *group, const int64_t *ids,
                     uint8_t *data)
{
    const struct kvc_cuda_chunk chunk = {.data = data, .block_ids = ids};
    const struct kvc_cuda_transfer transfer = transfer_of(group, &chunk);
    return queue_is_open(mock) &&
           kvc_cuda_gather_to_host(mock->gpu.queue, &transfer, NULL) == KVC_OK &&
           kvc_cuda_queue_wait(mock->gpu.queue, NULL) == KVC_OK;
}

bool mock_gpu_scatter(struct mock *mock, const struct mock_kernel_group *group, const int64_t *ids,
                      int64_t skip_blocks, const uint8_t *data)
{
    /* A chunk can be for writing; this one is only read. */
    const struct kvc_cuda_chunk chunk = {(uint8_t *)data, ids, skip_blocks};
    const struct kvc_cuda_transfer transfer = transfer_of(group, &chunk);
    return queue_is_open(mock) &&
           kvc_cuda_scatter_from_host(mock->gpu.queue, &transfer, NULL) == KVC_OK &&
           kvc_cuda_queue_wait(mock->gpu.queue, NULL) == KVC_OK;
}

/* ---- events ---- */

bool mock_gpu_await(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct kvc_bytes given = call->request->event_handle;
    struct kvc_cu_ipc_event handle;
    struct kvc_error err = KVC_ERROR_INIT;
    if (mock_has(mock, MOCK_DEFECT_EVENT_NOT_AWAITED))
        return true;
    if (given.size != sizeof(handle)) {
        mock_refuse(call, "an event handle of %zu bytes, not %zu", given.size, sizeof(handle));
        return false;
    }
    memcpy(&handle, given.data, sizeof(handle));
    if (queue_is_open(mock) && kvc_cuda_queue_after(mock->gpu.queue, &handle, &err) == KVC_OK)
        return true;
    mock_refuse(call, "the event: %s", err.what);
    return false;
}

struct kvc_bytes mock_gpu_event(struct mock_call *call)
{
    struct mock_gpu *gpu = &call->mock->gpu;
    struct kvc_cu_event **slot = &gpu->events[gpu->next_event++ % MOCK_GPU_EVENTS];
    struct kvc_cu_ipc_event *handle = kvc_arena_alloc(call->arena, sizeof(*handle));
    kvc_cuda_event_close(*slot);
    *slot = NULL;
    if (!queue_is_open(call->mock) ||
        kvc_cuda_queue_event(gpu->queue, slot, handle, NULL) != KVC_OK)
        return (struct kvc_bytes){NULL, 0};
    if (mock_has(call->mock, MOCK_DEFECT_REPLY_EVENT_DESTROYED)) {
        kvc_cuda_event_close(*slot);
        *slot = NULL;
    }
    return (struct kvc_bytes){handle->bytes, sizeof(handle->bytes)};
}

void mock_gpu_close(struct mock *mock)
{
    for (size_t i = 0; i < MOCK_GPU_EVENTS; i++)
        kvc_cuda_event_close(mock->gpu.events[i]);
    kvc_cuda_queue_close(mock->gpu.queue);
    mock_memory_clear(&mock->gpu.mapped_before);
    mock->gpu = (struct mock_gpu){0};
}
