#include "src/bench/call.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/driver/rpc.h"
#include "src/link/bare.h"
#include "src/target/aside.h"

enum { WARM_UP_CALLS = 100 };

struct lanes {
    const struct kvc_bench_call_options *options;
    struct kvc_rpc rpc;
    struct kvc_bare *bare;
    struct kvc_bare *to_echo;
    struct kvc_frames frames; /* NOOP as libzmq alone sends it */
    pid_t echo;
};

/* ---- the peer that does nothing ---- */

static _Noreturn void be_echo(int parent, int url_fd)
{
    kvc_aside_detach(parent, SIGKILL, &url_fd, 1);
    kvc_bare_echo(url_fd);
    _exit(1);
}

/* Starts it in a process of its own: before libzmq has threads in this one. */
static kvc_status start_echo(struct lanes *lanes, char *url, size_t url_size, struct kvc_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    const pid_t parent = getpid();
    lanes->echo = fork();
    if (lanes->echo == 0)
        be_echo(parent, ends[1]);
    close(ends[1]);
    FILE *stream = lanes->echo > 0 ? fdopen(ends[0], "r") : NULL;
    if (stream == NULL) {
        kvc_fail_errno(err, "cannot start the peer that sends everything back");
        close(ends[0]);
        return KVC_ESYSTEM;
    }
    const bool started = fgets(url, (int)url_size, stream) != NULL;
    fclose(stream);
    url[strcspn(url, "\n")] = '\0';
    return started
               ? KVC_OK
               : kvc_fail(err, KVC_ESYSTEM, "the peer that sends everything back did not start");
}

static void end_echo(const struct lanes *lanes)
{
    if (lanes->echo <= 0)
        return;
    kill(lanes->echo, SIGKILL);
    waitpid(lanes->echo, NULL, 0);
}

/* ---- calls ---- */

static kvc_status open_lanes(struct lanes *lanes, struct kvc_error *err)
{
    const struct kvc_bench_call_options *options = lanes->options;
    const struct kvc_request noop = {.op = KVC_OP_NOOP};
    char echo_url[64];
    KVC_GUARD(start_echo(lanes, echo_url, sizeof(echo_url), err));
    lanes->rpc.dialect = options->dialect;
    lanes->rpc.timeout_ms = options->timeout_ms;
    KVC_GUARD(
        kvc_client_open(options->rpc_url, options->connect_timeout_ms, &lanes->rpc.client, err));
    KVC_GUARD(kvc_bare_open(options->rpc_url, options->timeout_ms, &lanes->bare, err));
    KVC_GUARD(kvc_bare_open(echo_url, options->timeout_ms, &lanes->to_echo, err));
    kvc_frames_append_copy(&lanes->frames, "\xcd\x01\x00", 3); /* a uid of the usual size */
    return kvc_request_encode(options->dialect, &noop, &lanes->frames, err);
}

static void close_lanes(struct lanes *lanes)
{
    kvc_frames_clear(&lanes->frames);
    kvc_bare_close(lanes->to_echo);
    kvc_bare_close(lanes->bare);
    kvc_client_close(lanes->rpc.client);
    end_echo(lanes);
}

static kvc_status call(const struct lanes *lanes, enum kvc_call_lane lane, struct kvc_error *err)
{
    switch (lane) {
    case KVC_CALL_BARE:
        return kvc_bare_call(lanes->bare, &lanes->frames, err);
    case KVC_CALL_ECHO:
        return kvc_bare_call(lanes->to_echo, &lanes->frames, err);
    default:
        return kvc_rpc_noop(&lanes->rpc, err);
    }
}

/* Calls so many times, and gives the median in microseconds. */
static kvc_status measure(const struct lanes *lanes, enum kvc_call_lane lane, size_t calls,
                          double *microseconds, struct kvc_error *err)
{
    double *samples = kvc_alloc(calls * sizeof(*samples));
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < calls && status == KVC_OK; i++) {
        const int64_t begin = kvc_now_ns();
        status = call(lanes, lane, err);
        samples[i] = (double)(kvc_now_ns() - begin) / 1e3;
    }
    if (status == KVC_OK)
        *microseconds = kvc_spread_of(samples, calls).median;
    free(samples);
    return status;
}

/* Every lane once; which one begins changes from round to round. */
static kvc_status measure_round(const struct lanes *lanes, size_t round, size_t calls,
                                double microseconds[KVC_CALL_LANE_COUNT], struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_CALL_LANE_COUNT; i++) {
        const enum kvc_call_lane lane = (enum kvc_call_lane)((round + i) % KVC_CALL_LANE_COUNT);
        KVC_GUARD(measure(lanes, lane, calls, &microseconds[lane], err));
    }
    return KVC_OK;
}

static void summarise(double (*rounds)[KVC_CALL_LANE_COUNT], size_t count,
                      struct kvc_bench_call_result *result)
{
    double *values = kvc_alloc(count * sizeof(*values));
    for (size_t lane = 0; lane < KVC_CALL_LANE_COUNT; lane++) {
        for (size_t i = 0; i < count; i++)
            values[i] = rounds[i][lane];
        result->microseconds[lane] = kvc_spread_of(values, count);
    }
    for (size_t i = 0; i < count; i++)
        values[i] = rounds[i][KVC_CALL_CLIENT] / rounds[i][KVC_CALL_BARE];
    result->client_cost = kvc_spread_of(values, count);
    for (size_t i = 0; i < count; i++)
        values[i] = rounds[i][KVC_CALL_ECHO] / rounds[i][KVC_CALL_BARE];
    result->server_share = kvc_spread_of(values, count);
    free(values);
}

kvc_status kvc_bench_call_run(const struct kvc_bench_call_options *options,
                              struct kvc_bench_call_result *result, struct kvc_error *err)
{
    struct lanes lanes = {.options = options};
    const size_t count = (size_t)options->rounds;
    double(*rounds)[KVC_CALL_LANE_COUNT] = kvc_alloc_zero(count, sizeof(*rounds));
    double warm_up[KVC_CALL_LANE_COUNT];
    kvc_status status = open_lanes(&lanes, err);
    if (status == KVC_OK)
        status = measure_round(&lanes, 0, WARM_UP_CALLS, warm_up, err);
    for (size_t i = 0; i < count && status == KVC_OK; i++)
        status = measure_round(&lanes, i, (size_t)options->calls, rounds[i], err);
    if (status == KVC_OK)
        summarise(rounds, count, result);
    close_lanes(&lanes);
    free(rounds);
    return status;
}
