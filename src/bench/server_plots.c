#include "src/bench/server_plots.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/report/html_plot.h"

/* Logarithms need something above 0. */
static double milliseconds(int64_t nanoseconds)
{
    return (double)(nanoseconds > 0 ? nanoseconds : 1) / 1e6;
}

/* ---- distribution ---- */

/* Where a share stands, so that 90 %, 99 %, 99.9 % … are equally far apart. */
static double share_place(double rest)
{
    return -log10(rest);
}

/* A step for each bucket. What the last one leaves is half a sample: a share of 1 has no place. */
static void add_steps(const struct kvc_histogram *latency, struct kvc_plot_line *line)
{
    const double count = (double)latency->count;
    uint64_t seen = 0;
    for (size_t i = 0; i < KVC_HISTOGRAM_BUCKET_COUNT; i++) {
        if (latency->buckets[i] == 0)
            continue;
        const int64_t bound = kvc_histogram_upper_bound(i);
        const double y = milliseconds(bound < latency->max ? bound : latency->max);
        kvc_plot_add_point(line, share_place(1 - (double)seen / count), y);
        seen += latency->buckets[i];
        const double rest = seen < latency->count ? (double)(latency->count - seen) : 0.5;
        kvc_plot_add_point(line, share_place(rest / count), y);
    }
}

void kvc_bench_plot_distribution(const struct kvc_bench_measurement *measured,
                                 struct kvc_buffer *out)
{
    static const struct kvc_plot_tick shares[] = {
        {0, "0"},      {0.30103, "50 %"}, {1, "90 %"},     {2, "99 %"},
        {3, "99.9 %"}, {4, "99.99 %"},    {5, "99.999 %"}, {6, "99.9999 %"},
    };
    struct kvc_plot_line lines[KVC_BENCH_OPERATION_COUNT] = {0};
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++) {
        lines[i].name = kvc_bench_operation_titles[i];
        lines[i].color = (int)i;
        if (measured->operations[i].latency.count > 0)
            add_steps(&measured->operations[i].latency, &lines[i]);
    }
    const struct kvc_plot plot = {
        .title = "Latency that a share of the calls does not exceed",
        .x = {.label = "share of the calls", .ticks = shares, .tick_count = KVC_COUNT_OF(shares)},
        .y = {.label = "ms", .is_log = true},
        .lines = lines,
        .line_count = KVC_COUNT_OF(lines),
    };
    kvc_plot_write(&plot, out);
    for (size_t i = 0; i < KVC_COUNT_OF(lines); i++)
        kvc_plot_line_clear(&lines[i]);
}

/* ---- over time ---- */

enum { MAX_STRETCHES = 240, PERCENTILES = 2 };

/* The worst seconds of a stretch: an average would hide what a plot over time is for. */
static void add_stretch(const struct kvc_timeline *timeline, size_t first, size_t end, size_t lane,
                        struct kvc_plot_line lines[PERCENTILES])
{
    struct kvc_timeline_cell worst = {0};
    for (size_t second = first; second < end; second++) {
        const struct kvc_timeline_cell *cell = &kvc_timeline_row(timeline, second)[lane];
        worst.count += cell->count;
        worst.p50 = cell->p50 > worst.p50 ? cell->p50 : worst.p50;
        worst.p99 = cell->p99 > worst.p99 ? cell->p99 : worst.p99;
    }
    if (worst.count == 0)
        return;
    kvc_plot_add_point(&lines[0], (double)first, milliseconds(worst.p50));
    kvc_plot_add_point(&lines[1], (double)first, milliseconds(worst.p99));
}

