#include "src/bench/histogram.h"

#include <math.h>
#include <stdlib.h>

#include "src/base/bytes.h"

enum { SUB_BUCKETS = 1 << KVC_HISTOGRAM_SUB_BITS };

/* With the highest bit at SUB_BITS + shift, the SUB_BITS below it choose the bucket within that
 * power of two. */
static size_t bucket_of(int64_t value)
{
    if (value < SUB_BUCKETS)
        return (size_t)value;
    const int shift = 63 - __builtin_clzll((unsigned long long)value) - KVC_HISTOGRAM_SUB_BITS;
    return (size_t)shift * SUB_BUCKETS + (size_t)(value >> shift);
}

int64_t kvc_histogram_upper_bound(size_t index)
{
    if (index < 2 * SUB_BUCKETS)
        return (int64_t)index;
    const size_t shift = index / SUB_BUCKETS - 1;
    const uint64_t first = index % SUB_BUCKETS + SUB_BUCKETS;
    return (int64_t)(((first + 1) << shift) - 1);
}

static void reserve_buckets(struct kvc_histogram *histogram)
{
    if (histogram->buckets == NULL)
        histogram->buckets =
            kvc_alloc_zero(KVC_HISTOGRAM_BUCKET_COUNT, sizeof(*histogram->buckets));
}

static void widen(struct kvc_histogram *histogram, int64_t min, int64_t max)
{
    if (histogram->count == 0 || min < histogram->min)
        histogram->min = min;
    if (histogram->count == 0 || max > histogram->max)
        histogram->max = max;
}

void kvc_histogram_add(struct kvc_histogram *histogram, int64_t nanoseconds)
{
    const int64_t value = nanoseconds < 0 ? 0 : nanoseconds;
    reserve_buckets(histogram);
    widen(histogram, value, value);
    histogram->buckets[bucket_of(value)]++;
    histogram->count++;
    histogram->sum += (double)value;
}

void kvc_histogram_merge(struct kvc_histogram *into, const struct kvc_histogram *from)
{
    if (from->count == 0)
        return;
    reserve_buckets(into);
    widen(into, from->min, from->max);
    for (size_t i = 0; i < KVC_HISTOGRAM_BUCKET_COUNT; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    into->sum += from->sum;
}

int64_t kvc_histogram_percentile(const struct kvc_histogram *histogram, double share)
{
    if (histogram->count == 0)
        return 0;
    /* The margin keeps a share that is not exact in binary (0.07 of 100) from rounding up a rank.
     */
    const double exact = share * (double)histogram->count;
    const double rank = ceil(exact - exact * 1e-12);
    uint64_t seen = 0;
    for (size_t i = 0; i < KVC_HISTOGRAM_BUCKET_COUNT; i++) {
        seen += histogram->buckets[i];
        if (seen > 0 && (double)seen >= rank) {
            const int64_t bound = kvc_histogram_upper_bound(i);
            return bound < histogram->max ? bound : histogram->max;
        }
    }
    return histogram->max;
}

double kvc_histogram_mean(const struct kvc_histogram *histogram)
{
    return histogram->count == 0 ? 0 : histogram->sum / (double)histogram->count;
}

void kvc_histogram_clear(struct kvc_histogram *histogram)
{
    free(histogram->buckets);
    *histogram = (struct kvc_histogram){0};
}
