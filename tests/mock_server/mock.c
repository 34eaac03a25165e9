#include "tests/mock_server/mock.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/mock_server/dispatch.h"
#include "tests/mock_server/endings.h"
#include "tests/mock_server/gpu.h"
#include "tests/mock_server/guard.h"
#include "tests/mock_server/housekeeping.h"
#include "tests/mock_server/http.h"

/* A running mock: its state, and what its loop waits for. */
struct running {
    struct mock mock;
    struct mock_dispatch dispatch;
    struct mock_http *http; /* NULL: none */
    sigset_t old_signals;
    bool signals_blocked;
    int signal_fd;
    int wake_fd; /* epoll: readable when one of the others is */
};

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static const char *newest_release(const struct kvc_dialect *dialect)
{
    const char *newest = dialect->name;
    for (size_t i = 0; dialect->releases[i] != NULL; i++)
        newest = dialect->releases[i];
    return newest;
}

/* The options with every default filled in (mock.h, protocol.md 4.1). */
static struct kvc_mock_options filled_in(const struct kvc_mock_options *options)
{
    struct kvc_mock_options full = *options;
    if (full.dialect == NULL)
        full.dialect = kvc_dialects[kvc_dialect_count - 1];
    if (full.version == NULL)
        full.version = newest_release(full.dialect);
    full.chunk_size = or_default(full.chunk_size, 256);
    full.pool_size = or_default(full.pool_size, (int64_t)1 << 30);
    full.read_ttl_ms = or_default(full.read_ttl_ms, 300000);
    full.write_ttl_ms = or_default(full.write_ttl_ms, 600000);
    full.session_ttl_ms = or_default(full.session_ttl_ms, 600000);
    full.reap_ms = or_default(full.reap_ms, 120000);
    full.store_delay_ms = options->store_delay_ms < 0 ? 0 : or_default(options->store_delay_ms, 5);
    return full;
}

static kvc_status open_l2(struct mock *mock, const char *json, struct kvc_error *err)
{
    const kvc_status status = mock_l2_open(&mock->l2, json, mock->defects, &mock->store, err);
    if (status == KVC_EUSAGE && err != NULL) {
        char *where = kvc_format("--l2-adapter%s%s", err->where[0] != '\0' ? ": " : "", err->where);
        kvc_error_set_where(err, "%s", where);
        free(where);
    }
    return status;
}

static kvc_status open_state(struct mock *mock, const struct kvc_mock_options *options,
                             struct kvc_error *err)
{
    mock->options = filled_in(options);
    if (mock->options.chunk_size < 1 || mock->options.chunk_size > 1 << 20)
        return kvc_fail(err, KVC_EUSAGE, "a chunk has 1 to %d tokens, not %lld", 1 << 20,
                        (long long)mock->options.chunk_size);
    KVC_GUARD(mock_defects_read(options->defects, mock->defects, err));
    KVC_GUARD(mock_pool_open(&mock->pool, !options->no_pool, options->pool_name,
                             mock->options.pool_size, err));
    if (mock_has(mock, MOCK_DEFECT_SLOTS_UNALIGNED))
        mock_pool_shift(&mock->pool);
    if (mock->pool.shared && mock_has(mock, MOCK_DEFECT_POOL_OPEN_TO_ALL))
        mock_pool_open_to_all(&mock->pool);
    mock->pool.keeps_name = mock_has(mock, MOCK_DEFECT_POOL_LEFT_BEHIND);
    mock->pool.is_cut = mock_has(mock, MOCK_DEFECT_POOL_CUT_AT_END);
    const bool endless = mock_has(mock, MOCK_DEFECT_READ_LEASE_ENDLESS);
    mock_store_init(&mock->store, &mock->pool, endless ? INT64_MAX : mock->options.read_ttl_ms);
    if (mock_has(mock, MOCK_DEFECT_MEMORY_UNGUARDED))
        mock_guard_off();
    mock->store.evicts_locked = mock_has(mock, MOCK_DEFECT_EVICTS_LOCKED);
    mock->store.evicts_pending = mock_has(mock, MOCK_DEFECT_EVICTS_PENDING);
    mock->store.evicts_nothing = mock_has(mock, MOCK_DEFECT_EVICTS_NOTHING);
    mock->store.lease_runs_on = mock_has(mock, MOCK_DEFECT_LEASE_NOT_RESTARTED);
    mock->store.ignores_use = mock_has(mock, MOCK_DEFECT_USE_NOT_NOTED);
    mock->transfers.loses_room = mock_has(mock, MOCK_DEFECT_DROPPED_ROOM_LOST);
    if (options->l2_adapter != NULL)
        KVC_GUARD(open_l2(mock, options->l2_adapter, err));
    mock_watch_open(mock);
    mock->now_ms = kvc_now_ms();
    return KVC_OK;
}

static void close_state(struct mock *mock)
{
    if (mock->pool.data == NULL)
        return;
    mock_account(mock);
    mock_p2p_clear(&mock->p2p);
    mock_holder_release(&mock->orphans);
    mock_memory_clear(&mock->used_up);
    mock_transfers_drop_all(&mock->transfers, &mock->store);
    mock_sessions_clear(&mock->sessions);
    mock_registry_clear(&mock->registry);
    mock_store_clear(&mock->store);
    mock_l2_close(&mock->l2);
    mock_quotas_clear(mock);
    mock_gpu_close(mock);
    mock_endings_clear(&mock->endings);
    mock_pool_close(&mock->pool);
    kvc_watch_close(mock->watch);
}

