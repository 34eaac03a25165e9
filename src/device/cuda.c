/* CUDA memory, through the driver library, which is loaded when first asked for. */
#include "src/device/cuda.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/device/cuda_internal.h"

/* ---- the GPU in this process ---- */

static struct {
    pthread_mutex_t lock;
    size_t users;
    pid_t process; /* that has opened it */
    int device;
    struct kvc_cu_context *context;
} gpu = {.lock = PTHREAD_MUTEX_INITIALIZER};

static kvc_status open_first(struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_driver_start(&gpu.device, err));
    KVC_GUARD(kvc_cuda_image_check(err));
    KVC_GUARD(KVC_CUDA(err, context_retain, &gpu.context, gpu.device));
    kvc_status status = KVC_CUDA(err, context_use, gpu.context);
    if (status == KVC_OK)
        status = kvc_cuda_kernels_load(err);
    if (status != KVC_OK)
        kvc_cuda_driver.context_release(gpu.device);
    return status;
}

kvc_status kvc_cuda_open(struct kvc_error *err)
{
    pthread_mutex_lock(&gpu.lock);
    kvc_status status = KVC_OK;
    if (gpu.users == 0)
        status = open_first(err);
    else if (gpu.process != getpid())
        status =
            kvc_fail(err, KVC_EUNSUPPORTED, "the GPU was opened before this process was forked");
    else
        status = KVC_CUDA(err, context_use, gpu.context);
    if (status == KVC_OK) {
        gpu.process = getpid();
        gpu.users++;
    }
    pthread_mutex_unlock(&gpu.lock);
    return status;
}

void kvc_cuda_close(void)
{
    pthread_mutex_lock(&gpu.lock);
    if (gpu.users > 0 && --gpu.users == 0) {
        kvc_cuda_driver.context_use(gpu.context);
        kvc_cuda_kernels_unload();
        kvc_cuda_driver.context_release(gpu.device);
    }
    pthread_mutex_unlock(&gpu.lock);
}

kvc_status kvc_cuda_use(struct kvc_error *err)
{
    if (gpu.users == 0)
        return kvc_fail(err, KVC_EUNSUPPORTED, "the GPU is not open");
    return KVC_CUDA(err, context_use, gpu.context);
}

static kvc_status describe(int device, struct kvc_device_text *about, struct kvc_error *err)
{
    char name[64];
    int version = 0;
    KVC_GUARD(KVC_CUDA(err, device_name, name, sizeof(name), device));
    KVC_GUARD(KVC_CUDA(err, driver_version, &version));
    if (kvc_cuda_driver.stand_in_image != NULL)
        snprintf(about->text, sizeof(about->text), "stand-in driver, no GPU");
    else
        snprintf(about->text, sizeof(about->text), "%s, driver %d.%d", name, version / 1000,
                 version % 1000 / 10);
    return KVC_OK;
}

kvc_status kvc_cuda_describe(struct kvc_device_text *about, struct kvc_error *err)
{
    return describe(gpu.device, about, err);
}

kvc_status kvc_cuda_uuid(struct kvc_device_text *uuid, struct kvc_error *err)
{
    struct kvc_cu_uuid raw;
    size_t at = 0;
    KVC_GUARD(KVC_CUDA(err, device_uuid, &raw, gpu.device));
    for (size_t i = 0; i < sizeof(raw.bytes); i++) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        at += (size_t)snprintf(uuid->text + at, sizeof(uuid->text) - at, "%s%02x", dash ? "-" : "",
                               raw.bytes[i]);
    }
    return KVC_OK;
}

kvc_status kvc_cuda_free_bytes(int64_t *bytes, struct kvc_error *err)
{
    size_t available, total;
    KVC_GUARD(KVC_CUDA(err, mem_info, &available, &total));
    *bytes = (int64_t)available;
    return KVC_OK;
}

/* ---- probing ---- */

