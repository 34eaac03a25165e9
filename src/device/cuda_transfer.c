/* Gather and scatter on the GPU: a transfer becomes tables in its memory, and a kernel. */
#include <string.h>

#include "src/device/cuda_internal.h"

/* Where the parts of a lane's table are. */
struct table {
    size_t chunks_at, ids_at, size;
};

static struct table table_of(const struct kvc_cuda_transfer *transfer, size_t blocks)
{
    const size_t tensors_size = (size_t)transfer->group->num_layers * sizeof(uint64_t);
    const size_t chunks_size = transfer->chunk_count * sizeof(struct kvc_kernel_chunk);
    return (struct table){
        .chunks_at = tensors_size,
        .ids_at = tensors_size + chunks_size,
        .size = tensors_size + chunks_size + transfer->chunk_count * blocks * sizeof(int64_t),
    };
}

static void fill_table(const struct kvc_cuda_transfer *transfer, const struct table *table,
                       size_t blocks, uint8_t *memory)
{
    for (int64_t layer = 0; layer < transfer->group->num_layers; layer++) {
        const uint64_t address = kvc_cuda_address(transfer->tensors[layer]);
        memcpy(memory + (size_t)layer * sizeof(address), &address, sizeof(address));
    }
    for (size_t i = 0; i < transfer->chunk_count; i++) {
        const struct kvc_cuda_chunk *chunk = &transfer->chunks[i];
        const struct kvc_kernel_chunk entry = {
            .data = kvc_cuda_address(chunk->data),
            .skip_blocks = (uint64_t)chunk->skip_blocks,
        };
        memcpy(memory + table->chunks_at + i * sizeof(entry), &entry, sizeof(entry));
        memcpy(memory + table->ids_at + i * blocks * sizeof(int64_t), chunk->block_ids,
               blocks * sizeof(int64_t));
    }
}

static kvc_status start_kernel(struct kvc_cuda_lane *lane, int direction,
                               const struct kvc_cuda_transfer *transfer, struct kvc_error *err)
{
    const size_t blocks = (size_t)(transfer->chunk_tokens / transfer->group->block_size);
    const struct table table = table_of(transfer, blocks);
    struct kvc_kernel_job job;
    uint32_t pieces;
    KVC_GUARD(kvc_cuda_plan(transfer, &job, &pieces, err));
    if (pieces == 0)
        return KVC_OK;
    fill_table(transfer, &table, blocks, lane->table);
    const uint64_t on_gpu = kvc_cuda_address(lane->table_on_gpu);
    KVC_GUARD(KVC_CUDA(err, copy_in_async, on_gpu, lane->table, table.size, lane->stream));
    job.tensors = on_gpu;
    job.chunks = on_gpu + table.chunks_at;
    job.block_ids = on_gpu + table.ids_at;
    return kvc_cuda_launch_job(&job, direction, pieces, lane->stream, err);
}

static kvc_status transfer_on_gpu(struct kvc_cuda_queue *queue, int direction,
                                  const struct kvc_cuda_transfer *transfer, struct kvc_error *err)
{
    const size_t blocks = (size_t)(transfer->chunk_tokens / transfer->group->block_size);
    struct kvc_cuda_lane *lane = kvc_cuda_queue_lane(queue);
    KVC_GUARD(kvc_cuda_use(err));
    KVC_GUARD(kvc_cuda_lane_reserve(lane, table_of(transfer, blocks).size, 0, err));
    return start_kernel(lane, direction, transfer, err);
}

kvc_status kvc_cuda_gather(struct kvc_cuda_queue *queue, const struct kvc_cuda_transfer *transfer,
                           struct kvc_error *err)
{
    return transfer_on_gpu(queue, KVC_KERNEL_GATHER, transfer, err);
}

kvc_status kvc_cuda_scatter(struct kvc_cuda_queue *queue, const struct kvc_cuda_transfer *transfer,
                            struct kvc_error *err)
{
    return transfer_on_gpu(queue, KVC_KERNEL_SCATTER, transfer, err);
}

/* ---- chunks in memory of the host ---- */

static kvc_status move_chunk(struct kvc_cuda_queue *queue, int direction,
                             const struct kvc_cuda_transfer *transfer,
                             const struct kvc_cuda_chunk *chunk, struct kvc_error *err)
{
    const size_t blocks = (size_t)(transfer->chunk_tokens / transfer->group->block_size);
    const size_t size = (size_t)kvc_group_chunk_bytes(transfer->group, transfer->chunk_tokens);
    struct kvc_cuda_lane *lane = kvc_cuda_queue_lane(queue);
    struct kvc_cuda_chunk staged = *chunk;
    struct kvc_cuda_transfer one = *transfer;
    one.chunks = &staged;
    one.chunk_count = 1;
    KVC_GUARD(kvc_cuda_lane_reserve(lane, table_of(&one, blocks).size, size, err));
    staged.data = lane->staging;
    const uint64_t staging = kvc_cuda_address(lane->staging);
    if (direction == KVC_KERNEL_SCATTER)
        KVC_GUARD(KVC_CUDA(err, copy_in_async, staging, chunk->data, size, lane->stream));
    KVC_GUARD(start_kernel(lane, direction, &one, err));
    if (direction == KVC_KERNEL_GATHER)
        KVC_GUARD(KVC_CUDA(err, copy_out_async, chunk->data, staging, size, lane->stream));
    return KVC_OK;
}

static kvc_status move_chunks(struct kvc_cuda_queue *queue, int direction,
                              const struct kvc_cuda_transfer *transfer, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    for (size_t i = 0; i < transfer->chunk_count; i++)
        KVC_GUARD(move_chunk(queue, direction, transfer, &transfer->chunks[i], err));
    return KVC_OK;
}

kvc_status kvc_cuda_gather_to_host(struct kvc_cuda_queue *queue,
                                   const struct kvc_cuda_transfer *transfer, struct kvc_error *err)
{
    return move_chunks(queue, KVC_KERNEL_GATHER, transfer, err);
}

kvc_status kvc_cuda_scatter_from_host(struct kvc_cuda_queue *queue,
                                      const struct kvc_cuda_transfer *transfer,
                                      struct kvc_error *err)
{
    return move_chunks(queue, KVC_KERNEL_SCATTER, transfer, err);
}
