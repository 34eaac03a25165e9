/* The reports of `bench engine`: the summary of `lmcache bench engine` with what it lacks, JSON, CSV. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/engine.h"
#include "src/bench/report_text.h"

enum { JSON_VERSION = 1, SHOWN_PROBLEMS = 5 };

static const char *validity(const struct kvc_bench_engine_result *result)
{
    return kvc_bench_engine_result_is_valid(result) ? "valid"
           : result->interrupted                    ? "not valid: interrupted"
           : result->warmup_failures > 0            ? "not valid: the warm-up failed"
           : result->count == 0                     ? "not valid: nothing was sent"
                                                    : "not valid: requests failed";
}

/* ---- failures: each reason once ---- */

struct reason {
    const char *problem;
    size_t count;
};

static int by_count(const void *a, const void *b)
{
    const size_t left = ((const struct reason *)a)->count;
    const size_t right = ((const struct reason *)b)->count;
    return (left < right) - (left > right);
}

/* The caller frees *reasons, most frequent first. Reasons beyond a hundred are counted with the last. */
static size_t collect_reasons(const struct kvc_bench_engine_result *result, struct reason **reasons)
{
    enum { MOST = 100 };
    *reasons = kvc_alloc_zero(MOST, sizeof(**reasons));
    size_t count = 0;
    for (size_t i = 0; i < result->count; i++) {
        const struct kvc_bench_engine_record *record = &result->records[i];
        size_t at = 0;
        if (record->is_ok)
            continue;
        while (at < count && at < MOST - 1 && strcmp((*reasons)[at].problem, record->problem) != 0)
            at++;
        if (at == count) {
            (*reasons)[at].problem = at == MOST - 1 ? "other reasons" : record->problem;
            count++;
        }
        (*reasons)[at].count++;
    }
    qsort(*reasons, count, sizeof(**reasons), by_count);
    return count;
}

/* ---- terminal ---- */

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void write_line(struct kvc_buffer *out, const char *label, const char *format, ...)
{
    enum { LABEL = 34 };
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    const int gap = LABEL - (int)strlen(label) - 1;
    kvc_buffer_printf(out, "%s:%*s%s\n", label, gap < 1 ? 1 : gap, "", value);
}

static void write_configuration(const struct kvc_bench_engine_options *bench,
                                const struct kvc_bench_engine_result *result,
                                struct kvc_buffer *out)
{
    const struct kvc_bench_engine_settings *settings = bench->settings;
    const struct kvc_prompt_calibration *calibration = &result->calibration;
    kvc_bench_write_rule(out, "Configuration", '-');
    write_line(out, "Engine URL", "%s", settings->engine_url);
    write_line(out, "Model", "%s", kvc_text_show(kvc_str_of(settings->model)).text);
    write_line(out, "Workload", "%s", settings->workload);
    write_line(out, "Tokens per GB", "%lld", (long long)settings->tokens_per_gb_kvcache);
    write_line(out, "Seed", "%lld", (long long)settings->seed);
    if (calibration->problem[0] != '\0')
        write_line(out, "Prompt lengths", "not calibrated: %s", calibration->problem);
    else if (calibration->requests > 0)
        write_line(out, "Prompt lengths", "calibrated: %lld to %lld tokens a word",
                   (long long)calibration->least_cost, (long long)calibration->greatest_cost);
}

static void write_failures(const struct kvc_bench_engine_result *result, struct kvc_buffer *out)
{
    struct reason *reasons;
    const size_t count = collect_reasons(result, &reasons);
    for (size_t i = 0; i < count && i < SHOWN_PROBLEMS; i++)
        kvc_buffer_printf(out, "  %zu x %s\n", reasons[i].count, reasons[i].problem);
    if (count > SHOWN_PROBLEMS)
        kvc_buffer_printf(out, "  and %zu other reasons\n", count - SHOWN_PROBLEMS);
    free(reasons);
}

static void write_results(const struct kvc_bench_engine_result *result,
                          const struct kvc_bench_engine_summary *summary, struct kvc_buffer *out)
{
    kvc_bench_write_rule(out, "Results", '-');
    write_line(out, "Run", "%s", validity(result));
    write_line(out, "Successful requests", "%zu", result->count - result->failed);
    write_line(out, "Failed requests", "%zu", result->failed);
    write_failures(result, out);
    if (result->unsent > 0)
        write_line(out, "Requests not sent", "%lld: their sessions still waited for an answer",
                   (long long)result->unsent);
    if (result->warmup_failures > 0) {
        write_line(out, "Failed warm-up requests", "%lld of %lld",
                   (long long)result->warmup_failures, (long long)result->warmups);
        kvc_buffer_printf(out, "  first: %s\n", result->warmup_problem);
    }
    write_line(out, "Benchmark duration (s)", "%.2f", summary->duration);
    write_line(out, "Total input tokens", "%lld", (long long)summary->input_tokens);
    write_line(out, "Total output tokens", "%lld", (long long)summary->output_tokens);
    if (summary->sized > 0)
        write_line(out, "Prompts off the length meant", "by %.2f %% at most",
                   100 * summary->worst_deviation);
    if (result->count == result->failed)
        return;
    write_line(out, "Input throughput (tok/s)", "%.2f", summary->input_throughput);
    write_line(out, "Output throughput (tok/s)", "%.2f", summary->output_throughput);
    write_line(out, "Request throughput (1/s)", "%.2f", summary->request_throughput);
}

