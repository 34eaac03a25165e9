/* One measured stretch, and the search for the highest rate by several of them. */
#include <stdlib.h>
#include <string.h>

#include "src/bench/server_parts.h"

enum { MIN_STEP_REQUESTS = 20 };

static const double first_rate = 1;
static const double rate_is_reached = 0.95;

void kvc_bench_measurement_clear(struct kvc_bench_measurement *measurement)
{
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        kvc_histogram_clear(&measurement->operations[i].latency);
    kvc_histogram_clear(&measurement->lateness);
    kvc_timeline_clear(&measurement->timeline);
}

bool kvc_bench_measure(struct kvc_bench *bench, double rate, int64_t count, int64_t duration_ms,
                       struct kvc_bench_measurement *measurement)
{
    *measurement = (struct kvc_bench_measurement){
        .timeline = {.lane_count = KVC_BENCH_OPERATION_COUNT}, .rate = rate};
    struct kvc_bench_phase phase = {
        .work = kvc_bench_work,
        .kind = KVC_BENCH_KIND_MEASURED,
        .recorded = true,
        .rate = rate,
        .count = count,
        .duration_ns = duration_ms * 1000000,
    };
    char what[48] = "measuring";
    if (rate > 0)
        snprintf(what, sizeof(what), "measuring at %.4g requests/s", rate);
    bench->measuring = measurement;
    const bool go_on = kvc_bench_phase_run(bench, &phase, what);
    bench->measuring = NULL;
    bench->next_sequence += phase.next;
    return go_on;
}

/* ---- ramp ---- */

static const struct kvc_histogram *limited(const struct kvc_ramp_limit *limit,
                                           const struct kvc_bench_measurement *measurement)
{
    size_t operation = 0;
    while (!kvc_str_is(limit->operation, kvc_bench_operation_names[operation]))
        operation++;
    return &measurement->operations[operation].latency;
}

static struct kvc_bench_step judge(const struct kvc_ramp_limit *limit,
                                   const struct kvc_bench_measurement *measurement)
{
    const struct kvc_histogram *latency = limited(limit, measurement);
    struct kvc_bench_step step = {
        .rate = measurement->rate,
        .reached = kvc_bench_rate_reached(measurement),
        .requests = measurement->requests,
        .value_ns = kvc_ramp_limit_figure(limit, latency),
        .p50_ns = kvc_histogram_percentile(latency, 0.5),
        .p99_ns = kvc_histogram_percentile(latency, 0.99),
    };
    if (latency->count == 0)
        snprintf(step.reason, sizeof(step.reason), "no sample");
    else if (measurement->unserved > 0)
        snprintf(step.reason, sizeof(step.reason), "%lld requests were due and never sent",
                 (long long)measurement->unserved);
    else if (step.value_ns > limit->limit_ns)
        snprintf(step.reason, sizeof(step.reason), "%s is %.3f ms", limit->figure,
                 (double)step.value_ns / 1e6);
    else if (step.reached < rate_is_reached * step.rate)
        snprintf(step.reason, sizeof(step.reason), "the rate was not reached");
    else
        step.met = true;
    return step;
}

static void keep_step(struct kvc_bench_server_result *result, const struct kvc_bench_step *step)
{
    result->steps = kvc_realloc(result->steps, (result->step_count + 1) * sizeof(*result->steps));
    result->steps[result->step_count++] = *step;
}

static void keep_measurement(struct kvc_bench_server_result *result,
                             const struct kvc_bench_step *step,
                             struct kvc_bench_measurement *measurement)
{
    if (step->decided && step->met && step->rate > result->highest_rate) {
        kvc_bench_measurement_clear(&result->measured);
        result->measured = *measurement;
        result->highest_rate = step->rate;
    } else {
        kvc_bench_measurement_clear(measurement);
    }
}

/* Long enough for a figure to be worth something. */
static int64_t step_duration(const struct kvc_bench *bench, double rate)
{
    const int64_t needed = (int64_t)(MIN_STEP_REQUESTS * 1000 / rate);
    const int64_t asked = bench->options->ramp_step_ms;
    return asked > needed ? asked : needed;
}

/* One try of the ramp's rate. False: the run is to end. */
static bool try_once(struct kvc_bench *bench, struct kvc_ramp *ramp, int number,
                     struct kvc_bench_step *step)
{
    const struct kvc_ramp_limit *limit = bench->options->ramp;
    struct kvc_bench_measurement measurement;
    if (!kvc_bench_measure(bench, ramp->rate, -1, step_duration(bench, ramp->rate), &measurement)) {
        kvc_bench_measurement_clear(&measurement);
        return false;
    }
    *step = judge(limit, &measurement);
    step->number = number;
    bool rate_met;
    step->decided = kvc_ramp_decide(ramp, step->met, &rate_met);
    kvc_bench_line(bench, "%.4g requests/s: reached %.4g, %s %.3f ms: %s%s", step->rate,
                   step->reached, limit->figure, (double)step->value_ns / 1e6,
                   step->met ? "meets the limit" : step->reason,
                   step->decided ? "" : "; once more");
    keep_step(bench->result, step);
    keep_measurement(bench->result, step, &measurement);
    return bench->result->errors == 0;
}

/* Until it is decided whether the rate meets the limit; the last try says it. */
static bool try_rate(struct kvc_bench *bench, struct kvc_ramp *ramp, struct kvc_bench_step *last)
{
    int number = 1;
    do {
        if (!try_once(bench, ramp, number++, last))
            return false;
    } while (!last->decided);
    return true;
}

void kvc_bench_ramp_run(struct kvc_bench *bench)
{
    const struct kvc_bench_server_options *options = bench->options;
    struct kvc_ramp ramp;
    struct kvc_bench_step last;
    kvc_ramp_start(&ramp, options->rate > 0 ? options->rate : first_rate);
    do {
        if (!try_rate(bench, &ramp, &last))
            return;
    } while (kvc_ramp_go_on(&ramp, last.met));
}
