/* Latencies of one operation, counted in log-linear buckets (as HdrHistogram does): of bounded size
 * however long a run lasts, and mergeable. For benches and their reports. */
#ifndef KVC_BENCH_HISTOGRAM_H
#define KVC_BENCH_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds. Zero-initialise; free with kvc_histogram_clear. count, sum, min and max are exact
 * and for reading; min and max are 0 while count is 0. */
struct kvc_histogram {
    uint64_t *buckets; /* KVC_HISTOGRAM_BUCKET_COUNT counts; NULL before the first sample */
    uint64_t count;
    double sum;
    int64_t min;
    int64_t max;
};

/* Values below 128 have a bucket each; above, every power of two is cut into 128 buckets, so that
 * a bucket's upper bound is less than 1/128 above any value in it. */
enum {
    KVC_HISTOGRAM_SUB_BITS = 7,
    KVC_HISTOGRAM_BUCKET_COUNT = (1 << KVC_HISTOGRAM_SUB_BITS) * (64 - KVC_HISTOGRAM_SUB_BITS),
};

/* Counts one sample. A negative one (a clock that was set back) counts as 0. */
void kvc_histogram_add(struct kvc_histogram *histogram, int64_t nanoseconds);
/* Counts the samples of from in into as well. */
void kvc_histogram_merge(struct kvc_histogram *into, const struct kvc_histogram *from);
/* Nearest rank: the smallest value that at least that share (0 … 1) of the samples does not exceed,
 * as the upper bound of its bucket, but never above max. 0 for an empty histogram. */
int64_t kvc_histogram_percentile(const struct kvc_histogram *histogram, double share);
/* 0 for an empty histogram. */
double kvc_histogram_mean(const struct kvc_histogram *histogram);
/* Largest value that bucket index counts. index < KVC_HISTOGRAM_BUCKET_COUNT. */
int64_t kvc_histogram_upper_bound(size_t index);
void kvc_histogram_clear(struct kvc_histogram *histogram);

#endif
