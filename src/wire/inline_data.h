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
};

/* Appends the list in the form that real servers load (torch.from_numpy(numpy…), protocol.md 3.8).
 * KVC_EUNSUPPORTED for a dtype that numpy cannot carry even as a view. */
kvc_status kvc_inline_encode_numpy(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err);
/* Appends the list in the form that Python's pickle.dumps writes for a list of torch tensors
 * (_rebuild_tensor_v2 over a legacy torch file), which the reference client loads: what a server
 * sends. */
kvc_status kvc_inline_encode_torch(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err);
/* Reads either form. Tensor data are views into data when contiguous, else copies in the arena.
 * Every count, offset, stride and size is checked against the bytes there are. KVC_EFORMAT
 * otherwise. */
kvc_status kvc_inline_decode(struct kvc_bytes data, struct kvc_arena *arena,
                             struct kvc_inline_tensor **tensors, size_t *count,
                             struct kvc_error *err);

#endif
