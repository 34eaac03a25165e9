/* What the GPU does, written once: the arithmetic of gather and scatter, and the kernels' bodies. nvcc
 * compiles it for the GPU (kernels.cu); the C compiler compiles the same lines for the unit tests and for
 * the stand-in driver. So it keeps to what C and C++ have in common. */
#ifndef KVC_DEVICE_KERNEL_H
#define KVC_DEVICE_KERNEL_H

#include <stdint.h>

#ifdef __CUDACC__
#define KVC_KERNEL        static __device__ __forceinline__
#define KVC_KERNEL_UNROLL _Pragma("unroll")
#else
#define KVC_KERNEL static inline
#define KVC_KERNEL_UNROLL
#endif

/* Memory behind an address that a kernel was given. A host that tells device addresses from its own has
 * defined it before. */
#ifdef __CUDACC__
#define KVC_KERNEL_MEMORY(address) ((uint8_t *)__cvta_global_to_generic(address))
#elif !defined(KVC_KERNEL_MEMORY)
#define KVC_KERNEL_MEMORY(address) ((uint8_t *)(uintptr_t)(address))
#endif

enum {
    KVC_KERNEL_GATHER = 0,
    KVC_KERNEL_SCATTER = 1,
    KVC_KERNEL_THREADS = 256,  /* of a thread block */
    KVC_KERNEL_AHEAD = 4,      /* units that a thread reads before it writes the first */
    KVC_KERNEL_MAX_UNIT = 16,  /* bytes */
    KVC_KERNEL_UNIT_COUNT = 5, /* 1, 2, 4, 8, 16 */
};

/* One chunk of a transfer. */
struct kvc_kernel_chunk {
    uint64_t data;        /* address */
    uint64_t skip_blocks; /* these first blocks are left alone */
};

/* One group's part of some chunks. A piece is one block's K or V of one layer of one chunk: one run of
 * bytes on both sides, whose rows may lie in another order. Its bytes are copied in units of 1 to 16
 * bytes, which divide everything below. */
struct kvc_kernel_job {
    uint64_t tensors;   /* address of the layers' addresses */
    uint64_t chunks;    /* address of struct kvc_kernel_chunk */
    uint64_t block_ids; /* address of int64_t, `blocks` for each chunk */
    int64_t kv_stride;  /* bytes from K to V in a layer's tensor */
    int64_t block_stride;
    uint32_t kv_size;
    uint32_t layers;
    uint32_t blocks;    /* of one chunk */
    uint32_t slots;     /* rows of a piece: slots x heads; one row where both orders are the same */
    uint32_t heads;     /* by the chunk's order */
    uint32_t row_units; /* units of a row */
    uint32_t slot_stride; /* units from a slot's row to the next slot's, in the tensor */
    uint32_t head_stride;
    uint32_t piece_units;
    uint32_t slice_units; /* what one thread block copies */
    uint32_t unit;        /* bytes */
};

/* A kernel that writes late: what was ordered after it must not have happened before. */
struct kvc_kernel_late {
    uint64_t to, from; /* addresses */
    uint64_t size;     /* bytes */
    uint64_t wait_ns;
};

/* Where a piece begins on both sides. in_chunk is 0 for one that is left alone. */
struct kvc_kernel_piece {
    uint64_t in_tensor;
    uint64_t in_chunk;
};

/* Pieces are counted in the order of the chunks' bytes. */
KVC_KERNEL struct kvc_kernel_piece kvc_kernel_piece_at(const struct kvc_kernel_job *job,
                                                       uint32_t index)
{
    const uint32_t block = index % job->blocks;
    const uint32_t layer_kv = index / job->blocks;
    const uint32_t layer = layer_kv % job->layers;
    const uint32_t kv = layer_kv / job->layers % job->kv_size;
    const uint32_t chunk_index = layer_kv / job->layers / job->kv_size;
    const struct kvc_kernel_chunk *chunk =
        (const struct kvc_kernel_chunk *)(const void *)KVC_KERNEL_MEMORY(job->chunks) + chunk_index;
    const uint64_t *tensors = (const uint64_t *)(const void *)KVC_KERNEL_MEMORY(job->tensors);
    const int64_t *ids = (const int64_t *)(const void *)KVC_KERNEL_MEMORY(job->block_ids);
    const uint64_t piece_bytes = (uint64_t)job->piece_units * job->unit;
    const uint64_t index_in_chunk = ((uint64_t)kv * job->layers + layer) * job->blocks + block;
    struct kvc_kernel_piece piece;
    piece.in_tensor =
        tensors[layer] + (uint64_t)((int64_t)kv * job->kv_stride) +
        (uint64_t)(ids[(uint64_t)chunk_index * job->blocks + block] * job->block_stride);
    piece.in_chunk = block < chunk->skip_blocks ? 0 : chunk->data + index_in_chunk * piece_bytes;
    return piece;
}

