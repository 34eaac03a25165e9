#include "src/device/device.h"

const struct kvc_device *kvc_device_find(struct kvc_str name)
{
    static const struct kvc_device *const devices[] = {&kvc_device_cpu, &kvc_device_cuda};
    for (size_t i = 0; i < KVC_COUNT_OF(devices); i++) {
        if (kvc_str_is(name, devices[i]->name))
            return devices[i];
    }
    return NULL;
}
