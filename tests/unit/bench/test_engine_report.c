/* Figures: nearest rank, worked out by hand. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/engine.h"

enum { MS = 1000000 };

/* A request that was due at 1 s. */
static struct kvc_bench_engine_record record_of(int64_t ttft_ms, int64_t decode_ms, int64_t tokens)
{
    const int64_t due = INT64_C(1000) * MS;
    return (struct kvc_bench_engine_record){.id = "r",
                                            .is_ok = true,
                                            .problem = "",
                                            .due_ns = due,
                                            .first_token_ns = due + ttft_ms * MS,
                                            .last_token_ns = due + (ttft_ms + decode_ms) * MS,
                                            .finished_ns = due + (ttft_ms + decode_ms + 1) * MS,
                                            .prompt_tokens = 100,
                                            .completion_tokens = tokens,
                                            .expected_tokens = 99};
}

Test(figures, decode_speed_needs_two_tokens_at_two_times)
{
    struct kvc_bench_engine_record record = record_of(10, 100, 11);
    cr_assert_float_eq(kvc_bench_engine_decode_speed(&record), 100, 1e-9, "ten tokens in 0.1 s");
    record.completion_tokens = 1;
    cr_assert_lt(kvc_bench_engine_decode_speed(&record), 0);
    record = record_of(10, 0, 11);
    cr_assert_lt(kvc_bench_engine_decode_speed(&record), 0);
    record = record_of(10, 100, 11);
    record.is_ok = false;
    cr_assert_lt(kvc_bench_engine_decode_speed(&record), 0);
}

Test(figures, over_the_requests_that_succeeded)
{
    struct kvc_bench_engine_record records[11];
    for (int64_t i = 0; i < 10; i++)
        records[i] =
            record_of(10 * (10 - i), 100, 1 + 10 * (i + 1)); /* 100 … 10 ms, 100 … 1000 tok/s */
    records[10] = (struct kvc_bench_engine_record){.id = "x",
                                                   .problem = "HTTP 500",
                                                   .prompt_tokens = -1,
                                                   .completion_tokens = -1,
                                                   .due_ns = 1,
                                                   .finished_ns = 2};
    const struct kvc_bench_engine_result result = {.records = records,
                                                   .count = 11,
                                                   .failed = 1,
                                                   .started_ns = 0,
                                                   .finished_ns = INT64_C(2000) * MS};
    const struct kvc_bench_engine_summary summary = kvc_bench_engine_summarise(&result);
    cr_assert_eq(summary.ttft.count, 10);
    cr_assert_float_eq(summary.ttft.mean, 55, 1e-9);
    cr_assert_float_eq(summary.ttft.p50, 50, 1e-9);
    cr_assert_float_eq(summary.ttft.p90, 90, 1e-9);
    cr_assert_float_eq(summary.ttft.p99, 100, 1e-9);
    cr_assert_float_eq(summary.latency.p50, 151, 1e-9);
    cr_assert_float_eq(summary.decode.mean, 550, 1e-9);
    cr_assert_float_eq(summary.decode.p50, 600, 1e-9, "five are at least as fast");
    cr_assert_float_eq(summary.decode.p90, 200, 1e-9);
    cr_assert_float_eq(summary.decode.p99, 100, 1e-9, "the slow end");
    cr_assert_eq(summary.input_tokens, 1000);
    cr_assert_eq(summary.output_tokens, 560);
    cr_assert_float_eq(summary.input_throughput, 500, 1e-9);
    cr_assert_float_eq(summary.request_throughput, 5, 1e-9);
    cr_assert_eq(summary.gap.count, 0);
    cr_assert_eq(summary.sized, 10);
    cr_assert_float_eq(summary.worst_deviation, 1.0 / 99, 1e-9);
}

Test(figures, validity)
{
    const struct kvc_bench_engine_result good = {.count = 3};
    cr_assert(kvc_bench_engine_result_is_valid(&good));
    struct kvc_bench_engine_result bad[] = {good, good, good, good};
    bad[0].count = 0;
    bad[1].failed = 1;
    bad[2].warmup_failures = 1;
    bad[3].interrupted = true;
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++)
        cr_assert_not(kvc_bench_engine_result_is_valid(&bad[i]), "case %zu", i);
}

Test(figures, csv)
{
    struct kvc_bench_engine_record records[] = {record_of(250, 500, 11), record_of(10, 0, 1)};
    records[1].is_ok = false;
    records[1].problem = "it said \"no\", and left";
    records[1].first_token_ns = 0;
    records[1].prompt_tokens = records[1].completion_tokens = -1;
    const struct kvc_bench_engine_result result = {.records = records,
                                                   .count = 2,
                                                   .failed = 1,
                                                   .wall_offset_ns = INT64_C(1800000000000000000)};
    struct kvc_buffer csv = {0};
    kvc_bench_engine_write_csv(&result, &csv);
    cr_assert_str_eq(
        kvc_buffer_text(&csv),
        "request_id,successful,ttft,request_latency,num_input_tokens,num_output_tokens,decode_speed,"
        "submit_time,first_token_time,finish_time,error\r\n"
        "r,True,0.250000000,0.751000000,100,11,20.000000,1800000001.000000000,1800000001.250000000,"
        "1800000001.751000000,\r\n"
        "r,False,,0.011000000,,,,1800000001.000000000,,1800000001.011000000,"
        "\"it said \"\"no\"\", and left\"\r\n");
    kvc_buffer_clear(&csv);
}
