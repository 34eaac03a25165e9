/* The report of `bench server` for a person, in the form of `lmcache bench server`. */
#include <stdarg.h>
#include <string.h>

#include "src/bench/report_text.h"
#include "src/bench/server_figures.h"

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
{
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    kvc_bench_write_row(out, label, value);
}

/* ---- configuration ---- */

static void write_load(const struct kvc_bench_server_options *options, struct kvc_buffer *out)
{
    write_line(out, "Workload", "%s", options->workload);
    write_line(out, "Clients", "%lld", (long long)options->clients);
    if (options->ramp != NULL)
        write_line(out, "Loop", "open, ramp to %s", options->ramp->text);
    else if (options->rate > 0)
        write_line(out, "Loop", "open, %g requests/s", options->rate);
    else
        write_line(out, "Loop", "closed");
    if (options->warmup > 0)
        write_line(out, "Warm-up requests", "%lld", (long long)options->warmup);
    if (options->duration_ms > 0)
        write_line(out, "Duration (s)", "%.3f", (double)options->duration_ms / 1000);
}

static void write_configuration(const struct kvc_bench_server_options *options,
                                const struct kvc_bench_server_result *result,
                                struct kvc_buffer *out)
{
    kvc_bench_write_rule(out, "Configuration", '-');
    write_line(out, "RPC URL", "%s", options->rpc_url);
    write_line(out, "Mode", "%s", options->mode);
    write_line(out, "KV caches on", "%s", result->device);
    write_line(out, "Transfer mode", "%s",
               options->transfer_mode == NULL ? "auto" : options->transfer_mode);
    write_line(out, "Transfer path", "%s", result->path);
    write_line(out, "  because", "%s", result->path_reason);
    write_line(out, "Dialect", "%s", result->dialect);
    write_line(out, "TP size", "%lld", (long long)options->tp_size);
    write_line(out, "KV shape", "%s", options->shape_spec);
    write_line(out, "Tokens / request", "%lld", (long long)options->num_tokens);
    write_load(options, out);
    if (options->rate <= 0 && options->ramp == NULL)
        write_line(out, "Interval (s)", "%.2f", options->interval);
    write_line(out, "Seed", "%llu", (unsigned long long)options->seed);
}

/* ---- what came out ---- */

static void write_results(const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    kvc_bench_write_rule(out, "Results", '-');
    write_line(out, "Total requests", "%lld", (long long)result->requests);
    write_line(out, "Checksum OK", "%lld", (long long)result->checksum_ok);
    write_line(out, "Checksum FAIL", "%lld", (long long)result->checksum_fail);
    write_line(out, "Pass rate (%)", "%.2f", kvc_bench_pass_rate(result));
    write_line(out, "Unexpected cold hits", "%lld", (long long)result->cold_hits);
    write_line(out, "Warm misses", "%lld", (long long)result->warm_misses);
    write_line(out, "Requests ended early", "%lld", (long long)result->errors);
    if (result->strays > 0)
        write_line(out, "Replies to nothing", "%lld", (long long)result->strays);
    if (result->measured.unserved > 0)
        write_line(out, "Due and never sent", "%lld", (long long)result->measured.unserved);
    if (result->deferred > 0 || result->read_back + result->read_back_evicted > 0)
        write_line(out, "Read back afterwards", "%lld right, %lld not there any more",
                   (long long)result->read_back, (long long)result->read_back_evicted);
    write_line(out, "Bytes verified", "%lld", (long long)result->bytes_verified);
    write_line(out, "HTTP checksums", "%s", result->http_checksums);
    write_line(out, "Run", "%s", kvc_bench_server_verdict(result));
    if (result->first_problem[0] != '\0')
        write_line(out, "First problem", "%s", result->first_problem);
}

/* ---- figures ---- */

static void write_throughput(const struct kvc_bench_server_result *result,
                             enum kvc_bench_operation operation, struct kvc_buffer *out)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    write_line(out, "tokens/s", "%.0f", kvc_bench_tokens_per_second(measured, operation));
    if (measured->operations[operation].bytes == 0)
        return;
    const double speed = kvc_bench_operation_speed(measured, operation);
    write_line(out, "GB/s, all clients, over the whole run", "%.3f",
               kvc_bench_gigabytes_per_second(measured, operation));
    write_line(out, "GB/s, one client, while it lasts", "%.3f", speed);
    if (result->memcpy_speed > 0)
        write_line(out, "  that is, of memcpy", "%.3f", speed / result->memcpy_speed);
}

