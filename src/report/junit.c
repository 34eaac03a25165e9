/* JUnit XML as Jenkins and Surefire read it: a testsuite for each family, failure, error and skipped
 * kept apart. */
#include <stdlib.h>
#include <string.h>

#include "src/report/file.h"
#include "src/report/kept.h"
#include "src/report/report.h"
#include "src/report/text.h"
#include "src/run/registry.h"

/* Which element an outcome becomes; NULL: none. "error" is what is not a verdict on the server. */
static const char *const elements[KVC_OUTCOME_COUNT] = {
    [KVC_OUTCOME_PASS] = NULL,          [KVC_OUTCOME_FAIL] = "failure",
    [KVC_OUTCOME_SKIP] = "skipped",     [KVC_OUTCOME_KNOWN] = "skipped",
    [KVC_OUTCOME_SURPRISE] = "failure", [KVC_OUTCOME_TIMEOUT] = "failure",
    [KVC_OUTCOME_CRASH] = "error",      [KVC_OUTCOME_ERROR] = "error",
    [KVC_OUTCOME_NOT_RUN] = "skipped",
};

struct junit {
    struct kvc_report base;
    struct kvc_report_file file;
    struct kvc_kept_run kept;
    bool fixed_times;
};

/* ---- XML ---- */

/* Appends text for an attribute or an element: clean, and with the five characters escaped. Line ends
 * in attributes become references, since readers turn them into spaces. */
static void append_xml(const char *text, bool attribute, struct kvc_buffer *out)
{
    struct kvc_buffer clean = {0};
    kvc_report_clean(text, &clean);
    for (const char *c = kvc_buffer_text(&clean); *c != '\0'; c++) {
        if (*c == '&')
            kvc_buffer_append_text(out, "&amp;");
        else if (*c == '<')
            kvc_buffer_append_text(out, "&lt;");
        else if (*c == '>')
            kvc_buffer_append_text(out, "&gt;");
        else if (*c == '"' && attribute)
            kvc_buffer_append_text(out, "&quot;");
        else if ((*c == '\n' || *c == '\t') && attribute)
            kvc_buffer_printf(out, "&#%d;", *c);
        else
            kvc_buffer_append_byte(out, (uint8_t)*c);
    }
    kvc_buffer_clear(&clean);
}

static void append_attribute(struct kvc_buffer *out, const char *name, const char *value)
{
    kvc_buffer_printf(out, " %s=\"", name);
    append_xml(value, true, out);
    kvc_buffer_append_byte(out, '"');
}

static void append_property(struct kvc_buffer *out, const char *name, const char *value)
{
    kvc_buffer_append_text(out, "      <property");
    append_attribute(out, "name", name);
    append_attribute(out, "value", value);
    kvc_buffer_append_text(out, "/>\n");
}

/* ---- one testcase ---- */

