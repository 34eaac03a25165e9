/* Handles of GPU memory that torch shares, and of the virtual-memory API, as the clients of three releases
 * write them. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/handle.h"
#include "src/wire/pack.h"
#include "tests/unit/wire/samples.h"

static const char uuid[] = "7374616e-642d-696e-2064-657669636500";

/* A view, as one row of golden_*.inc begins. */
struct view {
    const char *release;
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    int64_t stride[5];
};

/* One-element lists. Bytes are hex, NULL is None. */
static const struct golden_torch {
    struct view view;
    int64_t storage_offset;
    int64_t device_index;
    const char *ipc_handle;
    int64_t nbytes;
    int64_t alloc_offset;
    const char *ref_counter;
    int64_t ref_counter_offset;
    const char *ready_event;
    bool has_event;
    const char *hex;
} torch_goldens[] = {
#include "tests/unit/wire/golden_torch_handles.inc"
};

static const struct golden_vmm {
    struct view view;
    const char *kind;
    const char *fabric;
    int64_t alloc_size;
    int64_t alloc_offset;
    int64_t nbytes;
    const char *hex;
} vmm_goldens[] = {
#include "tests/unit/wire/golden_vmm_handles.inc"
};

static struct kvc_bytes optional_bytes(const char *hex)
{
    return hex == NULL ? (struct kvc_bytes){NULL, 0} : sample_bytes(hex);
}

static struct kvc_tensor_handle handle_of_view(const struct view *view)
{
    return (struct kvc_tensor_handle){
        .dtype = kvc_str_of(view->dtype),
        .shape = {view->shape, view->rank},
        .stride = {view->stride, view->rank},
        .device_uuid = kvc_str_of(uuid),
    };
}

static struct kvc_tensor_handle handle_of_torch(const struct golden_torch *golden)
{
    struct kvc_tensor_handle handle = handle_of_view(&golden->view);
    handle.kind = KVC_HANDLE_CUDA_TORCH;
    handle.ipc_handle = optional_bytes(golden->ipc_handle);
    handle.alloc_offset = golden->alloc_offset;
    handle.nbytes = golden->nbytes;
    handle.storage_offset = golden->storage_offset;
    handle.torch = (struct kvc_torch_share){
        golden->device_index,       optional_bytes(golden->ref_counter),
        golden->ref_counter_offset, optional_bytes(golden->ready_event),
        golden->has_event,
    };
    return handle;
}

static struct kvc_tensor_handle handle_of_vmm(const struct golden_vmm *golden)
{
    struct kvc_tensor_handle handle = handle_of_view(&golden->view);
    handle.kind = KVC_HANDLE_CUDA_VMM;
    handle.vmm = (struct kvc_vmm_export){
        sample_bytes("000102030405060708090a0b0c0d0e0f"),
        kvc_str_of(golden->kind),
        optional_bytes(golden->fabric),
        golden->alloc_size,
    };
    handle.alloc_offset = golden->alloc_offset;
    handle.nbytes = golden->nbytes;
    return handle;
}

/* The body behind the head of a list and an ext of one or two bytes of length. */
static struct kvc_bytes body_of(const char *hex)
{
    const struct kvc_bytes list = sample_bytes(hex);
    const size_t head = list.data[1] == 0xc7 ? 4 : 5;
    return (struct kvc_bytes){list.data + head, list.size - head};
}

/* NULL is not the same as nothing. */
static bool same_bytes(struct kvc_bytes a, struct kvc_bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && kvc_bytes_equal(a, b);
}

static void assert_read(const char *release, const char *hex, struct kvc_tensor_handle expected)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_tensor_handle handle;
    cr_assert_eq(kvc_handle_decode(sample_dialect(release), body_of(hex), &arena, &handle, &err),
                 KVC_OK, "%s: %s %s", release, err.where, err.what);
    cr_assert_eq(handle.kind, expected.kind);
    cr_assert(same_bytes(handle.ipc_handle, expected.ipc_handle));
    cr_assert_eq(handle.torch.device_index, expected.torch.device_index);
    cr_assert(same_bytes(handle.torch.ref_counter, expected.torch.ref_counter));
    cr_assert_eq(handle.torch.ref_counter_offset, expected.torch.ref_counter_offset);
    cr_assert(same_bytes(handle.torch.ready_event, expected.torch.ready_event));
    cr_assert_eq(handle.torch.has_event, expected.torch.has_event);
    cr_assert(same_bytes(handle.vmm.id, expected.vmm.id));
    cr_assert(kvc_str_equal(handle.vmm.kind, expected.vmm.kind));
    cr_assert(same_bytes(handle.vmm.fabric, expected.vmm.fabric));
    cr_assert_eq(handle.vmm.alloc_size, expected.vmm.alloc_size);
    cr_assert_eq(handle.alloc_offset, expected.alloc_offset);
    cr_assert_eq(handle.nbytes, expected.nbytes);
    cr_assert_eq(handle.storage_offset, expected.storage_offset);
    cr_assert_eq(handle.shape.count, expected.shape.count);
    cr_assert(kvc_str_equal(handle.dtype, expected.dtype));
    cr_assert(kvc_str_equal(handle.device_uuid, expected.device_uuid));
    kvc_arena_clear(&arena);
}

