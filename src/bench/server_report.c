#include "src/bench/server.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 64, JSON_VERSION = 1 };

static const struct {
    const char *key;
    const char *title;
} operations[KVC_BENCH_OPERATION_COUNT] = {
    [KVC_BENCH_COLD_LOOKUP] = {"cold_lookup", "Cold Lookup (ms)"},
    [KVC_BENCH_COLD_STORE] = {"cold_store", "Cold Store (ms)"},
    [KVC_BENCH_WARM_LOOKUP] = {"warm_lookup", "Warm Lookup (ms)"},
    [KVC_BENCH_WARM_RETRIEVE] = {"warm_retrieve", "Warm Retrieve (ms)"},
};

static const char *validity(const struct kvc_bench_server_result *result)
{
    if (kvc_bench_server_is_valid(result))
        return "valid";
    return result->interrupted ? "not valid: interrupted" : "not valid";
}

static double pass_rate(const struct kvc_bench_server_result *result)
{
    const int64_t tried = result->requests + result->errors;
    return tried == 0 ? 0 : 100.0 * (double)result->checksum_ok / (double)tried;
}

/* ---- terminal ---- */

static void write_rule(struct kvc_buffer *out, const char *title, char fill)
{
    const size_t used = title[0] == '\0' ? 0 : strlen(title) + 2;
    const size_t left = used < WIDTH ? (WIDTH - used) / 2 : 0;
    for (size_t i = 0; i < left; i++)
        kvc_buffer_append_byte(out, (uint8_t)fill);
    if (used > 0)
        kvc_buffer_printf(out, " %s ", title);
    for (size_t i = left + used; i < WIDTH; i++)
        kvc_buffer_append_byte(out, (uint8_t)fill);
    kvc_buffer_append_byte(out, '\n');
}

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
{
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    int gap = WIDTH - (int)strlen(label) - 1 - (int)strlen(value);
    if (gap < 1)
        gap = 1;
    kvc_buffer_printf(out, "%s:%*s%s\n", label, gap, "", value);
}

static void write_figures(struct kvc_buffer *out, const struct kvc_bench_server_result *result)
{
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++) {
        const struct kvc_series_figures f = kvc_series_summarise(&result->series[i]);
        if (f.count == 0)
            continue;
        write_rule(out, operations[i].title, '-');
        write_line(out, "count", "%zu", f.count);
        write_line(out, "mean", "%.3f", f.mean);
        write_line(out, "min", "%.3f", f.min);
        write_line(out, "max", "%.3f", f.max);
        write_line(out, "p50", "%.3f", f.p50);
        write_line(out, "p99", "%.3f", f.p99);
    }
}

void kvc_bench_server_write_terminal(const struct kvc_bench_server_options *options,
                                     const struct kvc_bench_server_result *result,
                                     struct kvc_buffer *out)
{
    write_rule(out, "Server Bench Result", '=');
    write_rule(out, "Configuration", '-');
    write_line(out, "RPC URL", "%s", options->rpc_url);
    write_line(out, "Mode", "%s", options->mode);
    write_line(out, "Transfer mode", "%s",
               options->transfer_mode == NULL ? "auto" : options->transfer_mode);
    write_line(out, "Transfer path", "%s", result->path);
    write_line(out, "  because", "%s", result->path_reason);
    write_line(out, "Dialect", "%s", result->dialect);
    write_line(out, "TP size", "%lld", (long long)options->tp_size);
    write_line(out, "KV shape", "%s", options->shape_spec);
    write_line(out, "Tokens / request", "%lld", (long long)options->num_tokens);
    write_line(out, "Interval (s)", "%.2f", options->interval);
    write_line(out, "Seed", "%llu", (unsigned long long)options->seed);
    write_rule(out, "Results", '-');
    write_line(out, "Total requests", "%lld", (long long)result->requests);
    write_line(out, "Checksum OK", "%lld", (long long)result->checksum_ok);
    write_line(out, "Checksum FAIL", "%lld", (long long)result->checksum_fail);
    write_line(out, "Pass rate (%)", "%.2f", pass_rate(result));
    write_line(out, "Unexpected cold hits", "%lld", (long long)result->cold_hits);
    write_line(out, "Warm misses", "%lld", (long long)result->warm_misses);
    write_line(out, "Requests ended early", "%lld", (long long)result->errors);
    write_line(out, "Bytes verified", "%lld", (long long)result->bytes_verified);
    write_line(out, "HTTP checksums", "%s", result->http_checksums);
    write_line(out, "Server still answers", "%s", result->server_answers ? "yes" : "NO");
    write_line(out, "Run", "%s", validity(result));
    if (result->first_problem[0] != '\0')
        write_line(out, "First problem", "%s", result->first_problem);
    if (kvc_bench_server_is_valid(result))
        write_figures(out, result);
    else
        kvc_buffer_append_text(out, "No figures: the run is not valid.\n");
    write_rule(out, "", '=');
}