/* The place of a piece's n-th unit on both sides, in units. A direction counts in the order of the side
 * that it writes. */
struct kvc_kernel_place {
    uint32_t in_tensor;
    uint32_t in_chunk;
};

KVC_KERNEL struct kvc_kernel_place kvc_kernel_place_at(const struct kvc_kernel_job *job,
                                                       int direction, uint32_t n)
{
    struct kvc_kernel_place place = {n, n};
    if (job->row_units == job->piece_units)
        return place;
    const uint32_t row = n / job->row_units;
    const uint32_t column = n % job->row_units;
    if (direction == KVC_KERNEL_GATHER) {
        const uint32_t slot = row / job->heads;
        const uint32_t head = row % job->heads;
        place.in_tensor = slot * job->slot_stride + head * job->head_stride + column;
    } else {
        /* Slots follow each other in a tensor whose rows are not in the chunk's order. */
        const uint32_t head = row / job->slots;
        const uint32_t slot = row % job->slots;
        place.in_chunk = (slot * job->heads + head) * job->row_units + column;
    }
    return place;
}

/* Defines the body of the kernels that copy in units of one type: what thread `thread` of thread block
 * (piece, slice) does. */
#define KVC_KERNEL_COPY(name, type)                                                                \
    KVC_KERNEL void name(const struct kvc_kernel_job *job, int direction, uint32_t piece_index,    \
                         uint32_t slice, uint32_t thread)                                          \
    {                                                                                              \
        const struct kvc_kernel_piece piece = kvc_kernel_piece_at(job, piece_index);               \
        if (piece.in_chunk == 0)                                                                   \
            return;                                                                                \
        type *const tensor = (type *)(void *)KVC_KERNEL_MEMORY(piece.in_tensor);                   \
        type *const chunk = (type *)(void *)KVC_KERNEL_MEMORY(piece.in_chunk);                     \
        const uint32_t first = slice * job->slice_units;                                           \
        const uint32_t left = job->piece_units - first;                                            \
        const uint32_t end = first + (left < job->slice_units ? left : job->slice_units);          \
        for (uint32_t n = first + thread; n < end; n += KVC_KERNEL_AHEAD * KVC_KERNEL_THREADS) {   \
            type units[KVC_KERNEL_AHEAD];                                                          \
            struct kvc_kernel_place places[KVC_KERNEL_AHEAD];                                      \
            KVC_KERNEL_UNROLL for (uint32_t i = 0; i < KVC_KERNEL_AHEAD; i++)                      \
            {                                                                                      \
                const uint32_t at = n + i * KVC_KERNEL_THREADS;                                    \
                if (at < end) {                                                                    \
                    places[i] = kvc_kernel_place_at(job, direction, at);                           \
                    units[i] = direction == KVC_KERNEL_GATHER ? tensor[places[i].in_tensor]        \
                                                              : chunk[places[i].in_chunk];         \
                }                                                                                  \
            }                                                                                      \
            KVC_KERNEL_UNROLL for (uint32_t i = 0; i < KVC_KERNEL_AHEAD; i++)                      \
            {                                                                                      \
                if (n + i * KVC_KERNEL_THREADS < end) {                                            \
                    if (direction == KVC_KERNEL_GATHER)                                            \
                        chunk[places[i].in_chunk] = units[i];                                      \
                    else                                                                           \
                        tensor[places[i].in_tensor] = units[i];                                    \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

struct kvc_kernel_unit16 {
    uint64_t halves[2];
} __attribute__((aligned(16)));

KVC_KERNEL_COPY(kvc_kernel_copy_1, uint8_t)
KVC_KERNEL_COPY(kvc_kernel_copy_2, uint16_t)
KVC_KERNEL_COPY(kvc_kernel_copy_4, uint32_t)
KVC_KERNEL_COPY(kvc_kernel_copy_8, uint64_t)
KVC_KERNEL_COPY(kvc_kernel_copy_16, struct kvc_kernel_unit16)

/* The copying part of a late write; whoever calls it has waited. */
KVC_KERNEL void kvc_kernel_write_late(const struct kvc_kernel_late *late, uint64_t thread,
                                      uint64_t threads)
{
    uint8_t *const to = KVC_KERNEL_MEMORY(late->to);
    const uint8_t *const from = KVC_KERNEL_MEMORY(late->from);
    for (uint64_t i = thread; i < late->size; i += threads)
        to[i] = from[i];
}

#endif