/* All there is to say, as text. */
static void append_body(const struct kvc_result *result, struct kvc_buffer *out)
{
    const struct {
        const char *name, *value;
    } rows[] = {
        {"clause", result->instance->check->clause},
        {"problem", result->message},
        {"expected", result->expected},
        {"got", result->got},
        {result->outcome == KVC_OUTCOME_KNOWN ? "known as" : "listed as", result->reason},
        {"reproduce", result->reproduce},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        if (rows[i].value[0] != '\0')
            kvc_buffer_printf(out, "%s: %s\n", rows[i].name, rows[i].value);
}

static char *outcome_message(const struct kvc_result *result)
{
    if (result->outcome == KVC_OUTCOME_KNOWN)
        return kvc_format("known failure (%s): %s", result->reason, result->message);
    if (result->outcome == KVC_OUTCOME_SURPRISE)
        return kvc_format("passed, and is listed as %s", result->reason);
    return kvc_strdup(result->message);
}

static void append_outcome(const struct kvc_result *result, struct kvc_buffer *out)
{
    const char *element = elements[result->outcome];
    struct kvc_buffer body = {0};
    char *message = outcome_message(result);
    kvc_buffer_printf(out, "      <%s", element);
    append_attribute(out, "type", kvc_outcome_name(result->outcome));
    append_attribute(out, "message", message);
    kvc_buffer_append_byte(out, '>');
    append_body(result, &body);
    append_xml(kvc_buffer_text(&body), false, out);
    kvc_buffer_printf(out, "</%s>\n", element);
    if (result->details[0] != '\0') {
        kvc_buffer_append_text(out, "      <system-out>");
        append_xml(result->details, false, out);
        kvc_buffer_append_text(out, "</system-out>\n");
    }
    kvc_buffer_clear(&body);
    free(message);
}

static void append_testcase(const struct junit *junit, const struct kvc_result *result,
                            struct kvc_buffer *out)
{
    const struct kvc_str family = kvc_check_family(result->instance->check);
    char *class_name = kvc_format("kvconform." KVC_STR_FMT, KVC_STR_ARG(family));
    kvc_buffer_append_text(out, "    <testcase");
    append_attribute(out, "name", result->instance->id + family.size + 1);
    append_attribute(out, "classname", class_name);
    kvc_buffer_printf(out, " time=\"%.3f\"", junit->fixed_times ? 0 : result->seconds);
    if (elements[result->outcome] == NULL) {
        kvc_buffer_append_text(out, "/>\n");
    } else {
        kvc_buffer_append_text(out, ">\n");
        append_outcome(result, out);
        kvc_buffer_append_text(out, "    </testcase>\n");
    }
    free(class_name);
}

/* ---- one testsuite ---- */

struct counts {
    size_t tests, failures, errors, skipped;
    double seconds;
};

static struct counts count_results(const struct kvc_result *results, size_t count)
{
    struct counts counts = {.tests = count};
    for (size_t i = 0; i < count; i++) {
        const char *element = elements[results[i].outcome];
        counts.seconds += results[i].seconds;
        counts.failures += element != NULL && strcmp(element, "failure") == 0;
        counts.errors += element != NULL && strcmp(element, "error") == 0;
        counts.skipped += element != NULL && strcmp(element, "skipped") == 0;
    }
    return counts;
}

static void append_counts(const struct counts *counts, bool with_skipped, double seconds,
                          struct kvc_buffer *out)
{
    kvc_buffer_printf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\"", counts->tests,
                      counts->failures, counts->errors);
    if (with_skipped)
        kvc_buffer_printf(out, " skipped=\"%zu\"", counts->skipped);
    kvc_buffer_printf(out, " time=\"%.3f\"", seconds);
}

static void append_run_properties(const struct kvc_run_info *info, struct kvc_buffer *out)
{
    char seed[24];
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)info->seed);
    append_property(out, "suite.version", info->suite_version);
    append_property(out, "target", info->target);
    append_property(out, "rpc-url", info->rpc_url);
    append_property(out, "dialect", info->dialect);
    append_property(out, "server.version", info->server_version);
    append_property(out, "paths", info->paths);
    if (info->device[0] != '\0')
        append_property(out, "device", info->device);
    append_property(out, "seed", seed);
    append_property(out, "stand-in", info->stand_in ? "true" : "false");
    for (size_t i = 0; info->defects[i] != NULL; i++)
        append_property(out, "defect", info->defects[i]);
}

/* Properties of a testcase are not in the schema that readers share, so a check's are its family's. */
static void append_check_properties(const struct kvc_check *check, struct kvc_buffer *out)
{
    struct kvc_buffer dialects = {0};
    kvc_check_dialects_append(check, &dialects);
    const struct {
        const char *name, *value;
    } rows[] = {
        {"clause", check->clause},
        {"level", kvc_level_name(check->level)},
        {"dialects", kvc_buffer_text(&dialects)},
        {"source", check->source != NULL ? check->source : ""},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        char *name = kvc_format("%s.%s", check->id, rows[i].name);
        append_property(out, name, rows[i].value);
        free(name);
    }
    kvc_buffer_clear(&dialects);
}

static void append_suite(const struct junit *junit, const struct kvc_result *results, size_t count,
                         struct kvc_buffer *out)
{
    const struct kvc_str family = kvc_check_family(results[0].instance->check);
    const struct counts counts = count_results(results, count);
    char *name = kvc_format(KVC_STR_FMT, KVC_STR_ARG(family));
    kvc_buffer_append_text(out, "  <testsuite");
    append_attribute(out, "name", name);
    append_counts(&counts, true, junit->fixed_times ? 0 : counts.seconds, out);
    append_attribute(out, "timestamp", junit->kept.info.started);
    kvc_buffer_append_text(out, ">\n    <properties>\n");
    append_run_properties(&junit->kept.info, out);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || results[i].instance->check != results[i - 1].instance->check)
            append_check_properties(results[i].instance->check, out);
    kvc_buffer_append_text(out, "    </properties>\n");
    for (size_t i = 0; i < count; i++)
        append_testcase(junit, &results[i], out);
    kvc_buffer_append_text(out, "  </testsuite>\n");
    free(name);
}

