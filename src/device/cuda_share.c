/* Memory and events of one process in another. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "src/device/cuda_internal.h"

kvc_status kvc_cuda_share(const void *memory, struct kvc_cu_ipc_memory *handle, int64_t *offset,
                          struct kvc_error *err)
{
    uint64_t base;
    size_t size;
    KVC_GUARD(KVC_CUDA(err, mem_range, &base, &size, kvc_cuda_address(memory)));
    KVC_GUARD(KVC_CUDA(err, ipc_memory_get, handle, base));
    *offset = (int64_t)(kvc_cuda_address(memory) - base);
    return KVC_OK;
}

/* One allocation of another process that is mapped here. */
struct mapping {
    LIST_ENTRY(mapping) in_list;
    struct kvc_cu_ipc_memory handle;
    uint64_t base;
    size_t size;
    size_t uses;
};

static LIST_HEAD(, mapping) mappings = LIST_HEAD_INITIALIZER(mappings);
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

static struct mapping *find(const struct kvc_cu_ipc_memory *handle, uint64_t base)
{
    struct mapping *mapping;
    LIST_FOREACH(mapping, &mappings, in_list)
    {
        if (handle != NULL ? memcmp(&mapping->handle, handle, sizeof(*handle)) == 0
                           : mapping->base == base)
            return mapping;
    }
    return NULL;
}

static kvc_status map_new(const struct kvc_cu_ipc_memory *handle, struct mapping **mapping,
                          struct kvc_error *err)
{
    struct mapping fresh = {.handle = *handle};
    uint64_t start;
    KVC_GUARD(kvc_cuda_open(err));
    kvc_status status =
        KVC_CUDA(err, ipc_memory_open, &fresh.base, *handle, KVC_CU_IPC_LAZY_PEER_ACCESS);
    if (status != KVC_OK) {
        kvc_cuda_close();
        return status;
    }
    status = KVC_CUDA(err, mem_range, &start, &fresh.size, fresh.base);
    if (status != KVC_OK) {
        kvc_cuda_driver.ipc_memory_close(fresh.base);
        kvc_cuda_close();
        return status;
    }
    fresh.size -= (size_t)(fresh.base - start);
    *mapping = kvc_alloc(sizeof(fresh));
    **mapping = fresh;
    LIST_INSERT_HEAD(&mappings, *mapping, in_list);
    return KVC_OK;
}

kvc_status kvc_cuda_map(const struct kvc_cu_ipc_memory *handle, uint8_t **memory, int64_t *size,
                        struct kvc_error *err)
{
    pthread_mutex_lock(&mappings_lock);
    struct mapping *mapping = find(handle, 0);
    const kvc_status status = mapping != NULL ? KVC_OK : map_new(handle, &mapping, err);
    if (status == KVC_OK) {
        mapping->uses++;
        *memory = kvc_cuda_pointer(mapping->base);
        *size = (int64_t)mapping->size;
    }
    pthread_mutex_unlock(&mappings_lock);
    return status;
}

bool kvc_cuda_unmap(const uint8_t *memory)
{
    pthread_mutex_lock(&mappings_lock);
    struct mapping *mapping = find(NULL, kvc_cuda_address(memory));
    if (mapping != NULL && --mapping->uses == 0) {
        LIST_REMOVE(mapping, in_list);
        if (kvc_cuda_use(NULL) == KVC_OK)
            kvc_cuda_driver.ipc_memory_close(mapping->base);
        free(mapping);
        kvc_cuda_close();
    }
    pthread_mutex_unlock(&mappings_lock);
    return mapping != NULL;
}
