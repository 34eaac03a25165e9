/* CUDA memory through the driver library. It is loaded when first asked for, so that one binary
 * runs with and without a GPU. */
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/device/device.h"

#define LIBRARY "libcuda.so.1"

/* cuda.h makes some names macros for a version of the function ("cuMemAlloc_v2"): both the type and
 * the symbol's name below are those of that version. */
#define SYMBOL(name)  SYMBOL_(name)
#define SYMBOL_(name) #name

static struct {
    __typeof__(cuInit) *init;
    __typeof__(cuGetErrorString) *error_string;
    __typeof__(cuDeviceGetCount) *device_count;
    __typeof__(cuDeviceGet) *device_get;
    __typeof__(cuDevicePrimaryCtxRetain) *context_retain;
    __typeof__(cuCtxSetCurrent) *context_use;
    __typeof__(cuMemAlloc) *mem_alloc;
    __typeof__(cuMemFree) *mem_free;
    __typeof__(cuMemcpyHtoD) *copy_in;
    __typeof__(cuMemcpyDtoH) *copy_out;
} driver;

static const struct {
    const char *name;
    void *pointer;
} symbols[] = {
    {SYMBOL(cuInit), &driver.init},
    {SYMBOL(cuGetErrorString), &driver.error_string},
    {SYMBOL(cuDeviceGetCount), &driver.device_count},
    {SYMBOL(cuDeviceGet), &driver.device_get},
    {SYMBOL(cuDevicePrimaryCtxRetain), &driver.context_retain},
    {SYMBOL(cuCtxSetCurrent), &driver.context_use},
    {SYMBOL(cuMemAlloc), &driver.mem_alloc},
    {SYMBOL(cuMemFree), &driver.mem_free},
    {SYMBOL(cuMemcpyHtoD), &driver.copy_in},
    {SYMBOL(cuMemcpyDtoH), &driver.copy_out},
};

static kvc_status driver_load(struct kvc_error *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return kvc_fail(err, KVC_EUNSUPPORTED, "no NVIDIA driver library (%s)", dlerror());
    for (size_t i = 0; i < KVC_COUNT_OF(symbols); i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            dlclose(library);
            return kvc_fail(err, KVC_EUNSUPPORTED,
                            "the NVIDIA driver is too old: " LIBRARY " has no %s", symbols[i].name);
        }
        /* A function pointer, which C does not let us assign from an object pointer. */
        memcpy(symbols[i].pointer, &symbol, sizeof(symbol));
    }
    return KVC_OK;
}

static kvc_status check(CUresult result, kvc_status status, const char *what, struct kvc_error *err)
{
    if (result == CUDA_SUCCESS)
        return KVC_OK;
    const char *text = NULL;
    driver.error_string(result, &text);
    return kvc_fail(err, status, "CUDA: %s: %s (%d)", what, text == NULL ? "unknown error" : text,
                    (int)result);
}

static kvc_status driver_start(CUdevice *device, struct kvc_error *err)
{
    int count = 0;
    KVC_GUARD(driver_load(err));
    KVC_GUARD(check(driver.init(0), KVC_EUNSUPPORTED, "cannot start the driver", err));
    KVC_GUARD(check(driver.device_count(&count), KVC_EUNSUPPORTED, "cannot count GPUs", err));
    if (count == 0)
        return kvc_fail(err, KVC_EUNSUPPORTED, "no CUDA GPU in this machine");
    return check(driver.device_get(device, 0), KVC_EUNSUPPORTED, "cannot use GPU 0", err);
}

/* ---- probing ---- */

/* A process that has started the driver cannot fork children that use it, and checks run in such
 * children. So a child of our own tries, and answers through a pipe: "ok", or what is missing. */
static _Noreturn void probe_in_child(int answer)
{
    struct kvc_error err = KVC_ERROR_INIT;
    CUdevice device;
    const char *text = driver_start(&device, &err) == KVC_OK ? "ok" : err.what;
    _exit(write(answer, text, strlen(text)) < 0);
}

static kvc_status read_answer(int answer, struct kvc_error *err)
{
    char text[sizeof(err->what)];
    size_t size = 0;
    ssize_t got;
    do {
        got = TEMP_FAILURE_RETRY(read(answer, text + size, sizeof(text) - 1 - size));
        size += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    text[size] = '\0';
    if (strcmp(text, "ok") == 0)
        return KVC_OK;
    return kvc_fail(err, KVC_EUNSUPPORTED, "%s",
                    size > 0 ? text : "the NVIDIA driver library crashed when started");
}

static kvc_status cuda_probe(struct kvc_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    const pid_t child = fork();
    if (child == 0)
        probe_in_child(ends[1]);
    close(ends[1]);
    const kvc_status status =
        child < 0 ? kvc_fail_errno(err, "cannot fork") : read_answer(ends[0], err);
    close(ends[0]);
    if (child > 0)
        TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
    return status;
}

/* ---- memory ---- */

/* Makes GPU 0's primary context the calling thread's. */
static kvc_status use_gpu(struct kvc_error *err)
{
    static CUcontext context;
    if (context == NULL) {
        CUdevice device;
        KVC_GUARD(driver_start(&device, err));
        KVC_GUARD(check(driver.context_retain(&context, device), KVC_ESYSTEM,
                        "cannot make a context on GPU 0", err));
    }
    return check(driver.context_use(context), KVC_ESYSTEM, "cannot use the context", err);
}

static kvc_status cuda_alloc(size_t size, void **memory, struct kvc_error *err)
{
    CUdeviceptr fresh;
    char what[64];
    snprintf(what, sizeof(what), "no memory for %zu bytes", size);
    KVC_GUARD(use_gpu(err));
    KVC_GUARD(check(driver.mem_alloc(&fresh, size == 0 ? 1 : size), KVC_ENOMEM, what, err));
    *memory = (void *)(uintptr_t)fresh;
    return KVC_OK;
}

static void cuda_free(void *memory)
{
    if (memory != NULL && use_gpu(NULL) == KVC_OK)
        driver.mem_free((CUdeviceptr)(uintptr_t)memory);
}

static kvc_status cuda_copy_in(void *device, const void *host, size_t size, struct kvc_error *err)
{
    KVC_GUARD(use_gpu(err));
    return check(driver.copy_in((CUdeviceptr)(uintptr_t)device, host, size), KVC_ESYSTEM,
                 "cannot copy to the GPU", err);
}

static kvc_status cuda_copy_out(void *host, const void *device, size_t size, struct kvc_error *err)
{
    KVC_GUARD(use_gpu(err));
    return check(driver.copy_out(host, (CUdeviceptr)(uintptr_t)device, size), KVC_ESYSTEM,
                 "cannot copy from the GPU", err);
}

/* A server maps this memory by CUDA IPC. */
const struct kvc_device kvc_device_cuda = {
    .name = "cuda",
    .can_share_handle = true,
    .probe = cuda_probe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
};
