#include "src/device/cuda_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/bytes.h"

#define LIBRARY "libcuda.so.1"

struct kvc_cuda_driver kvc_cuda_driver;

#define NAME(member, name, symbol, parameters) .member = (name),
const struct kvc_cuda_names kvc_cuda_names = {KVC_CUDA_CALLS(NAME)};

#define TEXT(symbol)                             #symbol
#define SYMBOL(member, name, symbol, parameters) {TEXT(symbol), &kvc_cuda_driver.member},
static const struct {
    const char *name;
    void *pointer;
} symbols[] = {KVC_CUDA_CALLS(SYMBOL)};

static const char *library_name(void)
{
    const char *set = getenv(KVC_CUDA_DRIVER_ENVIRONMENT);
    return set != NULL && set[0] != '\0' ? set : LIBRARY;
}

static kvc_status fill_in(void *library, struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_COUNT_OF(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL)
            return kvc_fail(err, KVC_EUNSUPPORTED, "the NVIDIA driver is too old: %s has no %s",
                            library_name(), symbols[i].name);
        /* A function pointer, which C does not let us assign from an object pointer. */
        memcpy(symbols[i].pointer, &symbol, sizeof(symbol));
    }
    kvc_cuda_driver.stand_in_image = dlsym(library, KVC_CUDA_STAND_IN_SYMBOL);
    return KVC_OK;
}

kvc_status kvc_cuda_driver_load(struct kvc_error *err)
{
    static void *library;
    if (library != NULL)
        return KVC_OK;
    void *opened = dlopen(library_name(), RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL)
        return kvc_fail(err, KVC_EUNSUPPORTED, "no NVIDIA driver library (%s)", dlerror());
    const kvc_status status = fill_in(opened, err);
    if (status == KVC_OK)
        library = opened;
    else
        dlclose(opened);
    return status;
}

kvc_status kvc_cuda_check(int result, kvc_status status, const char *call, struct kvc_error *err)
{
    if (result == KVC_CU_SUCCESS)
        return KVC_OK;
    const char *text = NULL;
    if (kvc_cuda_driver.error_string(result, &text) != KVC_CU_SUCCESS || text == NULL)
        text = "unknown error";
    return kvc_fail(err, result == KVC_CU_OUT_OF_MEMORY ? KVC_ENOMEM : status, "CUDA: %s: %s (%d)",
                    call, text, result);
}

/* A driver that does not start is like none: what needs it is skipped. */
#define START(err, member, ...)                                                                    \
    kvc_cuda_check(kvc_cuda_driver.member(__VA_ARGS__), KVC_EUNSUPPORTED, kvc_cuda_names.member,   \
                   err)

kvc_status kvc_cuda_driver_start(int *device, struct kvc_error *err)
{
    int count = 0;
    KVC_GUARD(kvc_cuda_driver_load(err));
    KVC_GUARD(START(err, init, 0));
    KVC_GUARD(START(err, device_count, &count));
    if (count == 0)
        return kvc_fail(err, KVC_EUNSUPPORTED, "no CUDA GPU in this machine");
    return START(err, device_get, device, 0);
}
