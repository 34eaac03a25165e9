/* Events: two counters, which other processes can look at. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda_driver/stand_in.h"

enum { POLL_MICROSECONDS = 200 };

/* How often it was recorded, and which of these have happened. */
struct counters {
    _Atomic uint64_t recorded;
    _Atomic uint64_t happened;
};

struct kvc_cu_event {
    struct counters *counters;
    struct stand_in_shared shared; /* interprocess events, and those of another process */
    struct counters own;           /* others */
    bool is_shared, is_imported;
    atomic_int references;
};

static struct kvc_cu_event *new_event(void)
{
    struct kvc_cu_event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        abort();
    event->counters = &event->own;
    event->references = 1;
    return event;
}

/* Work that is still to be done refers to an event that was destroyed meanwhile. */
static void release(struct kvc_cu_event *event)
{
    if (atomic_fetch_sub(&event->references, 1) > 1)
        return;
    if (event->is_shared)
        stand_in_detach(&event->shared);
    free(event);
}

static void use_shared(struct kvc_cu_event *event)
{
    event->is_shared = true;
    event->counters = (struct counters *)(void *)event->shared.memory;
}

int cuEventCreate(struct kvc_cu_event **event, unsigned flags)
{
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    /* An event that measures time cannot be shared. */
    if ((flags & KVC_CU_EVENT_INTERPROCESS) != 0 && (flags & KVC_CU_EVENT_DISABLE_TIMING) == 0)
        return KVC_CU_INVALID_VALUE;
    struct kvc_cu_event *fresh = new_event();
    if ((flags & KVC_CU_EVENT_INTERPROCESS) != 0) {
        if (!stand_in_share("kvconform-stand-in-event", sizeof(struct counters), &fresh->shared)) {
            free(fresh);
            return KVC_CU_OUT_OF_MEMORY;
        }
        use_shared(fresh);
    }
    stand_in_count(STAND_IN_EVENT, 1);
    *event = fresh;
    return KVC_CU_SUCCESS;
}

int cuEventDestroy_v2(struct kvc_cu_event *event)
{
    stand_in_count(STAND_IN_EVENT, -1);
    if (event->is_shared)
        stand_in_withdraw(&event->shared);
    release(event);
    return KVC_CU_SUCCESS;
}

/* ---- in streams ---- */

struct moment {
    struct kvc_cu_event *event;
    uint64_t number;
};

static struct moment *moment_of(struct kvc_cu_event *event, uint64_t number)
{
    struct moment *moment = malloc(sizeof(*moment));
    if (moment == NULL)
        abort();
    atomic_fetch_add(&event->references, 1);
    *moment = (struct moment){event, number};
    return moment;
}

static void let_happen(void *arg)
{
    const struct moment *moment = arg;
    atomic_store(&moment->event->counters->happened, moment->number);
    release(moment->event);
}

int cuEventRecord(struct kvc_cu_event *event, struct kvc_cu_stream *stream)
{
    if (event->is_imported)
        return KVC_CU_INVALID_HANDLE;
    const uint64_t number = atomic_fetch_add(&event->counters->recorded, 1) + 1;
    stand_in_enqueue(stream, let_happen, moment_of(event, number));
    return stand_in_ready();
}

/* What a process that is gone had recorded will not happen any more: nobody waits for it. */
static bool is_over(const struct moment *moment)
{
    const struct kvc_cu_event *event = moment->event;
    return atomic_load(&event->counters->happened) >= moment->number ||
           (event->is_imported && kill(event->shared.handle.process, 0) != 0 && errno == ESRCH);
}

static void await(void *arg)
{
    const struct moment *moment = arg;
    while (!is_over(moment))
        usleep(POLL_MICROSECONDS);
    release(moment->event);
}

int cuStreamWaitEvent(struct kvc_cu_stream *stream, struct kvc_cu_event *event, unsigned flags)
{
    if (flags != 0)
        return KVC_CU_INVALID_VALUE;
    const uint64_t number = atomic_load(&event->counters->recorded);
    stand_in_enqueue(stream, await, moment_of(event, number));
    return stand_in_ready();
}

int cuEventSynchronize(struct kvc_cu_event *event)
{
    const struct moment moment = {event, atomic_load(&event->counters->recorded)};
    while (!is_over(&moment))
        usleep(POLL_MICROSECONDS);
    return stand_in_ready();
}

/* ---- handles ---- */

int cuIpcGetEventHandle(struct kvc_cu_ipc_event *handle, struct kvc_cu_event *event)
{
    if (!event->is_shared || event->is_imported)
        return KVC_CU_INVALID_HANDLE;
    *handle = (struct kvc_cu_ipc_event){{0}};
    memcpy(handle, &event->shared.handle, sizeof(event->shared.handle));
    return KVC_CU_SUCCESS;
}

int cuIpcOpenEventHandle(struct kvc_cu_event **event, struct kvc_cu_ipc_event handle)
{
    struct stand_in_handle wanted;
    if (stand_in_ready() != KVC_CU_SUCCESS)
        return stand_in_ready();
    memcpy(&wanted, &handle, sizeof(wanted));
    struct kvc_cu_event *fresh = new_event();
    const int result = wanted.size == sizeof(struct counters)
                           ? stand_in_attach(&wanted, &fresh->shared)
                           : KVC_CU_INVALID_VALUE;
    if (result != KVC_CU_SUCCESS) {
        free(fresh);
        return result;
    }
    use_shared(fresh);
    fresh->is_imported = true;
    stand_in_count(STAND_IN_EVENT, 1);
    *event = fresh;
    return KVC_CU_SUCCESS;
}
