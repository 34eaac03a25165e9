/* Where KV bytes live: memory and copies behind one table of functions a device.
 * For drivers and bench. */
#ifndef KVC_DEVICE_DEVICE_H
#define KVC_DEVICE_DEVICE_H

#include "src/base/bytes.h"

/* What a device is, for reports: "NVIDIA H200", or "stand-in driver, no GPU". */
struct kvc_device_text {
    char text[96];
};

struct kvc_device {
    const char *name;      /* "cpu", "cuda" */
    bool can_share_handle; /* a server can map this device's memory by a tensor handle */
    /* KVC_OK and what the device is, or KVC_EUNSUPPORTED with the reason (no driver library, no GPU, built
     * without kernels). about may be NULL. Leaves this process as it was. */
    kvc_status (*probe)(struct kvc_device_text *about, struct kvc_error *err);
    kvc_status (*alloc)(size_t size, void **memory, struct kvc_error *err);
    void (*free)(void *memory);
    kvc_status (*copy_in)(void *device, const void *host, size_t size, struct kvc_error *err);
    kvc_status (*copy_out)(void *host, const void *device, size_t size, struct kvc_error *err);
};

extern const struct kvc_device kvc_device_cpu;
extern const struct kvc_device kvc_device_cuda;

/* NULL when there is no such device. */
const struct kvc_device *kvc_device_find(struct kvc_str name);

#endif
