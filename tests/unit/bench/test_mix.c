#include <criterion/criterion.h>

#include <string.h>

#include "src/bench/server_parts.h"

Test(mix, names_and_weights)
{
    struct kvc_bench_mix mix;
    cr_assert_eq(kvc_bench_mix_parse("store", &mix, NULL), KVC_OK);
    cr_assert_eq(mix.weights[KVC_BENCH_STORE], 1);
    cr_assert_eq(mix.weights[KVC_BENCH_PAIR], 0);
    cr_assert_eq(kvc_bench_mix_parse("store:2,retrieve,store:3", &mix, NULL), KVC_OK);
    cr_assert_eq(mix.weights[KVC_BENCH_STORE], 5);
    cr_assert_eq(mix.weights[KVC_BENCH_RETRIEVE], 1);
}

Test(mix, what_is_refused)
{
    static const char *const texts[] = {
        "",       "stor",   "store:",        "store:0", "store:-1", "store:x",     "store:1x",
        ",store", "store,", "store:1,,pair", "STORE",   "store:1 ", "pair:1000001"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct kvc_bench_mix mix;
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_bench_mix_parse(texts[i], &mix, &err), KVC_EUSAGE, "%s", texts[i]);
        cr_assert_not_null(strstr(err.expected, "prefix"));
    }
}

Test(mix, chosen_in_proportion)
{
    struct kvc_bench_mix mix;
    kvc_bench_mix_parse("store:1,retrieve:3", &mix, NULL);
    int64_t chosen[KVC_BENCH_WORKLOAD_COUNT] = {0};
    for (uint64_t i = 0; i < 4000; i++)
        chosen[kvc_bench_mix_choose(&mix, i)]++;
    cr_assert_eq(chosen[KVC_BENCH_STORE] + chosen[KVC_BENCH_RETRIEVE], 4000);
    cr_assert(chosen[KVC_BENCH_STORE] > 880 && chosen[KVC_BENCH_STORE] < 1120, "%lld of 4000",
              (long long)chosen[KVC_BENCH_STORE]);
}

Test(mix, a_limit_is_on_what_happens)
{
    struct kvc_bench_mix mix;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_ramp_limit limit;
    kvc_bench_mix_parse("store", &mix, NULL);
    kvc_ramp_limit_parse("cold_store.p99<=5", &limit, NULL);
    cr_assert_eq(kvc_bench_mix_check_limit(&mix, &limit, &err), KVC_OK);
    kvc_ramp_limit_parse("warm_retrieve.p99<=5", &limit, NULL);
    cr_assert_eq(kvc_bench_mix_check_limit(&mix, &limit, &err), KVC_EUSAGE);
    cr_assert_str_eq(err.expected, "cold_store");
}
