/* What a GPU has besides memory and copies (device.h): pinned memory, memory and events that another process
 * shares, and queues of work. For drivers, bench, checks and the mock. Memory of the GPU is passed as
 * pointers that the host must not follow. */
#ifndef KVC_DEVICE_CUDA_H
#define KVC_DEVICE_CUDA_H

#include "src/device/cuda_driver.h"
#include "src/device/device.h"
#include "src/kv/geometry.h"

/* ---- the GPU in this process ---- */

/* Starts to use the first GPU; each open needs a close, and the last one leaves nothing on the GPU. A process
 * that has opened it must not fork children that use it. KVC_EUNSUPPORTED: there is none. */
kvc_status kvc_cuda_open(struct kvc_error *err);
void kvc_cuda_close(void);
/* Makes the open GPU the calling thread's: every function below needs that, once a thread. */
kvc_status kvc_cuda_use(struct kvc_error *err);

/* "NVIDIA H200, driver 13.0", or what stands in for one. */
kvc_status kvc_cuda_describe(struct kvc_device_text *about, struct kvc_error *err);
/* As LMCache's handles name the GPU: lower-case 8-4-4-4-12. */
kvc_status kvc_cuda_uuid(struct kvc_device_text *uuid, struct kvc_error *err);
/* Memory of the GPU that nobody, in any process, has taken. */
kvc_status kvc_cuda_free_bytes(int64_t *bytes, struct kvc_error *err);

/* ---- memory ---- */

/* Memory of the host that the GPU reaches by itself. Freed with kvc_cuda_host_free. */
kvc_status kvc_cuda_host_alloc(size_t size, void **memory, struct kvc_error *err);
void kvc_cuda_host_free(void *memory);
/* Makes memory of the host such memory; false when the driver will not (copies are then slower). Undone with
 * kvc_cuda_host_unregister. */
bool kvc_cuda_host_register(void *memory, size_t size);
void kvc_cuda_host_unregister(void *memory);

/* The handle of the allocation that memory lies in, and where in it: another process maps the allocation as
 * a whole. */
kvc_status kvc_cuda_share(const void *memory, struct kvc_cu_ipc_memory *handle, int64_t *offset,
                          struct kvc_error *err);
/* Maps an allocation of another process: its start and its size. The driver maps it once however often it is
 * asked, so uses are counted here; each map needs an unmap. */
kvc_status kvc_cuda_map(const struct kvc_cu_ipc_memory *handle, uint8_t **memory, int64_t *size,
                        struct kvc_error *err);
/* False, and nothing is done, when nothing is mapped there. */
bool kvc_cuda_unmap(const uint8_t *memory);

/* ---- queues: work that is carried out in order, while the caller goes on ---- */

struct kvc_cuda_queue;

kvc_status kvc_cuda_queue_open(struct kvc_cuda_queue **queue, struct kvc_error *err);
/* Waits for what is in it. queue may be NULL. */
void kvc_cuda_queue_close(struct kvc_cuda_queue *queue);
/* Waits for all that was put into it. What went wrong meanwhile is returned. */
kvc_status kvc_cuda_queue_wait(struct kvc_cuda_queue *queue, struct kvc_error *err);

/* Makes an event that happens when all that is in the queue is done, and its handle for another process.
 * It must live until that process has opened the handle. Freed with kvc_cuda_event_close (may be NULL). */
kvc_status kvc_cuda_queue_event(struct kvc_cuda_queue *queue, struct kvc_cu_event **event,
                                struct kvc_cu_ipc_event *handle, struct kvc_error *err);
void kvc_cuda_event_close(struct kvc_cu_event *event);
/* What is put into the queue from now on happens after another process's event. */
kvc_status kvc_cuda_queue_after(struct kvc_cuda_queue *queue, const struct kvc_cu_ipc_event *handle,
                                struct kvc_error *err);

/* ---- what goes into a queue ---- */

/* One chunk of a transfer. */
struct kvc_cuda_chunk {
    uint8_t *data;            /* on the GPU, or pinned: the group's part of the chunk */
    const int64_t *block_ids; /* chunk_tokens / block_size of them, in range */
    int64_t skip_blocks;      /* scatter: these first blocks are not written */
};

/* One group's part of some chunks. Everything may be freed when the call returns, but for the memory on the
 * GPU and the chunks' data. */
struct kvc_cuda_transfer {
    const struct kvc_group *group;
    uint8_t *const *tensors; /* the group's layers in order, on the GPU */
    int64_t chunk_tokens;
    const struct kvc_cuda_chunk *chunks;
    size_t chunk_count;
};

/* From the tensors into the chunks, and back, by one kernel. */
kvc_status kvc_cuda_gather(struct kvc_cuda_queue *queue, const struct kvc_cuda_transfer *transfer,
                           struct kvc_error *err);
kvc_status kvc_cuda_scatter(struct kvc_cuda_queue *queue, const struct kvc_cuda_transfer *transfer,
                            struct kvc_error *err);
/* The same for chunks in any memory of the host, one after another: the kernel of one runs while another is
 * copied. */
kvc_status kvc_cuda_gather_to_host(struct kvc_cuda_queue *queue,
                                   const struct kvc_cuda_transfer *transfer, struct kvc_error *err);
kvc_status kvc_cuda_scatter_from_host(struct kvc_cuda_queue *queue,
                                      const struct kvc_cuda_transfer *transfer,
                                      struct kvc_error *err);

/* Copies within the GPU, or between it and pinned memory. */
kvc_status kvc_cuda_copy(struct kvc_cuda_queue *queue, void *to, const void *from, size_t size,
                         struct kvc_error *err);
kvc_status kvc_cuda_copy_to_host(struct kvc_cuda_queue *queue, void *to, const void *from,
                                 size_t size, struct kvc_error *err);
kvc_status kvc_cuda_copy_from_host(struct kvc_cuda_queue *queue, void *to, const void *from,
                                   size_t size, struct kvc_error *err);
/* Copies within the GPU by a kernel that lets wait_ms pass before it writes. */
kvc_status kvc_cuda_write_late(struct kvc_cuda_queue *queue, void *to, const void *from,
                               size_t size, int64_t wait_ms, struct kvc_error *err);

#endif