Test(torch_handle, written_and_read_as_the_clients_write_it)
{
    cr_assert_gt(KVC_COUNT_OF(torch_goldens), 10);
    for (size_t i = 0; i < KVC_COUNT_OF(torch_goldens); i++) {
        const struct golden_torch *golden = &torch_goldens[i];
        const struct kvc_tensor_handle handle = handle_of_torch(golden);
        sample_assert_handle_written(&handle, golden->view.release, golden->hex);
        assert_read(golden->view.release, golden->hex, handle);
    }
}

Test(vmm_handle, written_and_read_as_the_clients_write_it)
{
    cr_assert_gt(KVC_COUNT_OF(vmm_goldens), 3);
    for (size_t i = 0; i < KVC_COUNT_OF(vmm_goldens); i++) {
        const struct golden_vmm *golden = &vmm_goldens[i];
        const struct kvc_tensor_handle handle = handle_of_vmm(golden);
        sample_assert_handle_written(&handle, golden->view.release, golden->hex);
        assert_read(golden->view.release, golden->hex, handle);
    }
}

/* ---- the classes' module of 0.5.0 ---- */

Test(torch_handle, read_by_its_module_of_0_5_0)
{
    static const char *const modules[] = {"lmcache.v1.platform.cuda.ipc_wrapper",
                                          "lmcache.v1.multiprocess.custom_types"};
    const struct kvc_bytes body = body_of(torch_goldens[0].hex);
    struct kvc_arena arena = {0};
    struct kvc_tensor_handle handle;
    uint8_t *copy = (uint8_t *)(uintptr_t)sample_copy(body).data;
    uint8_t *module = memmem(copy, body.size, modules[0], strlen(modules[0]));
    cr_assert_eq(strlen(modules[0]), strlen(modules[1]));
    memcpy(module, modules[1], strlen(modules[1]));
    cr_assert_eq(kvc_handle_decode(sample_dialect("0.5.0"), (struct kvc_bytes){copy, body.size},
                                   &arena, &handle, NULL),
                 KVC_OK);
    cr_assert_eq(handle.kind, KVC_HANDLE_CUDA_TORCH);
    kvc_arena_clear(&arena);
}

/* ---- what is refused ---- */

Test(torch_handle, lies_in_its_storage)
{
    struct kvc_tensor_handle handle = handle_of_torch(&torch_goldens[1]);
    handle.storage_offset++;
    sample_assert_handle_refused(handle,
                                 "shape, stride and storage_offset leave the segment's nbytes");
    handle.storage_offset--;
    handle.alloc_offset = -1;
    sample_assert_handle_refused(handle, "alloc_offset is in no allocation");
}

Test(vmm_handle, lies_in_its_allocation)
{
    struct kvc_tensor_handle handle = handle_of_vmm(&vmm_goldens[0]);
    handle.vmm.alloc_size = handle.alloc_offset + handle.nbytes - 1;
    sample_assert_handle_refused(handle, "alloc_offset is in no allocation");
    handle = handle_of_vmm(&vmm_goldens[0]);
    handle.vmm.id.size--;
    sample_assert_handle_refused(handle, "an export id of 15 bytes, not 16");
}

