/* Device memory, shared between processes, and memory of the host. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cuda_driver/stand_in.h"

#define MAGIC 0x6b7663747761746eULL
#define TOTAL ((size_t)16 << 30)

/* Processes with the same name in the environment have one GPU's memory in common: tests that run side by
 * side are not to see each other's. */
#define GPU_NAME_ENVIRONMENT "KVCONFORM_STAND_IN_GPU"

struct memory_name {
    char text[64];
};

static struct memory_name memory_name(void)
{
    const char *gpu = getenv(GPU_NAME_ENVIRONMENT);
    struct memory_name name;
    snprintf(name.text, sizeof(name.text), "kvconform-stand-in-gpu-%s", gpu != NULL ? gpu : "0");
    return name;
}

/* Device memory of this process: its own, or mapped from another one. */
struct allocation {
    LIST_ENTRY(allocation) in_list;
    struct stand_in_shared shared;
    size_t size;
    size_t opens; /* 0: its own */
};

static LIST_HEAD(, allocation) allocations = LIST_HEAD_INITIALIZER(allocations);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- sharing: a process opens another's descriptor, so nothing is left when they are gone ---- */

static bool map_descriptor(struct stand_in_shared *shared)
{
    shared->memory =
        mmap(NULL, shared->handle.size, PROT_READ | PROT_WRITE, MAP_SHARED, shared->descriptor, 0);
    if (shared->memory != MAP_FAILED)
        return true;
    close(shared->descriptor);
    return false;
}

bool stand_in_share(const char *name, size_t size, struct stand_in_shared *shared)
{
    struct stat status;
    const int descriptor = memfd_create(name, MFD_CLOEXEC);
    if (descriptor < 0)
        return false;
    if (ftruncate(descriptor, (off_t)size) != 0 || fstat(descriptor, &status) != 0) {
        close(descriptor);
        return false;
    }
    *shared = (struct stand_in_shared){
        .handle = {.magic = MAGIC,
                   .process = getpid(),
                   .descriptor = descriptor,
                   .inode = status.st_ino,
                   .size = size},
        .descriptor = descriptor,
    };
    return map_descriptor(shared);
}

int stand_in_attach(const struct stand_in_handle *handle, struct stand_in_shared *shared)
{
    char path[64];
    struct stat status;
    if (handle->magic != MAGIC)
        return KVC_CU_INVALID_VALUE;
    if (handle->process == getpid())
        return KVC_CU_INVALID_CONTEXT;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->descriptor);
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return KVC_CU_INVALID_HANDLE;
    if (fstat(descriptor, &status) != 0 || status.st_ino != handle->inode ||
        (uint64_t)status.st_size != handle->size) {
        close(descriptor);
        return KVC_CU_INVALID_HANDLE;
    }
    *shared = (struct stand_in_shared){.handle = *handle, .descriptor = descriptor};
    return map_descriptor(shared) ? KVC_CU_SUCCESS : KVC_CU_MAP_FAILED;
}

void stand_in_withdraw(struct stand_in_shared *shared)
{
    if (shared->descriptor >= 0)
        close(shared->descriptor);
    shared->descriptor = -1;
}

void stand_in_detach(struct stand_in_shared *shared)
{
    munmap(shared->memory, shared->handle.size);
    stand_in_withdraw(shared);
}

/* ---- device memory ---- */

static uint64_t base_of(const struct allocation *allocation)
{
    return (uint64_t)(uintptr_t)allocation->shared.memory | STAND_IN_BIT;
}

static struct allocation *find(uint64_t address)
{
    struct allocation *allocation;
    LIST_FOREACH(allocation, &allocations, in_list)
    {
        if (address >= base_of(allocation) && address - base_of(allocation) < allocation->size)
            return allocation;
    }
    return NULL;
}

static void drop(struct allocation *allocation)
{
    LIST_REMOVE(allocation, in_list);
    stand_in_count(allocation->opens > 0 ? STAND_IN_MAPPING : STAND_IN_ALLOCATION, -1);
    stand_in_detach(&allocation->shared);
    free(allocation);
}

bool stand_in_has(uint64_t address, size_t size)
{
    pthread_mutex_lock(&lock);
    const struct allocation *allocation = find(address);
    const bool has =
        allocation != NULL && size <= allocation->size - (address - base_of(allocation));
    pthread_mutex_unlock(&lock);
    return has;
}

static struct allocation *add(const struct stand_in_shared *shared, size_t size, size_t opens)
{
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    if (allocation == NULL)
        abort();
    *allocation = (struct allocation){.shared = *shared, .size = size, .opens = opens};
    LIST_INSERT_HEAD(&allocations, allocation, in_list);
    stand_in_count(opens > 0 ? STAND_IN_MAPPING : STAND_IN_ALLOCATION, 1);
    return allocation;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
    struct stand_in_shared shared;
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    if (size == 0)
        return KVC_CU_INVALID_VALUE;
    if (size > TOTAL || !stand_in_share(memory_name().text, size, &shared))
        return KVC_CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *address = base_of(add(&shared, size, 0));
    pthread_mutex_unlock(&lock);
    return KVC_CU_SUCCESS;
}

