/* Handles of GPU memory, as the clients of three releases write them. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/handle.h"
#include "src/wire/pack.h"
#include "tests/unit/wire/samples.h"

static const char uuid[] = "7374616e-642d-696e-2064-657669636500";

/* One-element lists. */
static const struct golden {
    const char *release;
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    int64_t stride[5];
    int64_t alloc_offset;
    int64_t nbytes;
    const char *hex;
} goldens[] = {
#include "tests/unit/wire/golden_cuda_handles.inc"
};

static struct kvc_tensor_handle handle_of(const struct golden *golden)
{
    static uint8_t ipc_handle[KVC_IPC_HANDLE_SIZE];
    for (size_t i = 0; i < sizeof(ipc_handle); i++)
        ipc_handle[i] = (uint8_t)i;
    return (struct kvc_tensor_handle){
        .kind = KVC_HANDLE_CUDA,
        .ipc_handle = {ipc_handle, sizeof(ipc_handle)},
        .alloc_offset = golden->alloc_offset,
        .nbytes = golden->nbytes,
        .dtype = kvc_str_of(golden->dtype),
        .shape = {golden->shape, golden->rank},
        .stride = {golden->stride, golden->rank},
        .device_uuid = kvc_str_of(uuid),
    };
}

Test(cuda_handle, written_as_the_clients_write_it)
{
    for (size_t i = 0; i < KVC_COUNT_OF(goldens); i++) {
        const struct kvc_tensor_handle handle = handle_of(&goldens[i]);
        sample_assert_handle_written(&handle, goldens[i].release, goldens[i].hex);
    }
}

/* The body behind the head of a list and an ext of one or two bytes of length. */
static struct kvc_bytes body_of(const char *hex)
{
    const struct kvc_bytes list = sample_bytes(hex);
    const size_t head = list.data[1] == 0xc7 ? 4 : 5;
    return (struct kvc_bytes){list.data + head, list.size - head};
}

Test(cuda_handle, read_from_what_the_clients_write)
{
    for (size_t i = 0; i < KVC_COUNT_OF(goldens); i++) {
        const struct kvc_tensor_handle expected = handle_of(&goldens[i]);
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_tensor_handle handle;
        cr_assert_eq(kvc_handle_decode(sample_dialect(goldens[i].release), body_of(goldens[i].hex),
                                       &arena, &handle, &err),
                     KVC_OK, "%s: %s %s", goldens[i].release, err.where, err.what);
        cr_assert_eq(handle.kind, KVC_HANDLE_CUDA);
        cr_assert(kvc_bytes_equal(handle.ipc_handle, expected.ipc_handle));
        cr_assert_eq(handle.alloc_offset, expected.alloc_offset);
        cr_assert_eq(handle.nbytes, expected.nbytes);
        cr_assert_eq(handle.storage_offset, 0);
        cr_assert_eq(handle.shape.count, expected.shape.count);
        cr_assert(kvc_str_is(handle.dtype, goldens[i].dtype));
        cr_assert(kvc_str_is(handle.device_uuid, uuid));
        kvc_arena_clear(&arena);
    }
}

Test(cuda_handle, lies_in_its_allocation)
{
    const struct kvc_tensor_handle good = handle_of(&goldens[0]);
    struct kvc_tensor_handle bad = good;
    bad.ipc_handle.size--;
    sample_assert_handle_refused(bad, "a CUDA IPC handle of 63 bytes, not 64");
    bad = good;
    bad.alloc_offset = -1;
    sample_assert_handle_refused(bad, "alloc_offset is in no allocation");
    bad.alloc_offset = INT64_MAX;
    sample_assert_handle_refused(bad, "alloc_offset is in no allocation");
    bad = good;
    bad.nbytes--;
    sample_assert_handle_refused(bad,
                                 "shape, stride and storage_offset leave the segment's nbytes");
}
