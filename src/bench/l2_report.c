#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/l2.h"
#include "src/bench/report_text.h"

enum { JSON_VERSION = 1 };

static const double mib = 1 << 20;

static const char *const phase_names[KVC_BENCH_L2_PHASES] = {"Store", "Lookup", "Load"};

static double mean_of_squares(const struct kvc_series *series, double mean_ms)
{
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) {
        const double off = (double)series->samples_ns[i] / 1e6 - mean_ms;
        sum += off * off;
    }
    return series->count > 1 ? sum / (double)(series->count - 1) : 0;
}

struct kvc_bench_l2_figures kvc_bench_l2_summarise(const struct kvc_bench_l2_phase *phase,
                                                   int64_t keys_per_round, int64_t data_size)
{
    const struct kvc_series *series = &phase->durations;
    struct kvc_bench_l2_figures figures = {.duration = kvc_series_summarise(series)};
    if (series->count == 0)
        return figures;
    const double count = (double)series->count;
    const double round_mib = (double)keys_per_round * (double)data_size / mib;
    for (size_t i = 0; i < series->count; i++) {
        const double seconds = (double)(series->samples_ns[i] + (series->samples_ns[i] == 0)) / 1e9;
        figures.throughput_mean += round_mib / seconds / count;
        figures.keys_per_second += (double)keys_per_round / seconds / count;
    }
    figures.deviation = sqrt(mean_of_squares(series, figures.duration.mean));
    figures.throughput_min = round_mib / (figures.duration.max / 1e3);
    figures.throughput_max = round_mib / (figures.duration.min / 1e3);
    figures.latency_per_key = figures.duration.mean / (double)keys_per_round;
    return figures;
}

/* ---- both forms, from one list of rows ---- */

enum row_kind { ROW_TEXT, ROW_WHOLE, ROW_NUMBER };

struct row {
    const char *key;
    const char *label;
    enum row_kind kind;
    const char *text;
    int64_t whole;
    double number;
    int digits;
};

struct rows {
    struct row items[24];
    size_t count;
};

static void add_text(struct rows *rows, const char *key, const char *label, const char *text)
{
    rows->items[rows->count++] =
        (struct row){.key = key, .label = label, .kind = ROW_TEXT, .text = text};
}

static void add_whole(struct rows *rows, const char *key, const char *label, int64_t whole)
{
    rows->items[rows->count++] =
        (struct row){.key = key, .label = label, .kind = ROW_WHOLE, .whole = whole};
}

static void add_number(struct rows *rows, const char *key, const char *label, double number,
                       int digits)
{
    rows->items[rows->count++] = (struct row){
        .key = key, .label = label, .kind = ROW_NUMBER, .number = number, .digits = digits};
}

static void add_config(const struct kvc_bench_l2_options *options,
                       const struct kvc_bench_l2_result *result, struct rows *rows)
{
    const int64_t keys = options->num_keys * options->in_flight;
    add_text(rows, "adapter", "Adapter", options->config->adapter->title);
    add_text(rows, "l2_adapter_json", "L2 adapter JSON", options->config->shown);
    add_whole(rows, "num_keys", "Keys / submit", options->num_keys);
    add_whole(rows, "in_flight", "In-flight / round", options->in_flight);
    add_whole(rows, "keys_per_round", "Keys / round", keys);
    add_whole(rows, "data_size_kb", "Data size / key (KB)", options->data_size / 1024);
    add_number(rows, "data_per_round_mb", "Data / round (MB)",
               (double)keys * (double)options->data_size / mib, 2);
    add_whole(rows, "measurement_rounds", "Measurement rounds", options->rounds);
    add_whole(rows, "warmup_rounds", "Warmup rounds", options->warmup_rounds);
    if ((options->phases & KVC_BENCH_L2_LOOKUP_BIT) != 0)
        add_number(rows, "lookup_max_hit_rate", "Lookup max hit rate", options->lookup_max_hit_rate,
                   4);
    add_whole(rows, "threads", "Threads", (int64_t)result->lanes);
    add_text(rows, "payload", "Payload", options->payload == KVC_L2_FILL ? "fill" : "stamps");
    add_text(rows, "verify", "Verified", options->verify ? "every key loaded" : "no");
}

static void add_figures(const struct kvc_bench_l2_figures *f, struct rows *rows)
{
    add_number(rows, "duration_avg_ms", "Duration avg (ms)", f->duration.mean, 2);
    add_number(rows, "duration_min_ms", "Duration min (ms)", f->duration.min, 2);
    add_number(rows, "duration_max_ms", "Duration max (ms)", f->duration.max, 2);
    add_number(rows, "duration_p50_ms", "Duration p50 (ms)", f->duration.p50, 2);
    add_number(rows, "duration_p99_ms", "Duration p99 (ms)", f->duration.p99, 2);
    add_number(rows, "duration_std_ms", "Duration std (ms)", f->deviation, 2);
    add_number(rows, "throughput_avg_mbps", "Throughput avg (MB/s)", f->throughput_mean, 2);
    add_number(rows, "throughput_min_mbps", "Throughput min (MB/s)", f->throughput_min, 2);
    add_number(rows, "throughput_max_mbps", "Throughput max (MB/s)", f->throughput_max, 2);
    add_number(rows, "ops_per_sec_avg", "Avg ops/s", f->keys_per_second, 2);
    add_number(rows, "latency_per_key_ms", "Avg latency / key (ms)", f->latency_per_key, 3);
}

