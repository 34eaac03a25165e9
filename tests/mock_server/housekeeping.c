#include "tests/mock_server/housekeeping.h"

#include "src/base/clock.h"
#include "tests/mock_server/late_copy.h"
#include "tests/mock_server/slot_guard.h"

/* Usage above which, and the share of the objects of which, is evicted (protocol.md 4.16). */
#define EVICTION_WATERMARK 0.8
#define EVICTION_SHARE     0.2
#define TOO_LARGE_A_SHARE  0.5 /* a defect */

enum {
    SWEEP_MS = 1000,
    SILENT_WORKER_MS = 3600 * 1000, /* a worker that never pings may be silent for that long */
};

static void reap(struct mock *mock, enum mock_mode mode)
{
    struct mock_instance *instance = LIST_FIRST(&mock->registry.instances[mode]);
    while (instance != NULL) {
        struct mock_instance *next = LIST_NEXT(instance, in_table);
        const bool pings = instance->has_pinged || mock_has(mock, MOCK_DEFECT_REAPER_TAKES_ALL);
        const int64_t patience = pings ? mock->options.reap_ms : (int64_t)SILENT_WORKER_MS;
        if (mock->now_ms - instance->seen_ms > patience &&
            !mock_has(mock, MOCK_DEFECT_REAPER_OFF)) {
            if (mock->watch != NULL)
                kvc_watch_dropped(mock->watch, instance->id);
            mock_leave(mock, instance);
        }
        instance = next;
    }
}

static void sweep(struct mock *mock)
{
    if ((double)mock->pool.used > EVICTION_WATERMARK * (double)mock->pool.size)
        mock_store_evict(&mock->store,
                         mock_has(mock, MOCK_DEFECT_EVICTS_HALF) ? TOO_LARGE_A_SHARE
                                                                 : EVICTION_SHARE,
                         mock->now_ms);
    mock_sessions_expire(&mock->sessions, mock->now_ms - mock->options.session_ttl_ms);
    for (int mode = 0; mode < MOCK_MODE_COUNT; mode++)
        reap(mock, (enum mock_mode)mode);
}

void mock_pass_time(struct mock *mock)
{
    mock->now_ms = kvc_now_ms();
    mock_late_copies_make(mock);
    mock_transfers_expire(&mock->transfers, &mock->store, mock->now_ms,
                          mock_has(mock, MOCK_DEFECT_WRITE_LEASE_PUBLISHES));
    if (mock->now_ms < mock->next_sweep_ms)
        return;
    sweep(mock);
    const int64_t reaper_ms = mock->options.reap_ms / 4;
    mock->next_sweep_ms = mock->now_ms + (reaper_ms < SWEEP_MS ? reaper_ms : SWEEP_MS);
}

void mock_account(struct mock *mock)
{
    if (mock->watch == NULL)
        return;
    mock_slots_verify_all(mock);
    kvc_watch_finish(mock->watch);
}
