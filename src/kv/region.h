/* One block's K or V in one layer's tensor: always one contiguous run of bytes, whose rows (the
 * elements of one head of one token) lie in the order of the layout. The same of a chunk, as if it
 * were one large block. For kv's own files. */
#ifndef KVC_KV_REGION_H
#define KVC_KV_REGION_H

#include "src/kv/geometry.h"

struct kvc_region {
    uint8_t *data;
    int64_t size; /* bytes */
    int64_t row_size;
    int64_t slot_stride; /* bytes from one token of the block to the next */
    int64_t head_stride;
    int64_t block_size; /* tokens */
    int64_t num_heads;
    bool token_major; /* in the order of a chunk: token after token, head after head */
};

static inline struct kvc_region kvc_region_of(const struct kvc_group *group, uint8_t *tensor,
                                              int64_t kv, int64_t block)
{
    const int64_t start = kvc_group_element_offset(group, kv, block, 0, 0, 0);
    const int64_t row_size = group->head_size * (int64_t)group->dtype->size;
    const int64_t slot_stride = kvc_group_element_offset(group, kv, block, 1, 0, 0) - start;
    return (struct kvc_region){
        .data = tensor + start,
        .size = row_size * group->num_heads * group->block_size,
        .row_size = row_size,
        .slot_stride = slot_stride,
        .head_stride = kvc_group_element_offset(group, kv, block, 0, 1, 0) - start,
        .block_size = group->block_size,
        .num_heads = group->num_heads,
        .token_major = slot_stride == row_size * group->num_heads,
    };
}

static inline struct kvc_region kvc_region_of_chunk(const struct kvc_group *group, uint8_t *chunk,
                                                    int64_t chunk_tokens, int64_t kv, int64_t layer)
{
    const int64_t row_size = group->head_size * (int64_t)group->dtype->size;
    return (struct kvc_region){
        .data = chunk + kvc_group_chunk_offset(group, chunk_tokens, kv, layer, 0, 0, 0),
        .size = row_size * group->num_heads * chunk_tokens,
        .row_size = row_size,
        .slot_stride = row_size * group->num_heads,
        .head_stride = row_size,
        .block_size = chunk_tokens,
        .num_heads = group->num_heads,
        .token_major = true,
    };
}

#endif
