/* Figures over the requests that succeeded. */
#include <math.h>
#include <stdlib.h>

#include "src/bench/engine.h"

double kvc_bench_engine_decode_speed(const struct kvc_bench_engine_record *record)
{
    const int64_t span = record->last_token_ns - record->first_token_ns;
    if (!record->is_ok || record->completion_tokens < 2 || span <= 0)
        return -1;
    return (double)(record->completion_tokens - 1) * 1e9 / (double)span;
}

static double ttft_ms(const struct kvc_bench_engine_record *record)
{
    return (double)(record->first_token_ns - record->due_ns) / 1e6;
}

static double latency_ms(const struct kvc_bench_engine_record *record)
{
    return (double)(record->finished_ns - record->due_ns) / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Nearest rank: the smallest value that so many in a hundred do not exceed. */
static double percentile(const double *sorted, size_t count, size_t percent)
{
    const size_t rank = (count * percent + 99) / 100;
    return sorted[rank == 0 ? 0 : rank - 1];
}

/* Values below zero are none. Where large is good, a percentile counts from above. */
static struct kvc_bench_engine_figures
figures_of(const struct kvc_bench_engine_result *result,
           double (*measure)(const struct kvc_bench_engine_record *), bool large_is_good)
{
    struct kvc_bench_engine_figures figures = {0};
    double *values = kvc_alloc(result->count * sizeof(values[0]));
    double sum = 0;
    for (size_t i = 0; i < result->count; i++) {
        const double value = result->records[i].is_ok ? measure(&result->records[i]) : -1;
        if (value < 0)
            continue;
        values[figures.count++] = large_is_good ? -value : value;
        sum += value;
    }
    qsort(values, figures.count, sizeof(values[0]), compare);
    if (figures.count > 0) {
        figures.mean = sum / (double)figures.count;
        figures.p50 = fabs(percentile(values, figures.count, 50));
        figures.p90 = fabs(percentile(values, figures.count, 90));
        figures.p99 = fabs(percentile(values, figures.count, 99));
    }
    free(values);
    return figures;
}

static struct kvc_bench_engine_figures figures_of_gaps(const struct kvc_histogram *gaps)
{
    return (struct kvc_bench_engine_figures){
        .count = gaps->count,
        .mean = kvc_histogram_mean(gaps) / 1e6,
        .p50 = (double)kvc_histogram_percentile(gaps, 0.5) / 1e6,
        .p90 = (double)kvc_histogram_percentile(gaps, 0.9) / 1e6,
        .p99 = (double)kvc_histogram_percentile(gaps, 0.99) / 1e6,
    };
}

static void add_record(struct kvc_bench_engine_summary *summary,
                       const struct kvc_bench_engine_record *record)
{
    if (!record->is_ok)
        return;
    summary->input_tokens += record->prompt_tokens;
    summary->output_tokens += record->completion_tokens;
    if (record->expected_tokens < 1)
        return;
    const double deviation = fabs((double)(record->prompt_tokens - record->expected_tokens)) /
                             (double)record->expected_tokens;
    summary->sized++;
    if (deviation > summary->worst_deviation)
        summary->worst_deviation = deviation;
}

struct kvc_bench_engine_summary
kvc_bench_engine_summarise(const struct kvc_bench_engine_result *result)
{
    struct kvc_bench_engine_summary summary = {
        .duration = (double)(result->finished_ns - result->started_ns) / 1e9,
        .ttft = figures_of(result, ttft_ms, false),
        .latency = figures_of(result, latency_ms, false),
        .gap = figures_of_gaps(&result->gaps),
        .decode = figures_of(result, kvc_bench_engine_decode_speed, true),
    };
    for (size_t i = 0; i < result->count; i++)
        add_record(&summary, &result->records[i]);
    if (summary.duration > 0) {
        summary.input_throughput = (double)summary.input_tokens / summary.duration;
        summary.output_throughput = (double)summary.output_tokens / summary.duration;
        summary.request_throughput = (double)(result->count - result->failed) / summary.duration;
    }
    return summary;
}
