/* Expected percentiles: nearest rank, worked out by hand; the reference client's formula
 * (ceil(count x share) - 1 as index) gives the same. */
#include <criterion/criterion.h>

#include "src/bench/server.h"

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

static struct kvc_bench_server_result good_result(void)
{
    return (struct kvc_bench_server_result){.requests = 3, .checksum_ok = 3};
}

Test(validity, a_whole_run_is_valid)
{
    const struct kvc_bench_server_result result = good_result();
    cr_assert(kvc_bench_server_is_valid(&result));
}

Test(validity, anything_amiss_makes_it_invalid)
{
    struct kvc_bench_server_result bad[7];
    for (size_t i = 0; i < 7; i++)
        bad[i] = good_result();
    bad[0].requests = bad[0].checksum_ok = 0;
    bad[1].checksum_fail = 1;
    bad[2].cold_hits = 1;
    bad[3].warm_misses = 1;
    bad[4].errors = 1;
    bad[5].interrupted = true;
    bad[6].checksum_ok = 2;
    for (size_t i = 0; i < 7; i++)
        cr_assert_not(kvc_bench_server_is_valid(&bad[i]), "case %zu", i);
}

static const struct kvc_bench_server_options options = {.rpc_url = "tcp://h:1",
                                                        .mode = "cpu",
                                                        .shape_spec = "(2,64,16,2,8):float16:2",
                                                        .tp_size = 1,
                                                        .num_tokens = 512};

Test(report, no_figures_for_an_invalid_run)
{
    struct kvc_bench_server_result result = good_result();
    result.errors = 1;
    kvc_series_add(&result.series[KVC_BENCH_COLD_STORE], 5000000);
    struct kvc_buffer terminal = {0};
    struct kvc_buffer json = {0};
    kvc_bench_server_write_terminal(&options, &result, &terminal);
    kvc_bench_server_write_json(&options, &result, &json);
    cr_assert_null(strstr(kvc_buffer_text(&terminal), "Cold Store"));
    cr_assert_null(strstr(kvc_buffer_text(&json), "cold_store"));
    cr_assert_not_null(strstr(kvc_buffer_text(&json), "\"valid\": false"));
    kvc_buffer_clear(&terminal);
    kvc_buffer_clear(&json);
    kvc_bench_server_result_clear(&result);
}

Test(report, figures_of_a_valid_run)
{
    struct kvc_bench_server_result result = good_result();
    for (int i = 0; i < 3; i++)
        kvc_series_add(&result.series[KVC_BENCH_COLD_STORE], 5000000);
    struct kvc_buffer terminal = {0};
    struct kvc_buffer json = {0};
    kvc_bench_server_write_terminal(&options, &result, &terminal);
    kvc_bench_server_write_json(&options, &result, &json);
    cr_assert_not_null(strstr(kvc_buffer_text(&terminal), "Cold Store (ms)"));
    cr_assert_not_null(strstr(kvc_buffer_text(&json), "\"cold_store_p99\": 5.0"));
    cr_assert_not_null(strstr(kvc_buffer_text(&json), "\"title\": \"Server Bench Result\""));
    kvc_buffer_clear(&terminal);
    kvc_buffer_clear(&json);
    kvc_bench_server_result_clear(&result);
}
