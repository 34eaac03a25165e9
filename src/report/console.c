#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "src/base/clock.h"
#include "src/report/report.h"
#include "src/report/text.h"
#include "src/run/registry.h"

/* How each outcome looks: its tag, its colour, and what the last line calls it. */
static const struct {
    const char *tag, *color, *counted;
} styles[KVC_OUTCOME_COUNT] = {
    [KVC_OUTCOME_PASS] = {"pass", "32", "passed"},
    [KVC_OUTCOME_FAIL] = {"FAIL", "1;31", "failed"},
    [KVC_OUTCOME_SKIP] = {"skip", "33", "skipped"},
    [KVC_OUTCOME_KNOWN] = {"known", "33", "failed as known"},
    [KVC_OUTCOME_SURPRISE] = {"SURPRISE", "1;35", "passed unexpectedly"},
    [KVC_OUTCOME_TIMEOUT] = {"TIMEOUT", "1;31", "timed out"},
    [KVC_OUTCOME_CRASH] = {"CRASH", "1;31", "crashed"},
    [KVC_OUTCOME_ERROR] = {"ERROR", "1;31", "had errors"},
    [KVC_OUTCOME_NOT_RUN] = {"not run", "33", "not run"},
};

/* Why checks were skipped or not run, or the check whose instances failed; and how many. */
struct reason {
    enum kvc_outcome outcome;
    char *text;
    size_t count;
};

struct console {
    struct kvc_report base;
    struct kvc_console_options options;
    size_t total, done;
    int64_t start_ns;
    char *current; /* the check that started last */
    bool line_shown;
    struct reason *reasons;
    size_t reason_count;
};

/* ---- pieces ---- */

static void put(struct console *console, const char *color, const char *text)
{
    if (console->options.color)
        fprintf(console->options.stream, "\033[%sm%s\033[0m", color, text);
    else
        fputs(text, console->options.stream);
}

/* The line of progress is drawn over again, and wiped before anything else is written. */
static void wipe_line(struct console *console)
{
    if (console->line_shown)
        fputs("\r\033[K", console->options.stream);
    console->line_shown = false;
}