/* A process that has started the driver cannot fork children that use it, and checks run in such
 * children. So a child of our own tries, and answers through a pipe: "=" and what the GPU is, or what is
 * missing. */
static _Noreturn void probe_in_child(int answer)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_device_text about;
    char text[sizeof(err.what)];
    int device;
    kvc_status status = kvc_cuda_driver_start(&device, &err);
    if (status == KVC_OK)
        status = kvc_cuda_image_check(&err);
    if (status == KVC_OK)
        status = describe(device, &about, &err);
    const int size = snprintf(text, sizeof(text), "%s%s", status == KVC_OK ? "=" : "",
                              status == KVC_OK ? about.text : err.what);
    _exit(write(answer, text, (size_t)size) != size);
}

static kvc_status read_answer(int answer, struct kvc_device_text *about, struct kvc_error *err)
{
    char text[sizeof(err->what)];
    size_t size = 0;
    ssize_t got;
    do {
        got = TEMP_FAILURE_RETRY(read(answer, text + size, sizeof(text) - 1 - size));
        size += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    text[size] = '\0';
    if (text[0] == '=') {
        if (about != NULL)
            snprintf(about->text, sizeof(about->text), "%.90s", text + 1);
        return KVC_OK;
    }
    return kvc_fail(err, KVC_EUNSUPPORTED, "%s",
                    size > 0 ? text : "the NVIDIA driver library crashed when started");
}

static kvc_status cuda_probe(struct kvc_device_text *about, struct kvc_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    const pid_t child = fork();
    if (child == 0)
        probe_in_child(ends[1]);
    close(ends[1]);
    const kvc_status status =
        child < 0 ? kvc_fail_errno(err, "cannot fork") : read_answer(ends[0], about, err);
    close(ends[0]);
    if (child > 0)
        TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
    return status;
}

/* ---- memory ---- */

static kvc_status cuda_alloc(size_t size, void **memory, struct kvc_error *err)
{
    uint64_t fresh;
    KVC_GUARD(kvc_cuda_open(err));
    const kvc_status status = KVC_CUDA(err, mem_alloc, &fresh, size == 0 ? 1 : size);
    if (status == KVC_OK)
        *memory = kvc_cuda_pointer(fresh);
    else
        kvc_cuda_close();
    return status;
}

static void cuda_free(void *memory)
{
    if (memory == NULL || kvc_cuda_use(NULL) != KVC_OK)
        return;
    kvc_cuda_driver.mem_free(kvc_cuda_address(memory));
    kvc_cuda_close();
}

static kvc_status cuda_copy_in(void *device, const void *host, size_t size, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    return size == 0 ? KVC_OK : KVC_CUDA(err, copy_in, kvc_cuda_address(device), host, size);
}

static kvc_status cuda_copy_out(void *host, const void *device, size_t size, struct kvc_error *err)
{
    KVC_GUARD(kvc_cuda_use(err));
    return size == 0 ? KVC_OK : KVC_CUDA(err, copy_out, host, kvc_cuda_address(device), size);
}

/* A server maps this memory by CUDA IPC. Whoever has some of it has opened the GPU. */
const struct kvc_device kvc_device_cuda = {
    .name = "cuda",
    .can_share_handle = true,
    .probe = cuda_probe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
};

kvc_status kvc_cuda_host_alloc(size_t size, void **memory, struct kvc_error *err)
{
    return KVC_CUDA(err, host_alloc, memory, size == 0 ? 1 : size, 0);
}

void kvc_cuda_host_free(void *memory)
{
    if (memory != NULL)
        kvc_cuda_driver.host_free(memory);
}

bool kvc_cuda_host_register(void *memory, size_t size)
{
    return kvc_cuda_driver.host_register(memory, size, 0) == KVC_CU_SUCCESS;
}

void kvc_cuda_host_unregister(void *memory)
{
    kvc_cuda_driver.host_unregister(memory);
}
