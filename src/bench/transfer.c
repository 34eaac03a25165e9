#include "src/bench/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"

static const struct kvc_transfer_device *const devices[] = {&kvc_transfer_cpu, &kvc_transfer_cuda};

const char *const kvc_transfer_operations[] = {
    "gather", "scatter", "fill", "check", "digest", "gather-to-host", "scatter-from-host", NULL};

const struct kvc_transfer_device *kvc_transfer_device_find(const char *name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(devices); i++)
        if (strcmp(devices[i]->name, name) == 0)
            return devices[i];
    return NULL;
}

void kvc_transfer_device_list(struct kvc_buffer *out)
{
    for (size_t i = 0; i < KVC_COUNT_OF(devices); i++)
        kvc_buffer_printf(out, "%s%s", i == 0 ? "" : ", ", devices[i]->name);
}

int64_t kvc_transfer_case_bytes(const struct kvc_transfer_case *bench_case)
{
    return bench_case->chunk_count *
           kvc_group_chunk_bytes(&bench_case->group, bench_case->chunk_tokens);
}

int64_t *kvc_transfer_case_block_ids(const struct kvc_transfer_case *bench_case)
{
    const int64_t count =
        bench_case->chunk_count * (bench_case->chunk_tokens / bench_case->group.block_size);
    struct kvc_random random = {.state = bench_case->seed};
    int64_t *ids = kvc_alloc((size_t)count * sizeof(*ids));
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    for (int64_t i = count - 1; i > 0 && bench_case->shuffled; i--) {
        const int64_t other = (int64_t)kvc_random_below(&random, (uint64_t)i + 1);
        const int64_t id = ids[i];
        ids[i] = ids[other];
        ids[other] = id;
    }
    return ids;
}

/* ---- one case ---- */

/* Nanoseconds of each round. */
struct times {
    const struct kvc_transfer_measure *measure;
    double *own, *baseline;
};

struct series {
    const struct kvc_transfer_options *options;
    const struct kvc_transfer_case *bench_case;
    struct kvc_team *team;
    void *state;
    struct times *times;
    size_t count;
};

static bool is_wanted(const struct kvc_transfer_options *options, const char *operation)
{
    for (size_t i = 0; options->operations[i] != NULL; i++)
        if (strcmp(options->operations[i], operation) == 0)
            return true;
    return false;
}

static void choose_measures(struct series *series)
{
    const struct kvc_transfer_device *device = series->options->device;
    const size_t repeat = (size_t)series->options->repeat;
    series->times = kvc_alloc_zero(device->measure_count, sizeof(*series->times));
    for (size_t i = 0; i < device->measure_count; i++) {
        if (!is_wanted(series->options, device->measures[i].operation))
            continue;
        series->times[series->count++] = (struct times){
            .measure = &device->measures[i],
            .own = kvc_alloc_zero(repeat, sizeof(double)),
            .baseline = kvc_alloc_zero(repeat, sizeof(double)),
        };
    }
}

static void forget_measures(struct series *series)
{
    for (size_t i = 0; i < series->count; i++) {
        free(series->times[i].own);
        free(series->times[i].baseline);
    }
    free(series->times);
}

static bool is_stopped(const struct kvc_transfer_options *options)
{
    return options->stop != NULL && *options->stop != 0;
}

static kvc_status warm_up(const struct series *series, struct kvc_error *err)
{
    for (size_t i = 0; i < series->count && !is_stopped(series->options); i++) {
        const struct kvc_transfer_measure *measure = series->times[i].measure;
        kvc_team_run(series->team, measure->run_baseline, series->state);
        if (measure->spoil != NULL)
            measure->spoil(series->state);
        kvc_team_run(series->team, measure->run, series->state);
        const kvc_status status = measure->verify(series->state, err);
        if (status != KVC_OK) {
            kvc_error_prepend_where(
                err, "%s, %s, %s: ", kvc_layout_name(series->bench_case->group.layout),
                measure->operation, measure->version);
            return status;
        }
    }
    return KVC_OK;
}

