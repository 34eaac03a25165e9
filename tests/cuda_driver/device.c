/* The device, its context, and the account of what was not freed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda_driver/stand_in.h"

enum { DEVICE = 5, VERSION = 13000 };

static bool started;
static int retained;
static _Thread_local bool is_used;
static pthread_mutex_t counts_lock = PTHREAD_MUTEX_INITIALIZER;
static long counts[STAND_IN_KIND_COUNT];

static bool wrong(const char *fault)
{
    const char *set = getenv("KVCONFORM_STAND_IN");
    return set != NULL && strcmp(set, fault) == 0;
}

/* ---- the account ---- */

static const char *const kinds[STAND_IN_KIND_COUNT] = {
    [STAND_IN_ALLOCATION] = "allocations",   [STAND_IN_PINNED] = "pinned allocations",
    [STAND_IN_REGISTERED] = "registrations", [STAND_IN_MAPPING] = "mappings",
    [STAND_IN_STREAM] = "streams",           [STAND_IN_EVENT] = "events",
    [STAND_IN_MODULE] = "modules",
};

void stand_in_count(enum stand_in_kind kind, int change)
{
    pthread_mutex_lock(&counts_lock);
    counts[kind] += change;
    pthread_mutex_unlock(&counts_lock);
}

static size_t list_leaks(char *text, size_t size)
{
    size_t at = 0;
    for (int kind = 0; kind < STAND_IN_KIND_COUNT; kind++) {
        if (counts[kind] != 0 && at < size)
            at += (size_t)snprintf(text + at, size - at, " %ld %s", counts[kind], kinds[kind]);
    }
    return at;
}

static void account(const char *when)
{
    char leaks[256] = "", line[512];
    const size_t found = list_leaks(leaks, sizeof(leaks));
    const int size = snprintf(line, sizeof(line), "stand-in driver: process %d, %s: %s%s\n",
                              getpid(), when, found > 0 ? "not freed:" : "all freed", leaks);
    const char *path = getenv("KVCONFORM_STAND_IN_LOG");
    const int log = path == NULL ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const bool logged = log >= 0 && write(log, line, (size_t)size) == size;
    if (log >= 0)
        close(log);
    if (found > 0 && !logged)
        fputs(line, stderr);
}

static void at_exit(void)
{
    if (retained > 0)
        account("exit with the context in use");
}

/* ---- errors ---- */

int cuGetErrorString(int result, const char **text)
{
    static const struct {
        int result;
        const char *text;
    } texts[] = {
        {KVC_CU_SUCCESS, "no error"},
        {KVC_CU_INVALID_VALUE, "invalid argument"},
        {KVC_CU_OUT_OF_MEMORY, "out of memory"},
        {KVC_CU_NOT_INITIALIZED, "initialization error"},
        {KVC_CU_NO_DEVICE, "no CUDA-capable device is detected"},
        {KVC_CU_INVALID_DEVICE, "invalid device ordinal"},
        {KVC_CU_INVALID_IMAGE, "device kernel image is invalid"},
        {KVC_CU_INVALID_CONTEXT, "invalid device context"},
        {KVC_CU_MAP_FAILED, "mapping of buffer object failed"},
        {KVC_CU_INVALID_HANDLE, "invalid resource handle"},
        {KVC_CU_NOT_FOUND, "named symbol not found"},
        {KVC_CU_HOST_MEMORY_ALREADY_REGISTERED,
         "part or all of the requested memory range is already mapped"},
    };
    *text = NULL;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].result == result)
            *text = texts[i].text;
    }
    return *text == NULL ? KVC_CU_INVALID_VALUE : KVC_CU_SUCCESS;
}

/* ---- the device ---- */

int cuInit(unsigned flags)
{
    if (wrong("crash"))
        abort();
    if (wrong("no-device"))
        return KVC_CU_NO_DEVICE;
    started = flags == 0;
    return started ? KVC_CU_SUCCESS : KVC_CU_INVALID_VALUE;
}

int cuDriverGetVersion(int *version)
{
    *version = VERSION;
    return KVC_CU_SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    *count = wrong("none") ? 0 : 1;
    return started ? KVC_CU_SUCCESS : KVC_CU_NOT_INITIALIZED;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = DEVICE;
    return ordinal == 0 ? KVC_CU_SUCCESS : KVC_CU_INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "stand-in");
    return device == DEVICE ? KVC_CU_SUCCESS : KVC_CU_INVALID_DEVICE;
}

int cuDeviceGetUuid_v2(struct kvc_cu_uuid *uuid, int device)
{
    *uuid = (struct kvc_cu_uuid){"stand-in device"};
    return device == DEVICE ? KVC_CU_SUCCESS : KVC_CU_INVALID_DEVICE;
}

/* ---- the context ---- */

int cuDevicePrimaryCtxRetain(struct kvc_cu_context **context, int device)
{
    static bool registered;
    if (device != DEVICE)
        return KVC_CU_INVALID_DEVICE;
    if (!registered)
        atexit(at_exit);
    registered = true;
    retained++;
    *context = (struct kvc_cu_context *)&retained;
    return KVC_CU_SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    if (device != DEVICE || retained == 0)
        return KVC_CU_INVALID_CONTEXT;
    if (--retained == 0)
        account("context released");
    return KVC_CU_SUCCESS;
}

int cuCtxSetCurrent(struct kvc_cu_context *context)
{
    is_used = retained > 0 && context == (struct kvc_cu_context *)&retained;
    return is_used ? KVC_CU_SUCCESS : KVC_CU_INVALID_CONTEXT;
}

int stand_in_ready(void)
{
    if (!started)
        return KVC_CU_NOT_INITIALIZED;
    return is_used && retained > 0 ? KVC_CU_SUCCESS : KVC_CU_INVALID_CONTEXT;
}
