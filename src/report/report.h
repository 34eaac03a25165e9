/* The report formats. For `run`. Each is a struct kvc_report (src/run/outcome.h): begin, results,
 * finish, free. */
#ifndef KVC_REPORT_REPORT_H
#define KVC_REPORT_REPORT_H

#include <stdio.h>

#include "src/run/outcome.h"

struct kvc_console_options {
    FILE *stream;
    bool color;
    bool live;        /* the stream is a terminal: show one line of progress */
    bool quiet;       /* failures and the last line only */
    bool verbose;     /* one line for every check, and known failures in full */
    bool fixed_times; /* for golden files: every time is shown as 0 */
};

/* For people. Never fails. */
struct kvc_report *kvc_report_console(const struct kvc_console_options *options);

/* Reports to files. The path is tried at once: a temporary file is made beside it (KVC_EUSAGE when
 * that cannot be), renamed to path by `finish`, and removed by `free` if finish was not reached. "-"
 * is stdout. fixed_times as above. */
kvc_status kvc_report_junit(const char *path, bool fixed_times, struct kvc_report **report,
                            struct kvc_error *err);
/* docs/json.md describes it. */
kvc_status kvc_report_json(const char *path, bool fixed_times, struct kvc_report **report,
                           struct kvc_error *err);
/* One self-contained page. */
kvc_status kvc_report_html(const char *path, bool fixed_times, struct kvc_report **report,
                           struct kvc_error *err);

#endif
