/* Queues: two streams that take turns, so that the GPU gathers one chunk while it copies another. */
#include <stdlib.h>

#include "src/device/cuda_internal.h"

enum { LANES = 2 };

struct kvc_cuda_queue {
    struct kvc_cuda_lane lanes[LANES];
    size_t turn;
};

/* ---- lanes ---- */

kvc_status kvc_cuda_lane_open(struct kvc_cuda_lane *lane, struct kvc_error *err)
{
    *lane = (struct kvc_cuda_lane){0};
    return KVC_CUDA(err, stream_create, &lane->stream, KVC_CU_STREAM_NON_BLOCKING);
}

static void free_table(struct kvc_cuda_lane *lane)
{
    kvc_cuda_host_free(lane->table);
    kvc_device_cuda.free(lane->table_on_gpu);
    lane->table = NULL;
    lane->table_on_gpu = NULL;
    lane->table_size = 0;
}

static void free_staging(struct kvc_cuda_lane *lane)
{
    kvc_device_cuda.free(lane->staging);
    lane->staging = NULL;
    lane->staging_size = 0;
}

void kvc_cuda_lane_close(struct kvc_cuda_lane *lane)
{
    if (lane->stream == NULL)
        return;
    kvc_cuda_driver.stream_synchronize(lane->stream);
    free_table(lane);
    free_staging(lane);
    kvc_cuda_driver.stream_destroy(lane->stream);
    *lane = (struct kvc_cuda_lane){0};
}

kvc_status kvc_cuda_lane_reserve(struct kvc_cuda_lane *lane, size_t table_size, size_t staging_size,
                                 struct kvc_error *err)
{
    KVC_GUARD(KVC_CUDA(err, stream_synchronize, lane->stream));
    if (lane->table_size < table_size) {
        free_table(lane);
        KVC_GUARD(kvc_cuda_host_alloc(table_size, &lane->table, err));
        KVC_GUARD(kvc_device_cuda.alloc(table_size, &lane->table_on_gpu, err));
        lane->table_size = table_size;
    }
    if (lane->staging_size < staging_size) {
        free_staging(lane);
        KVC_GUARD(kvc_device_cuda.alloc(staging_size, &lane->staging, err));
        lane->staging_size = staging_size;
    }
    return KVC_OK;
}

/* ---- queues ---- */

kvc_status kvc_cuda_queue_open(struct kvc_cuda_queue **queue, struct kvc_error *err)
{
    *queue = NULL;
    KVC_GUARD(kvc_cuda_open(err));
    struct kvc_cuda_queue *opened = kvc_alloc_zero(1, sizeof(*opened));
    for (size_t i = 0; i < LANES; i++) {
        const kvc_status status = kvc_cuda_lane_open(&opened->lanes[i], err);
        if (status == KVC_OK)
            continue;
        kvc_cuda_queue_close(opened);
        return status;
    }
    *queue = opened;
    return KVC_OK;
}

void kvc_cuda_queue_close(struct kvc_cuda_queue *queue)
{
    if (queue == NULL)
        return;
    kvc_cuda_use(NULL);
    for (size_t i = 0; i < LANES; i++)
        kvc_cuda_lane_close(&queue->lanes[i]);
    free(queue);
    kvc_cuda_close();
}

struct kvc_cuda_lane *kvc_cuda_queue_lane(struct kvc_cuda_queue *queue)
{
    return &queue->lanes[queue->turn++ % LANES];
}

kvc_status kvc_cuda_queue_wait(struct kvc_cuda_queue *queue, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    for (size_t i = 0; i < LANES; i++)
        KVC_GUARD(KVC_CUDA(err, stream_synchronize, queue->lanes[i].stream));
    return KVC_OK;
}

/* ---- events ---- */

/* Makes the first lane wait for the others. */
static kvc_status join_lanes(struct kvc_cuda_queue *queue, struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    for (size_t i = 1; i < LANES && status == KVC_OK; i++) {
        struct kvc_cu_event *event = NULL;
        KVC_GUARD(KVC_CUDA(err, event_create, &event, KVC_CU_EVENT_DISABLE_TIMING));
        status = KVC_CUDA(err, event_record, event, queue->lanes[i].stream);
        if (status == KVC_OK)
            status = KVC_CUDA(err, stream_wait_event, queue->lanes[0].stream, event, 0);
        kvc_cuda_event_close(event);
    }
    return status;
}

kvc_status kvc_cuda_queue_event(struct kvc_cuda_queue *queue, struct kvc_cu_event **event,
                                struct kvc_cu_ipc_event *handle, struct kvc_error *err)
{
    *event = NULL;
    KVC_GUARD(kvc_cuda_use(err));
    KVC_GUARD(join_lanes(queue, err));
    KVC_GUARD(KVC_CUDA(err, event_create, event,
                       KVC_CU_EVENT_DISABLE_TIMING | KVC_CU_EVENT_INTERPROCESS));
    kvc_status status = KVC_CUDA(err, event_record, *event, queue->lanes[0].stream);
    if (status == KVC_OK)
        status = KVC_CUDA(err, ipc_event_get, handle, *event);
    if (status != KVC_OK) {
        kvc_cuda_event_close(*event);
        *event = NULL;
    }
    return status;
}

void kvc_cuda_event_close(struct kvc_cu_event *event)
{
    if (event != NULL)
        kvc_cuda_driver.event_destroy(event);
}

kvc_status kvc_cuda_queue_after(struct kvc_cuda_queue *queue, const struct kvc_cu_ipc_event *handle,
                                struct kvc_error *err)
{
    struct kvc_cu_event *event = NULL;
    KVC_GUARD(kvc_cuda_use(err));
    KVC_GUARD(KVC_CUDA(err, ipc_event_open, &event, *handle));
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < LANES && status == KVC_OK; i++)
        status = KVC_CUDA(err, stream_wait_event, queue->lanes[i].stream, event, 0);
    kvc_cuda_event_close(event);
    return status;
}

/* ---- copies, all on the first lane ---- */

kvc_status kvc_cuda_copy(struct kvc_cuda_queue *queue, void *to, const void *from, size_t size,
                         struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    return KVC_CUDA(err, copy_async, kvc_cuda_address(to), kvc_cuda_address(from), size,
                    queue->lanes[0].stream);
}

kvc_status kvc_cuda_copy_to_host(struct kvc_cuda_queue *queue, void *to, const void *from,
                                 size_t size, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    return KVC_CUDA(err, copy_out_async, to, kvc_cuda_address(from), size, queue->lanes[0].stream);
}

kvc_status kvc_cuda_copy_from_host(struct kvc_cuda_queue *queue, void *to, const void *from,
                                   size_t size, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    return KVC_CUDA(err, copy_in_async, kvc_cuda_address(to), from, size, queue->lanes[0].stream);
}

kvc_status kvc_cuda_write_late(struct kvc_cuda_queue *queue, void *to, const void *from,
                               size_t size, int64_t wait_ms, struct kvc_error *err)
{
    const struct kvc_kernel_late late = {
        .to = kvc_cuda_address(to),
        .from = kvc_cuda_address(from),
        .size = size,
        .wait_ns = (uint64_t)wait_ms * 1000000,
    };
    KVC_GUARD(kvc_cuda_use(err));
    return kvc_cuda_launch_late(&late, queue->lanes[0].stream, err);
}
