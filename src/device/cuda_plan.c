/* From a transfer to the numbers that a kernel works with. */
#include "src/device/cuda_internal.h"

enum {
    /* Grids have this many thread blocks across, and that many down. */
    MAX_PIECES = INT32_MAX,
    MAX_SLICES = 65535,
    SLICE_UNITS = 2 * KVC_KERNEL_AHEAD * KVC_KERNEL_THREADS,
};

/* What one block's K or V looks like. */
struct region {
    int64_t row_bytes;
    int64_t slot_stride, head_stride; /* bytes */
    int64_t slots, heads;
    int64_t kv_stride, block_stride;
};

static struct region region_of(const struct kvc_group *group)
{
    struct region region = {
        .row_bytes = group->head_size * (int64_t)group->dtype->size,
        .slot_stride = kvc_group_element_offset(group, 0, 0, 1, 0, 0),
        .head_stride = kvc_group_element_offset(group, 0, 0, 0, 1, 0),
        .slots = group->block_size,
        .heads = group->num_heads,
        .kv_stride = group->kv_size == 1 ? 0 : kvc_group_element_offset(group, 1, 0, 0, 0, 0),
        .block_stride = kvc_group_element_offset(group, 0, 1, 0, 0, 0),
    };
    const int64_t token_bytes = region.row_bytes * region.heads;
    if (region.slot_stride == token_bytes) {
        /* Tokens follow each other as they do in a chunk: one long row. */
        region.row_bytes = token_bytes * region.slots;
        region.slots = region.heads = 1;
        region.slot_stride = region.head_stride = 0;
    }
    return region;
}

/* The largest unit that everything is a multiple of. */
static uint32_t unit_of(const struct kvc_cuda_transfer *transfer, const struct region *region)
{
    uint64_t bits = (uint64_t)(region->row_bytes | region->slot_stride | region->head_stride |
                               region->kv_stride | region->block_stride) |
                    KVC_KERNEL_MAX_UNIT;
    for (int64_t layer = 0; layer < transfer->group->num_layers; layer++)
        bits |= kvc_cuda_address(transfer->tensors[layer]);
    for (size_t i = 0; i < transfer->chunk_count; i++)
        bits |= kvc_cuda_address(transfer->chunks[i].data);
    return (uint32_t)(bits & -bits);
}

kvc_status kvc_cuda_plan(const struct kvc_cuda_transfer *transfer, struct kvc_kernel_job *job,
                         uint32_t *pieces, struct kvc_error *err)
{
    const struct kvc_group *group = transfer->group;
    const struct region region = region_of(group);
    const int64_t unit = unit_of(transfer, &region);
    const int64_t piece_units = region.row_bytes * region.slots * region.heads / unit;
    const int64_t blocks = transfer->chunk_tokens / group->block_size;
    const int64_t count =
        (int64_t)transfer->chunk_count * group->kv_size * group->num_layers * blocks;
    if (piece_units > INT32_MAX || count > MAX_PIECES)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "%lld pieces of %lld units are too much for one kernel", (long long)count,
                        (long long)piece_units);
    const int64_t least_slice = (piece_units + MAX_SLICES - 1) / MAX_SLICES;
    *job = (struct kvc_kernel_job){
        .kv_stride = region.kv_stride,
        .block_stride = region.block_stride,
        .kv_size = (uint32_t)group->kv_size,
        .layers = (uint32_t)group->num_layers,
        .blocks = (uint32_t)blocks,
        .slots = (uint32_t)region.slots,
        .heads = (uint32_t)region.heads,
        .row_units = (uint32_t)(region.row_bytes / unit),
        .slot_stride = (uint32_t)(region.slot_stride / unit),
        .head_stride = (uint32_t)(region.head_stride / unit),
        .piece_units = (uint32_t)piece_units,
        .slice_units = (uint32_t)(least_slice > SLICE_UNITS ? least_slice : SLICE_UNITS),
        .unit = (uint32_t)unit,
    };
    *pieces = (uint32_t)count;
    return KVC_OK;
}
