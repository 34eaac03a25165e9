/* Gather and scatter as the layouts say them: a row at a time, by the two offset functions alone. */
#include <string.h>

#include "src/kv/transfer.h"

static uint8_t *paged_row(const struct kvc_group *group, uint8_t *const *tensors,
                          const int64_t *block_ids, const int64_t at[4])
{
    const int64_t kv = at[0], layer = at[1], token = at[2], head = at[3];
    return tensors[layer] + kvc_group_element_offset(group, kv,
                                                     block_ids[token / group->block_size],
                                                     token % group->block_size, head, 0);
}

/* The next row in the order of the chunk; false behind the last one. */
static bool next_row(const struct kvc_group *group, int64_t chunk_tokens, int64_t at[4])
{
    const int64_t counts[4] = {group->kv_size, group->num_layers, chunk_tokens, group->num_heads};
    for (int axis = 3; axis >= 0; axis--) {
        if (++at[axis] < counts[axis])
            return true;
        at[axis] = 0;
    }
    return false;
}

static int64_t chunk_row(const struct kvc_group *group, int64_t chunk_tokens, const int64_t at[4])
{
    return kvc_group_chunk_offset(group, chunk_tokens, at[0], at[1], at[2], at[3], 0);
}

void kvc_gather_chunk_plain(const struct kvc_group *group, uint8_t *const *tensors,
                            const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk)
{
    const size_t row_size = (size_t)group->head_size * group->dtype->size;
    int64_t at[4] = {0}; /* K or V, layer, token, head */
    do {
        memcpy(chunk + chunk_row(group, chunk_tokens, at), paged_row(group, tensors, block_ids, at),
               row_size);
    } while (next_row(group, chunk_tokens, at));
}

void kvc_scatter_chunk_plain(const struct kvc_group *group, uint8_t *const *tensors,
                             const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                             const uint8_t *chunk)
{
    const size_t row_size = (size_t)group->head_size * group->dtype->size;
    int64_t at[4] = {0};
    do {
        if (at[2] / group->block_size >= skip_blocks)
            memcpy(paged_row(group, tensors, block_ids, at),
                   chunk + chunk_row(group, chunk_tokens, at), row_size);
    } while (next_row(group, chunk_tokens, at));
}