static void write_operation(const struct kvc_bench_server_result *result,
                            enum kvc_bench_operation operation, struct kvc_buffer *out)
{
    const struct kvc_histogram *latency = &result->measured.operations[operation].latency;
    if (latency->count == 0)
        return;
    char title[64];
    double values[KVC_BENCH_LATENCY_COUNT];
    snprintf(title, sizeof(title), "%s (ms)", kvc_bench_operation_titles[operation]);
    kvc_bench_write_rule(out, title, '-');
    write_line(out, "count", "%llu", (unsigned long long)latency->count);
    kvc_bench_latencies(latency, values);
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        write_line(out, kvc_bench_latency_names[i], "%.3f", values[i] / 1e6);
    write_throughput(result, operation, out);
}

static void write_time_spent(const struct kvc_bench_measurement *measured, struct kvc_buffer *out)
{
    if (measured->whole_ns <= 0)
        return;
    const double whole = (double)measured->whole_ns;
    kvc_bench_write_rule(out, "Where the clients' time went (s)", '-');
    for (size_t i = 0; i < KVC_BENCH_PART_COUNT; i++)
        write_line(out, kvc_bench_part_names[i], "%.3f %6.1f %%",
                   (double)measured->parts_ns[i] / 1e9,
                   100 * (double)measured->parts_ns[i] / whole);
    const double other = (double)kvc_bench_other_ns(measured);
    write_line(out, "other", "%.3f %6.1f %%", other / 1e9, 100 * other / whole);
    write_line(out, "whole", "%.3f %6.1f %%", whole / 1e9, 100.0);
}

static void write_lateness(const struct kvc_bench_measurement *measured, struct kvc_buffer *out)
{
    if (measured->lateness.count == 0)
        return;
    kvc_bench_write_rule(out, "Begun later than due (ms)", '-');
    write_line(out, "p50", "%.3f",
               (double)kvc_histogram_percentile(&measured->lateness, 0.5) / 1e6);
    write_line(out, "p99", "%.3f",
               (double)kvc_histogram_percentile(&measured->lateness, 0.99) / 1e6);
    write_line(out, "max", "%.3f", (double)measured->lateness.max / 1e6);
}

static void write_ramp(const struct kvc_ramp_limit *limit,
                       const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    kvc_bench_write_rule(out, "Ramp", '-');
    for (size_t i = 0; i < result->step_count; i++) {
        const struct kvc_bench_step *step = &result->steps[i];
        char label[64];
        snprintf(label, sizeof(label), "%.4g requests/s, reached %.4g", step->rate, step->reached);
        write_line(out, label, "%s %.3f ms %s%s%s", limit->figure, (double)step->value_ns / 1e6,
                   step->met ? "met" : "not met: ", step->reason,
                   step->decided ? "" : " (tried again)");
    }
    if (result->highest_rate > 0)
        write_line(out, "Highest rate that meets the limit", "%.4g requests/s",
                   result->highest_rate);
    else
        write_line(out, "Highest rate that meets the limit", "none of those tried");
}

static void write_figures(const struct kvc_bench_server_options *options,
                          const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    if (result->interrupted)
        kvc_buffer_append_text(out, "Interrupted: figures of what ran until then, not valid.\n");
    if (options->ramp != NULL)
        write_ramp(options->ramp, result, out);
    if (measured->requests == 0)
        return;
    kvc_bench_write_rule(out, "Throughput", '-');
    write_line(out, "Seconds measured", "%.3f", (double)measured->elapsed_ns / 1e9);
    write_line(out, "Requests/s", "%.3f", kvc_bench_rate_reached(measured));
    write_line(out, "Bytes / request", "%lld", (long long)result->request_bytes);
    if (result->memcpy_speed > 0)
        write_line(out, "memcpy of as many bytes (GB/s)", "%.3f", result->memcpy_speed);
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        write_operation(result, (enum kvc_bench_operation)i, out);
    write_lateness(measured, out);
    write_time_spent(measured, out);
}

void kvc_bench_server_write_terminal(const struct kvc_bench_server_options *options,
                                     const struct kvc_bench_server_result *result,
                                     struct kvc_buffer *out)
{
    kvc_bench_write_rule(out, "Server Bench Result", '=');
    write_configuration(options, result, out);
    write_results(result, out);
    if (kvc_bench_server_has_figures(result))
        write_figures(options, result, out);
    else
        kvc_buffer_append_text(out, "No figures: the run is not valid.\n");
    kvc_bench_write_rule(out, "", '=');
    write_line(out, "Server still answers", "%s", result->server_answers ? "yes" : "NO");
}
