/* Stands in for the NVIDIA driver library where there is no GPU: memory of the host behind
 * addresses that no host can use. KVC_STAND_IN in the environment names what is wrong with it. */
#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Not an address on any machine: who uses it without the driver crashes. */
#define DEVICE_BIT ((CUdeviceptr)1 << 62)

static int started, retained, used;

static int wrong(const char *fault)
{
    const char *set = getenv("KVC_STAND_IN");
    return set != NULL && strcmp(set, fault) == 0;
}

CUresult cuInit(unsigned flags)
{
    if (wrong("crash"))
        abort();
    if (wrong("no-device"))
        return CUDA_ERROR_NO_DEVICE;
    started = flags == 0;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_ERROR_NO_DEVICE       ? "no CUDA-capable device is detected"
            : error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
                                                : NULL;
    return *text == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = wrong("none") ? 0 : 1;
    return started ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = 5;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)&retained;
    return device == 5 && retained++ == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    used = context == (CUcontext)&retained;
    return used ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuMemAlloc(CUdeviceptr *memory, size_t size)
{
    if (!used)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (size > (size_t)1 << 40)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = (CUdeviceptr)(uintptr_t)malloc(size) | DEVICE_BIT;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory)
{
    free((void *)(uintptr_t)(memory & ~DEVICE_BIT));
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size)
{
    if ((to & DEVICE_BIT) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy((void *)(uintptr_t)(to & ~DEVICE_BIT), from, size);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size)
{
    if ((from & DEVICE_BIT) == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(to, (const void *)(uintptr_t)(from & ~DEVICE_BIT), size);
    return CUDA_SUCCESS;
}
