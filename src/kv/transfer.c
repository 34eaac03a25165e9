#include "src/kv/transfer.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "src/kv/region.h"

/* A chunk from this size on is written past the caches, as memcpy does with as much in one piece:
 * else each line is read from memory only to be overwritten. And what will be copied next is
 * fetched meanwhile: blocks lie in no order that the processor could guess. */
enum { STREAM_FROM = 1 << 20 };
enum { LINE = 64 };

enum direction { GATHER, SCATTER };

#ifdef __SSE2__
static inline void copy_lines(uint8_t *to, const uint8_t *from, const uint8_t *next, size_t size)
{
    __m128i line[LINE / sizeof(__m128i)];
    for (size_t at = 0; at < size; at += LINE) {
        __builtin_prefetch(next + at, 0, 0);
        for (size_t i = 0; i < KVC_COUNT_OF(line); i++)
            line[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + at) + i);
        for (size_t i = 0; i < KVC_COUNT_OF(line); i++)
            _mm_stream_si128((__m128i *)(void *)(to + at) + i, line[i]);
    }
}

static void finish_lines(void)
{
    _mm_sfence();
}
#else
static inline void copy_lines(uint8_t *to, const uint8_t *from, const uint8_t *next, size_t size)
{
    (void)next;
    memcpy(to, from, size);
}

static void finish_lines(void)
{
}
#endif

static inline void copy_run(bool stream, uint8_t *to, const uint8_t *from, const uint8_t *next,
                            size_t size)
{
    if (stream)
        copy_lines(to, from, next, size);
    else
        memcpy(to, from, size);
}

/* One block's K or V of one layer, whose tokens lie one after another in the chunk, in the order of
 * the side that is read. next: what will be read after it. */
static inline void copy_region(enum direction direction, bool stream,
                               const struct kvc_region *region, uint8_t *chunk, const uint8_t *next)
{
    const int64_t size = region->row_size;
    uint8_t *const to = direction == GATHER ? chunk : region->data;
    const uint8_t *const from = direction == GATHER ? region->data : chunk;
    if (region->token_major) {
        copy_run(stream, to, from, next, (size_t)region->size);
        return;
    }
    const int64_t slots = region->block_size, heads = region->num_heads;
    const int64_t outer_count = direction == GATHER ? heads : slots;
    const int64_t inner_count = direction == GATHER ? slots : heads;
    for (int64_t outer = 0; outer < outer_count; outer++) {
        for (int64_t inner = 0; inner < inner_count; inner++) {
            const int64_t slot = direction == GATHER ? inner : outer;
            const int64_t head = direction == GATHER ? outer : inner;
            const int64_t paged_at = slot * region->slot_stride + head * region->head_stride;
            const int64_t chunk_at = (slot * heads + head) * size;
            const int64_t to_at = direction == GATHER ? chunk_at : paged_at;
            const int64_t from_at = direction == GATHER ? paged_at : chunk_at;
            copy_run(stream, to + to_at, from + from_at, next + from_at, (size_t)size);
        }
    }
}

static inline void copy_chunk(enum direction direction, bool stream, const struct kvc_group *group,
                              uint8_t *const *tensors, const int64_t *block_ids,
                              int64_t chunk_tokens, int64_t first_block, uint8_t *chunk)
{
    const int64_t blocks = chunk_tokens / group->block_size;
    for (int64_t kv = 0; kv < group->kv_size; kv++) {
        for (int64_t layer = 0; layer < group->num_layers; layer++) {
            for (int64_t i = first_block; i < blocks; i++) {
                const struct kvc_region region =
                    kvc_region_of(group, tensors[layer], kv, block_ids[i]);
                const int64_t following = block_ids[i + 1 < blocks ? i + 1 : i];
                uint8_t *const at = chunk + kvc_group_chunk_offset(group, chunk_tokens, kv, layer,
                                                                   i * group->block_size, 0, 0);
                const uint8_t *const next =
                    direction == GATHER ? kvc_region_of(group, tensors[layer], kv, following).data
                    : i + 1 < blocks    ? at + region.size
                                        : at;
                copy_region(direction, stream, &region, at, next);
            }
        }
    }
    if (stream)
        finish_lines();
}

/* Whether each run starts and ends with a line, wherever it is written to. */
static bool has_whole_lines(const struct kvc_group *group, uint8_t *const *tensors,
                            const uint8_t *chunk)
{
    uintptr_t bits = (uintptr_t)chunk | (uintptr_t)group->head_size * group->dtype->size;
    for (int64_t layer = 0; layer < group->num_layers; layer++)
        bits |= (uintptr_t)tensors[layer];
    return bits % LINE == 0;
}

static bool is_to_be_streamed(const struct kvc_group *group, uint8_t *const *tensors,
                              int64_t chunk_tokens, const uint8_t *chunk)
{
    return kvc_group_chunk_bytes(group, chunk_tokens) >= STREAM_FROM &&
           has_whole_lines(group, tensors, chunk);
}

void kvc_gather_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                      const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk)
{
    if (is_to_be_streamed(group, tensors, chunk_tokens, chunk))
        copy_chunk(GATHER, true, group, tensors, block_ids, chunk_tokens, 0, chunk);
    else
        copy_chunk(GATHER, false, group, tensors, block_ids, chunk_tokens, 0, chunk);
}

void kvc_scatter_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                       const uint8_t *chunk)
{
    /* Scattering only reads the chunk. */
    uint8_t *const source = (uint8_t *)chunk;
    if (is_to_be_streamed(group, tensors, chunk_tokens, chunk))
        copy_chunk(SCATTER, true, group, tensors, block_ids, chunk_tokens, skip_blocks, source);
    else
        copy_chunk(SCATTER, false, group, tensors, block_ids, chunk_tokens, skip_blocks, source);
}

int64_t kvc_skip_blocks(int64_t skip_first_n_tokens, int64_t chunk_index, int64_t chunk_tokens,
                        int64_t block_size)
{
    if (skip_first_n_tokens <= chunk_index * chunk_tokens)
        return 0;
    const int64_t skip = skip_first_n_tokens - chunk_index * chunk_tokens;
    return (skip < chunk_tokens ? skip : chunk_tokens) / block_size;
}
