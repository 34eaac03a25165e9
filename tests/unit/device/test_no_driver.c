/* Without the stand-in: what this machine has, told in one line. */
#include <criterion/criterion.h>
#include <string.h>

#include "src/device/device.h"

Test(cuda, probe_of_this_machine_is_one_line)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status = kvc_device_cuda.probe(NULL, &err);
    cr_assert(status == KVC_OK || status == KVC_EUNSUPPORTED);
    cr_assert(status == KVC_OK || err.what[0] != '\0');
    cr_assert_null(strchr(err.what, '\n'));
    /* And using it all the same is an error, not a crash. */
    void *memory;
    if (status != KVC_OK)
        cr_assert_eq(kvc_device_cuda.alloc(16, &memory, NULL), KVC_EUNSUPPORTED);
    kvc_device_cuda.free(status == KVC_OK ? NULL : &memory);
}