void kvc_bench_plot_time(const struct kvc_bench_measurement *measured, struct kvc_buffer *out)
{
    const struct kvc_timeline *timeline = &measured->timeline;
    const size_t seconds = timeline->second_count;
    const size_t stretch = (seconds + MAX_STRETCHES - 1) / MAX_STRETCHES;
    if (seconds < 2) /* a point is no development */
        return;
    struct kvc_plot_line lines[KVC_BENCH_OPERATION_COUNT * PERCENTILES] = {
        0}; /* two an operation */
    char names[KVC_BENCH_OPERATION_COUNT * PERCENTILES][48];
    char title[96];
    for (size_t i = 0; i < KVC_COUNT_OF(lines); i++) {
        snprintf(names[i], sizeof(names[i]), "%s %s", kvc_bench_operation_titles[i / PERCENTILES],
                 i % PERCENTILES == 0 ? "p50" : "p99");
        lines[i] = (struct kvc_plot_line){
            .name = names[i], .color = (int)(i / PERCENTILES), .dashed = i % PERCENTILES == 1};
    }
    for (size_t lane = 0; lane < KVC_BENCH_OPERATION_COUNT; lane++)
        for (size_t first = 0; first < seconds; first += stretch)
            add_stretch(timeline, first, first + stretch < seconds ? first + stretch : seconds,
                        lane, &lines[lane * PERCENTILES]);
    if (stretch == 1)
        snprintf(title, sizeof(title), "Latency over time");
    else
        snprintf(title, sizeof(title), "Latency over time: the worst of each %zu seconds", stretch);
    const struct kvc_plot plot = {
        .title = title,
        .x = {.label = "seconds since the start"},
        .y = {.label = "ms", .is_log = true},
        .lines = lines,
        .line_count = KVC_COUNT_OF(lines),
    };
    kvc_plot_write(&plot, out);
    for (size_t i = 0; i < KVC_COUNT_OF(lines); i++)
        kvc_plot_line_clear(&lines[i]);
}

/* ---- rate against latency ---- */

static int compare_steps(const void *a, const void *b)
{
    const double left = ((const struct kvc_bench_step *)a)->rate;
    const double right = ((const struct kvc_bench_step *)b)->rate;
    return (left > right) - (left < right);
}

void kvc_bench_plot_ramp(const struct kvc_ramp_limit *limit,
                         const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    char title[96], name[64];
    snprintf(title, sizeof(title), "Rate against latency; limit: %.64s", limit->text);
    snprintf(name, sizeof(name), KVC_STR_FMT " %s", KVC_STR_ARG(limit->operation), limit->figure);
    struct kvc_bench_step *steps = kvc_alloc_zero(result->step_count + 1, sizeof(*steps));
    struct kvc_plot_line lines[] = {
        {.name = name, .color = 0, .dots = true},
        {.name = "p50", .color = 2, .dashed = true},
        {.name = "p99", .color = 3, .dashed = true},
    };
    size_t count = 0; /* of each rate the try that decided */
    for (size_t i = 0; i < result->step_count; i++)
        if (result->steps[i].decided)
            steps[count++] = result->steps[i];
    qsort(steps, count, sizeof(*steps), compare_steps);
    for (size_t i = 0; i < count; i++) {
        const int64_t values[] = {steps[i].value_ns, steps[i].p50_ns, steps[i].p99_ns};
        for (size_t j = 0; j < KVC_COUNT_OF(lines) && steps[i].requests > 0; j++)
            if (strcmp(lines[j].name, limit->figure) != 0) /* that would be the first line again */
                kvc_plot_add_point(&lines[j], steps[i].rate, milliseconds(values[j]));
    }
    const struct kvc_plot plot = {
        .title = title,
        .x = {.label = "requests a second", .is_log = true},
        .y = {.label = "ms", .is_log = true},
        .lines = lines,
        .line_count = KVC_COUNT_OF(lines),
        .limit = (double)limit->limit_ns / 1e6,
    };
    kvc_plot_write(&plot, out);
    for (size_t i = 0; i < KVC_COUNT_OF(lines); i++)
        kvc_plot_line_clear(&lines[i]);
    free(steps);
}