/* What fails the run without being a check: a suite of its own, so that no reader misses it. */
static void append_problems(const struct kvc_summary *summary, struct kvc_buffer *out)
{
    char *const *const lists[] = {summary->stale_expectations, summary->problems};
    static const char *const names[] = {"expectations", "run"};
    for (size_t i = 0; i < KVC_COUNT_OF(lists); i++) {
        size_t count = 0;
        while (lists[i] != NULL && lists[i][count] != NULL)
            count++;
        if (count == 0)
            continue;
        kvc_buffer_printf(out,
                          "  <testsuite name=\"%s\" tests=\"%zu\" failures=\"%zu\" errors=\"0\" "
                          "skipped=\"0\" time=\"0.000\">\n",
                          names[i], count, count);
        for (size_t j = 0; j < count; j++) {
            kvc_buffer_printf(out,
                              "    <testcase name=\"%zu\" classname=\"kvconform.%s\" "
                              "time=\"0.000\">\n      <failure",
                              j + 1, names[i]);
            append_attribute(out, "type", "fail");
            append_attribute(out, "message", lists[i][j]);
            kvc_buffer_append_text(out, "/>\n    </testcase>\n");
        }
        kvc_buffer_append_text(out, "  </testsuite>\n");
    }
}

static struct counts count_all(const struct junit *junit, const struct kvc_summary *summary)
{
    struct counts all = count_results(junit->kept.results, junit->kept.count);
    char *const *const lists[] = {summary->stale_expectations, summary->problems};
    for (size_t i = 0; i < KVC_COUNT_OF(lists); i++) {
        for (size_t j = 0; lists[i] != NULL && lists[i][j] != NULL; j++) {
            all.tests++;
            all.failures++;
        }
    }
    return all;
}

/* ---- the callbacks ---- */

static kvc_status junit_begin(struct kvc_report *report, const struct kvc_run_info *info,
                              size_t total, struct kvc_error *err)
{
    (void)total;
    (void)err;
    kvc_kept_begin(&((struct junit *)report)->kept, info);
    return KVC_OK;
}

static void junit_result(struct kvc_report *report, const struct kvc_result *result)
{
    kvc_kept_add(&((struct junit *)report)->kept, result);
}

static kvc_status junit_finish(struct kvc_report *report, const struct kvc_summary *summary,
                               struct kvc_error *err)
{
    struct junit *junit = (struct junit *)report;
    struct kvc_kept_run *kept = &junit->kept;
    struct kvc_buffer out = {0};
    const struct counts all = count_all(junit, summary);
    kvc_kept_sort(kept);
    kvc_buffer_append_text(&out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                 "<testsuites name=\"kvconform\"");
    append_counts(&all, false, junit->fixed_times ? 0 : summary->seconds, &out);
    kvc_buffer_append_text(&out, ">\n");
    for (size_t i = 0, next; i < kept->count; i = next) {
        const struct kvc_str family = kvc_check_family(kept->results[i].instance->check);
        for (next = i + 1; next < kept->count; next++)
            if (!kvc_str_equal(family, kvc_check_family(kept->results[next].instance->check)))
                break;
        append_suite(junit, &kept->results[i], next - i, &out);
    }
    append_problems(summary, &out);
    kvc_buffer_append_text(&out, "</testsuites>\n");
    const kvc_status status = kvc_report_file_commit(&junit->file, kvc_buffer_view(&out), err);
    kvc_buffer_clear(&out);
    return status;
}

static void junit_free(struct kvc_report *report)
{
    struct junit *junit = (struct junit *)report;
    kvc_report_file_close(&junit->file);
    kvc_kept_clear(&junit->kept);
    free(junit);
}

static const struct kvc_report_ops junit_ops = {
    .begin = junit_begin,
    .result = junit_result,
    .finish = junit_finish,
    .free = junit_free,
};

kvc_status kvc_report_junit(const char *path, bool fixed_times, struct kvc_report **report,
                            struct kvc_error *err)
{
    struct kvc_report_file file;
    KVC_GUARD(kvc_report_file_open(path, &file, err));
    struct junit *junit = kvc_alloc_zero(1, sizeof(*junit));
    junit->base.ops = &junit_ops;
    junit->file = file;
    junit->fixed_times = fixed_times;
    *report = &junit->base;
    return KVC_OK;
}
