/* The part of NVIDIA's driver API that is used here, declared by ourselves: the program is built without the
 * CUDA Toolkit, finds the driver library when it runs, and says so when there is none. For the files of
 * this folder, and for the stand-in library of the tests, which implements it. */
#ifndef KVC_DEVICE_CUDA_DRIVER_H
#define KVC_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/error.h"

struct kvc_cu_context;
struct kvc_cu_stream;
struct kvc_cu_event;
struct kvc_cu_module;
struct kvc_cu_function;

/* Passed by value, as CUipcMemHandle, CUipcEventHandle and CUuuid are. */
struct kvc_cu_ipc_memory {
    uint8_t bytes[64];
};
struct kvc_cu_ipc_event {
    uint8_t bytes[64];
};
struct kvc_cu_uuid {
    uint8_t bytes[16];
};

/* Results and flags, by their names in cuda.h without the prefix. */
enum {
    KVC_CU_SUCCESS = 0,
    KVC_CU_INVALID_VALUE = 1,
    KVC_CU_OUT_OF_MEMORY = 2,
    KVC_CU_NOT_INITIALIZED = 3,
    KVC_CU_NO_DEVICE = 100,
    KVC_CU_INVALID_DEVICE = 101,
    KVC_CU_INVALID_IMAGE = 200,
    KVC_CU_INVALID_CONTEXT = 201,
    KVC_CU_MAP_FAILED = 205,
    KVC_CU_ALREADY_MAPPED = 208,
    KVC_CU_INVALID_HANDLE = 400,
    KVC_CU_NOT_FOUND = 500,
    KVC_CU_NOT_READY = 600,
    KVC_CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
    KVC_CU_STREAM_NON_BLOCKING = 1,
    KVC_CU_EVENT_DISABLE_TIMING = 2,
    KVC_CU_EVENT_INTERPROCESS = 4,
    KVC_CU_IPC_LAZY_PEER_ACCESS = 1,
};