static void write_figures(struct kvc_buffer *out, const char *title, const char *name,
                          const char *unit, const struct kvc_bench_engine_figures *figures)
{
    const struct {
        const char *label;
        double value;
    } rows[] = {{"Mean", figures->mean},
                {"P50", figures->p50},
                {"P90", figures->p90},
                {"P99", figures->p99}};
    char label[64];
    if (figures->count == 0)
        return;
    kvc_bench_write_rule(out, title, '-');
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        snprintf(label, sizeof(label), "%s %s (%s)", rows[i].label, name, unit);
        write_line(out, label, "%.2f", rows[i].value);
    }
}

void kvc_bench_engine_write_terminal(const struct kvc_bench_engine_options *bench,
                                     const struct kvc_bench_engine_result *result,
                                     struct kvc_buffer *out)
{
    const struct kvc_bench_engine_summary summary = kvc_bench_engine_summarise(result);
    char title[96];
    snprintf(title, sizeof(title), "Engine Benchmark Result (%s)", bench->settings->workload);
    kvc_bench_write_rule(out, title, '=');
    write_configuration(bench, result, out);
    write_results(result, &summary, out);
    write_figures(out, "Time to First Token", "TTFT", "ms", &summary.ttft);
    write_figures(out, "Inter-Token Time", "ITL", "ms", &summary.gap);
    write_figures(out, "End-to-End Latency", "latency", "ms", &summary.latency);
    write_figures(out, "Decoding Speed", "decode", "tok/s", &summary.decode);
    kvc_bench_write_rule(out, "", '=');
}

/* ---- JSON ---- */

static json_t *number(double value)
{
    return json_real(round(value * 1e6) / 1e6);
}

/* Figures under LMCache's names: mean_ttft_ms, p50_ttft_ms, … null where nothing was measured. */
static void set_figures(json_t *results, const char *name,
                        const struct kvc_bench_engine_figures *figures)
{
    const struct {
        const char *prefix;
        double value;
    } rows[] = {{"mean", figures->mean},
                {"p50", figures->p50},
                {"p90", figures->p90},
                {"p99", figures->p99}};
    char key[64];
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        snprintf(key, sizeof(key), "%s_%s", rows[i].prefix, name);
        json_object_set_new(results, key,
                            figures->count == 0 ? json_null() : number(rows[i].value));
    }
}

static json_t *config_json(const struct kvc_bench_engine_options *bench)
{
    const struct kvc_bench_engine_settings *settings = bench->settings;
    struct kvc_buffer exported = {0};
    json_t *config =
        json_pack("{s:s, s:s, s:s, s:f, s:I, s:I, s:s, s:b, s:b, s:b, s:b, s:s}", "engine_url",
                  settings->engine_url, "model", settings->model, "workload", settings->workload,
                  "kv_cache_volume_gb", settings->kv_cache_volume, "tokens_per_gb_kvcache",
                  (json_int_t)settings->tokens_per_gb_kvcache, "seed", (json_int_t)settings->seed,
                  "output_dir", bench->output_dir, "export_csv", bench->export_csv, "export_json",
                  bench->export_json, "quiet", bench->log == NULL, "ignore_eos",
                  settings->ignore_eos, "warmup_policy", settings->no_warmup ? "skip" : "run");
    kvc_bench_engine_settings_export(settings, &exported);
    json_object_set_new(config, "settings",
                        json_loadb((const char *)exported.data, exported.size, 0, NULL));
    kvc_buffer_clear(&exported);
    return config;
}

static json_t *reasons_json(const struct kvc_bench_engine_result *result)
{
    struct reason *reasons;
    const size_t count = collect_reasons(result, &reasons);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:I, s:s}", "count", (json_int_t)reasons[i].count,
                                              "reason", reasons[i].problem));
    free(reasons);
    return list;
}

