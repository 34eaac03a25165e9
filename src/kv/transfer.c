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

/* What one call copies. */
struct job {
    const struct kvc_group *group;
    uint8_t *const *tensors;
    const int64_t *block_ids;
    int64_t chunk_tokens;
    int64_t first_block; /* those before it are left out */
    uint8_t *chunk;
};

/* One block's K or V of one layer, and its tokens' place in the chunk, where they lie one after
 * another. */
struct piece {
    struct kvc_region region;
    uint8_t *in_chunk;
};

static int64_t blocks_of(const struct job *job)
{
    return job->chunk_tokens / job->group->block_size - job->first_block;
}

/* In the order of the chunk: K of all layers before V, and each layer's blocks in order. */
static struct piece piece_at(const struct job *job, int64_t index)
{
    const struct kvc_group *group = job->group;
    const int64_t block = job->first_block + index % blocks_of(job);
    const int64_t layer = index / blocks_of(job) % group->num_layers;
    const int64_t kv = index / blocks_of(job) / group->num_layers;
    const int64_t offset = kvc_group_chunk_offset(group, job->chunk_tokens, kv, layer,
                                                  block * group->block_size, 0, 0);
    return (struct piece){
        .region = kvc_region_of(group, job->tensors[layer], kv, job->block_ids[block]),
        .in_chunk = job->chunk + offset,
    };
}

/* next: where the following piece will be read. */
static inline void copy_piece(enum direction direction, bool stream, const struct piece *piece,
                              const uint8_t *next)
{
    const struct kvc_region *region = &piece->region;
    const int64_t size = region->row_size;
    uint8_t *const to = direction == GATHER ? piece->in_chunk : region->data;
    const uint8_t *const from = direction == GATHER ? region->data : piece->in_chunk;
    if (region->token_major) {
        copy_run(stream, to, from, next, (size_t)region->size);
        return;
    }
    /* Row by row, in the order of the side that is read. */
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

static inline void copy_pieces(enum direction direction, bool stream, const struct job *job)
{
    const int64_t count = job->group->kv_size * job->group->num_layers * blocks_of(job);
    for (int64_t i = 0; i < count; i++) {
        const struct piece piece = piece_at(job, i);
        const struct piece next = piece_at(job, i + 1 < count ? i + 1 : i);
        copy_piece(direction, stream, &piece,
                   direction == GATHER ? next.region.data : next.in_chunk);
    }
    if (stream)
        finish_lines();
}

/* Whether each run starts and ends with a line, wherever it is written to. */
static bool has_whole_lines(const struct job *job)
{
    const struct kvc_group *group = job->group;
    uintptr_t bits = (uintptr_t)job->chunk | (uintptr_t)group->head_size * group->dtype->size;
    for (int64_t layer = 0; layer < group->num_layers; layer++)
        bits |= (uintptr_t)job->tensors[layer];
    return bits % LINE == 0;
}

static bool is_to_be_streamed(const struct job *job)
{
    return kvc_group_chunk_bytes(job->group, job->chunk_tokens) >= STREAM_FROM &&
           has_whole_lines(job);
}

void kvc_gather_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                      const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk)
{
    const struct job job = {group, tensors, block_ids, chunk_tokens, 0, chunk};
    if (is_to_be_streamed(&job))
        copy_pieces(GATHER, true, &job);
    else
        copy_pieces(GATHER, false, &job);
}

void kvc_scatter_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                       const uint8_t *chunk)
{
    /* A job can be for writing to the chunk; this one only reads it. */
    const struct job job = {group, tensors, block_ids, chunk_tokens, skip_blocks, (uint8_t *)chunk};
    if (is_to_be_streamed(&job))
        copy_pieces(SCATTER, true, &job);
    else
        copy_pieces(SCATTER, false, &job);
}

int64_t kvc_skip_blocks(int64_t skip_first_n_tokens, int64_t chunk_index, int64_t chunk_tokens,
                        int64_t block_size)
{
    if (skip_first_n_tokens <= chunk_index * chunk_tokens)
        return 0;
    const int64_t skip = skip_first_n_tokens - chunk_index * chunk_tokens;
    return (skip < chunk_tokens ? skip : chunk_tokens) / block_size;
}
