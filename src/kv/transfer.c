#include "src/kv/transfer.h"

#include "src/kv/row_copy.h"

/* A chunk from this size on is written past the caches: else each line is read from memory only to be
 * overwritten. memcpy begins much later; but the pools and KV caches that are written here fit no
 * cache, however small a chunk is. */
enum { STREAM_FROM = 64 << 10 };
/* What will be copied next is fetched meanwhile, so many bytes ahead and so many at a time: blocks
 * lie in no order that the processor could guess. */
enum { AHEAD = 16 << 10, MAX_AHEAD = 32 << 10, STEP = 1024 };

enum direction { GATHER, SCATTER };

/* What one call copies. */
struct job {
    enum direction direction;
    uint8_t *const *tensors;
    const int64_t *block_ids; /* those that are left out are before it */
    int64_t block_count;
    int64_t layer_count, kv_count;
    uint8_t *chunk;       /* the first block's place in it */
    int64_t layer_size;   /* bytes of one layer's K or V in the chunk */
    int64_t region_size;  /* of one block's K or V, which is one run of bytes on both sides */
    int64_t block_stride; /* between blocks and between K and V in a layer's tensor */
    int64_t kv_stride;
    int64_t ahead;
    bool same_order; /* a block's rows lie in the chunk as they lie in the block */
    bool stream;
    struct kvc_rows rows; /* of one block, in the order in which they are copied */
};

/* ---- what to copy, in the order of the chunk: K of all layers before V, and each layer's blocks ---- */

/* One block's K or V of one layer; or several that are neighbours on both sides. */
struct piece {
    uint8_t *in_blocks;
    uint8_t *in_chunk;
    int64_t size;
};

struct cursor {
    int64_t kv, layer, block;
};

static bool next_piece(const struct job *job, struct cursor *at, struct piece *piece)
{
    if (at->block == job->block_count) {
        at->block = 0;
        if (++at->layer == job->layer_count) {
            at->layer = 0;
            at->kv++;
        }
    }
    if (at->kv == job->kv_count)
        return false;
    const int64_t first = at->block++;
    const int64_t id = job->block_ids[first];
    if (job->same_order && job->block_stride == job->region_size) {
        while (at->block < job->block_count && job->block_ids[at->block] == id + at->block - first)
            at->block++;
    }
    *piece = (struct piece){
        .in_blocks = job->tensors[at->layer] + id * job->block_stride + at->kv * job->kv_stride,
        .in_chunk = job->chunk + (at->kv * job->layer_count + at->layer) * job->layer_size +
                    first * job->region_size,
        .size = (at->block - first) * job->region_size,
    };
    return true;
}

/* ---- fetching ahead ---- */

struct ahead {
    struct cursor cursor;
    const uint8_t *next;
    int64_t left; /* of the piece; 0 with nothing behind it: all is fetched */
};

static const uint8_t *read_side(const struct job *job, const struct piece *piece)
{
    return job->direction == GATHER ? piece->in_blocks : piece->in_chunk;
}

static void fetch(const struct job *job, struct ahead *ahead, int64_t size)
{
    while (size > 0) {
        struct piece piece;
        if (ahead->left == 0) {
            if (!next_piece(job, &ahead->cursor, &piece))
                return;
            ahead->next = read_side(job, &piece);
            ahead->left = piece.size;
        }
        const int64_t now = size < ahead->left ? size : ahead->left;
        for (int64_t at = 0; at < now; at += KVC_LINE)
            __builtin_prefetch(ahead->next + at, 0, 0);
        ahead->next += now;
        ahead->left -= now;
        size -= now;
    }
}

/* ---- copying ---- */

static void copy_run(const struct job *job, const struct piece *piece, struct ahead *ahead)
{
    struct kvc_rows run = {
        .to = job->direction == GATHER ? piece->in_chunk : piece->in_blocks,
        .from = read_side(job, piece),
        .outer_count = 1,
        .inner_count = 1,
    };
    for (int64_t left = piece->size; left > 0; left -= run.row_size) {
        run.row_size = left < STEP ? left : STEP;
        fetch(job, ahead, run.row_size);
        kvc_row_copy(&run, job->stream);
        run.to += run.row_size;
        run.from += run.row_size;
    }
}

static void copy_rows(const struct job *job, const struct piece *piece, struct ahead *ahead)
{
    struct kvc_rows rows = job->rows;
    const int64_t inner_size = rows.inner_count * rows.row_size;
    const int64_t step = inner_size < STEP ? STEP / inner_size : 1;
    rows.to = job->direction == GATHER ? piece->in_chunk : piece->in_blocks;
    rows.from = read_side(job, piece);
    for (int64_t left = job->rows.outer_count; left > 0; left -= step) {
        rows.outer_count = left < step ? left : step;
        fetch(job, ahead, rows.outer_count * inner_size);
        kvc_row_copy(&rows, job->stream);
        rows.to += step * rows.to_outer;
        rows.from += step * rows.from_outer;
    }
}