static json_t *results_json(const struct kvc_bench_engine_result *result)
{
    const struct kvc_bench_engine_summary summary = kvc_bench_engine_summarise(result);
    const bool has_figures = result->count > result->failed;
    json_t *results = json_pack(
        "{s:b, s:s, s:I, s:I, s:I, s:o, s:I, s:I}", "valid",
        kvc_bench_engine_result_is_valid(result), "run", validity(result), "total_requests",
        (json_int_t)result->count, "successful_requests",
        (json_int_t)(result->count - result->failed), "failed_requests", (json_int_t)result->failed,
        "elapsed_time", number(summary.duration), "total_input_tokens",
        (json_int_t)summary.input_tokens, "total_output_tokens", (json_int_t)summary.output_tokens);
    const struct {
        const char *name;
        double value;
    } rates[] = {{"input_throughput", summary.input_throughput},
                 {"output_throughput", summary.output_throughput},
                 {"request_throughput", summary.request_throughput}};
    for (size_t i = 0; i < KVC_COUNT_OF(rates); i++)
        json_object_set_new(results, rates[i].name,
                            has_figures ? number(rates[i].value) : json_null());
    set_figures(results, "ttft_ms", &summary.ttft);
    set_figures(results, "decode_speed", &summary.decode);
    set_figures(results, "request_latency_ms", &summary.latency);
    set_figures(results, "inter_token_ms", &summary.gap);
    json_object_set_new(results, "planned_requests", json_integer(result->planned));
    json_object_set_new(results, "unsent_requests", json_integer(result->unsent));
    json_object_set_new(results, "warmup_requests", json_integer(result->warmups));
    json_object_set_new(results, "failed_warmup_requests", json_integer(result->warmup_failures));
    json_object_set_new(results, "failures", reasons_json(result));
    json_object_set_new(results, "prompt_deviation",
                        summary.sized > 0 ? number(summary.worst_deviation) : json_null());
    json_object_set_new(results, "calibration_problem", json_string(result->calibration.problem));
    return results;
}

void kvc_bench_engine_write_json(const struct kvc_bench_engine_options *bench,
                                 const struct kvc_bench_engine_result *result,
                                 struct kvc_buffer *out)
{
    json_t *report = json_pack("{s:s, s:i, s:s, s:o, s:o}", "title", "Engine Benchmark Result",
                               "schema_version", JSON_VERSION, "suite_version", KVC_VERSION,
                               "config", config_json(bench), "results", results_json(result));
    char *text = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    kvc_buffer_append_text(out, text == NULL ? "{}" : text);
    kvc_buffer_append_byte(out, '\n');
    free(text);
    json_decref(report);
}

/* ---- CSV ---- */

static void write_seconds(struct kvc_buffer *out, int64_t from_ns, int64_t to_ns)
{
    if (to_ns != 0)
        kvc_buffer_printf(out, "%.9f", (double)(to_ns - from_ns) / 1e9);
    kvc_buffer_append_byte(out, ',');
}

/* A time of day, in whole numbers: nanoseconds since 1970 are more than a double holds. */
static void write_time(struct kvc_buffer *out, int64_t offset_ns, int64_t at_ns)
{
    const int64_t time_ns = offset_ns + at_ns;
    if (at_ns != 0)
        kvc_buffer_printf(out, "%lld.%09lld", (long long)(time_ns / 1000000000),
                          (long long)(time_ns % 1000000000));
    kvc_buffer_append_byte(out, ',');
}

static void write_count(struct kvc_buffer *out, int64_t count)
{
    if (count >= 0)
        kvc_buffer_printf(out, "%lld", (long long)count);
    kvc_buffer_append_byte(out, ',');
}

static void write_quoted(struct kvc_buffer *out, const char *text)
{
    if (text[0] == '\0')
        return;
    kvc_buffer_append_byte(out, '"');
    for (const char *c = text; *c != '\0'; c++)
        kvc_buffer_printf(out, *c == '"' ? "\"\"" : "%c", *c);
    kvc_buffer_append_byte(out, '"');
}

static void write_record(const struct kvc_bench_engine_record *record, int64_t offset_ns,
                         struct kvc_buffer *out)
{
    const double decode = kvc_bench_engine_decode_speed(record);
    kvc_buffer_printf(out, "%s,%s,", record->id, record->is_ok ? "True" : "False");
    write_seconds(out, record->due_ns, record->is_ok ? record->first_token_ns : 0);
    write_seconds(out, record->due_ns, record->finished_ns);
    write_count(out, record->prompt_tokens);
    write_count(out, record->completion_tokens);
    if (decode >= 0)
        kvc_buffer_printf(out, "%.6f", decode);
    kvc_buffer_append_byte(out, ',');
    write_time(out, offset_ns, record->due_ns);
    write_time(out, offset_ns, record->first_token_ns);
    write_time(out, offset_ns, record->finished_ns);
    write_quoted(out, record->problem);
    kvc_buffer_append_text(out, "\r\n");
}

void kvc_bench_engine_write_csv(const struct kvc_bench_engine_result *result,
                                struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "request_id,successful,ttft,request_latency,num_input_tokens,"
                                "num_output_tokens,decode_speed,submit_time,first_token_time,"
                                "finish_time,error\r\n");
    for (size_t i = 0; i < result->count; i++)
        write_record(&result->records[i], result->wall_offset_ns, out);
}
