#include <criterion/criterion.h>

#include "src/device/device.h"

Test(cuda, says_that_it_was_not_built)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char byte;
    void *memory;
    cr_assert_eq(kvc_device_cuda.probe(&err), KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.what, "built without CUDA");
    cr_assert_eq(kvc_device_cuda.alloc(1, &memory, NULL), KVC_EUNSUPPORTED);
    cr_assert_eq(kvc_device_cuda.copy_in(&byte, &byte, 1, NULL), KVC_EUNSUPPORTED);
    cr_assert_eq(kvc_device_cuda.copy_out(&byte, &byte, 1, NULL), KVC_EUNSUPPORTED);
    kvc_device_cuda.free(NULL);
}
