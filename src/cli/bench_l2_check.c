/* `kvconform bench l2 --check`: checks of a store instead of figures. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/bench_l2_check.h"

struct outcomes {
    struct kvc_l2_check_result *results; /* kvc_l2_check_count of them */
    size_t passed, skipped, others;
};

static void run_all(const struct kvc_l2_check_options *options, FILE *progress,
                    struct outcomes *outcomes)
{
    for (size_t i = 0; i < kvc_l2_check_count; i++) {
        struct kvc_l2_check_result *result = &outcomes->results[i];
        if (*options->stop)
            *result = (struct kvc_l2_check_result){KVC_L2_NOT_RUN, "interrupted"};
        else
            kvc_l2_check_one(&kvc_l2_checks[i], options, result);
        outcomes->passed += result->verdict == KVC_L2_PASS;
        outcomes->skipped += result->verdict == KVC_L2_SKIP;
        if (progress != NULL)
            fprintf(progress, "[Check] %s: %s\n", kvc_l2_checks[i].id,
                    kvc_l2_verdict_name(result->verdict));
    }
    outcomes->others = kvc_l2_check_count - outcomes->passed - outcomes->skipped;
}

static void write_terminal(const struct outcomes *outcomes, struct kvc_buffer *out)
{
    for (size_t i = 0; i < kvc_l2_check_count; i++) {
        const struct kvc_l2_check_result *result = &outcomes->results[i];
        kvc_buffer_printf(out, "%-8s %s\n", kvc_l2_verdict_name(result->verdict),
                          kvc_l2_checks[i].id);
        if (result->verdict == KVC_L2_PASS)
            continue;
        if (result->verdict != KVC_L2_SKIP)
            kvc_buffer_printf(out, "         clause:  %s\n", kvc_l2_checks[i].clause);
        kvc_buffer_printf(out, "         %s %s\n",
                          result->verdict == KVC_L2_SKIP ? "because:" : "problem:", result->why);
    }
    kvc_buffer_printf(out, "%zu passed, %zu skipped, %zu not as they must be\n", outcomes->passed,
                      outcomes->skipped, outcomes->others);
}

static void write_json(const struct kvc_l2_check_options *options, const struct outcomes *outcomes,
                       struct kvc_buffer *out)
{
    json_t *checks = json_array();
    for (size_t i = 0; i < kvc_l2_check_count; i++) {
        json_t *why = json_string(outcomes->results[i].why);
        json_array_append_new(checks, json_pack("{s:s, s:s, s:s, s:o}", "id", kvc_l2_checks[i].id,
                                                "clause", kvc_l2_checks[i].clause, "outcome",
                                                kvc_l2_verdict_name(outcomes->results[i].verdict),
                                                "why", why == NULL ? json_null() : why));
    }
    json_t *report = json_pack(
        "{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:o}", "title", "L2 Store Checks", "schema_version", 1,
        "suite_version", KVC_VERSION, "l2_adapter_json", options->config->shown, "passed",
        (json_int_t)outcomes->passed, "skipped", (json_int_t)outcomes->skipped, "failed",
        (json_int_t)outcomes->others, "checks", checks);
    char *text = json_dumps(report, JSON_INDENT(2));
    kvc_buffer_printf(out, "%s\n", text == NULL ? "{}" : text);
    free(text);
    json_decref(report);
}

bool kvc_bench_l2_check(const struct kvc_l2_check_options *options, bool as_json, FILE *progress,
                        struct kvc_buffer *report)
{
    struct outcomes outcomes = {
        .results = kvc_alloc_zero(kvc_l2_check_count, sizeof(struct kvc_l2_check_result))};
    run_all(options, progress, &outcomes);
    if (as_json)
        write_json(options, &outcomes, report);
    else
        write_terminal(&outcomes, report);
    free(outcomes.results);
    return outcomes.others == 0 && outcomes.passed > 0;
}
