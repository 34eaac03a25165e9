/* JSON: docs/json.md describes it. Change KVC_JSON_SCHEMA when a reader could notice. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/report/file.h"
#include "src/report/kept.h"
#include "src/report/report.h"
#include "src/report/text.h"
#include "src/run/registry.h"

enum { KVC_JSON_SCHEMA = 1 };

struct json_report {
    struct kvc_report base;
    struct kvc_report_file file;
    struct kvc_kept_run kept;
    bool fixed_times;
};

/* Any text as a JSON string. */
static json_t *text_value(const char *text)
{
    struct kvc_buffer clean = {0};
    kvc_report_clean(text, &clean);
    json_t *value = json_string(kvc_buffer_text(&clean));
    kvc_buffer_clear(&clean);
    return value;
}

/* Left out when empty. */
static void set_text(json_t *object, const char *name, const char *text)
{
    if (text[0] != '\0')
        json_object_set_new(object, name, text_value(text));
}

static json_t *list_value(char *const *texts)
{
    json_t *list = json_array();
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
        json_array_append_new(list, text_value(texts[i]));
    return list;
}

/* Microseconds are what a clock can tell; more digits are noise. */
static json_t *seconds_value(const struct json_report *report, double seconds)
{
    return json_real(report->fixed_times ? 0 : (double)(long long)(seconds * 1e6) / 1e6);
}

static json_t *run_value(const struct json_report *report, const struct kvc_summary *summary)
{
    const struct kvc_run_info *info = &report->kept.info;
    json_t *run = json_object();
    set_text(run, "suite_version", info->suite_version);
    set_text(run, "started", info->started);
    json_object_set_new(run, "seconds", seconds_value(report, summary->seconds));
    /* A seed may exceed what JSON readers keep of a number. */
    char seed[24];
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)info->seed);
    set_text(run, "seed", seed);
    set_text(run, "target", info->target);
    set_text(run, "rpc_url", info->rpc_url);
    set_text(run, "dialect", info->dialect);
    set_text(run, "dialect_found_by", info->how);
    if (info->client != NULL)
        set_text(run, "client_dialect", info->client);
    set_text(run, "server_version", info->server_version);
    set_text(run, "paths", info->paths);
    if (info->device[0] != '\0')
        set_text(run, "device", info->device);
    json_object_set_new(run, "stand_in", json_boolean(info->stand_in));
    json_object_set_new(run, "defects", list_value((char *const *)info->defects));
    return run;
}

static json_t *summary_value(const struct kvc_summary *summary)
{
    json_t *value = json_object();
    json_t *counts = json_object();
    for (int i = 0; i < KVC_OUTCOME_COUNT; i++)
        json_object_set_new(counts, kvc_outcome_name((enum kvc_outcome)i),
                            json_integer((json_int_t)summary->counts[i]));
    json_object_set_new(value, "total", json_integer((json_int_t)summary->total));
    json_object_set_new(value, "outcomes", counts);
    json_object_set_new(value, "exit_status", json_integer(summary->exit_status));
    json_object_set_new(value, "interrupted", json_boolean(summary->interrupted));
    json_object_set_new(value, "target_lost", json_boolean(summary->target_lost));
    json_object_set_new(value, "stale_expectations", list_value(summary->stale_expectations));
    json_object_set_new(value, "problems", list_value(summary->problems));
    return value;
}

static json_t *result_value(const struct json_report *report, const struct kvc_result *result)
{
    json_t *value = json_object();
    set_text(value, "id", result->instance->id);
    set_text(value, "check", result->instance->check->id);
    set_text(value, "level", kvc_level_name(result->instance->check->level));
    set_text(value, "outcome", kvc_outcome_name(result->outcome));
    set_text(value, "raw_outcome", kvc_outcome_name(result->raw));
    json_object_set_new(value, "seconds", seconds_value(report, result->seconds));
    if (result->server_died)
        json_object_set_new(value, "server_died", json_true());
    set_text(value, "message", result->message);
    set_text(value, "expected", result->expected);
    set_text(value, "got", result->got);
    set_text(value, "details", result->details);
    set_text(value, "reason", result->reason);
    set_text(value, "reproduce", result->reproduce);
    return value;
}

/* Each check once, with what it is: results refer to it by id. */
static json_t *checks_value(const struct kvc_kept_run *kept)
{
    json_t *checks = json_object();
    for (size_t i = 0; i < kept->count; i++) {
        const struct kvc_check *check = kept->results[i].instance->check;
        if (json_object_get(checks, check->id) != NULL)
            continue;
        struct kvc_buffer dialects = {0};
        json_t *value = json_object();
        kvc_check_dialects_append(check, &dialects);
        set_text(value, "clause", check->clause);
        set_text(value, "source", check->source != NULL ? check->source : "");
        set_text(value, "dialects", kvc_buffer_text(&dialects));
        json_object_set_new(checks, check->id, value);
        kvc_buffer_clear(&dialects);
    }
    return checks;
}

/* ---- the callbacks ---- */

static kvc_status json_begin(struct kvc_report *report, const struct kvc_run_info *info,
                             size_t total, struct kvc_error *err)
{
    (void)total;
    (void)err;
    kvc_kept_begin(&((struct json_report *)report)->kept, info);
    return KVC_OK;
}

static void json_result(struct kvc_report *report, const struct kvc_result *result)
{
    kvc_kept_add(&((struct json_report *)report)->kept, result);
}

static kvc_status json_finish(struct kvc_report *report, const struct kvc_summary *summary,
                              struct kvc_error *err)
{
    struct json_report *json = (struct json_report *)report;
    json_t *root = json_object();
    json_t *results = json_array();
    kvc_kept_sort(&json->kept);
    for (size_t i = 0; i < json->kept.count; i++)
        json_array_append_new(results, result_value(json, &json->kept.results[i]));
    json_object_set_new(root, "schema", json_integer(KVC_JSON_SCHEMA));
    json_object_set_new(root, "kind", json_string("run"));
    json_object_set_new(root, "run", run_value(json, summary));
    json_object_set_new(root, "summary", summary_value(summary));
    json_object_set_new(root, "checks", checks_value(&json->kept));
    json_object_set_new(root, "results", results);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (text == NULL)
        return kvc_fail(err, KVC_ENOMEM, "the JSON report could not be made");
    struct kvc_buffer out = {0};
    kvc_buffer_printf(&out, "%s\n", text);
    free(text);
    const kvc_status status = kvc_report_file_commit(&json->file, kvc_buffer_view(&out), err);
    kvc_buffer_clear(&out);
    return status;
}

static void json_free(struct kvc_report *report)
{
    struct json_report *json = (struct json_report *)report;
    kvc_report_file_close(&json->file);
    kvc_kept_clear(&json->kept);
    free(json);
}

static const struct kvc_report_ops json_ops = {
    .begin = json_begin,
    .result = json_result,
    .finish = json_finish,
    .free = json_free,
};

kvc_status kvc_report_json(const char *path, bool fixed_times, struct kvc_report **report,
                           struct kvc_error *err)
{
    struct kvc_report_file file;
    KVC_GUARD(kvc_report_file_open(path, &file, err));
    struct json_report *json = kvc_alloc_zero(1, sizeof(*json));
    json->base.ops = &json_ops;
    json->file = file;
    json->fixed_times = fixed_times;
    *report = &json->base;
    return KVC_OK;
}
