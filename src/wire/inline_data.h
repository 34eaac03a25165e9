/* The inline payload: the bytes of COMMIT_STORE and PREPARE_RETRIEVE where no pool is offered, a
 * pickled list of CPU tensors, one a chunk. Written and read without Python.
 * For the inline driver and for the mock. */
#ifndef KVC_WIRE_INLINE_DATA_H
#define KVC_WIRE_INLINE_DATA_H

#include "src/wire/types.h"

/* A tensor in row-major order. */
struct kvc_inline_tensor {
    struct kvc_str dtype; /* bare torch name */
    struct kvc_ints shape;
    struct kvc_bytes data; /* product(shape) x itemsize bytes */
    /* What a torch file calls the storage: digits that differ from tensor to tensor. Empty, when
     * written: its position. Empty, when read: it did not come as a torch file. */
    struct kvc_str storage_key;
};

/* Appends the list in the form that real servers load (torch.from_numpy(numpy…), protocol.md 3.8).
 * KVC_EUNSUPPORTED for a dtype that is unknown, KVC_EMISMATCH when data are not of the size that
 * the shape says. */
kvc_status kvc_inline_encode_numpy(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err);
/* Appends the list in the form that Python's pickle.dumps writes for a list of torch tensors
 * (_rebuild_tensor_v2 over a legacy torch file), which the reference client loads: what a server
 * sends. Errors as above. */
kvc_status kvc_inline_encode_torch(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err);
/* Reads either form. Tensor data are views into data when contiguous, else copies in the arena.
 * Every count, offset, stride and size is checked against the bytes there are, and copies never
 * take more memory than data do. KVC_EFORMAT otherwise, with the tensor in where: "[1]". */
kvc_status kvc_inline_decode(struct kvc_bytes data, struct kvc_arena *arena,
                             struct kvc_inline_tensor **tensors, size_t *count,
                             struct kvc_error *err);

/* Bytes of a tensor of that shape. False when a dimension is negative, or they do not fit. */
bool kvc_inline_tensor_size(struct kvc_ints shape, size_t item_size, size_t *size);

#endif
