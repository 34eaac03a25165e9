/* The JSON report of `bench server` (docs/json.md). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/server_figures.h"
#include "src/report/text.h"

enum { JSON_VERSION = 1 };

static double rounded(double value)
{
    return round(value * 1000) / 1000;
}

/* A text that may hold what a server said. */
static json_t *clean_text(const char *text)
{
    struct kvc_buffer clean = {0};
    kvc_report_clean(text, &clean);
    json_t *value = json_stringn((const char *)clean.data, clean.size);
    kvc_buffer_clear(&clean);
    return value;
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        json_object_set_new(object, name, clean_text(text));
}

static void set_integer(json_t *object, const char *name, int64_t number)
{
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static void set_real(json_t *object, const char *name, double number)
{
    json_object_set_new(object, name, json_real(number));
}

static void set_bool(json_t *object, const char *name, bool value)
{
    json_object_set_new(object, name, json_boolean(value));
}

/* ---- metrics: what lmcache's report has, under its names ---- */

static json_t *config_json(const struct kvc_bench_server_options *options,
                           const struct kvc_bench_server_result *result)
{
    json_t *config = json_object();
    set_text(config, "rpc_url", options->rpc_url);
    set_text(config, "mode", options->mode);
    set_text(config, "device", result->device);
    set_text(config, "transfer_mode",
             options->transfer_mode == NULL ? "auto" : options->transfer_mode);
    set_text(config, "transfer_path", result->path);
    set_text(config, "transfer_path_reason", result->path_reason);
    set_text(config, "dialect", result->dialect);
    set_integer(config, "tp_size", options->tp_size);
    set_bool(config, "use_mla", options->use_mla);
    set_text(config, "kvcache_shape_spec", options->shape_spec);
    set_integer(config, "num_tokens", options->num_tokens);
    set_integer(config, "chunk_size", result->chunk_size);
    set_real(config, "interval", options->interval);
    set_text(config, "workload", options->workload);
    set_integer(config, "clients", options->clients);
    if (options->rate > 0)
        set_real(config, "rate", options->rate);
    set_integer(config, "warmup", options->warmup);
    if (options->duration_ms > 0)
        set_real(config, "duration", (double)options->duration_ms / 1000);
    set_integer(config, "prepared", options->prepared);
    set_integer(config, "shared_tokens", options->shared_tokens);
    if (options->ramp != NULL) {
        set_text(config, "ramp", options->ramp->text);
        set_real(config, "ramp_step", (double)options->ramp_step_ms / 1000);
    }
    /* A text: not every reader keeps 64 bits of a number. */
    char seed[24];
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)options->seed);
    set_text(config, "seed", seed);
    return config;
}

static json_t *results_json(const struct kvc_bench_server_result *result)
{
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {
        {"total_requests", result->requests},
        {"checksum_ok", result->checksum_ok},
        {"checksum_fail", result->checksum_fail},
        {"cold_hits", result->cold_hits},
        {"warm_misses", result->warm_misses},
        {"errors", result->errors},
        {"strays", result->strays},
        {"deferred", result->deferred},
        {"read_back", result->read_back},
        {"read_back_evicted", result->read_back_evicted},
        {"unserved", result->measured.unserved},
        {"bytes_verified", result->bytes_verified},
    };
    json_t *results = json_object();
    for (size_t i = 0; i < KVC_COUNT_OF(counts); i++)
        set_integer(results, counts[i].name, counts[i].value);
    set_real(results, "pass_rate", rounded(kvc_bench_pass_rate(result)));
    set_text(results, "http_checksums", result->http_checksums);
    set_bool(results, "server_answers", result->server_answers);
    set_bool(results, "interrupted", result->interrupted);
    set_bool(results, "lost", result->lost);
    set_bool(results, "valid", kvc_bench_server_is_valid(result));
    set_text(results, "verdict", kvc_bench_server_verdict(result));
    set_text(results, "first_problem", result->first_problem);
    return results;
}

