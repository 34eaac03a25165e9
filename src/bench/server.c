#include "src/bench/server.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/bench/copy_speed.h"
#include "src/bench/server_parts.h"

static void note_start(struct kvc_bench_server_result *result)
{
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(result->started, sizeof(result->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
    kvc_machine_read(&result->machine);
}

static bool prepare(struct kvc_bench *bench)
{
    if (!bench->needs_prepared && bench->mix.weights[KVC_BENCH_PREFIX] == 0)
        return true;
    struct kvc_bench_phase phase = {.work = kvc_bench_prepare, .kind = KVC_BENCH_KIND_PREPARED};
    return kvc_bench_phase_run(bench, &phase, "preparing") && bench->result->errors == 0;
}

/* As the measured requests, with tokens of their own. A ramp warms up in closed loop: what it would
 * start with may be far too slow. */
static bool warm_up(struct kvc_bench *bench)
{
    if (bench->options->warmup == 0)
        return true;
    struct kvc_bench_phase phase = {
        .work = kvc_bench_work,
        .kind = KVC_BENCH_KIND_WARMUP,
        .rate = bench->options->ramp != NULL ? 0 : bench->options->rate,
        .count = bench->options->warmup,
    };
    return kvc_bench_phase_run(bench, &phase, "warming up");
}

static bool measure(struct kvc_bench *bench)
{
    const struct kvc_bench_server_options *options = bench->options;
    bench->next_sequence = options->start;
    if (options->ramp != NULL) {
        kvc_bench_ramp_run(bench);
        return !kvc_bench_stopped(bench);
    }
    const int64_t count = options->end < 0 ? -1 : options->end - options->start;
    return kvc_bench_measure(bench, options->rate, count, options->duration_ms,
                             &bench->result->measured);
}

static void read_back(struct kvc_bench *bench)
{
    if (!bench->leaves_unread)
        return;
    struct kvc_bench_phase phase = {.work = kvc_bench_read_back, .kind = KVC_BENCH_KIND_MEASURED};
    kvc_bench_phase_run(bench, &phase, "reading back");
}

static kvc_status run_phases(struct kvc_bench *bench, struct kvc_error *err)
{
    if (!prepare(bench) || !warm_up(bench))
        return KVC_OK;
    KVC_GUARD(kvc_flames_start(bench->options->flames, err));
    const bool goes_on = measure(bench);
    kvc_flames_stop(bench->options->flames);
    if (goes_on) {
        read_back(bench);
        bench->result->memcpy_speed = kvc_copy_speed(bench->result->request_bytes);
    }
    return KVC_OK;
}

kvc_status kvc_bench_server_run(const struct kvc_bench_server_options *options,
                                struct kvc_bench_server_result *result, struct kvc_error *err)
{
    *result = (struct kvc_bench_server_result){
        .measured = {.timeline = {.lane_count = KVC_BENCH_OPERATION_COUNT}}};
    struct kvc_bench bench = {.options = options, .result = result};
    pthread_mutex_init(&bench.lock, NULL);
    note_start(result);
    kvc_status status = kvc_bench_open(&bench, err);
    if (status == KVC_OK) {
        status = run_phases(&bench, err);
        result->interrupted = !result->lost && options->stop != NULL && *options->stop != 0;
    }
    kvc_bench_close(&bench);
    pthread_mutex_destroy(&bench.lock);
    return status;
}

void kvc_bench_server_result_clear(struct kvc_bench_server_result *result)
{
    kvc_bench_measurement_clear(&result->measured);
    free(result->steps);
}
