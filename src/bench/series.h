/* Latency samples of one operation and the figures that `lmcache bench server` gives for them.
 * For benches. */
#ifndef KVC_BENCH_SERIES_H
#define KVC_BENCH_SERIES_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; free with kvc_series_clear. */
struct kvc_series {
    int64_t *samples_ns;
    size_t count;
    size_t capacity;
};

/* Milliseconds. Percentiles by nearest rank: the smallest sample that at least that share of the
 * samples does not exceed. All zero for an empty series. */
struct kvc_series_figures {
    size_t count;
    double mean, min, max, p50, p99;
};

void kvc_series_add(struct kvc_series *series, int64_t nanoseconds);
struct kvc_series_figures kvc_series_summarise(const struct kvc_series *series);
void kvc_series_clear(struct kvc_series *series);

#endif
