/* Which runs are valid, and what the reports then give. */
#include <criterion/criterion.h>

#include <string.h>

#include "src/bench/server.h"

static struct kvc_bench_server_result good_result(void)
{
    return (struct kvc_bench_server_result){
        .requests = 3,
        .checksum_ok = 3,
        .measured = {.requests = 3,
                     .elapsed_ns = 1000000000,
                     .timeline = {.lane_count = KVC_BENCH_OPERATION_COUNT}},
    };
}

Test(validity, a_whole_run_is_valid)
{
    const struct kvc_bench_server_result result = good_result();
    cr_assert(kvc_bench_server_is_valid(&result));
}

Test(validity, anything_amiss_makes_it_invalid)
{
    struct kvc_bench_server_result bad[11];
    for (size_t i = 0; i < 11; i++)
        bad[i] = good_result();
    bad[0].requests = bad[0].checksum_ok = 0;
    bad[1].checksum_fail = 1;
    bad[2].cold_hits = 1;
    bad[3].warm_misses = 1;
    bad[4].errors = 1;
    bad[5].interrupted = true;
    bad[6].checksum_ok = 2;
    bad[7].lost = true;
    bad[8].measured.unserved = 1;
    bad[9].deferred = 1; /* nothing was read back */
    bad[9].checksum_ok = 2;
    bad[10].step_count = 1; /* a ramp that found no rate */
    for (size_t i = 0; i < 11; i++)
        cr_assert_not(kvc_bench_server_is_valid(&bad[i]), "case %zu", i);
}

static const struct kvc_bench_server_options options = {.rpc_url = "tcp://h:1",
                                                        .mode = "cpu",
                                                        .shape_spec = "(2,64,16,2,8):float16:2",
                                                        .tp_size = 1,
                                                        .workload = "pair",
                                                        .clients = 1,
                                                        .num_tokens = 512};

Test(report, no_figures_for_an_invalid_run)
{
    struct kvc_bench_server_result result = good_result();
    result.errors = 1;
    kvc_histogram_add(&result.measured.operations[KVC_BENCH_COLD_STORE].latency, 5000000);
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
        kvc_histogram_add(&result.measured.operations[KVC_BENCH_COLD_STORE].latency, 5000000);
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
