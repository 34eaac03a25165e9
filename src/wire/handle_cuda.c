#include <string.h>

#include "src/wire/handle.h"

/* Torch's own bytes before a CUDA IPC handle: a version, and what kind of memory it is. Before torch
 * 2.5 there were none. */
enum {
    PREFIX_SIZE = KVC_TORCH_HANDLE_SIZE - KVC_IPC_HANDLE_SIZE,
    PREFIX_VERSION = 1, /* the first: a receiver takes every version up to its own */
    KIND_ALLOCATION = 'c',
    KIND_EXPANDABLE = 'e',
};

void kvc_torch_handle_write(const uint8_t ipc_handle[KVC_IPC_HANDLE_SIZE],
                            uint8_t torch_handle[KVC_TORCH_HANDLE_SIZE])
{
    torch_handle[0] = PREFIX_VERSION;
    torch_handle[1] = KIND_ALLOCATION;
    memcpy(torch_handle + PREFIX_SIZE, ipc_handle, KVC_IPC_HANDLE_SIZE);
}

/* The kind of memory behind torch's bytes; 0: they are too short to say. */
static uint8_t kind_of(struct kvc_bytes bytes)
{
    if (bytes.size == KVC_IPC_HANDLE_SIZE)
        return KIND_ALLOCATION;
    return bytes.size > PREFIX_SIZE ? bytes.data[1] : 0;
}

kvc_status kvc_handle_ipc(const struct kvc_tensor_handle *handle, const uint8_t **ipc_handle,
                          struct kvc_error *err)
{
    const struct kvc_bytes bytes = handle->ipc_handle;
    if (handle->kind == KVC_HANDLE_CUDA_VMM)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "memory of CUDA's virtual-memory API (%s) is not opened here",
                        kvc_text_show(handle->vmm.kind).text);
    if (bytes.data == NULL)
        return kvc_fail(err, KVC_EFORMAT, "torch's storage has no memory");
    if (kind_of(bytes) == KIND_EXPANDABLE)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "memory of torch's expandable segments is not opened here");
    if (kind_of(bytes) != KIND_ALLOCATION ||
        (bytes.size != KVC_IPC_HANDLE_SIZE && bytes.size != KVC_TORCH_HANDLE_SIZE))
        return kvc_fail(err, KVC_EFORMAT, "%zu bytes that are no handle of torch's", bytes.size);
    *ipc_handle = bytes.data + bytes.size - KVC_IPC_HANDLE_SIZE;
    return KVC_OK;
}