/* Torch's tuple with one element too few, and with a wrong one. */
Test(torch_handle, tuple_is_complete)
{
    static const char *const bodies[][3] = {
        {"0.5.6",
         "84 a474797065a463756461 a776657273696f6e01 a66861 6e646c65 97 00c0 0700c000c0"
         "a86d65746164617461 85 a56474797065a575696e7438 a5736861706591 07 a673747269646591 01"
         "ae73746f726167655f6f666673657400 ab6465766963655f75756964a178",
         "wrong number of elements"},
        {"0.5.6",
         "84 a474797065a463756461 a776657273696f6e01 a668616e646c65 98 00a178 0700c000c0c2"
         "a86d65746164617461 85 a56474797065a575696e7438 a5736861706591 07 a673747269646591 01"
         "ae73746f726167655f6f666673657400 ab6465766963655f75756964a178",
         "wrong type"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(bodies); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_tensor_handle handle;
        cr_assert_eq(kvc_handle_decode(sample_dialect(bodies[i][0]), sample_bytes(bodies[i][1]),
                                       &arena, &handle, &err),
                     KVC_EFORMAT);
        cr_assert_str_eq(err.what, bodies[i][2]);
        kvc_arena_clear(&arena);
    }
}

/* ---- as text ---- */

static void assert_text(const char *release, const char *list, const char *text)
{
    struct kvc_buffer out = {0};
    struct kvc_frames frames = sample_frames("07 | 01");
    const struct kvc_bytes payload = sample_bytes(list);
    kvc_frames_append_view(&frames, payload.data, payload.size);
    kvc_frames_describe(&frames, sample_dialect(release), false, &out);
    cr_assert_not_null(strstr(kvc_buffer_text(&out), text), "got\n%s", kvc_buffer_text(&out));
    kvc_buffer_clear(&out);
    kvc_frames_clear(&frames);
}

Test(torch_handle, as_text)
{
    for (size_t i = 0; i < KVC_COUNT_OF(torch_goldens); i++) {
        if (torch_goldens[i].storage_offset == 4096)
            assert_text(torch_goldens[i].view.release, torch_goldens[i].hex,
                        "handle(cuda of torch 0363000102030405060708090a0b0c0d… at 20971520, "
                        "73728 bytes, bfloat16 [64, 16, 32], stride [512, 32, 1], offset 4096)");
    }
}

Test(vmm_handle, as_text)
{
    for (size_t i = 0; i < KVC_COUNT_OF(vmm_goldens); i++) {
        if (vmm_goldens[i].fabric == NULL)
            assert_text(vmm_goldens[i].view.release, vmm_goldens[i].hex,
                        "handle(cuda vmm posix_fd 000102030405060708090a0b0c0d0e0f at 512, "
                        "65536 bytes, float16 [2, 64, 16, 2, 8]");
    }
}

/* ---- what CUDA opens ---- */

static const struct {
    size_t size;
    uint8_t kind; /* its second byte */
    kvc_status status;
    const char *what;
} torch_bytes[] = {
    {64, 0, KVC_OK, ""},
    {64, 'e', KVC_OK, ""},
    {66, 'c', KVC_OK, ""},
    {66, 'x', KVC_EFORMAT, "66 bytes that are no handle of torch's"},
    {65, 'c', KVC_EFORMAT, "65 bytes that are no handle of torch's"},
    {67, 'c', KVC_EFORMAT, "67 bytes that are no handle of torch's"},
    {66, 'e', KVC_EUNSUPPORTED, "memory of torch's expandable segments is not opened here"},
    {90, 'e', KVC_EUNSUPPORTED, "memory of torch's expandable segments is not opened here"},
    {2, 'c', KVC_EFORMAT, "2 bytes that are no handle of torch's"},
    {0, 0, KVC_EFORMAT, "0 bytes that are no handle of torch's"},
};

Test(torch_handle, holds_the_handle_of_cuda_behind_its_prefix)
{
    for (size_t i = 0; i < KVC_COUNT_OF(torch_bytes); i++) {
        uint8_t *bytes = sample_alloc(torch_bytes[i].size);
        const struct kvc_tensor_handle handle = {.kind = KVC_HANDLE_CUDA_TORCH,
                                                 .ipc_handle = {bytes, torch_bytes[i].size}};
        const uint8_t *opened = NULL;
        struct kvc_error err = KVC_ERROR_INIT;
        if (torch_bytes[i].size > 1)
            bytes[1] = torch_bytes[i].kind;
        cr_assert_eq(kvc_handle_ipc(&handle, &opened, &err), torch_bytes[i].status, "%zu", i);
        cr_assert_str_eq(err.what, torch_bytes[i].what);
        if (torch_bytes[i].status == KVC_OK)
            cr_assert_eq(opened, bytes + torch_bytes[i].size - KVC_IPC_HANDLE_SIZE);
    }
}

Test(torch_handle, memory_that_cuda_does_not_open)
{
    const struct kvc_tensor_handle empty = {.kind = KVC_HANDLE_CUDA_TORCH};
    const struct kvc_tensor_handle vmm = handle_of_vmm(&vmm_goldens[0]);
    const uint8_t *opened;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_handle_ipc(&empty, &opened, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "torch's storage has no memory");
    cr_assert_eq(kvc_handle_ipc(&vmm, &opened, &err), KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.what, "memory of CUDA's virtual-memory API (posix_fd) is not opened here");
}

Test(torch_handle, prefix_is_one_that_every_torch_reads)
{
    uint8_t ipc[KVC_IPC_HANDLE_SIZE], bytes[KVC_TORCH_HANDLE_SIZE];
    memset(ipc, 0x5a, sizeof(ipc));
    kvc_torch_handle_write(ipc, bytes);
    cr_assert_arr_eq(bytes, "\1c", 2);
    cr_assert_arr_eq(bytes + 2, ipc, sizeof(ipc));
}
