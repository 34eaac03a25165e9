#include "src/bench/series.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/bytes.h"

void kvc_series_add(struct kvc_series *series, int64_t nanoseconds)
{
    if (series->count == series->capacity) {
        series->capacity = series->capacity == 0 ? 64 : 2 * series->capacity;
        series->samples_ns =
            kvc_realloc(series->samples_ns, series->capacity * sizeof(*series->samples_ns));
    }
    series->samples_ns[series->count++] = nanoseconds;
}

static int compare_samples(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static double milliseconds(int64_t nanoseconds)
{
    return (double)nanoseconds / 1e6;
}

/* The nearest rank in whole numbers: no rounding error can move it. */
static int64_t nearest_rank(const int64_t *sorted, size_t count, size_t percent)
{
    const size_t rank = (count * percent + 99) / 100;
    return sorted[rank == 0 ? 0 : rank - 1];
}

struct kvc_series_figures kvc_series_summarise(const struct kvc_series *series)
{
    struct kvc_series_figures figures = {.count = series->count};
    if (series->count == 0)
        return figures;
    const size_t size = series->count * sizeof(*series->samples_ns);
    int64_t *sorted = memcpy(kvc_alloc(size), series->samples_ns, size);
    qsort(sorted, series->count, sizeof(*sorted), compare_samples);
    double sum = 0;
    for (size_t i = 0; i < series->count; i++)
        sum += milliseconds(sorted[i]);
    figures.mean = sum / (double)series->count;
    figures.min = milliseconds(sorted[0]);
    figures.max = milliseconds(sorted[series->count - 1]);
    figures.p50 = milliseconds(nearest_rank(sorted, series->count, 50));
    figures.p99 = milliseconds(nearest_rank(sorted, series->count, 99));
    free(sorted);
    return figures;
}

void kvc_series_clear(struct kvc_series *series)
{
    free(series->samples_ns);
    *series = (struct kvc_series){0};
}
