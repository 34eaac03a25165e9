/* Our declarations of the driver API against NVIDIA's. */
#include <criterion/criterion.h>
#include <cuda.h>

#include "src/device/cuda_driver.h"

/* cuda.h makes some names macros for a version of the function ("cuMemAlloc_v2"): the version that a
 * name stands for must be the symbol that we look up. */
#define TEXT(symbol)  TEXT_(symbol)
#define TEXT_(symbol) #symbol

Test(declarations, symbols_are_those_of_the_header)
{
    const char *const pairs[][2] = {
        {TEXT(cuDeviceGetUuid), "cuDeviceGetUuid_v2"},
        {TEXT(cuDevicePrimaryCtxRelease), "cuDevicePrimaryCtxRelease_v2"},
        {TEXT(cuMemGetInfo), "cuMemGetInfo_v2"},
        {TEXT(cuMemAlloc), "cuMemAlloc_v2"},
        {TEXT(cuMemFree), "cuMemFree_v2"},
        {TEXT(cuMemGetAddressRange), "cuMemGetAddressRange_v2"},
        {TEXT(cuMemHostAlloc), "cuMemHostAlloc"},
        {TEXT(cuMemHostRegister), "cuMemHostRegister_v2"},
        {TEXT(cuMemcpyHtoD), "cuMemcpyHtoD_v2"},
        {TEXT(cuMemcpyDtoH), "cuMemcpyDtoH_v2"},
        {TEXT(cuMemcpyHtoDAsync), "cuMemcpyHtoDAsync_v2"},
        {TEXT(cuMemcpyDtoHAsync), "cuMemcpyDtoHAsync_v2"},
        {TEXT(cuMemcpyDtoDAsync), "cuMemcpyDtoDAsync_v2"},
        {TEXT(cuStreamDestroy), "cuStreamDestroy_v2"},
        {TEXT(cuStreamWaitEvent), "cuStreamWaitEvent"},
        {TEXT(cuEventDestroy), "cuEventDestroy_v2"},
        {TEXT(cuEventRecord), "cuEventRecord"},
        {TEXT(cuIpcOpenMemHandle), "cuIpcOpenMemHandle_v2"},
        {TEXT(cuIpcOpenEventHandle), "cuIpcOpenEventHandle"},
        {TEXT(cuLaunchKernel), "cuLaunchKernel"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        cr_assert_str_eq(pairs[i][0], pairs[i][1]);
}

Test(declarations, types_are_as_wide)
{
    cr_assert_eq(sizeof(CUresult), sizeof(int));
    cr_assert_eq(sizeof(CUdevice), sizeof(int));
    cr_assert_eq(sizeof(CUdeviceptr), sizeof(uint64_t));
    cr_assert_eq(sizeof(CUuuid), sizeof(struct kvc_cu_uuid));
    cr_assert_eq(sizeof(CUipcMemHandle), sizeof(struct kvc_cu_ipc_memory));
    cr_assert_eq(sizeof(CUipcEventHandle), sizeof(struct kvc_cu_ipc_event));
}

Test(declarations, numbers_are_those_of_the_header)
{
    const int pairs[][2] = {
        {KVC_CU_SUCCESS, CUDA_SUCCESS},
        {KVC_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
        {KVC_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY},
        {KVC_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED},
        {KVC_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE},
        {KVC_CU_INVALID_DEVICE, CUDA_ERROR_INVALID_DEVICE},
        {KVC_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE},
        {KVC_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT},
        {KVC_CU_MAP_FAILED, CUDA_ERROR_MAP_FAILED},
        {KVC_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE},
        {KVC_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND},
        {KVC_CU_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED},
        {KVC_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING},
        {KVC_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING},
        {KVC_CU_EVENT_INTERPROCESS, CU_EVENT_INTERPROCESS},
        {KVC_CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        cr_assert_eq(pairs[i][0], pairs[i][1], "number %zu", i);
}
