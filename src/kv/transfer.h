/* Gather and scatter between paged blocks and chunks (protocol.md 6.2). For the engine-driven
 * drivers, the mock's lmcache-driven mode, and bench. */
#ifndef KVC_KV_TRANSFER_H
#define KVC_KV_TRANSFER_H

#include "src/kv/geometry.h"

/* One group's part of one chunk. tensors: the group's layers in order, as the worker's memory has
 * them. block_ids: chunk_tokens / block_size ids. Ids must be in range: the caller checks. */
void kvc_gather_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                      const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk);
/* The reverse; the first skip_blocks blocks of the chunk are not written. */
void kvc_scatter_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                       const uint8_t *chunk);

/* The same, row by row and as slow as that is: what the two above are held against. */
void kvc_gather_chunk_plain(const struct kvc_group *group, uint8_t *const *tensors,
                            const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk);
void kvc_scatter_chunk_plain(const struct kvc_group *group, uint8_t *const *tensors,
                             const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                             const uint8_t *chunk);

/* skip_first_n_tokens as whole blocks of one chunk: rounded down, negative is 0, more than the chunk
 * is the whole chunk. chunk_index counts from the start of the retrieved range. */
int64_t kvc_skip_blocks(int64_t skip_first_n_tokens, int64_t chunk_index, int64_t chunk_tokens,
                        int64_t block_size);

#endif
