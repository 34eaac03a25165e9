/* Registrations of memory of a GPU that cannot be opened, here or anywhere. They are refused before a driver is
 * asked. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/mock/strict_log.h"

static const int64_t shape[] = {2, 8, 16, 2, 8}, stride[] = {2048, 256, 16, 8, 1};
static uint8_t bytes[90];

static struct kvc_tensor_handle handle_of(enum kvc_handle_kind kind)
{
    return (struct kvc_tensor_handle){
        .kind = kind,
        .nbytes = 8192,
        .dtype = KVC_STR("float16"),
        .shape = {shape, 5},
        .stride = {stride, 5},
        .device_uuid = KVC_STR("7374616e-642d-696e-2064-657669636500"),
    };
}

/* Registers it in a dialect; what the mock says must have the text. */
static void expect_refused(struct kvc_tensor_handle handle, const char *dialect, const char *text)
{
    struct child child = {0};
    strict_start(&child,
                 (struct kvc_mock_options){.dialect = kvc_dialect_find(kvc_str_of(dialect))});
    const struct kvc_request request = {
        .op = KVC_OP_REGISTER_KV_CACHE,
        .instance_id = 1,
        .handles = {&handle, 1},
        .model_name = KVC_STR("m"),
        .world_size = 1,
        .engine_type = KVC_STR("vllm"),
        .layout_hints = {.kv_layout = KVC_STR("NHD")},
    };
    uint64_t uid = 0;
    cr_assert_eq(kvc_rpc_send(&child.rpc, &request, &uid, NULL), KVC_OK);
    cr_assert_eq(kvc_rpc_noop(&child.rpc, NULL), KVC_OK);
    const char *said = strict_finish(&child);
    cr_assert_not_null(strstr(said, text), "\"%s\" is not in:\n%s", text, said);
}

Test(gpu, memory_of_the_virtual_memory_api_is_refused)
{
    struct kvc_tensor_handle handle = handle_of(KVC_HANDLE_CUDA_VMM);
    handle.vmm = (struct kvc_vmm_export){
        .id = {bytes, 16}, .kind = KVC_STR("posix_fd"), .alloc_size = 1 << 21};
    static const char text[] =
        "refused: memory of CUDA's virtual-memory API (posix_fd) is not opened here";
    expect_refused(handle, "0.5.5", text);
    expect_refused(handle, "0.5.6", text);
}

Test(gpu, expandable_segments_are_refused)
{
    struct kvc_tensor_handle handle = handle_of(KVC_HANDLE_CUDA_TORCH);
    bytes[0] = 2;
    bytes[1] = 'e';
    handle.ipc_handle = (struct kvc_bytes){bytes, sizeof(bytes)};
    expect_refused(handle, "0.5.1",
                   "refused: memory of torch's expandable segments is not opened here");
}

Test(gpu, an_event_is_a_handle_of_cuda)
{
    struct kvc_tensor_handle handle = handle_of(KVC_HANDLE_CUDA_TORCH);
    handle.ipc_handle = (struct kvc_bytes){bytes, 64};
    handle.torch = (struct kvc_torch_share){.ready_event = {bytes, 63}, .has_event = true};
    expect_refused(handle, "0.5.6", "refused: an event handle of 63 bytes, not 64");
}
