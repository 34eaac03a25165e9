// The kernels: kernel.h for each unit and direction. cuda_kernels.c finds them by name.
#include "src/device/kernel.h"

#define KERNELS(unit)                                                                              \
    extern "C" __global__ void __launch_bounds__(KVC_KERNEL_THREADS)                               \
        kvc_gather_##unit(const struct kvc_kernel_job job)                                         \
    {                                                                                              \
        kvc_kernel_copy_##unit(&job, KVC_KERNEL_GATHER, blockIdx.x, blockIdx.y, threadIdx.x);      \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(KVC_KERNEL_THREADS)                               \
        kvc_scatter_##unit(const struct kvc_kernel_job job)                                        \
    {                                                                                              \
        kvc_kernel_copy_##unit(&job, KVC_KERNEL_SCATTER, blockIdx.x, blockIdx.y, threadIdx.x);     \
    }

KERNELS(1)
KERNELS(2)
KERNELS(4)
KERNELS(8)
KERNELS(16)

static __device__ __forceinline__ unsigned long long now_ns()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

extern "C" __global__ void __launch_bounds__(KVC_KERNEL_THREADS)
    kvc_write_late(const struct kvc_kernel_late late)
{
    const unsigned long long started = now_ns();
    while (now_ns() - started < late.wait_ns)
        __nanosleep(1000);
    kvc_kernel_write_late(&late, threadIdx.x, blockDim.x);
}