static void time_once(const struct series *series, const struct times *times, int64_t round)
{
    const bool own_first = round % 2 == 0;
    for (int i = 0; i < 2; i++) {
        if ((i == 0) == own_first)
            times->own[round] =
                (double)kvc_team_run(series->team, times->measure->run, series->state);
        else
            times->baseline[round] =
                (double)kvc_team_run(series->team, times->measure->run_baseline, series->state);
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that at least that share of the sorted ones does not exceed. */
static double at_share(const double *sorted, size_t count, double share)
{
    const size_t rank = (size_t)(share * (double)count + 0.5);
    return sorted[rank == 0 ? 0 : rank > count ? count - 1 : rank - 1];
}

static struct kvc_transfer_row summarise(const struct series *series, const struct times *times)
{
    const size_t count = (size_t)series->options->repeat;
    const double bytes = (double)kvc_transfer_case_bytes(series->bench_case);
    const struct kvc_spread own = kvc_spread_of(times->own, count);
    const struct kvc_spread baseline = kvc_spread_of(times->baseline, count);
    struct kvc_transfer_row row = {
        .bench_case = series->bench_case,
        .measure = times->measure,
        .speed = bytes / own.median,
        .baseline_speed = bytes / baseline.median,
        .best_speed = bytes / own.min,
        .baseline_best_speed = bytes / baseline.min,
        .ratios = kvc_alloc(count * sizeof(double)),
        .ratio_count = count,
    };
    for (size_t i = 0; i < count; i++)
        row.ratios[i] = times->baseline[i] / times->own[i];
    double *sorted = kvc_alloc(count * sizeof(double));
    memcpy(sorted, row.ratios, count * sizeof(double));
    qsort(sorted, count, sizeof(double), by_size);
    row.ratio = kvc_spread_of(row.ratios, count);
    row.lower = at_share(sorted, count, 0.25);
    row.upper = at_share(sorted, count, 0.75);
    free(sorted);
    return row;
}

static void add_rows(const struct series *series, struct kvc_transfer_result *result)
{
    result->rows =
        kvc_realloc(result->rows, (result->row_count + series->count) * sizeof(*result->rows));
    for (size_t i = 0; i < series->count; i++)
        result->rows[result->row_count++] = summarise(series, &series->times[i]);
}

static kvc_status measure(struct series *series, struct kvc_transfer_result *result,
                          struct kvc_error *err)
{
    KVC_GUARD(warm_up(series, err));
    for (int64_t round = 0; round < series->options->repeat; round++) {
        for (size_t i = 0; i < series->count && !is_stopped(series->options); i++)
            time_once(series, &series->times[i], round);
    }
    if (series->options->device->finish != NULL)
        KVC_GUARD(series->options->device->finish(series->state, err));
    result->interrupted = is_stopped(series->options);
    if (!result->interrupted)
        add_rows(series, result);
    return KVC_OK;
}

static kvc_status measure_case(const struct kvc_transfer_options *options,
                               const struct kvc_transfer_case *bench_case,
                               struct kvc_transfer_result *result, struct kvc_error *err)
{
    struct series series = {.options = options, .bench_case = bench_case};
    series.team = kvc_team_open(bench_case->threads, options->clock, err);
    if (series.team == NULL)
        return KVC_ESYSTEM;
    kvc_status status = options->device->open(bench_case, &series.state, err);
    if (status == KVC_OK) {
        choose_measures(&series);
        status = measure(&series, result, err);
        forget_measures(&series);
        options->device->close(series.state);
    }
    kvc_team_close(series.team);
    return status;
}

/* ---- all of them ---- */

kvc_status kvc_transfer_run(const struct kvc_transfer_options *options,
                            struct kvc_transfer_result *result, struct kvc_error *err)
{
    *result = (struct kvc_transfer_result){.row_count = 0};
    KVC_GUARD(options->device->device->probe(&result->about, err));
    for (size_t i = 0; i < options->case_count && !result->interrupted; i++)
        KVC_GUARD(measure_case(options, &options->cases[i], result, err));
    return KVC_OK;
}

void kvc_transfer_result_clear(struct kvc_transfer_result *result)
{
    for (size_t i = 0; i < result->row_count; i++)
        free(result->rows[i].ratios);
    free(result->rows);
    *result = (struct kvc_transfer_result){.row_count = 0};
}
