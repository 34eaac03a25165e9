#include "src/wire/handle.h"

#include "src/kv/dtype.h"
#include "src/wire/handle_forms.h"

enum { EXPORT_ID_SIZE = 16 };

/* Where the last element of the view ends, in elements from the start of the segment. False when
 * there is a negative number in it, or one that does not fit. */
static bool view_end(const struct kvc_tensor_handle *handle, int64_t *end)
{
    bool fits = handle->storage_offset >= 0 && handle->shape.count == handle->stride.count;
    bool empty = false;
    *end = handle->storage_offset;
    for (size_t i = 0; fits && i < handle->shape.count; i++) {
        const int64_t size = handle->shape.items[i];
        const int64_t stride = handle->stride.items[i];
        int64_t reach;
        empty |= size == 0;
        fits = size >= 0 && stride >= 0 &&
               (size == 0 || (!__builtin_mul_overflow(size - 1, stride, &reach) &&
                              !__builtin_add_overflow(*end, reach, end)));
    }
    if (empty)
        *end = 0;
    return fits && (empty || !__builtin_add_overflow(*end, 1, end));
}

/* Whoever maps nbytes must be able to trust the view. A dtype that is not known here counts as one
 * byte an element. */
static kvc_status check_view(const struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    const struct kvc_dtype *dtype = kvc_dtype_find(handle->dtype);
    int64_t end;
    if (!view_end(handle, &end) ||
        __builtin_mul_overflow(end, dtype != NULL ? (int64_t)dtype->size : 1, &end) ||
        end > handle->nbytes)
        return kvc_fail(err, KVC_EFORMAT,
                        "shape, stride and storage_offset leave the segment's nbytes");
    return KVC_OK;
}

static kvc_status check_size(const char *what, struct kvc_bytes bytes, size_t size,
                             struct kvc_error *err)
{
    if (bytes.size == size)
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "%s of %zu bytes, not %zu", what, bytes.size, size);
}

static kvc_status check_allocation(const struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    const bool is_vmm = handle->kind == KVC_HANDLE_CUDA_VMM;
    int64_t end = 0;
    if (handle->kind == KVC_HANDLE_CUDA)
        KVC_GUARD(check_size("a CUDA IPC handle", handle->ipc_handle, KVC_IPC_HANDLE_SIZE, err));
    if (is_vmm)
        KVC_GUARD(check_size("an export id", handle->vmm.id, EXPORT_ID_SIZE, err));
    if (handle->alloc_offset < 0 ||
        __builtin_add_overflow(handle->alloc_offset, handle->nbytes, &end) ||
        (is_vmm && end > handle->vmm.alloc_size))
        return kvc_fail(err, KVC_EFORMAT, "alloc_offset is in no allocation");
    return KVC_OK;
}

kvc_status kvc_handle_encode(const struct kvc_dialect *dialect,
                             const struct kvc_tensor_handle *handle, struct kvc_buffer *out,
                             struct kvc_error *err)
{
    if (kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_MSGPACK))
        return kvc_handle_encode_descriptor(dialect, handle, out, err);
    kvc_handle_encode_pickle(dialect, handle, out);
    return KVC_OK;
}

kvc_status kvc_handle_decode(const struct kvc_dialect *dialect, struct kvc_bytes body,
                             struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                             struct kvc_error *err)
{
    *handle = (struct kvc_tensor_handle){0};
    if (kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_MSGPACK))
        KVC_GUARD(kvc_handle_decode_descriptor(dialect, body, arena, handle, err));
    else
        KVC_GUARD(kvc_handle_decode_pickle(dialect, body, arena, handle, err));
    KVC_GUARD(check_view(handle, err));
    return handle->kind != KVC_HANDLE_CPU ? check_allocation(handle, err) : KVC_OK;
}
