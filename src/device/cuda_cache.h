/* A worker's paged KV cache on the GPU. A cache in memory of the host is its mirror: stamps are written and
 * checked there, and pushed and pulled as a whole, guard bands included. For drivers and checks. */
#ifndef KVC_DEVICE_CUDA_CACHE_H
#define KVC_DEVICE_CUDA_CACHE_H

#include "src/device/cuda.h"
#include "src/kv/paged.h"

enum kvc_cuda_placement {
    KVC_CUDA_AT_BASE,  /* each tensor begins an allocation of its own: what every release maps */
    KVC_CUDA_INSIDE,   /* each lies behind its front guard in an allocation of its own */
    KVC_CUDA_TOGETHER, /* all lie in one allocation, as those of an allocator that caches do */
};

struct kvc_cuda_cache {
    struct kvc_paged *mirror; /* a private cache; the owner keeps it open */
    enum kvc_cuda_placement placement;
    struct kvc_cuda_queue *queue;
    uint8_t **tensors; /* first byte of each on the GPU, in the order of the mirror's */
    void **allocations;
    size_t allocation_count;
    struct kvc_cu_event *ready; /* NULL: nobody asked for it yet */
    struct kvc_cu_ipc_event ready_handle;
};

/* Allocates, and leaves the GPU's memory as it is. Freed with kvc_cuda_cache_close. */
kvc_status kvc_cuda_cache_open(struct kvc_paged *mirror, enum kvc_cuda_placement placement,
                               struct kvc_cuda_cache **cache, struct kvc_error *err);
/* cache may be NULL. */
void kvc_cuda_cache_close(struct kvc_cuda_cache *cache);

/* The handle of an event that happens when all is done that was in the queue when this was first called. It
 * lives as long as the cache. */
kvc_status kvc_cuda_cache_ready(struct kvc_cuda_cache *cache, struct kvc_cu_ipc_event *handle,
                                struct kvc_error *err);

/* Copies the whole mirror to the GPU, or back. Both wait for what is in the queue. */
kvc_status kvc_cuda_cache_push(struct kvc_cuda_cache *cache, struct kvc_error *err);
kvc_status kvc_cuda_cache_pull(struct kvc_cuda_cache *cache, struct kvc_error *err);
/* Puts the same copy into the queue, by kernels that let wait_ms pass before they write. Returns what the
 * caller frees with kvc_device_cuda.free once the queue has been waited for. */
kvc_status kvc_cuda_cache_push_late(struct kvc_cuda_cache *cache, int64_t wait_ms, void **staging,
                                    struct kvc_error *err);

#endif
