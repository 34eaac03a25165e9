/* What the CUDA files share. For this folder only. */
#ifndef KVC_DEVICE_CUDA_INTERNAL_H
#define KVC_DEVICE_CUDA_INTERNAL_H

#include "src/device/cuda.h"
#include "src/device/kernel.h"

static inline uint64_t kvc_cuda_address(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

static inline void *kvc_cuda_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

/* The kernels for the GPU, compiled by nvcc; a single zero where there was none. */
extern const unsigned long long kvc_cuda_image[];

/* KVC_EUNSUPPORTED when the library that is loaded cannot run what was built in. */
kvc_status kvc_cuda_image_check(struct kvc_error *err);
kvc_status kvc_cuda_kernels_load(struct kvc_error *err);
void kvc_cuda_kernels_unload(void);

/* Starts kernels. unit_log: 0 for units of 1 byte, … 4 for 16. */
kvc_status kvc_cuda_launch_job(const struct kvc_kernel_job *job, int direction, uint32_t pieces,
                               struct kvc_cu_stream *stream, struct kvc_error *err);
kvc_status kvc_cuda_launch_late(const struct kvc_kernel_late *late, struct kvc_cu_stream *stream,
                                struct kvc_error *err);

/* The job of a transfer, but for the addresses of its tables. KVC_EUNSUPPORTED for a block of 2^31 units or
 * pieces beyond 2^31. */
kvc_status kvc_cuda_plan(const struct kvc_cuda_transfer *transfer, struct kvc_kernel_job *job,
                         uint32_t *pieces, struct kvc_error *err);

/* Half of a queue: a stream, and what the work in it needs until it is done. */
struct kvc_cuda_lane {
    struct kvc_cu_stream *stream;
    void *table; /* pinned: tensors, chunks and block ids of a transfer */
    void *table_on_gpu;
    size_t table_size;
    void *staging; /* on the GPU: a chunk on its way to or from the host */
    size_t staging_size;
};

kvc_status kvc_cuda_lane_open(struct kvc_cuda_lane *lane, struct kvc_error *err);
void kvc_cuda_lane_close(struct kvc_cuda_lane *lane);
/* Waits for the lane, and then has room for so much. */
kvc_status kvc_cuda_lane_reserve(struct kvc_cuda_lane *lane, size_t table_size, size_t staging_size,
                                 struct kvc_error *err);

/* The lane whose turn it is. */
struct kvc_cuda_lane *kvc_cuda_queue_lane(struct kvc_cuda_queue *queue);

#endif