static kvc_status wake_on(struct running *running, int fd, struct kvc_error *err)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (fd >= 0 && epoll_ctl(running->wake_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return kvc_fail_errno(err, "cannot wait for descriptor %d", fd);
    return KVC_OK;
}

/* SIGINT and SIGTERM arrive as bytes on a descriptor, so that none comes between a look and a wait. */
static kvc_status open_signals(struct running *running, struct kvc_error *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &running->old_signals);
    running->signals_blocked = true;
    running->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    running->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (running->signal_fd < 0 || running->wake_fd < 0)
        return kvc_fail_errno(err, "cannot wait for signals");
    return KVC_OK;
}

static kvc_status open_all(struct running *running, const struct kvc_mock_options *options,
                           struct kvc_error *err)
{
    KVC_GUARD(open_signals(running, err));
    KVC_GUARD(open_state(&running->mock, options, err));
    KVC_GUARD(kvc_server_open(options->bind, &running->dispatch.server, err));
    if (options->http != NULL) {
        KVC_GUARD(mock_http_open(options->http, &running->mock, &running->http, err));
        KVC_GUARD(wake_on(running, mock_http_fd(running->http), err));
    }
    KVC_GUARD(wake_on(running, running->signal_fd, err));
    KVC_GUARD(wake_on(running, options->stop_fd, err));
    kvc_server_set_wake_fd(running->dispatch.server, running->wake_fd);
    mock_endings_open(&running->mock, running->dispatch.server);
    return KVC_OK;
}

/* What this process was sent while the mock ran has been taken as the wish to stop: it is not
 * delivered a second time. */
static void close_signals(struct running *running)
{
    struct signalfd_siginfo info;
    while (running->signal_fd >= 0 && read(running->signal_fd, &info, sizeof(info)) > 0) {
    }
    if (running->signal_fd >= 0)
        close(running->signal_fd);
    if (running->wake_fd >= 0)
        close(running->wake_fd);
    if (running->signals_blocked)
        sigprocmask(SIG_SETMASK, &running->old_signals, NULL);
}

static void close_all(struct running *running)
{
    if (running->http != NULL)
        mock_http_close(running->http);
    mock_dispatch_clear(&running->dispatch);
    kvc_server_close(running->dispatch.server);
    close_state(&running->mock);
    close_signals(running);
}

static kvc_status tell_ready(const struct running *running, int ready_fd, struct kvc_error *err)
{
    if (ready_fd < 0)
        return KVC_OK;
    struct kvc_buffer line = {0};
    kvc_buffer_printf(&line, "%s\n%s\n", kvc_server_url(running->dispatch.server),
                      running->http != NULL ? mock_http_url(running->http) : "");
    const ssize_t written = write(ready_fd, line.data, line.size);
    const bool complete = written == (ssize_t)line.size;
    kvc_buffer_clear(&line);
    return complete ? KVC_OK : kvc_fail_errno(err, "cannot say that the mock is ready");
}

/* Serves whatever woke the loop; true when that was the wish to stop. */
static bool serve_wake(struct running *running)
{
    struct epoll_event events[4];
    bool stop = false;
    const int count = epoll_wait(running->wake_fd, events, 4, 0);
    for (int i = 0; i < count; i++) {
        if (running->http != NULL && events[i].data.fd == mock_http_fd(running->http))
            mock_http_serve(running->http);
        else
            stop = true;
    }
    return stop;
}

/* How long the loop may sleep: until the next thing that happens by itself. */
static int64_t sleep_ms(struct running *running)
{
    const int64_t now_ms = running->mock.now_ms;
    int64_t until_ms = running->mock.next_sweep_ms;
    const int64_t transfer_ms = mock_transfers_next_ms(&running->mock.transfers);
    const int64_t late_ms = mock_dispatch_late(&running->dispatch, now_ms);
    until_ms = transfer_ms < until_ms ? transfer_ms : until_ms;
    until_ms = late_ms < until_ms ? late_ms : until_ms;
    int64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    if (running->http != NULL && mock_http_wait_ms(running->http) < wait_ms)
        wait_ms = mock_http_wait_ms(running->http);
    return wait_ms;
}

static kvc_status loop(struct running *running, struct kvc_error *err)
{
    struct mock *mock = &running->mock;
    for (;;) {
        mock_pass_time(mock);
        mock_end_by_peers(mock, running->dispatch.server);
        const kvc_status status =
            mock_dispatch_serve(&running->dispatch, mock, sleep_ms(running), err);
        if (status == KVC_EINTERRUPTED && serve_wake(running))
            return KVC_OK;
        if (status == KVC_ETIMEOUT && running->http != NULL)
            mock_http_serve(running->http);
        if (status != KVC_OK && status != KVC_EINTERRUPTED && status != KVC_ETIMEOUT)
            return status;
    }
}

kvc_status kvc_mock_run(const struct kvc_mock_options *options, struct kvc_error *err)
{
    struct running *running = kvc_alloc_zero(1, sizeof(*running));
    running->signal_fd = -1;
    running->wake_fd = -1;
    kvc_status status = open_all(running, options, err);
    if (status == KVC_OK)
        status = tell_ready(running, options->ready_fd, err);
    if (status == KVC_OK)
        status = loop(running, err);
    close_all(running);
    free(running);
    return status;
}