static void set_figure(json_t *section, const char *operation, const char *figure, double value)
{
    char name[64];
    snprintf(name, sizeof(name), "%s_%s", operation, figure);
    set_real(section, name, value);
}

/* Latencies in milliseconds, as lmcache's. */
static json_t *operation_json(const struct kvc_bench_server_result *result,
                              enum kvc_bench_operation operation)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    const struct kvc_histogram *latency = &measured->operations[operation].latency;
    const char *name = kvc_bench_operation_names[operation];
    double values[KVC_BENCH_LATENCY_COUNT];
    json_t *section = json_object();
    char count[64];
    snprintf(count, sizeof(count), "%s_count", name);
    set_integer(section, count, (int64_t)latency->count);
    kvc_bench_latencies(latency, values);
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        set_figure(section, name, kvc_bench_latency_names[i], rounded(values[i] / 1e6));
    set_figure(section, name, "tokens_per_second",
               rounded(kvc_bench_tokens_per_second(measured, operation)));
    if (measured->operations[operation].bytes > 0) {
        const double speed = kvc_bench_operation_speed(measured, operation);
        set_figure(section, name, "gigabytes_per_second",
                   kvc_bench_gigabytes_per_second(measured, operation));
        set_figure(section, name, "speed", speed);
        if (result->memcpy_speed > 0)
            set_figure(section, name, "memcpy_share", speed / result->memcpy_speed);
    }
    return section;
}

static json_t *metrics_json(const struct kvc_bench_server_options *options,
                            const struct kvc_bench_server_result *result)
{
    json_t *metrics = json_object();
    json_object_set_new(metrics, "config", config_json(options, result));
    json_object_set_new(metrics, "results", results_json(result));
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        if (kvc_bench_server_has_figures(result) &&
            result->measured.operations[i].latency.count > 0)
            json_object_set_new(metrics, kvc_bench_operation_names[i],
                                operation_json(result, (enum kvc_bench_operation)i));
    return metrics;
}

/* ---- what lmcache's report does not have ---- */

static json_t *machine_json(const struct kvc_machine *machine)
{
    json_t *object = json_object();
    set_integer(object, "cores", machine->cores);
    set_text(object, "cpu", machine->cpu);
    set_integer(object, "memory_bytes", machine->memory_bytes);
    set_text(object, "kernel", machine->kernel);
    return object;
}

static json_t *buckets_json(const struct kvc_histogram *histogram)
{
    json_t *buckets = json_array();
    for (size_t i = 0; histogram->buckets != NULL && i < KVC_HISTOGRAM_BUCKET_COUNT; i++)
        if (histogram->buckets[i] > 0)
            json_array_append_new(buckets,
                                  json_pack("[I, I]", (json_int_t)kvc_histogram_upper_bound(i),
                                            (json_int_t)histogram->buckets[i]));
    return buckets;
}

static json_t *histograms_json(const struct kvc_bench_measurement *measured)
{
    json_t *histograms = json_object();
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        if (measured->operations[i].latency.count > 0)
            json_object_set_new(histograms, kvc_bench_operation_names[i],
                                buckets_json(&measured->operations[i].latency));
    if (measured->lateness.count > 0)
        json_object_set_new(histograms, "lateness", buckets_json(&measured->lateness));
    return histograms;
}

static json_t *second_json(const struct kvc_timeline *timeline, size_t second)
{
    const struct kvc_timeline_cell *row = kvc_timeline_row(timeline, second);
    json_t *object = json_object();
    set_integer(object, "second", (int64_t)second);
    for (size_t i = 0; i < timeline->lane_count; i++) {
        if (row[i].count == 0)
            continue;
        json_t *cell = json_object();
        set_integer(cell, "count", (int64_t)row[i].count);
        set_integer(cell, "p50_ns", row[i].p50);
        set_integer(cell, "p99_ns", row[i].p99);
        set_integer(cell, "max_ns", row[i].max);
        json_object_set_new(object, kvc_bench_operation_names[i], cell);
    }
    return object;
}

