/* HTML: one file that needs nothing else, readable on a phone and without scripts. */
#include <stdlib.h>
#include <string.h>

#include "src/report/file.h"
#include "src/report/html_matrix.h"
#include "src/report/html_page.h"
#include "src/report/kept.h"
#include "src/report/report.h"
#include "src/run/registry.h"

struct html_report {
    struct kvc_report base;
    struct kvc_report_file file;
    struct kvc_kept_run kept;
    bool fixed_times;
};

/* What an outcome means for the reader: decides the colour of everything that shows it. */
static const char *outcome_class(enum kvc_outcome outcome)
{
    switch (outcome) {
    case KVC_OUTCOME_PASS:
        return "good";
    case KVC_OUTCOME_SKIP:
    case KVC_OUTCOME_KNOWN:
        return "warn";
    default:
        return "bad";
    }
}

/* class "wrap" breaks long lines; the others are scrolled sideways. */
static void write_block(struct kvc_buffer *out, const char *title, const char *class,
                        const char *text)
{
    if (text[0] == '\0')
        return;
    kvc_buffer_printf(out, "<div><strong>%s</strong><pre class=\"%s\">", title, class);
    kvc_html_escape(text, out);
    kvc_buffer_append_text(out, "</pre></div>\n");
}

static void write_header(const struct html_report *html, const struct kvc_summary *summary,
                         struct kvc_buffer *out)
{
    const struct kvc_run_info *info = &html->kept.info;
    const char *verdict = summary->exit_status == 0 ? "Everything came out as expected"
                                                    : "Not everything came out as expected";
    kvc_html_begin("kvconform report", "", out);
    kvc_buffer_printf(out, "<h1 class=\"%s\">%s</h1>\n", summary->exit_status == 0 ? "good" : "bad",
                      verdict);
    if (info->stand_in)
        kvc_buffer_append_text(out, "<p class=\"note\">The bundled mock server was tested. This "
                                    "says nothing about a real server.</p>\n");
    if (summary->interrupted)
        kvc_buffer_append_text(out, "<p class=\"note\">The run was interrupted: what follows is "
                                    "what was finished.</p>\n");
    char seconds[32], seed[32];
    snprintf(seconds, sizeof(seconds), "%.1f s", html->fixed_times ? 0.0 : summary->seconds);
    snprintf(seed, sizeof(seed), "%llu", (unsigned long long)info->seed);
    kvc_buffer_append_text(out, "<dl>\n");
    kvc_html_row(out, "Server", info->rpc_url);
    kvc_html_row(out, "Target", info->target);
    kvc_html_row(out, "Version", info->server_version);
    kvc_html_row(out, "Dialect", info->dialect);
    kvc_html_row(out, "Found by", info->how);
    kvc_html_row(out, "Paths", info->paths);
    if (info->device[0] != '\0')
        kvc_html_row(out, "Device", info->device);
    for (size_t i = 0; info->defects != NULL && info->defects[i] != NULL; i++)
        kvc_html_row(out, "Defect", info->defects[i]);
    kvc_html_row(out, "Started", html->fixed_times ? "" : info->started);
    kvc_html_row(out, "Took", seconds);
    kvc_html_row(out, "Seed", seed);
    kvc_html_row(out, "kvconform", info->suite_version);
    kvc_buffer_append_text(out, "</dl>\n");
}

static void write_counts(const struct kvc_summary *summary, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "<ul class=\"tiles\">\n<li><b>%zu</b>checks</li>\n", summary->total);
    for (int i = 0; i < KVC_OUTCOME_COUNT; i++) {
        const enum kvc_outcome outcome = (enum kvc_outcome)i;
        if (summary->counts[i] > 0)
            kvc_buffer_printf(out, "<li class=\"%s\"><b>%zu</b>%s</li>\n", outcome_class(outcome),
                              summary->counts[i], kvc_outcome_name(outcome));
    }
    kvc_buffer_append_text(out, "</ul>\n");
}

static void write_list(struct kvc_buffer *out, const char *title, char *const *texts)
{
    if (texts == NULL || texts[0] == NULL)
        return;
    kvc_buffer_printf(out, "<h2 class=\"bad\">%s</h2>\n<ul>\n", title);
    for (size_t i = 0; texts[i] != NULL; i++) {
        kvc_buffer_append_text(out, "<li>");
        kvc_html_escape(texts[i], out);
        kvc_buffer_append_text(out, "</li>\n");
    }
    kvc_buffer_append_text(out, "</ul>\n");
}