/* What fits into one row, since only that row is wiped. */
static int line_width(const struct console *console)
{
    enum { USUAL_COLUMNS = 80 };
    struct winsize window;
    if (ioctl(fileno(console->options.stream), TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return USUAL_COLUMNS - 1;
    return window.ws_col - 1;
}

static void draw_line(struct console *console)
{
    if (!console->options.live)
        return;
    char *line = kvc_format("[%zu/%zu] %.1f s  %s", console->done, console->total,
                            (double)(kvc_now_ns() - console->start_ns) / 1e9, console->current);
    fprintf(console->options.stream, "\r\033[K%.*s", line_width(console), line);
    free(line);
    fflush(console->options.stream);
    console->line_shown = true;
}

static void print_field(struct console *console, const char *name, const char *text)
{
    struct kvc_buffer clean = {0};
    if (text[0] == '\0')
        return;
    kvc_report_clean_line(text, &clean);
    fprintf(console->options.stream, "  %-10s %s\n", name, kvc_buffer_text(&clean));
    kvc_buffer_clear(&clean);
}

/* "a; b; c", a line each. */
static void print_list(struct console *console, const char *name, const char *text)
{
    const char *next;
    for (; *text != '\0'; text = next, name = "") {
        const char *end = strstr(text, "; ");
        const size_t size = end != NULL ? (size_t)(end - text) : strlen(text);
        next = text + size + (end != NULL ? strlen("; ") : 0);
        char *item = kvc_format("%.*s", (int)size, text);
        print_field(console, name, item);
        free(item);
    }
}

static void print_head(struct console *console, const struct kvc_result *result)
{
    put(console, styles[result->outcome].color, styles[result->outcome].tag);
    fprintf(console->options.stream, " %s", result->instance->id);
    if (result->outcome != KVC_OUTCOME_SKIP && result->outcome != KVC_OUTCOME_NOT_RUN)
        fprintf(console->options.stream, "  (%.2f s)",
                console->options.fixed_times ? 0 : result->seconds);
    fputc('\n', console->options.stream);
}

/* Everything about a check that did not come out. */
static void print_block(struct console *console, const struct kvc_result *result)
{
    struct kvc_buffer details = {0};
    char *clause = kvc_format("%s (%s)", result->instance->check->clause,
                              kvc_level_name(result->instance->check->level));
    print_head(console, result);
    print_field(console, "clause:", clause);
    print_field(console, "problem:",
                result->outcome == KVC_OUTCOME_SURPRISE ? "it is expected to fail, and passed"
                                                        : result->message);
    print_field(console, "expected:", result->expected);
    print_field(console, "got:", result->got);
    print_field(console,
                result->outcome == KVC_OUTCOME_KNOWN ? "known as:" : "listed as:", result->reason);
    kvc_report_clean_block(result->details, "  ", &details);
    fputs(kvc_buffer_text(&details), console->options.stream);
    print_field(console, "reproduce:", result->reproduce);
    fputc('\n', console->options.stream);
    kvc_buffer_clear(&details);
    free(clause);
}

static void count_reason(struct console *console, enum kvc_outcome outcome, const char *text)
{
    for (size_t i = 0; i < console->reason_count; i++) {
        struct reason *reason = &console->reasons[i];
        if (reason->outcome == outcome && strcmp(reason->text, text) == 0) {
            reason->count++;
            return;
        }
    }
    console->reasons =
        kvc_realloc(console->reasons, (console->reason_count + 1) * sizeof(console->reasons[0]));
    console->reasons[console->reason_count++] =
        (struct reason){.outcome = outcome, .text = kvc_strdup(text), .count = 1};
}

/* ---- the callbacks ---- */

static kvc_status console_begin(struct kvc_report *report, const struct kvc_run_info *info,
                                size_t total, struct kvc_error *err)
{
    struct console *console = (struct console *)report;
    FILE *stream = console->options.stream;
    (void)err;
    console->total = total;
    console->start_ns = kvc_now_ns();
    if (console->options.quiet)
        return KVC_OK;
    struct kvc_buffer head = {0};
    kvc_buffer_printf(&head, "kvconform %s: %zu check%s of %s, dialect %s", info->suite_version,
                      total, total == 1 ? "" : "s",
                      info->stand_in ? "the bundled mock server" : info->rpc_url, info->dialect);
    if (info->server_version[0] != '\0')
        kvc_buffer_printf(&head, ", version %s", info->server_version);
    for (size_t i = 0; info->defects != NULL && info->defects[i] != NULL; i++)
        kvc_buffer_printf(&head, ", defect %s", info->defects[i]);
    kvc_buffer_printf(&head, "; seed %llu", (unsigned long long)info->seed);
    struct kvc_buffer clean = {0};
    kvc_report_clean_line(kvc_buffer_text(&head), &clean);
    fprintf(stream, "%s\n", kvc_buffer_text(&clean));
    print_field(console, "dialect:", info->how);
    if (info->client != NULL)
        fprintf(stream, "  %-10s %s can work with it\n", "clients:", info->client);
    print_list(console, "paths:", info->paths);
    print_field(console, "device:", info->device);
    fputc('\n', stream);
    kvc_buffer_clear(&head);
    kvc_buffer_clear(&clean);
    return KVC_OK;
}

static void console_started(struct kvc_report *report, const struct kvc_instance *instance)
{
    struct console *console = (struct console *)report;
    free(console->current);
    console->current = kvc_strdup(instance->id);
    draw_line(console);
}

static void console_result(struct kvc_report *report, const struct kvc_result *result)
{
    struct console *console = (struct console *)report;
    console->done++;
    wipe_line(console);
    switch (result->outcome) {
    case KVC_OUTCOME_SKIP:
    case KVC_OUTCOME_NOT_RUN:
        count_reason(console, result->outcome, result->message);
        if (console->options.verbose) {
            print_head(console, result);
            print_field(console, "because:", result->message);
        }
        break;
    case KVC_OUTCOME_PASS:
        if (console->options.verbose)
            print_head(console, result);
        break;
    case KVC_OUTCOME_KNOWN:
        if (console->options.verbose)
            print_block(console, result);
        break;
    case KVC_OUTCOME_FAIL:
    case KVC_OUTCOME_SURPRISE:
    case KVC_OUTCOME_TIMEOUT:
    case KVC_OUTCOME_CRASH:
    case KVC_OUTCOME_ERROR:
    case KVC_OUTCOME_COUNT:
        count_reason(console, result->outcome, result->instance->check->id);
        print_block(console, result);
        break;
    }
    draw_line(console);
}

static void console_tick(struct kvc_report *report)
{
    draw_line((struct console *)report);
}

static int compare_reasons(const void *a, const void *b)
{
    const struct reason *left = a, *right = b;
    if (left->outcome != right->outcome)
        return left->outcome < right->outcome ? -1 : 1;
    if (left->count != right->count)
        return left->count > right->count ? -1 : 1;
    return strcmp(left->text, right->text);
}

static bool is_quiet_about(const struct console *console, enum kvc_outcome outcome)
{
    return console->options.quiet &&
           (outcome == KVC_OUTCOME_SKIP || outcome == KVC_OUTCOME_NOT_RUN);
}

static void print_reasons(struct console *console)
{
    if (console->reason_count > 0)
        qsort(console->reasons, console->reason_count, sizeof(console->reasons[0]),
              compare_reasons);
    for (size_t i = 0; i < console->reason_count; i++) {
        struct kvc_buffer clean = {0};
        if (is_quiet_about(console, console->reasons[i].outcome))
            continue;
        kvc_report_clean_line(console->reasons[i].text, &clean);
        put(console, styles[console->reasons[i].outcome].color,
            styles[console->reasons[i].outcome].counted);
        fprintf(console->options.stream, " %zu: %s\n", console->reasons[i].count,
                kvc_buffer_text(&clean));
        kvc_buffer_clear(&clean);
    }
}

static void print_texts(struct console *console, const char *name, char *const *texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++) {
        struct kvc_buffer clean = {0};
        kvc_report_clean_line(texts[i], &clean);
        put(console, "1;31", name);
        fprintf(console->options.stream, " %s\n", kvc_buffer_text(&clean));
        kvc_buffer_clear(&clean);
    }
}

static void print_counts(struct console *console, const struct kvc_summary *summary)
{
    FILE *stream = console->options.stream;
    fprintf(stream, "%zu check%s in %.1f s: ", summary->total, summary->total == 1 ? "" : "s",
            console->options.fixed_times ? 0 : summary->seconds);
    const char *joint = "";
    for (int i = 0; i < KVC_OUTCOME_COUNT; i++) {
        if (summary->counts[i] == 0 && i != KVC_OUTCOME_PASS && i != KVC_OUTCOME_FAIL)
            continue;
        char *text = kvc_format("%zu %s", summary->counts[i], styles[i].counted);
        fputs(joint, stream);
        put(console, summary->counts[i] > 0 ? styles[i].color : "0", text);
        joint = ", ";
        free(text);
    }
    fputc('\n', stream);
}

static kvc_status console_finish(struct kvc_report *report, const struct kvc_summary *summary,
                                 struct kvc_error *err)
{
    struct console *console = (struct console *)report;
    (void)err;
    wipe_line(console);
    print_reasons(console);
    print_texts(console, "expectation:", summary->stale_expectations);
    print_texts(console, "problem:", summary->problems);
    if (summary->target_lost)
        put(console, "1;31", "the server was lost and could not be started again\n");
    if (summary->interrupted)
        put(console, "1;31", "interrupted\n");
    print_counts(console, summary);
    if (summary->exit_status == 2)
        put(console, "1;31", "nothing was run: every selected check was skipped\n");
    fflush(console->options.stream);
    return KVC_OK;
}

static void console_free(struct kvc_report *report)
{
    struct console *console = (struct console *)report;
    wipe_line(console);
    for (size_t i = 0; i < console->reason_count; i++)
        free(console->reasons[i].text);
    free(console->reasons);
    free(console->current);
    free(console);
}

static const struct kvc_report_ops console_ops = {
    .begin = console_begin,
    .started = console_started,
    .result = console_result,
    .tick = console_tick,
    .finish = console_finish,
    .free = console_free,
};

struct kvc_report *kvc_report_console(const struct kvc_console_options *options)
{
    struct console *console = kvc_alloc_zero(1, sizeof(*console));
    console->base.ops = &console_ops;
    console->options = *options;
    console->current = kvc_strdup("");
    return &console->base;
}
