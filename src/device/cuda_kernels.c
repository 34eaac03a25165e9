/* The kernels that are built into the program, and how they are started. */
#include <stdio.h>

#include "src/device/cuda_internal.h"

static struct {
    struct kvc_cu_module *module;
    struct kvc_cu_function *copy[2][KVC_KERNEL_UNIT_COUNT]; /* by direction and unit */
    struct kvc_cu_function *late;
} kernels;

kvc_status kvc_cuda_image_check(struct kvc_error *err)
{
    if (kvc_cuda_driver.stand_in_image == NULL && kvc_cuda_image[0] == 0)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "built without CUDA kernels: there was no nvcc (-Dcuda=enabled needs it)");
    return KVC_OK;
}

static kvc_status find_all(struct kvc_error *err)
{
    static const char *const directions[] = {
        [KVC_KERNEL_GATHER] = "gather", [KVC_KERNEL_SCATTER] = "scatter"};
    for (size_t direction = 0; direction < KVC_COUNT_OF(directions); direction++) {
        for (unsigned unit = 0; unit < KVC_KERNEL_UNIT_COUNT; unit++) {
            char name[32];
            snprintf(name, sizeof(name), "kvc_%s_%u", directions[direction], 1u << unit);
            KVC_GUARD(KVC_CUDA(err, module_function, &kernels.copy[direction][unit], kernels.module,
                               name));
        }
    }
    return KVC_CUDA(err, module_function, &kernels.late, kernels.module, "kvc_write_late");
}

kvc_status kvc_cuda_kernels_load(struct kvc_error *err)
{
    const void *image = kvc_cuda_driver.stand_in_image;
    if (image == NULL)
        image = kvc_cuda_image;
    KVC_GUARD(KVC_CUDA(err, module_load, &kernels.module, image));
    const kvc_status status = find_all(err);
    if (status != KVC_OK)
        kvc_cuda_kernels_unload();
    return status;
}

void kvc_cuda_kernels_unload(void)
{
    kvc_cuda_driver.module_unload(kernels.module);
}

kvc_status kvc_cuda_launch_job(const struct kvc_kernel_job *job, int direction, uint32_t pieces,
                               struct kvc_cu_stream *stream, struct kvc_error *err)
{
    struct kvc_kernel_job copy = *job;
    void *parameters[] = {&copy};
    const unsigned slices = (job->piece_units + job->slice_units - 1) / job->slice_units;
    const int unit = __builtin_ctz(job->unit);
    return KVC_CUDA(err, launch, kernels.copy[direction][unit], pieces, slices, 1,
                    KVC_KERNEL_THREADS, 1, 1, 0, stream, parameters, NULL);
}

kvc_status kvc_cuda_launch_late(const struct kvc_kernel_late *late, struct kvc_cu_stream *stream,
                                struct kvc_error *err)
{
    struct kvc_kernel_late copy = *late;
    void *parameters[] = {&copy};
    return KVC_CUDA(err, launch, kernels.late, 1, 1, 1, KVC_KERNEL_THREADS, 1, 1, 0, stream,
                    parameters, NULL);
}
