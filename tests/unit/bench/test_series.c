/* Expected percentiles: nearest rank, worked out by hand; the reference client's formula
 * (ceil(count x share) - 1 as index) gives the same. */
#include <criterion/criterion.h>

#include "src/bench/series.h"

static struct kvc_series series_of(const int64_t *milliseconds, size_t count)
{
    struct kvc_series series = {0};
    for (size_t i = 0; i < count; i++)
        kvc_series_add(&series, milliseconds[i] * 1000000);
    return series;
}

Test(series, empty_has_no_figures)
{
    const struct kvc_series series = {0};
    const struct kvc_series_figures figures = kvc_series_summarise(&series);
    cr_assert_eq(figures.count, 0);
    cr_assert_float_eq(figures.p99, 0, 0);
}

Test(series, one_sample_is_every_figure)
{
    const int64_t samples[] = {7};
    struct kvc_series series = series_of(samples, 1);
    const struct kvc_series_figures figures = kvc_series_summarise(&series);
    cr_assert_eq(figures.count, 1);
    cr_assert_float_eq(figures.mean, 7, 1e-9);
    cr_assert_float_eq(figures.min, 7, 1e-9);
    cr_assert_float_eq(figures.p50, 7, 1e-9);
    cr_assert_float_eq(figures.p99, 7, 1e-9);
    kvc_series_clear(&series);
}

Test(series, unsorted_samples)
{
    const int64_t samples[] = {9, 1, 5, 3};
    struct kvc_series series = series_of(samples, 4);
    const struct kvc_series_figures figures = kvc_series_summarise(&series);
    cr_assert_float_eq(figures.mean, 4.5, 1e-9);
    cr_assert_float_eq(figures.min, 1, 1e-9);
    cr_assert_float_eq(figures.max, 9, 1e-9);
    cr_assert_float_eq(figures.p50, 3, 1e-9, "the second of four");
    cr_assert_float_eq(figures.p99, 9, 1e-9);
    cr_assert_eq(series.samples_ns[0], 9000000, "the samples stay in the order of the run");
    kvc_series_clear(&series);
}

Test(series, a_hundred_and_one_samples)
{
    struct kvc_series series = {0};
    for (int64_t i = 101; i >= 1; i--)
        kvc_series_add(&series, i * 1000000);
    const struct kvc_series_figures figures = kvc_series_summarise(&series);
    cr_assert_float_eq(figures.p50, 51, 1e-9);
    cr_assert_float_eq(figures.p99, 100, 1e-9);
    cr_assert_float_eq(figures.max, 101, 1e-9);
    kvc_series_clear(&series);
}
