/* Percentiles are compared with those of the sorted samples. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>

#include "src/bench/histogram.h"

enum { SAMPLES = 20001 };

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Spread over 50 powers of two, so that every size of bucket takes part. */
static int64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    const unsigned shift = 13 + (unsigned)(*state >> 59) + (unsigned)(*state % 19);
    return (int64_t)(*state >> shift);
}

static void fill(struct kvc_histogram *histogram, int64_t *samples, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        samples[i] = draw(&seed);
        kvc_histogram_add(histogram, samples[i]);
    }
}

static void expect_near(int64_t got, int64_t exact, const char *what)
{
    cr_assert_geq(got, exact, "%s: %lld is below %lld", what, (long long)got, (long long)exact);
    cr_assert((got - exact) * 128 < exact || got == exact, "%s: %lld is too far above %lld", what,
              (long long)got, (long long)exact);
}

/* ranks out of a thousand, in whole numbers */
static void expect_percentiles(const struct kvc_histogram *histogram, int64_t *samples,
                               size_t count)
{
    static const size_t permille[] = {1, 10, 70, 250, 500, 900, 950, 990, 999, 1000};
    qsort(samples, count, sizeof(*samples), compare);
    for (size_t i = 0; i < sizeof(permille) / sizeof(permille[0]); i++) {
        const size_t rank = (count * permille[i] + 999) / 1000;
        char what[32];
        snprintf(what, sizeof(what), "p%g", (double)permille[i] / 10);
        expect_near(kvc_histogram_percentile(histogram, (double)permille[i] / 1000),
                    samples[rank - 1], what);
    }
    cr_assert_eq(histogram->min, samples[0]);
    cr_assert_eq(histogram->max, samples[count - 1]);
    cr_assert_eq(kvc_histogram_percentile(histogram, 1), samples[count - 1]);
}

Test(histogram, empty)
{
    struct kvc_histogram histogram = {0};
    cr_assert_eq(kvc_histogram_percentile(&histogram, 0.5), 0);
    cr_assert_float_eq(kvc_histogram_mean(&histogram), 0, 0);
    kvc_histogram_clear(&histogram);
}

Test(histogram, percentiles_are_those_of_the_sorted_samples)
{
    static int64_t samples[SAMPLES];
    static const size_t counts[] = {1, 2, 3, 100, 101, 1000, SAMPLES};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct kvc_histogram histogram = {0};
        fill(&histogram, samples, counts[i], i);
        cr_assert_eq(histogram.count, counts[i]);
        expect_percentiles(&histogram, samples, counts[i]);
        kvc_histogram_clear(&histogram);
    }
}

/* 0.07 x 100 is a little more than 7 in binary: still the seventh, not the eighth. */
Test(histogram, rank_of_a_share_that_is_not_exact)
{
    struct kvc_histogram histogram = {0};
    for (int64_t i = 1; i <= 100; i++)
        kvc_histogram_add(&histogram, i);
    for (int64_t percent = 1; percent <= 100; percent++)
        cr_assert_eq(kvc_histogram_percentile(&histogram, (double)percent / 100), percent,
                     "p%lld is %lld", (long long)percent,
                     (long long)kvc_histogram_percentile(&histogram, (double)percent / 100));
    kvc_histogram_clear(&histogram);
}

Test(histogram, merged_is_as_counted_together)
{
    static int64_t samples[2 * SAMPLES];
    struct kvc_histogram left = {0};
    struct kvc_histogram right = {0};
    fill(&left, samples, SAMPLES, 1);
    fill(&right, samples + SAMPLES, SAMPLES, 2);
    const double sum = left.sum + right.sum;
    kvc_histogram_merge(&left, &right);
    cr_assert_eq(left.count, 2 * SAMPLES);
    cr_assert_float_eq(left.sum, sum, sum * 1e-12);
    expect_percentiles(&left, samples, 2 * SAMPLES);

    struct kvc_histogram empty = {0};
    kvc_histogram_merge(&left, &empty);
    cr_assert_eq(left.count, 2 * SAMPLES);
    kvc_histogram_merge(&empty, &left);
    expect_percentiles(&empty, samples, 2 * SAMPLES);
    kvc_histogram_clear(&left);
    kvc_histogram_clear(&right);
    kvc_histogram_clear(&empty);
}

Test(histogram, bounds_of_buckets)
{
    int64_t last = -1;
    for (size_t i = 0; i < KVC_HISTOGRAM_BUCKET_COUNT; i++) {
        const int64_t bound = kvc_histogram_upper_bound(i);
        cr_assert_gt(bound, last, "bucket %zu", i);
        struct kvc_histogram histogram = {0};
        kvc_histogram_add(&histogram, last + 1);
        kvc_histogram_add(&histogram, bound);
        cr_assert_eq(histogram.buckets[i], 2, "bucket %zu counts %lld to %lld", i,
                     (long long)last + 1, (long long)bound);
        cr_assert(bound == last + 1 || bound - last - 1 < (last + 1) / 128,
                  "bucket %zu is too wide", i);
        kvc_histogram_clear(&histogram);
        last = bound;
    }
    cr_assert_eq(last, INT64_MAX);
}

Test(histogram, extreme_values)
{
    struct kvc_histogram histogram = {0};
    kvc_histogram_add(&histogram, -5);
    kvc_histogram_add(&histogram, 0);
    kvc_histogram_add(&histogram, INT64_MAX);
    kvc_histogram_add(&histogram, INT64_MAX);
    cr_assert_eq(histogram.min, 0);
    cr_assert_eq(histogram.max, INT64_MAX);
    cr_assert_eq(kvc_histogram_percentile(&histogram, 0), 0);
    cr_assert_eq(kvc_histogram_percentile(&histogram, 0.5), 0);
    cr_assert_eq(kvc_histogram_percentile(&histogram, 0.51), INT64_MAX);
    cr_assert_float_eq(kvc_histogram_mean(&histogram), (double)INT64_MAX / 2, 1e6);
    kvc_histogram_clear(&histogram);
    cr_assert_eq(histogram.count, 0);
    cr_assert_null(histogram.buckets);
}
