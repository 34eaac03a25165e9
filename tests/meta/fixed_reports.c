/* Prints the report of a fixed run, in the format that the first argument names. For reports.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/report/report.h"

static const struct kvc_check checks[] = {
    {.id = "alpha/plain", .clause = "Replies echo the uid.", .source = "protocol 1.1"},
    {.id = "alpha/axes", .clause = "Bytes < come & back.", .first = "0.5.3"},
    {.id = "beta/hostile",
     .clause = "\"Quotes\" and 'ticks' ]]> survive.",
     .level = KVC_LEVEL_SHOULD},
    {.id = "beta/long-words", .clause = "Observed.", .level = KVC_LEVEL_OBSERVED, .last = "0.5.5"},
};

#define HOSTILE                                                                                    \
    "]]> <tag a=\"b\"> & ' \x01\x1b[31mred\x7f \xff\xc0\x80 \xed\xa0\x80 \xef\xbf\xbe \xc2\x9b \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"

static const struct row {
    size_t check;
    const char *id;
    enum kvc_outcome outcome, raw;
    const char *message, *expected, *got, *details, *reason;
    double seconds;
    bool server_died;
} rows[] = {
    /* Not in the order of their ids: checks end as they end. */
    {2, "beta/hostile", KVC_OUTCOME_FAIL, KVC_OUTCOME_FAIL, HOSTILE, HOSTILE, HOSTILE,
     HOSTILE "\nsecond line\n\tindented\n", "", 0.25, false},
    {0, "alpha/plain", KVC_OUTCOME_PASS, KVC_OUTCOME_PASS, "", "", "", "", "", 1.5, false},
    {1, "alpha/axes/nhd/f16/engine_driven", KVC_OUTCOME_KNOWN, KVC_OUTCOME_FAIL, "a byte differs",
     "01", "02", "frames\n", "reported upstream", 0.001, false},
    {1, "alpha/axes/hnd/f16/engine_driven", KVC_OUTCOME_SURPRISE, KVC_OUTCOME_PASS, "", "", "", "",
     "fail (line 2): reported upstream", 0.001, false},
    {1, "alpha/axes/mla/f16/engine_driven", KVC_OUTCOME_SKIP, KVC_OUTCOME_SKIP,
     "needs a server that offers a shared-memory pool", "", "", "", "", 0, false},
    {1, "alpha/axes/mla/f32/engine_driven", KVC_OUTCOME_SKIP, KVC_OUTCOME_SKIP,
     "needs a server that offers a shared-memory pool", "", "", "", "", 0, false},
    {3, "beta/long-words/a", KVC_OUTCOME_TIMEOUT, KVC_OUTCOME_TIMEOUT,
     "the check did not end within 30.0 s", "", "", "", "", 30, true},
    {3, "beta/long-words/b", KVC_OUTCOME_CRASH, KVC_OUTCOME_CRASH,
     "the check's process died of signal 11 (Segmentation fault)", "", "",
     "output of the check's process:\nwords\n", "", 0.1, false},
    {3, "beta/long-words/c", KVC_OUTCOME_ERROR, KVC_OUTCOME_ERROR,
     "the check left behind: 1 process(es)", "", "", "", "", 0.1, false},
    {3, "beta/long-words/d", KVC_OUTCOME_NOT_RUN, KVC_OUTCOME_NOT_RUN,
     "needs alpha/plain, which did not pass", "", "", "", "", 0, false},
};

static kvc_status open_report(const char *format, struct kvc_report **report, struct kvc_error *err)
{
    struct kvc_console_options console = {.stream = stdout, .fixed_times = true};
    if (strcmp(format, "junit") == 0)
        return kvc_report_junit("-", true, report, err);
    if (strcmp(format, "json") == 0)
        return kvc_report_json("-", true, report, err);
    if (strcmp(format, "html") == 0)
        return kvc_report_html("-", true, report, err);
    console.quiet = strcmp(format, "console-quiet") == 0;
    console.verbose = strcmp(format, "console-verbose") == 0;
    console.color = console.verbose;
    *report = kvc_report_console(&console);
    return KVC_OK;
}

static void give_result(struct kvc_report *report, const struct row *row,
                        struct kvc_summary *summary)
{
    /* Instances outlive the reports. */
    static struct kvc_instance instances[KVC_COUNT_OF(rows)];
    struct kvc_instance *instance = &instances[row - rows];
    struct kvc_result result;
    *instance = (struct kvc_instance){.check = &checks[row->check], .id = (char *)row->id};
    kvc_result_init(&result, instance);
    result.outcome = row->outcome;
    result.raw = row->raw;
    result.seconds = row->seconds;
    result.server_died = row->server_died;
    kvc_result_set(&result.message, "%s", row->message);
    kvc_result_set(&result.expected, "%s", row->expected);
    kvc_result_set(&result.got, "%s", row->got);
    kvc_result_set(&result.details, "%s", row->details);
    kvc_result_set(&result.reason, "%s", row->reason);
    if (row->raw != KVC_OUTCOME_PASS)
        kvc_result_set(&result.reproduce, "kvconform run --seed 7 --select %s", row->id);
    report->ops->result(report, &result);
    summary->counts[result.outcome]++;
    kvc_result_clear(&result);
}

int main(int argc, char **argv)
{
    static const char *const defects[] = {"uid-cut", NULL};
    static char *stale[] = {"expect.txt:3: 'gone/check' matches no check", NULL};
    static char *problems[] = {"--require pool: the server lacks it", NULL};
    const struct kvc_run_info info = {
        .suite_version = "0.1.0",
        .target = "mock",
        .rpc_url = "tcp://127.0.0.1:5555",
        .dialect = "0.5.6",
        .server_version = "0.5.6<&>",
        .how = "the mock server was told to speak it",
        .paths = "engine_driven: yes (\"pool\")",
        .seed = UINT64_MAX,
        .started = "2026-01-02T03:04:05Z",
        .defects = defects,
        .device = "",
        .stand_in = true,
    };
    struct kvc_summary summary = {
        .total = KVC_COUNT_OF(rows),
        .stale_expectations = stale,
        .problems = problems,
        .exit_status = 1,
        .seconds = 2,
    };
    struct kvc_report *report = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    if (argc != 2 || open_report(argv[1], &report, &err) != KVC_OK)
        return 2;
    report->ops->begin(report, &info, summary.total, &err);
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        give_result(report, &rows[i], &summary);
    const kvc_status status = report->ops->finish(report, &summary, &err);
    report->ops->free(report);
    return status == KVC_OK ? 0 : 1;
}