static void write_result(const struct kvc_result *result, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "<details><summary><span class=\"%s\">%s</span> ",
                      outcome_class(result->outcome), kvc_outcome_name(result->outcome));
    kvc_html_escape(result->instance->id, out);
    kvc_buffer_append_text(out, "</summary><div>\n<p>");
    kvc_html_escape(result->instance->check->clause, out);
    kvc_buffer_printf(out, " (%s)</p>\n", kvc_level_name(result->instance->check->level));
    if (result->server_died)
        kvc_buffer_append_text(out,
                               "<p class=\"bad\">Afterwards the server answered nobody.</p>\n");
    write_block(out, "What went wrong", "wrap", result->message);
    write_block(out, "Why it is expected", "wrap", result->reason);
    kvc_buffer_append_text(out, "<div class=\"pair\">\n");
    write_block(out, "Expected", "wrap", result->expected);
    write_block(out, "Actual", "wrap", result->got);
    kvc_buffer_append_text(out, "</div>\n");
    write_block(out, "Exchange and bytes", "lines", result->details);
    write_block(out, "Run it again", "wrap", result->reproduce);
    kvc_buffer_append_text(out, "</div></details>\n");
}

/* Results of one kind, under one heading, which is left out when there are none. */
static void write_results(const struct kvc_kept_run *kept, const char *title, const char *class,
                          struct kvc_buffer *out)
{
    bool begun = false;
    for (size_t i = 0; i < kept->count; i++) {
        const struct kvc_result *result = &kept->results[i];
        if (result->outcome == KVC_OUTCOME_SKIP ||
            strcmp(outcome_class(result->outcome), class) != 0)
            continue;
        if (!begun)
            kvc_buffer_printf(out, "<h2>%s</h2>\n", title);
        write_result(result, out);
        begun = true;
    }
}

static void write_skipped(const struct kvc_kept_run *kept, struct kvc_buffer *out)
{
    bool begun = false;
    for (size_t i = 0; i < kept->count; i++) {
        if (kept->results[i].outcome != KVC_OUTCOME_SKIP)
            continue;
        if (!begun)
            kvc_buffer_append_text(out, "<h2>Skipped</h2>\n<details><summary>what did not run, and "
                                        "why</summary><div><dl>\n");
        begun = true;
        kvc_buffer_append_text(out, "<dt>");
        kvc_html_escape(kept->results[i].instance->id, out);
        kvc_buffer_append_text(out, "</dt><dd>");
        kvc_html_escape(kept->results[i].message, out);
        kvc_buffer_append_text(out, "</dd>\n");
    }
    if (begun)
        kvc_buffer_append_text(out, "</dl></div></details>\n");
}

/* ---- the callbacks ---- */

static kvc_status html_begin(struct kvc_report *report, const struct kvc_run_info *info,
                             size_t total, struct kvc_error *err)
{
    (void)total;
    (void)err;
    kvc_kept_begin(&((struct html_report *)report)->kept, info);
    return KVC_OK;
}

static void html_result(struct kvc_report *report, const struct kvc_result *result)
{
    kvc_kept_add(&((struct html_report *)report)->kept, result);
}

static kvc_status html_finish(struct kvc_report *report, const struct kvc_summary *summary,
                              struct kvc_error *err)
{
    struct html_report *html = (struct html_report *)report;
    struct kvc_buffer out = {0};
    kvc_kept_sort(&html->kept);
    write_header(html, summary, &out);
    write_counts(summary, &out);
    write_list(&out, "Problems of the run", summary->problems);
    write_list(&out, "Expectations that no longer hold", summary->stale_expectations);
    kvc_buffer_append_text(&out,
                           "<h2>Families and axes</h2>\n<p>Passed of carried out; checks that "
                           "were skipped do not count.</p>\n");
    kvc_html_matrix(&html->kept, &out);
    write_results(&html->kept, "Unexpected", "bad", &out);
    write_results(&html->kept, "Known deviations", "warn", &out);
    write_skipped(&html->kept, &out);
    kvc_html_end(&out);
    const kvc_status status = kvc_report_file_commit(&html->file, kvc_buffer_view(&out), err);
    kvc_buffer_clear(&out);
    return status;
}

static void html_free(struct kvc_report *report)
{
    struct html_report *html = (struct html_report *)report;
    kvc_report_file_close(&html->file);
    kvc_kept_clear(&html->kept);
    free(html);
}

static const struct kvc_report_ops html_ops = {
    .begin = html_begin,
    .result = html_result,
    .finish = html_finish,
    .free = html_free,
};

kvc_status kvc_report_html(const char *path, bool fixed_times, struct kvc_report **report,
                           struct kvc_error *err)
{
    struct kvc_report_file file;
    KVC_GUARD(kvc_report_file_open(path, &file, err));
    struct html_report *html = kvc_alloc_zero(1, sizeof(*html));
    html->base.ops = &html_ops;
    html->file = file;
    html->fixed_times = fixed_times;
    *report = &html->base;
    return KVC_OK;
}
