/* The table and the page of `bench server`, from a result made by hand. */
#include <criterion/criterion.h>

#include <string.h>

#include "src/bench/server.h"

static const struct kvc_bench_server_options options = {.rpc_url = "tcp://h:1",
                                                        .mode = "cpu",
                                                        .shape_spec = "(2,64,16,2,8):float16:2",
                                                        .tp_size = 1,
                                                        .workload = "pair",
                                                        .clients = 2,
                                                        .num_tokens = 512};

/* Two stores of 500000 bytes and 512 tokens each in two seconds, 1 ms and 3 ms. */
static struct kvc_bench_server_result made_result(void)
{
    struct kvc_bench_server_result result = {
        .requests = 2,
        .checksum_ok = 2,
        .memcpy_speed = 10,
        .dialect = "0.5.6",
        .path = "engine_driven",
        .path_reason = "<pool> & \"name\"",
        .measured = {.requests = 2,
                     .elapsed_ns = 2000000000,
                     .whole_ns = 4000000000,
                     .timeline = {.lane_count = KVC_BENCH_OPERATION_COUNT}},
    };
    struct kvc_bench_operation_result *store = &result.measured.operations[KVC_BENCH_COLD_STORE];
    for (int64_t i = 0; i < 2; i++) {
        kvc_histogram_add(&store->latency, 1000000 + i * 2000000);
        kvc_timeline_add(&result.measured.timeline, KVC_BENCH_COLD_STORE, i, 1000000 + i * 2000000);
    }
    kvc_timeline_close_before(&result.measured.timeline, 2);
    store->service_ns = 4000000;
    store->tokens = 1024;
    store->bytes = 1000000;
    return result;
}

static const char head[] =
    "operation,count,mean_ms,min_ms,max_ms,p50_ms,p90_ms,p95_ms,p99_ms,p99.9_ms,tokens_per_second,"
    "gigabytes_per_second,speed,memcpy_share,valid,dialect,transfer_path,kvcache_shape_spec,"
    "num_tokens,workload,clients,rate\n";

/* p50 is the upper bound of the bucket of 1 ms: 1000000 ns lies in the buckets of 2^19 / 128 = 4096 ns,
 * 244 x 4096 .. 245 x 4096 - 1 = 1003519 ns. */
Test(csv, a_row_an_operation)
{
    struct kvc_bench_server_result result = made_result();
    struct kvc_buffer out = {0};
    kvc_bench_server_write_csv(&options, &result, &out);
    const char *text = kvc_buffer_text(&out);
    cr_assert_eq(strncmp(text, head, sizeof(head) - 1), 0, "%s", text);
    cr_assert_str_eq(text + sizeof(head) - 1,
                     "cold_store,2,2.000000,1.000000,3.000000,1.003519,3.000000,3.000000,3.000000,"
                     "3.000000,512.000,0.000500,0.250000,0.025000,true,0.5.6,engine_driven,"
                     "\"(2,64,16,2,8):float16:2\",512,pair,2,\n");
    kvc_buffer_clear(&out);
    kvc_bench_server_result_clear(&result);
}

Test(csv, only_the_head_of_an_invalid_run)
{
    struct kvc_bench_server_result result = made_result();
    struct kvc_buffer out = {0};
    result.errors = 1;
    kvc_bench_server_write_csv(&options, &result, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), head);
    kvc_buffer_clear(&out);
    kvc_bench_server_result_clear(&result);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (text = strstr(text, part); text != NULL; text = strstr(text + 1, part))
        count++;
    return count;
}

Test(page, figures_and_plots)
{
    struct kvc_bench_server_result result = made_result();
    struct kvc_buffer out = {0};
    kvc_bench_server_write_html(&options, &result, &out);
    const char *text = kvc_buffer_text(&out);
    cr_assert_not_null(strstr(text, "Every byte came back right"));
    cr_assert_not_null(strstr(text, "&lt;pool&gt; &amp; &quot;name&quot;"));
    cr_assert_not_null(strstr(text, "<tr><th>Cold Store</th><td>2</td><td>2.00</td>"));
    cr_assert_eq(count_of(text, "<figure>"), 2, "distribution and time");
    kvc_buffer_clear(&out);
    kvc_bench_server_result_clear(&result);
}

Test(page, a_ramp_has_a_plot_and_a_table)
{
    struct kvc_ramp_limit limit;
    cr_assert_eq(kvc_ramp_limit_parse("cold_store.p99<=5ms", &limit, NULL), KVC_OK);
    struct kvc_bench_server_options ramp = options;
    ramp.ramp = &limit;
    struct kvc_bench_server_result result = made_result();
    struct kvc_bench_step steps[] = {
        {.rate = 8, .number = 1, .reached = 8, .requests = 40, .reason = "p99 is 7.000 ms"},
        {.rate = 8,
         .number = 2,
         .decided = true,
         .reached = 8,
         .requests = 40,
         .value_ns = 9000000,
         .p50_ns = 2000000,
         .p99_ns = 9000000,
         .reason = "p99 is 9.000 ms"},
        {.rate = 4,
         .number = 1,
         .decided = true,
         .reached = 4,
         .requests = 20,
         .value_ns = 3000000,
         .p50_ns = 1000000,
         .p99_ns = 3000000,
         .met = true},
    };
    result.steps = kvc_alloc(sizeof(steps));
    memcpy(result.steps, steps, sizeof(steps));
    result.step_count = KVC_COUNT_OF(steps);
    result.highest_rate = 4;
    struct kvc_buffer out = {0};
    kvc_bench_server_write_html(&ramp, &result, &out);
    const char *text = kvc_buffer_text(&out);
    cr_assert_eq(count_of(text, "<figure>"), 3);
    cr_assert_eq(count_of(text, "<circle"), 2);
    cr_assert_eq(count_of(text, "class=\"limit\""), 1);
    cr_assert_not_null(strstr(text, "not met: p99 is 9.000 ms</td>"));
    cr_assert_not_null(strstr(text, "not met: p99 is 7.000 ms (tried again)</td>"));
    cr_assert_null(strstr(text, "</svg>p99</li>"), "the limit's figure is not drawn twice");
    kvc_buffer_clear(&out);
    kvc_bench_server_result_clear(&result);
}

Test(page, no_figures_for_an_invalid_run)
{
    struct kvc_bench_server_result result = made_result();
    struct kvc_buffer out = {0};
    result.errors = 1;
    snprintf(result.first_problem, sizeof(result.first_problem), "seq 3, STORE: <no reply>");
    kvc_bench_server_write_html(&options, &result, &out);
    const char *text = kvc_buffer_text(&out);
    cr_assert_not_null(strstr(text, "The run is not valid"));
    cr_assert_not_null(strstr(text, "STORE: &lt;no reply&gt;"));
    cr_assert_null(strstr(text, "<svg"));
    cr_assert_null(strstr(text, "Cold Store"));
    kvc_buffer_clear(&out);
    kvc_bench_server_result_clear(&result);
}