int cuMemFree_v2(uint64_t address)
{
    pthread_mutex_lock(&lock);
    struct allocation *allocation = find(address);
    const bool is_own =
        allocation != NULL && base_of(allocation) == address && allocation->opens == 0;
    if (is_own)
        drop(allocation);
    pthread_mutex_unlock(&lock);
    return is_own ? KVC_CU_SUCCESS : KVC_CU_INVALID_VALUE;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address)
{
    pthread_mutex_lock(&lock);
    const struct allocation *allocation = find(address);
    if (allocation != NULL) {
        *base = base_of(allocation);
        *size = allocation->size;
    }
    pthread_mutex_unlock(&lock);
    return allocation != NULL ? KVC_CU_SUCCESS : KVC_CU_NOT_FOUND;
}

/* ---- how much is taken, by all processes: whatever somebody has mapped, once ---- */

struct inodes {
    uint64_t seen[4096];
    size_t count;
    size_t bytes;
};

static void add_inode(struct inodes *inodes, uint64_t inode, size_t bytes)
{
    for (size_t i = 0; i < inodes->count; i++) {
        if (inodes->seen[i] == inode)
            return;
    }
    if (inodes->count == sizeof(inodes->seen) / sizeof(inodes->seen[0]))
        return;
    inodes->seen[inodes->count++] = inode;
    inodes->bytes += bytes;
}

static void read_maps(const char *process, const char *memory, struct inodes *inodes)
{
    char path[300], line[512];
    snprintf(path, sizeof(path), "/proc/%s/maps", process);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start, end, inode;
        if (strstr(line, memory) != NULL &&
            sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) == 3)
            add_inode(inodes, inode, end - start);
    }
    if (maps != NULL)
        fclose(maps);
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    struct inodes inodes = {.count = 0};
    char mapped[sizeof(struct memory_name) + 16];
    snprintf(mapped, sizeof(mapped), "/memfd:%s (", memory_name().text);
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
            read_maps(entry->d_name, mapped, &inodes);
    }
    if (processes != NULL)
        closedir(processes);
    *total = TOTAL;
    *available = inodes.bytes < TOTAL ? TOTAL - inodes.bytes : 0;
    return stand_in_ready();
}

/* ---- handles ---- */

int cuIpcGetMemHandle(struct kvc_cu_ipc_memory *handle, uint64_t address)
{
    pthread_mutex_lock(&lock);
    const struct allocation *allocation = find(address);
    if (allocation != NULL) {
        *handle = (struct kvc_cu_ipc_memory){{0}};
        memcpy(handle, &allocation->shared.handle, sizeof(allocation->shared.handle));
    }
    pthread_mutex_unlock(&lock);
    return allocation != NULL ? KVC_CU_SUCCESS : KVC_CU_INVALID_VALUE;
}

int cuIpcOpenMemHandle_v2(uint64_t *address, struct kvc_cu_ipc_memory handle, unsigned flags)
{
    struct stand_in_handle wanted;
    struct stand_in_shared shared;
    struct allocation *allocation;
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    if (flags != KVC_CU_IPC_LAZY_PEER_ACCESS)
        return KVC_CU_INVALID_VALUE;
    memcpy(&wanted, &handle, sizeof(wanted));
    pthread_mutex_lock(&lock);
    LIST_FOREACH(allocation, &allocations, in_list)
    {
        if (allocation->shared.handle.inode == wanted.inode && allocation->opens > 0)
            break;
    }
    int result = KVC_CU_SUCCESS;
    if (allocation != NULL)
        allocation->opens++;
    else
        result = stand_in_attach(&wanted, &shared);
    if (result == KVC_CU_SUCCESS && allocation == NULL)
        allocation = add(&shared, shared.handle.size, 1);
    if (result == KVC_CU_SUCCESS)
        *address = base_of(allocation);
    pthread_mutex_unlock(&lock);
    return result;
}

int cuIpcCloseMemHandle(uint64_t address)
{
    pthread_mutex_lock(&lock);
    struct allocation *allocation = find(address);
    const bool is_mapped =
        allocation != NULL && base_of(allocation) == address && allocation->opens > 0;
    if (is_mapped && allocation->opens == 1)
        drop(allocation);
    else if (is_mapped)
        allocation->opens--;
    pthread_mutex_unlock(&lock);
    return is_mapped ? KVC_CU_SUCCESS : KVC_CU_INVALID_VALUE;
}

/* ---- memory of the host ---- */

int cuMemHostAlloc(void **memory, size_t size, unsigned flags)
{
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    *memory = flags == 0 && size > 0 ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
    if (*memory == NULL)
        return KVC_CU_OUT_OF_MEMORY;
    stand_in_count(STAND_IN_PINNED, 1);
    return KVC_CU_SUCCESS;
}

int cuMemFreeHost(void *memory)
{
    free(memory);
    stand_in_count(STAND_IN_PINNED, -1);
    return KVC_CU_SUCCESS;
}

int cuMemHostRegister_v2(void *memory, size_t size, unsigned flags)
{
    if (memory == NULL || size == 0 || flags != 0)
        return KVC_CU_INVALID_VALUE;
    stand_in_count(STAND_IN_REGISTERED, 1);
    return stand_in_ready();
}

int cuMemHostUnregister(void *memory)
{
    stand_in_count(STAND_IN_REGISTERED, -1);
    return memory != NULL ? KVC_CU_SUCCESS : KVC_CU_INVALID_VALUE;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size)
{
    if (!stand_in_has(to, size))
        return KVC_CU_INVALID_VALUE;
    memcpy(stand_in_pointer(to), from, size);
    return KVC_CU_SUCCESS;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size)
{
    if (!stand_in_has(from, size))
        return KVC_CU_INVALID_VALUE;
    memcpy(to, stand_in_pointer(from), size);
    return KVC_CU_SUCCESS;
}
