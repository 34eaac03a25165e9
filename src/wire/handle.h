/* Tensor handles (DeviceIPCWrapper): the body of msgpack ext 1. Up to 0.5.5 a Python pickle, from
 * 0.5.6 a msgpack descriptor; CPU shared memory and device memory in both. For message.c, for who opens device
 * memory, and for tests. */
#ifndef KVC_WIRE_HANDLE_H
#define KVC_WIRE_HANDLE_H

#include "src/wire/dialect.h"
#include "src/wire/types.h"

enum { KVC_HANDLE_EXT_TYPE = 1 };

/* Appends the body (without ext header) in the dialect's form. The pickle is byte for byte what
 * CPython 3.11 writes for the class of the handle's kind (protocol 4, framed, memoised). */
kvc_status kvc_handle_encode(const struct kvc_dialect *dialect,
                             const struct kvc_tensor_handle *handle, struct kvc_buffer *out,
                             struct kvc_error *err);
/* Reads a body. Views point into body and arena. KVC_EFORMAT for anything that is no such handle,
 * and for a view that leaves its nbytes (which need not be what the segment has). A
 * pickle is read by an interpreter of the few opcodes that handles use, which calls nothing. */
kvc_status kvc_handle_decode(const struct kvc_dialect *dialect, struct kvc_bytes body,
                             struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                             struct kvc_error *err);

/* The KVC_IPC_HANDLE_SIZE bytes by which CUDA opens the memory: all that a raw handle has, and what follows
 * torch's prefix, if there is one. KVC_EUNSUPPORTED: memory that has no such bytes, of the virtual-memory
 * API or of torch's expandable segments. KVC_EFORMAT: they are none of torch's. */
kvc_status kvc_handle_ipc(const struct kvc_tensor_handle *handle, const uint8_t **ipc_handle,
                          struct kvc_error *err);
/* The same bytes as torch sends them: behind its prefix. */
void kvc_torch_handle_write(const uint8_t ipc_handle[KVC_IPC_HANDLE_SIZE],
                            uint8_t torch_handle[KVC_TORCH_HANDLE_SIZE]);

#endif