static void copy_all(const struct job *job)
{
    struct cursor cursor = {0};
    struct ahead ahead = {.left = 0};
    struct piece piece;
    fetch(job, &ahead, job->ahead);
    while (next_piece(job, &cursor, &piece)) {
        if (job->same_order)
            copy_run(job, &piece, &ahead);
        else
            copy_rows(job, &piece, &ahead);
    }
    if (job->stream)
        kvc_row_copy_finish();
}

/* ---- what a call means ---- */

/* Rows of whole cache lines can be written anywhere, and are best read in their order. Smaller ones
 * are written in order, so that lines are filled; and so are those that a gather can fetch a whole
 * block ahead. */
static bool is_for_read_order(enum direction direction, const struct kvc_group *group,
                              int64_t row_size)
{
    const int64_t region_size = row_size * group->num_heads * group->block_size;
    return row_size % KVC_LINE == 0 && (direction == SCATTER || region_size > MAX_AHEAD);
}

/* The rows of one block. */
static void set_rows(struct job *job, const struct kvc_group *group)
{
    const bool gather = job->direction == GATHER;
    const int64_t row_size = group->head_size * (int64_t)group->dtype->size;
    const int64_t heads = group->num_heads, slots = group->block_size;
    const int64_t chunk_slot = heads * row_size, chunk_head = row_size;
    const int64_t block_slot = kvc_group_element_offset(group, 0, 0, 1, 0, 0);
    const int64_t block_head = kvc_group_element_offset(group, 0, 0, 0, 1, 0);
    const bool read_order = is_for_read_order(job->direction, group, row_size);
    const bool by_head = gather == read_order; /* blocks have the heads outside, chunks inside */
    const int64_t chunk_outer = by_head ? chunk_head : chunk_slot;
    const int64_t chunk_inner = by_head ? chunk_slot : chunk_head;
    const int64_t block_outer = by_head ? block_head : block_slot;
    const int64_t block_inner = by_head ? block_slot : block_head;
    job->same_order = block_slot == chunk_slot || block_head == chunk_head;
    job->rows = (struct kvc_rows){
        .row_size = row_size,
        .outer_count = by_head ? heads : slots,
        .inner_count = by_head ? slots : heads,
        .to_outer = gather ? chunk_outer : block_outer,
        .to_inner = gather ? chunk_inner : block_inner,
        .from_outer = gather ? block_outer : chunk_outer,
        .from_inner = gather ? block_inner : chunk_inner,
    };
    job->ahead = AHEAD;
    if (!job->same_order && !read_order && job->region_size > AHEAD)
        job->ahead = job->region_size;
}

/* Whether what is written can be streamed: each block's place is whole cache lines, each row whole
 * vectors. */
static bool can_be_streamed(const struct job *job)
{
    uintptr_t lines = (uintptr_t)job->region_size;
    if (job->direction == GATHER)
        lines |= (uintptr_t)job->chunk;
    for (int64_t layer = 0; job->direction == SCATTER && layer < job->layer_count; layer++)
        lines |= (uintptr_t)job->tensors[layer];
    return lines % KVC_LINE == 0 &&
           (job->same_order || job->rows.row_size % KVC_STREAM_ALIGNMENT == 0);
}

static void run(enum direction direction, const struct kvc_group *group, uint8_t *const *tensors,
                const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks, uint8_t *chunk)
{
    const int64_t token_size = kvc_group_hidden(group) * (int64_t)group->dtype->size;
    struct job job = {
        .direction = direction,
        .tensors = tensors,
        .block_ids = block_ids + skip_blocks,
        .block_count = chunk_tokens / group->block_size - skip_blocks,
        .layer_count = group->num_layers,
        .kv_count = group->kv_size,
        .chunk = chunk + skip_blocks * group->block_size * token_size,
        .layer_size = chunk_tokens * token_size,
        .region_size = group->block_size * token_size,
        .block_stride = kvc_group_element_offset(group, 0, 1, 0, 0, 0),
        .kv_stride = kvc_group_element_offset(group, 1, 0, 0, 0, 0),
    };
    set_rows(&job, group);
    job.stream = kvc_group_chunk_bytes(group, chunk_tokens) >= STREAM_FROM && can_be_streamed(&job);
    if (job.block_count > 0)
        copy_all(&job);
}

void kvc_gather_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                      const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk)
{
    run(GATHER, group, tensors, block_ids, chunk_tokens, 0, chunk);
}

void kvc_scatter_chunk(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                       const uint8_t *chunk)
{
    /* A job can be for writing to the chunk; this one only reads it. */
    run(SCATTER, group, tensors, block_ids, chunk_tokens, skip_blocks, (uint8_t *)chunk);
}

int64_t kvc_skip_blocks(int64_t skip_first_n_tokens, int64_t chunk_index, int64_t chunk_tokens,
                        int64_t block_size)
{
    if (skip_first_n_tokens <= chunk_index * chunk_tokens)
        return 0;
    const int64_t skip = skip_first_n_tokens - chunk_index * chunk_tokens;
    return (skip < chunk_tokens ? skip : chunk_tokens) / block_size;
}
