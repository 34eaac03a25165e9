#include <stdlib.h>
#include <string.h>

#include "src/device/device.h"

static kvc_status cpu_probe(struct kvc_device_text *about, struct kvc_error *err)
{
    (void)err;
    if (about != NULL)
        *about = (struct kvc_device_text){"host memory"};
    return KVC_OK;
}

static kvc_status cpu_alloc(size_t size, void **memory, struct kvc_error *err)
{
    void *fresh = malloc(size == 0 ? 1 : size);
    if (fresh == NULL)
        return kvc_fail(err, KVC_ENOMEM, "no memory for %zu bytes", size);
    *memory = fresh;
    return KVC_OK;
}

static void cpu_free(void *memory)
{
    free(memory);
}

static kvc_status cpu_copy(void *to, const void *from, size_t size, struct kvc_error *err)
{
    (void)err;
    if (size > 0)
        memcpy(to, from, size);
    return KVC_OK;
}

/* A server maps a worker's CPU memory when it lies in a shared-memory segment. */
const struct kvc_device kvc_device_cpu = {
    .name = "cpu",
    .can_share_handle = true,
    .probe = cpu_probe,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = cpu_copy,
    .copy_out = cpu_copy,
};