/* X(member, name, the library's symbol, parameters). All return a result. */
#define KVC_CUDA_CALLS(X)                                                                          \
    X(init, "cuInit", cuInit, (unsigned flags))                                                    \
    X(error_string, "cuGetErrorString", cuGetErrorString, (int result, const char **text))         \
    X(driver_version, "cuDriverGetVersion", cuDriverGetVersion, (int *version))                    \
    X(device_count, "cuDeviceGetCount", cuDeviceGetCount, (int *count))                            \
    X(device_get, "cuDeviceGet", cuDeviceGet, (int *device, int ordinal))                          \
    X(device_name, "cuDeviceGetName", cuDeviceGetName, (char *name, int size, int device))         \
    X(device_uuid, "cuDeviceGetUuid", cuDeviceGetUuid_v2, (struct kvc_cu_uuid * uuid, int device)) \
    X(context_retain, "cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain,                        \
      (struct kvc_cu_context * *context, int device))                                              \
    X(context_release, "cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease_v2, (int device))    \
    X(context_use, "cuCtxSetCurrent", cuCtxSetCurrent, (struct kvc_cu_context * context))          \
    X(mem_info, "cuMemGetInfo", cuMemGetInfo_v2, (size_t * free, size_t * total))                  \
    X(mem_alloc, "cuMemAlloc", cuMemAlloc_v2, (uint64_t * address, size_t size))                   \
    X(mem_free, "cuMemFree", cuMemFree_v2, (uint64_t address))                                     \
    X(mem_range, "cuMemGetAddressRange", cuMemGetAddressRange_v2,                                  \
      (uint64_t * base, size_t * size, uint64_t address))                                          \
    X(host_alloc, "cuMemHostAlloc", cuMemHostAlloc, (void **memory, size_t size, unsigned flags))  \
    X(host_free, "cuMemFreeHost", cuMemFreeHost, (void *memory))                                   \
    X(host_register, "cuMemHostRegister", cuMemHostRegister_v2,                                    \
      (void *memory, size_t size, unsigned flags))                                                 \
    X(host_unregister, "cuMemHostUnregister", cuMemHostUnregister, (void *memory))                 \
    X(copy_in, "cuMemcpyHtoD", cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t size))      \
    X(copy_out, "cuMemcpyDtoH", cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t size))           \
    X(copy_in_async, "cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2,                                    \
      (uint64_t to, const void *from, size_t size, struct kvc_cu_stream *stream))                  \
    X(copy_out_async, "cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2,                                   \
      (void *to, uint64_t from, size_t size, struct kvc_cu_stream *stream))                        \
    X(copy_async, "cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2,                                       \
      (uint64_t to, uint64_t from, size_t size, struct kvc_cu_stream * stream))                    \
    X(stream_create, "cuStreamCreate", cuStreamCreate,                                             \
      (struct kvc_cu_stream * *stream, unsigned flags))                                            \
    X(stream_destroy, "cuStreamDestroy", cuStreamDestroy_v2, (struct kvc_cu_stream * stream))      \
    X(stream_synchronize, "cuStreamSynchronize", cuStreamSynchronize,                              \
      (struct kvc_cu_stream * stream))                                                             \
    X(stream_wait_event, "cuStreamWaitEvent", cuStreamWaitEvent,                                   \
      (struct kvc_cu_stream * stream, struct kvc_cu_event * event, unsigned flags))                \
    X(event_create, "cuEventCreate", cuEventCreate,                                                \
      (struct kvc_cu_event * *event, unsigned flags))                                              \
    X(event_destroy, "cuEventDestroy", cuEventDestroy_v2, (struct kvc_cu_event * event))           \
    X(event_record, "cuEventRecord", cuEventRecord,                                                \
      (struct kvc_cu_event * event, struct kvc_cu_stream * stream))                                \
    X(event_synchronize, "cuEventSynchronize", cuEventSynchronize, (struct kvc_cu_event * event))  \
    X(ipc_memory_get, "cuIpcGetMemHandle", cuIpcGetMemHandle,                                      \
      (struct kvc_cu_ipc_memory * handle, uint64_t address))                                       \
    X(ipc_memory_open, "cuIpcOpenMemHandle", cuIpcOpenMemHandle_v2,                                \
      (uint64_t * address, struct kvc_cu_ipc_memory handle, unsigned flags))                       \
    X(ipc_memory_close, "cuIpcCloseMemHandle", cuIpcCloseMemHandle, (uint64_t address))            \
    X(ipc_event_get, "cuIpcGetEventHandle", cuIpcGetEventHandle,                                   \
      (struct kvc_cu_ipc_event * handle, struct kvc_cu_event * event))                             \
    X(ipc_event_open, "cuIpcOpenEventHandle", cuIpcOpenEventHandle,                                \
      (struct kvc_cu_event * *event, struct kvc_cu_ipc_event handle))                              \
    X(module_load, "cuModuleLoadData", cuModuleLoadData,                                           \
      (struct kvc_cu_module * *module, const void *image))                                         \
    X(module_unload, "cuModuleUnload", cuModuleUnload, (struct kvc_cu_module * module))            \
    X(module_function, "cuModuleGetFunction", cuModuleGetFunction,                                 \
      (struct kvc_cu_function * *function, struct kvc_cu_module * module, const char *name))       \
    X(launch, "cuLaunchKernel", cuLaunchKernel,                                                    \
      (struct kvc_cu_function * function, unsigned grid_x, unsigned grid_y, unsigned grid_z,       \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,                \
       struct kvc_cu_stream *stream, void **parameters, void **extra))

/* A driver library that cannot run GPU code has this symbol: what its cuModuleLoadData takes. */
#define KVC_CUDA_STAND_IN_SYMBOL "kvc_stand_in_image"

#define KVC_CUDA_MEMBER(member, name, symbol, parameters) int(*member) parameters;
struct kvc_cuda_driver {
    KVC_CUDA_CALLS(KVC_CUDA_MEMBER)
    const void *stand_in_image; /* NULL: NVIDIA's own */
};
#undef KVC_CUDA_MEMBER

#define KVC_CUDA_NAME(member, name, symbol, parameters) const char *member;
struct kvc_cuda_names {
    KVC_CUDA_CALLS(KVC_CUDA_NAME)
};
#undef KVC_CUDA_NAME

/* Filled in by kvc_cuda_driver_load. */
extern struct kvc_cuda_driver kvc_cuda_driver;
extern const struct kvc_cuda_names kvc_cuda_names;

/* The environment's name for another driver library than the machine's. */
#define KVC_CUDA_DRIVER_ENVIRONMENT "KVCONFORM_CUDA_DRIVER"

/* Loads the library once. KVC_EUNSUPPORTED: there is none, or it is too old. */
kvc_status kvc_cuda_driver_load(struct kvc_error *err);
/* Loads and starts it, and picks the first GPU. */
kvc_status kvc_cuda_driver_start(int *device, struct kvc_error *err);

/* KVC_OK, or an error that names the call and what the driver says: "cuMemAlloc: out of memory (2)".
 * KVC_ENOMEM when memory is out, else `status`. */
kvc_status kvc_cuda_check(int result, kvc_status status, const char *call, struct kvc_error *err);

/* Makes one call of the driver. */
#define KVC_CUDA(err, member, ...)                                                                 \
    kvc_cuda_check(kvc_cuda_driver.member(__VA_ARGS__), KVC_ESYSTEM, kvc_cuda_names.member, err)

#endif
