/* Which workloads a run has, and how often each. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum { MAX_WEIGHT = 1000000 };

static kvc_status refuse(const char *text, struct kvc_error *err)
{
    struct kvc_buffer names = {0};
    for (size_t i = 0; i < KVC_BENCH_WORKLOAD_COUNT; i++)
        kvc_buffer_printf(&names, "%s%s", i == 0 ? "" : ", ", kvc_bench_workload_names[i]);
    kvc_fail(err, KVC_EUSAGE, "'%s' is no workload", text);
    kvc_error_set_expected(err, "%s; or several with weights, such as store:1,retrieve:4",
                           kvc_buffer_text(&names));
    kvc_buffer_clear(&names);
    return KVC_EUSAGE;
}

/* NAME or NAME:WEIGHT, up to the next comma. */
static bool take(struct kvc_str part, struct kvc_bench_mix *mix)
{
    const char *colon = memchr(part.data, ':', part.size);
    const size_t name_size = colon == NULL ? part.size : (size_t)(colon - part.data);
    long weight = 1;
    if (colon != NULL) {
        char *end = NULL;
        weight = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || end != part.data + part.size || weight < 1 || weight > MAX_WEIGHT)
            return false;
    }
    for (size_t i = 0; i < KVC_BENCH_WORKLOAD_COUNT; i++) {
        if (kvc_str_is((struct kvc_str){part.data, name_size}, kvc_bench_workload_names[i])) {
            mix->weights[i] += weight;
            return true;
        }
    }
    return false;
}

kvc_status kvc_bench_mix_parse(const char *text, struct kvc_bench_mix *mix, struct kvc_error *err)
{
    *mix = (struct kvc_bench_mix){0};
    for (const char *rest = text;; rest++) {
        const size_t size = strcspn(rest, ",");
        if (!take((struct kvc_str){rest, size}, mix))
            return refuse(text, err);
        rest += size;
        if (*rest == '\0')
            return KVC_OK;
    }
}

enum kvc_bench_workload kvc_bench_mix_choose(const struct kvc_bench_mix *mix, uint64_t number)
{
    uint64_t total = 0;
    for (size_t i = 0; i < KVC_BENCH_WORKLOAD_COUNT; i++)
        total += (uint64_t)mix->weights[i];
    uint64_t place = kvc_mix(number) % total;
    size_t chosen = 0;
    while (place >= (uint64_t)mix->weights[chosen])
        place -= (uint64_t)mix->weights[chosen++];
    return (enum kvc_bench_workload)chosen;
}

kvc_status kvc_bench_mix_check_limit(const struct kvc_bench_mix *mix,
                                     const struct kvc_ramp_limit *limit, struct kvc_error *err)
{
    unsigned made = 0;
    struct kvc_buffer names = {0};
    bool is_one = false;
    for (size_t i = 0; i < KVC_BENCH_WORKLOAD_COUNT; i++)
        made |= mix->weights[i] > 0 ? kvc_bench_workloads[i].operations : 0;
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++) {
        if ((made & (1u << i)) == 0)
            continue;
        is_one |= kvc_str_is(limit->operation, kvc_bench_operation_names[i]);
        kvc_buffer_printf(&names, "%s%s", names.size == 0 ? "" : ", ",
                          kvc_bench_operation_names[i]);
    }
    kvc_status status = KVC_OK;
    if (!is_one) {
        status = kvc_fail(err, KVC_EUSAGE, "the workload makes no '" KVC_STR_FMT "'",
                          KVC_STR_ARG(limit->operation));
        kvc_error_set_expected(err, "%s", kvc_buffer_text(&names));
    }
    kvc_buffer_clear(&names);
    return status;
}