static void add_phase(const struct kvc_bench_l2_options *options,
                      const struct kvc_bench_l2_result *result, size_t index, struct rows *rows)
{
    const struct kvc_bench_l2_phase *phase = &result->phases[index];
    const int64_t keys = options->num_keys * options->in_flight;
    const bool is_lookup = index == KVC_L2_LOOKUP;
    add_text(rows, "operation", "Operation", phase_names[index]);
    add_whole(rows, "rounds", "Rounds", phase->rounds);
    add_whole(rows, "rounds_timed_out", "Rounds timed out", phase->timed_out);
    add_whole(rows, "keys_per_round", "Keys / round", keys);
    add_whole(rows, "total_keys", "Total keys", keys * phase->rounds);
    add_whole(rows, "total_success", "Total success", phase->success);
    if (index == KVC_L2_LOAD && options->verify) {
        add_whole(rows, "keys_verified", "Keys verified", phase->verified);
        add_whole(rows, "keys_wrong", "Keys wrong", phase->wrong);
    }
    if (kvc_bench_l2_is_valid(options, result)) {
        const struct kvc_bench_l2_figures figures =
            kvc_bench_l2_summarise(phase, keys, is_lookup ? 0 : options->data_size);
        add_figures(&figures, rows);
    }
    if (!is_lookup || (options->lookup_max_hit_rate <= 0 && phase->success == 0))
        return;
    const int64_t total = keys * phase->rounds;
    add_number(rows, "expected_max_hit_rate", "Expected max hit rate", options->lookup_max_hit_rate,
               4);
    add_whole(rows, "expected_hit_count", "Expected hit keys", phase->expected_hits);
    add_number(rows, "actual_hit_rate", "Actual hit rate",
               total == 0 ? 0 : (double)phase->success / (double)total, 4);
}

static void add_verdict(const struct kvc_bench_l2_options *options,
                        const struct kvc_bench_l2_result *result, struct rows *rows)
{
    add_text(rows, "run", "Run",
             result->interrupted                      ? "not valid: interrupted"
             : kvc_bench_l2_is_valid(options, result) ? "valid"
                                                      : "not valid");
    add_text(rows, "first_problem", "First problem", result->first_problem);
}

/* ---- terminal ---- */

static void write_rows(struct kvc_buffer *out, const char *title, const struct rows *rows)
{
    kvc_bench_write_rule(out, title, '-');
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->items[i];
        if (row->kind == ROW_TEXT && row->text[0] == '\0')
            continue;
        char *value = row->kind == ROW_TEXT    ? kvc_strdup(row->text)
                      : row->kind == ROW_WHOLE ? kvc_format("%lld", (long long)row->whole)
                                               : kvc_format("%.*f", row->digits, row->number);
        kvc_bench_write_row(out, row->label, value);
        free(value);
    }
}

void kvc_bench_l2_write_terminal(const struct kvc_bench_l2_options *options,
                                 const struct kvc_bench_l2_result *result, struct kvc_buffer *out)
{
    struct rows rows = {0};
    kvc_bench_write_rule(out, "L2 Adapter Benchmark Result", '=');
    add_config(options, result, &rows);
    write_rows(out, "Configuration", &rows);
    for (size_t i = 0; i < KVC_BENCH_L2_PHASES; i++) {
        if (!result->phases[i].ran)
            continue;
        rows.count = 0;
        add_phase(options, result, i, &rows);
        write_rows(out, phase_names[i], &rows);
    }
    rows.count = 0;
    add_verdict(options, result, &rows);
    write_rows(out, "Verdict", &rows);
    if (!kvc_bench_l2_is_valid(options, result))
        kvc_buffer_append_text(out, "No figures: the run is not valid.\n");
    kvc_bench_write_rule(out, "", '=');
}

/* ---- JSON ---- */

static double rounded(double value, int digits)
{
    const double unit = pow(10, digits);
    return round(value * unit) / unit;
}

static json_t *section_of(const struct rows *rows)
{
    json_t *section = json_object();
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->items[i];
        json_t *value = row->kind == ROW_TEXT    ? json_string(row->text)
                        : row->kind == ROW_WHOLE ? json_integer((json_int_t)row->whole)
                                                 : json_real(rounded(row->number, row->digits));
        /* A text that is no UTF-8 has no string of its own. */
        json_object_set_new(section, row->key, value == NULL ? json_null() : value);
    }
    return section;
}

void kvc_bench_l2_write_json(const struct kvc_bench_l2_options *options,
                             const struct kvc_bench_l2_result *result, struct kvc_buffer *out)
{
    json_t *metrics = json_object();
    struct rows rows = {0};
    add_config(options, result, &rows);
    json_object_set_new(metrics, "config", section_of(&rows));
    int operations = 0;
    for (size_t i = 0; i < KVC_BENCH_L2_PHASES; i++) {
        if (!result->phases[i].ran)
            continue;
        char name[16];
        snprintf(name, sizeof(name), "op_%d", operations++);
        rows.count = 0;
        add_phase(options, result, i, &rows);
        json_object_set_new(metrics, name, section_of(&rows));
    }
    rows.count = 0;
    add_verdict(options, result, &rows);
    json_t *verdict = section_of(&rows);
    json_object_set_new(verdict, "valid", json_boolean(kvc_bench_l2_is_valid(options, result)));
    json_object_set_new(metrics, "results", verdict);
    json_t *report =
        json_pack("{s:s, s:i, s:s, s:o}", "title", "L2 Adapter Benchmark Result", "schema_version",
                  JSON_VERSION, "suite_version", KVC_VERSION, "metrics", metrics);
    char *text = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    kvc_buffer_append_text(out, text == NULL ? "{}" : text);
    kvc_buffer_append_byte(out, '\n');
    free(text);
    json_decref(report);
}