static json_t *time_series_json(const struct kvc_timeline *timeline)
{
    json_t *series = json_array();
    for (size_t second = 0; second < timeline->second_count; second++)
        json_array_append_new(series, second_json(timeline, second));
    return series;
}

static json_t *time_spent_json(const struct kvc_bench_measurement *measured)
{
    json_t *spent = json_object();
    for (size_t i = 0; i < KVC_BENCH_PART_COUNT; i++)
        set_real(spent, kvc_bench_part_names[i], (double)measured->parts_ns[i] / 1e9);
    set_real(spent, "other", (double)kvc_bench_other_ns(measured) / 1e9);
    set_real(spent, "whole", (double)measured->whole_ns / 1e9);
    return spent;
}

static json_t *measured_json(const struct kvc_bench_server_result *result)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    json_t *object = json_object();
    set_real(object, "seconds", (double)measured->elapsed_ns / 1e9);
    set_integer(object, "requests", measured->requests);
    if (measured->rate > 0)
        set_real(object, "rate_asked", measured->rate);
    set_real(object, "rate_reached", kvc_bench_rate_reached(measured));
    set_integer(object, "request_bytes", result->request_bytes);
    if (result->memcpy_speed > 0)
        set_real(object, "memcpy_gigabytes_per_second", result->memcpy_speed);
    json_object_set_new(object, "time_spent", time_spent_json(measured));
    json_object_set_new(object, "histograms", histograms_json(measured));
    json_object_set_new(object, "time_series", time_series_json(&measured->timeline));
    return object;
}

static json_t *step_json(const struct kvc_bench_step *step)
{
    json_t *object = json_object();
    set_real(object, "rate_asked", step->rate);
    set_integer(object, "try", step->number);
    set_real(object, "rate_reached", step->reached);
    set_integer(object, "requests", step->requests);
    set_integer(object, "value_ns", step->value_ns);
    set_integer(object, "p50_ns", step->p50_ns);
    set_integer(object, "p99_ns", step->p99_ns);
    set_bool(object, "met", step->met);
    set_bool(object, "decided", step->decided);
    set_text(object, "reason", step->reason);
    return object;
}

static json_t *ramp_json(const struct kvc_ramp_limit *limit,
                         const struct kvc_bench_server_result *result)
{
    json_t *object = json_object();
    json_t *steps = json_array();
    json_object_set_new(object, "operation",
                        json_stringn(limit->operation.data, limit->operation.size));
    set_text(object, "figure", limit->figure);
    set_integer(object, "limit_ns", limit->limit_ns);
    if (result->highest_rate > 0)
        set_real(object, "highest_rate", result->highest_rate);
    for (size_t i = 0; i < result->step_count; i++)
        json_array_append_new(steps, step_json(&result->steps[i]));
    json_object_set_new(object, "steps", steps);
    return object;
}

void kvc_bench_server_write_json(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out)
{
    json_t *report = json_object();
    set_text(report, "title", "Server Bench Result");
    set_integer(report, "schema_version", JSON_VERSION);
    set_text(report, "suite_version", KVC_VERSION);
    set_text(report, "started", result->started);
    json_object_set_new(report, "machine", machine_json(&result->machine));
    json_object_set_new(report, "metrics", metrics_json(options, result));
    if (kvc_bench_server_has_figures(result)) {
        json_object_set_new(report, "measured", measured_json(result));
        if (options->ramp != NULL)
            json_object_set_new(report, "ramp", ramp_json(options->ramp, result));
    }
    char *text = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    kvc_buffer_append_text(out, text == NULL ? "{}" : text);
    kvc_buffer_append_byte(out, '\n');
    free(text);
    json_decref(report);
}
