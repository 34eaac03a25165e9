/* Takes the place of cuda.c in a build without the CUDA Toolkit. */
#include "src/device/device.h"

static kvc_status absent_probe(struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUNSUPPORTED, "built without CUDA");
}

static kvc_status absent_alloc(size_t size, void **memory, struct kvc_error *err)
{
    (void)size;
    (void)memory;
    return absent_probe(err);
}

static void absent_free(void *memory)
{
    (void)memory;
}

static kvc_status absent_copy(void *to, const void *from, size_t size, struct kvc_error *err)
{
    (void)to;
    (void)from;
    (void)size;
    return absent_probe(err);
}

const struct kvc_device kvc_device_cuda = {
    .name = "cuda",
    .can_share_handle = true,
    .probe = absent_probe,
    .alloc = absent_alloc,
    .free = absent_free,
    .copy_in = absent_copy,
    .copy_out = absent_copy,
};
