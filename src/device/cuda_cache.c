#include "src/device/cuda_cache.h"

#include <stdlib.h>

/* What caching allocators round allocations to. */
enum { TOGETHER_ALIGN = 512 };

/* A tensor and its guards as the GPU has them. */
struct span {
    uint8_t *on_host;
    uint8_t *on_gpu;
    size_t size;
};

static size_t front_of(enum kvc_cuda_placement placement)
{
    return placement == KVC_CUDA_AT_BASE ? 0 : KVC_PAGED_GUARD;
}

static size_t span_size(const struct kvc_tensor *tensor, enum kvc_cuda_placement placement)
{
    return front_of(placement) + (size_t)tensor->bytes + KVC_PAGED_GUARD;
}

static struct span span_of(const struct kvc_cuda_cache *cache, size_t i)
{
    const struct kvc_tensor *tensor = &cache->mirror->tensors[i];
    const size_t front = front_of(cache->placement);
    return (struct span){
        .on_host = tensor->data - front,
        .on_gpu = cache->tensors[i] - front,
        .size = span_size(tensor, cache->placement),
    };
}

static size_t rounded(size_t size)
{
    return (size + TOGETHER_ALIGN - 1) / TOGETHER_ALIGN * TOGETHER_ALIGN;
}

/* One allocation more; its start. */
static kvc_status allocate(struct kvc_cuda_cache *cache, size_t size, uint8_t **start,
                           struct kvc_error *err)
{
    void *memory;
    KVC_GUARD(kvc_device_cuda.alloc(size, &memory, err));
    cache->allocations[cache->allocation_count++] = memory;
    *start = memory;
    return KVC_OK;
}

static kvc_status place_together(struct kvc_cuda_cache *cache, struct kvc_error *err)
{
    const struct kvc_paged *mirror = cache->mirror;
    size_t total = 0;
    uint8_t *next;
    for (size_t i = 0; i < mirror->tensor_count; i++)
        total += rounded(span_size(&mirror->tensors[i], cache->placement));
    KVC_GUARD(allocate(cache, total, &next, err));
    for (size_t i = 0; i < mirror->tensor_count; i++) {
        cache->tensors[i] = next + front_of(cache->placement);
        next += rounded(span_size(&mirror->tensors[i], cache->placement));
    }
    return KVC_OK;
}

static kvc_status place(struct kvc_cuda_cache *cache, struct kvc_error *err)
{
    const struct kvc_paged *mirror = cache->mirror;
    if (cache->placement == KVC_CUDA_TOGETHER)
        return place_together(cache, err);
    for (size_t i = 0; i < mirror->tensor_count; i++) {
        uint8_t *start;
        KVC_GUARD(allocate(cache, span_size(&mirror->tensors[i], cache->placement), &start, err));
        cache->tensors[i] = start + front_of(cache->placement);
    }
    return KVC_OK;
}

kvc_status kvc_cuda_cache_open(struct kvc_paged *mirror, enum kvc_cuda_placement placement,
                               struct kvc_cuda_cache **cache, struct kvc_error *err)
{
    *cache = NULL;
    struct kvc_cuda_cache *opened = kvc_alloc_zero(1, sizeof(*opened));
    opened->mirror = mirror;
    opened->placement = placement;
    opened->tensors = kvc_alloc_zero(mirror->tensor_count, sizeof(opened->tensors[0]));
    opened->allocations = kvc_alloc_zero(mirror->tensor_count, sizeof(opened->allocations[0]));
    kvc_status status = kvc_cuda_queue_open(&opened->queue, err);
    if (status == KVC_OK)
        status = place(opened, err);
    if (status == KVC_OK)
        *cache = opened;
    else
        kvc_cuda_cache_close(opened);
    return status;
}

void kvc_cuda_cache_close(struct kvc_cuda_cache *cache)
{
    if (cache == NULL)
        return;
    if (cache->queue != NULL)
        kvc_cuda_queue_wait(cache->queue, NULL);
    kvc_cuda_event_close(cache->ready);
    for (size_t i = 0; i < cache->allocation_count; i++)
        kvc_device_cuda.free(cache->allocations[i]);
    kvc_cuda_queue_close(cache->queue);
    free(cache->allocations);
    free(cache->tensors);
    free(cache);
}

kvc_status kvc_cuda_cache_ready(struct kvc_cuda_cache *cache, struct kvc_cu_ipc_event *handle,
                                struct kvc_error *err)
{
    if (cache->ready == NULL)
        KVC_GUARD(kvc_cuda_queue_event(cache->queue, &cache->ready, &cache->ready_handle, err));
    *handle = cache->ready_handle;
    return KVC_OK;
}

kvc_status kvc_cuda_cache_push(struct kvc_cuda_cache *cache, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_queue_wait(cache->queue, err));
    for (size_t i = 0; i < cache->mirror->tensor_count; i++) {
        const struct span span = span_of(cache, i);
        KVC_GUARD(kvc_device_cuda.copy_in(span.on_gpu, span.on_host, span.size, err));
    }
    return KVC_OK;
}

kvc_status kvc_cuda_cache_pull(struct kvc_cuda_cache *cache, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_queue_wait(cache->queue, err));
    for (size_t i = 0; i < cache->mirror->tensor_count; i++) {
        const struct span span = span_of(cache, i);
        KVC_GUARD(kvc_device_cuda.copy_out(span.on_host, span.on_gpu, span.size, err));
    }
    return KVC_OK;
}

/* The first tensor's kernel waits; the others are behind it. */
static kvc_status push_from(struct kvc_cuda_cache *cache, int64_t wait_ms, uint8_t *staging,
                            struct kvc_error *err)
{
    for (size_t i = 0; i < cache->mirror->tensor_count; i++) {
        const struct span span = span_of(cache, i);
        KVC_GUARD(kvc_device_cuda.copy_in(staging, span.on_host, span.size, err));
        KVC_GUARD(kvc_cuda_write_late(cache->queue, span.on_gpu, staging, span.size,
                                      i == 0 ? wait_ms : 0, err));
        staging += span.size;
    }
    return KVC_OK;
}

kvc_status kvc_cuda_cache_push_late(struct kvc_cuda_cache *cache, int64_t wait_ms, void **staging,
                                    struct kvc_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < cache->mirror->tensor_count; i++)
        total += span_of(cache, i).size;
    KVC_GUARD(kvc_device_cuda.alloc(total, staging, err));
    const kvc_status status = push_from(cache, wait_ms, *staging, err);
    if (status != KVC_OK) {
        kvc_cuda_queue_wait(cache->queue, NULL);
        kvc_device_cuda.free(*staging);
    }
    return status;
}
