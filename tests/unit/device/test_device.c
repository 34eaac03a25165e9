#include <criterion/criterion.h>
#include <string.h>

#include "src/device/device.h"

Test(device, is_found_by_name)
{
    cr_assert_eq(kvc_device_find(KVC_STR("cpu")), &kvc_device_cpu);
    cr_assert_eq(kvc_device_find(KVC_STR("cuda")), &kvc_device_cuda);
    cr_assert_null(kvc_device_find(KVC_STR("cud")));
    cr_assert_null(kvc_device_find(KVC_STR("")));
}

Test(cpu, copies_in_and_out)
{
    const char text[] = "sixteen tokens..";
    char back[sizeof(text)] = {0};
    void *memory;
    cr_assert_eq(kvc_device_cpu.probe(NULL, NULL), KVC_OK);
    cr_assert_eq(kvc_device_cpu.alloc(sizeof(text), &memory, NULL), KVC_OK);
    cr_assert_eq(kvc_device_cpu.copy_in(memory, text, sizeof(text), NULL), KVC_OK);
    cr_assert_eq(kvc_device_cpu.copy_out(back, memory, sizeof(text), NULL), KVC_OK);
    cr_assert_str_eq(back, text);
    cr_assert_eq(kvc_device_cpu.copy_in(memory, NULL, 0, NULL), KVC_OK);
    kvc_device_cpu.free(memory);
}

Test(cpu, refuses_what_it_has_no_memory_for)
{
    struct kvc_error err = KVC_ERROR_INIT;
    void *memory;
    cr_assert_eq(kvc_device_cpu.alloc(SIZE_MAX / 4, &memory, &err), KVC_ENOMEM);
    cr_assert_str_eq(err.what, "no memory for 4611686018427387903 bytes");
}
