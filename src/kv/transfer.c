#include "src/kv/transfer.h"

#include <string.h>

#include "src/kv/region.h"

enum direction { GATHER, SCATTER };

static inline void copy_run(enum direction direction, uint8_t *paged, uint8_t *chunk, size_t size)
{
    if (direction == GATHER)
        memcpy(chunk, paged, size);
    else
        memcpy(paged, chunk, size);
}

/* One block's K or V of one layer, whose tokens lie one after another in the chunk. */
static inline void copy_region(enum direction direction, const struct kvc_region *region,
                               uint8_t *chunk)
{
    if (region->token_major) {
        copy_run(direction, region->data, chunk, (size_t)region->size);
        return;
    }
    for (int64_t slot = 0; slot < region->block_size; slot++) {
        for (int64_t head = 0; head < region->num_heads; head++) {
            copy_run(direction,
                     region->data + slot * region->slot_stride + head * region->head_stride, chunk,
                     (size_t)region->row_size);
            chunk += region->row_size;
        }
    }
}

static inline void copy_chunk(enum direction direction, const struct kvc_group *group,
                              uint8_t *const *tensors, const int64_t *block_ids,
                              int64_t chunk_tokens, int64_t first_block, uint8_t *chunk)
{
    const int64_t blocks = chunk_tokens / group->block_size;
    for (int64_t kv = 0; kv < group->kv_size; kv++) {
        for (int64_t layer = 0; layer < group->num_layers; layer++) {
            for (int64_t i = first_block; i < blocks; i++) {
                const struct kvc_region region =
                    kvc_region_of(group, tensors[layer], kv, block_ids[i]);
                const int64_t at = kvc_group_chunk_offset(group, chunk_tokens, kv, layer,
                                                          i * group->block_size, 0, 0);
                copy_region(direction, &region, chunk + at);
            }
        }
    }
}

void kvc_gather_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                      const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk)
{
    copy_chunk(GATHER, group, tensors, block_ids, chunk_tokens, 0, chunk);
}

void kvc_scatter_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                       const uint8_t *chunk)
{
    /* Scattering only reads the chunk. */
    copy_chunk(SCATTER, group, tensors, block_ids, chunk_tokens, skip_blocks, (uint8_t *)chunk);
}

int64_t kvc_skip_blocks(int64_t skip_first_n_tokens, int64_t chunk_index, int64_t chunk_tokens,
                        int64_t block_size)
{
    if (skip_first_n_tokens <= chunk_index * chunk_tokens)
        return 0;
    const int64_t skip = skip_first_n_tokens - chunk_index * chunk_tokens;
    return (skip < chunk_tokens ? skip : chunk_tokens) / block_size;
}
