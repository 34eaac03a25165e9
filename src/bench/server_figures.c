#include "src/bench/server_figures.h"

const char *const kvc_bench_workload_names[KVC_BENCH_WORKLOAD_COUNT] = {
    [KVC_BENCH_PAIR] = "pair",     [KVC_BENCH_STORE] = "store",   [KVC_BENCH_RETRIEVE] = "retrieve",
    [KVC_BENCH_LOOKUP] = "lookup", [KVC_BENCH_PREFIX] = "prefix",
};

const char *const kvc_bench_operation_names[KVC_BENCH_OPERATION_COUNT] = {
    [KVC_BENCH_COLD_LOOKUP] = "cold_lookup",
    [KVC_BENCH_COLD_STORE] = "cold_store",
    [KVC_BENCH_WARM_LOOKUP] = "warm_lookup",
    [KVC_BENCH_WARM_RETRIEVE] = "warm_retrieve",
};

const char *const kvc_bench_operation_titles[KVC_BENCH_OPERATION_COUNT] = {
    [KVC_BENCH_COLD_LOOKUP] = "Cold Lookup",
    [KVC_BENCH_COLD_STORE] = "Cold Store",
    [KVC_BENCH_WARM_LOOKUP] = "Warm Lookup",
    [KVC_BENCH_WARM_RETRIEVE] = "Warm Retrieve",
};

const char *const kvc_bench_part_names[KVC_BENCH_PART_COUNT] = {
    [KVC_BENCH_ENCODE] = "encode",   [KVC_BENCH_WAIT] = "wait", [KVC_BENCH_GATHER] = "gather",
    [KVC_BENCH_SCATTER] = "scatter", [KVC_BENCH_FILL] = "fill", [KVC_BENCH_VERIFY] = "verify",
    [KVC_BENCH_SETTLE] = "settle",   [KVC_BENCH_REST] = "rest",
};

const char *const kvc_bench_latency_names[KVC_BENCH_LATENCY_COUNT] = {
    "mean", "min", "max", "p50", "p90", "p95", "p99", "p99.9"};

void kvc_bench_latencies(const struct kvc_histogram *histogram,
                         double values[KVC_BENCH_LATENCY_COUNT])
{
    static const double shares[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    values[0] = kvc_histogram_mean(histogram);
    values[1] = (double)histogram->min;
    values[2] = (double)histogram->max;
    for (size_t i = 0; i < KVC_COUNT_OF(shares); i++)
        values[3 + i] = (double)kvc_histogram_percentile(histogram, shares[i]);
}

int64_t kvc_bench_other_ns(const struct kvc_bench_measurement *measurement)
{
    int64_t other = measurement->whole_ns;
    for (size_t i = 0; i < KVC_BENCH_PART_COUNT; i++)
        other -= measurement->parts_ns[i];
    return other;
}

double kvc_bench_pass_rate(const struct kvc_bench_server_result *result)
{
    const int64_t tried = result->requests + result->errors;
    const int64_t passed = result->checksum_ok + result->deferred;
    return tried == 0 ? 0 : 100.0 * (double)passed / (double)tried;
}

/* ---- rates ---- */

static double per_second(double amount, int64_t nanoseconds)
{
    return nanoseconds <= 0 ? 0 : amount * 1e9 / (double)nanoseconds;
}

double kvc_bench_rate_reached(const struct kvc_bench_measurement *measurement)
{
    return per_second((double)measurement->requests, measurement->elapsed_ns);
}

double kvc_bench_tokens_per_second(const struct kvc_bench_measurement *measurement,
                                   enum kvc_bench_operation operation)
{
    return per_second((double)measurement->operations[operation].tokens, measurement->elapsed_ns);
}

double kvc_bench_gigabytes_per_second(const struct kvc_bench_measurement *measurement,
                                      enum kvc_bench_operation operation)
{
    const double bytes = (double)measurement->operations[operation].bytes;
    return per_second(bytes / 1e9, measurement->elapsed_ns);
}

double kvc_bench_operation_speed(const struct kvc_bench_measurement *measurement,
                                 enum kvc_bench_operation operation)
{
    const struct kvc_bench_operation_result *result = &measurement->operations[operation];
    return per_second((double)result->bytes / 1e9, result->service_ns);
}

/* ---- validity ---- */

static bool came_out(const struct kvc_bench_server_result *result)
{
    return result->requests > 0 && result->checksum_fail == 0 && result->cold_hits == 0 &&
           result->warm_misses == 0 && result->errors == 0 && result->strays == 0 &&
           result->measured.unserved == 0 &&
           result->checksum_ok + result->deferred == result->requests;
}

/* Requests that read nothing are judged by those that were read back. */
static bool is_verified(const struct kvc_bench_server_result *result)
{
    return result->deferred == 0 || result->read_back > 0;
}

bool kvc_bench_server_is_valid(const struct kvc_bench_server_result *result)
{
    return came_out(result) && is_verified(result) && !result->interrupted && !result->lost &&
           (result->step_count == 0 || result->highest_rate > 0);
}

bool kvc_bench_server_has_figures(const struct kvc_bench_server_result *result)
{
    const bool found_no_rate = result->step_count > 0 && result->highest_rate <= 0;
    return kvc_bench_server_is_valid(result) ||
           (came_out(result) && (result->interrupted || found_no_rate));
}

const char *kvc_bench_server_verdict(const struct kvc_bench_server_result *result)
{
    if (kvc_bench_server_is_valid(result))
        return "valid";
    if (result->lost)
        return "not valid: the server does not answer any more";
    if (result->interrupted)
        return "not valid: interrupted";
    if (result->strays > 0)
        return "not valid: replies came twice, or to nothing";
    if (result->measured.unserved > 0)
        return "not valid: requests that were due were never sent";
    if (result->step_count > 0 && result->highest_rate <= 0 && result->errors == 0)
        return "not valid: no rate that was tried meets the limit";
    if (came_out(result))
        return "not valid: nothing could be read back, so nothing is verified";
    return "not valid";
}