/* ---- JSON ---- */

static double rounded(double value)
{
    return round(value * 1000) / 1000;
}

static json_t *figures_json(const char *key, const struct kvc_series_figures *f)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {
        {"mean", f->mean}, {"min", f->min}, {"max", f->max}, {"p50", f->p50}, {"p99", f->p99}};
    json_t *section = json_object();
    char name[48];
    snprintf(name, sizeof(name), "%s_count", key);
    json_object_set_new(section, name, json_integer((json_int_t)f->count));
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        snprintf(name, sizeof(name), "%s_%s", key, rows[i].name);
        json_object_set_new(section, name, json_real(rounded(rows[i].value)));
    }
    return section;
}

void kvc_bench_server_write_json(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out)
{
    const bool valid = kvc_bench_server_is_valid(result);
    json_t *metrics = json_pack(
        "{s:{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:f, s:I}, "
        "s:{s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:s, s:b, s:b, s:b, s:s}}",
        "config", "rpc_url", options->rpc_url, "mode", options->mode, "transfer_mode",
        options->transfer_mode == NULL ? "auto" : options->transfer_mode, "transfer_path",
        result->path, "transfer_path_reason", result->path_reason, "dialect", result->dialect,
        "tp_size", (json_int_t)options->tp_size, "kvcache_shape_spec", options->shape_spec,
        "num_tokens", (json_int_t)options->num_tokens, "interval", options->interval, "seed",
        (json_int_t)options->seed, "results", "total_requests", (json_int_t)result->requests,
        "checksum_ok", (json_int_t)result->checksum_ok, "checksum_fail",
        (json_int_t)result->checksum_fail, "pass_rate", rounded(pass_rate(result)), "cold_hits",
        (json_int_t)result->cold_hits, "warm_misses", (json_int_t)result->warm_misses, "errors",
        (json_int_t)result->errors, "bytes_verified", (json_int_t)result->bytes_verified,
        "http_checksums", result->http_checksums, "server_answers", result->server_answers,
        "interrupted", result->interrupted, "valid", valid, "first_problem", result->first_problem);
    for (size_t i = 0; metrics != NULL && valid && i < KVC_BENCH_OPERATION_COUNT; i++) {
        const struct kvc_series_figures f = kvc_series_summarise(&result->series[i]);
        if (f.count > 0)
            json_object_set_new(metrics, operations[i].key, figures_json(operations[i].key, &f));
    }
    json_t *report =
        json_pack("{s:s, s:i, s:s, s:o}", "title", "Server Bench Result", "schema_version",
                  JSON_VERSION, "suite_version", KVC_VERSION, "metrics", metrics);
    char *text = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    kvc_buffer_append_text(out, text == NULL ? "{}" : text);
    kvc_buffer_append_byte(out, '\n');
    free(text);
    json_decref(report);
}
