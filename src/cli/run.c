/* `kvconform run`. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/cli/run_flags.h"
#include "src/kv/segment.h"
#include "src/report/report.h"

/* ---- reports ---- */

enum { MAX_REPORTS = 4 };

struct reports {
    struct kvc_report *items[MAX_REPORTS];
    size_t count;
};

static kvc_status open_reports(const struct run_flags *flags, struct reports *reports,
                               struct kvc_error *err)
{
    const struct kvc_console_options console = {
        .stream = stderr,
        .color = kvc_use_color(flags->color, STDERR_FILENO),
        .live = isatty(STDERR_FILENO) && !flags->quiet,
        .quiet = flags->quiet,
        .verbose = flags->verbose,
    };
    reports->items[reports->count++] = kvc_report_console(&console);
    const struct {
        const char *path, *flag;
        kvc_status (*open)(const char *path, bool fixed_times, struct kvc_report **report,
                           struct kvc_error *err);
    } files[] = {
        {flags->junit, "--junit", kvc_report_junit},
        {flags->json, "--json", kvc_report_json},
        {flags->html, "--html", kvc_report_html},
    };
    size_t to_stdout = 0;
    for (size_t i = 0; i < KVC_COUNT_OF(files); i++) {
        if (files[i].path == NULL)
            continue;
        to_stdout += strcmp(files[i].path, "-") == 0;
        const kvc_status status =
            to_stdout > 1
                ? kvc_fail(err, KVC_EUSAGE, "stdout takes one report only: give a file")
                : files[i].open(files[i].path, false, &reports->items[reports->count], err);
        if (status != KVC_OK) {
            kvc_error_set_where(err, "%s", files[i].flag);
            return status;
        }
        reports->count++;
    }
    return KVC_OK;
}

static void free_reports(struct reports *reports)
{
    for (size_t i = 0; i < reports->count; i++)
        reports->items[i]->ops->free(reports->items[i]);
}

/* ---- the command ---- */

static kvc_status make_trace_dir(const char *path, struct kvc_error *err)
{
    if (path == NULL || mkdir(path, 0777) == 0)
        return KVC_OK;
    struct stat there;
    if (errno == EEXIST && stat(path, &there) == 0) {
        if (S_ISDIR(there.st_mode) && access(path, W_OK) == 0)
            return KVC_OK;
        if (!S_ISDIR(there.st_mode))
            errno = ENOTDIR;
    }
    kvc_fail(err, KVC_EUSAGE, "cannot write into the folder '%s': %s", path, strerror(errno));
    kvc_error_set_where(err, "--trace");
    return KVC_EUSAGE;
}

/* What is read and opened before anything is started. */
struct files {
    struct kvc_expectations expectations;
    struct reports reports;
};

static kvc_status open_files(const struct run_flags *flags, const struct kvc_registry *registry,
                             struct files *files, struct kvc_error *err)
{
    if (flags->expect != NULL)
        KVC_GUARD(kvc_expect_load(flags->expect, flags->update_expect, registry,
                                  &files->expectations, err));
    else if (flags->update_expect)
        return kvc_fail(err, KVC_EUSAGE, "--update-expect needs --expect FILE");
    KVC_GUARD(make_trace_dir(flags->trace, err));
    return open_reports(flags, &files->reports, err);
}

static void close_files(struct files *files)
{
    free_reports(&files->reports);
    kvc_expect_clear(&files->expectations);
}

/* Segments of workers, and pools of the bundled mock: what a run of all checks holds at a time. */
enum { ROOM_NEEDED_MIB = 256 };

static void warn_of_little_room(void)
{
    const uint64_t room_mib = kvc_segment_room() >> 20;
    if (room_mib < ROOM_NEEDED_MIB)
        fprintf(
            stderr,
            "kvconform run: warning: /dev/shm has room for %" PRIu64
            " MiB; a run of all checks needs %d, and a check that finds none cannot be carried out (a container: "
            "--shm-size=1g)\n",
            room_mib, ROOM_NEEDED_MIB);
}

/* Runs with the files open; *exit_status is what the run deserves. */
static kvc_status run_with_files(const struct run_flags *flags, struct files *files,
                                 struct kvc_run_options *options, int *exit_status,
                                 struct kvc_error *err)
{
    struct kvc_summary summary;
    options->expectations = &files->expectations;
    options->reports = files->reports.items;
    options->report_count = files->reports.count;
    kvc_segment_sweep();
    warn_of_little_room();
    kvc_status status = kvc_run(options, &summary, err);
    *exit_status = summary.exit_status;
    kvc_summary_clear(&summary);
    if (status == KVC_OK && flags->update_expect)
        status = kvc_expect_update(&files->expectations, err);
    /* A report that is missing must not look like success. */
    if (status != KVC_OK && *exit_status == KVC_EXIT_OK)
        *exit_status = KVC_EXIT_UNEXPECTED;
    return status;
}

static int run_selected(const struct run_flags *flags, const struct kvc_target_flags *target_flags,
                        const struct kvc_registry *registry, const struct kvc_selection *selection)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_target_options target_options;
    struct kvc_target target;
    struct kvc_run_texts texts;
    struct files files = {0};
    int exit_status = KVC_EXIT_USAGE;
    char *reproduce = kvc_run_flags_reproduce(flags, target_flags);
    struct kvc_run_options options = {
        .registry = registry,
        .selection = selection,
        .target = &target,
        .seed = flags->seed,
        .jobs = (size_t)flags->jobs,
        .check_limit_ms = flags->check_limit_ms,
        .run_limit_ms = flags->run_limit_ms,
        .min_checks = (size_t)flags->min_checks,
        .fail_fast = flags->fail_fast,
        .trace_dir = flags->trace,
        .reproduce = reproduce,
    };
    kvc_status status = kvc_target_flags_resolve(target_flags, &target_options, &err);
    options.facts.timeout_ms = target_options.timeout_ms;
    if (status == KVC_OK)
        status = kvc_target_init(&target_options, &target, &err);
    if (status == KVC_OK)
        status = kvc_run_flags_resolve(flags, &options, &texts, &err);
    if (status == KVC_OK)
        status = open_files(flags, registry, &files, &err);
    if (status == KVC_OK)
        status = run_with_files(flags, &files, &options, &exit_status, &err);
    close_files(&files);
    if (status != KVC_OK && status != KVC_EINTERRUPTED)
        kvc_print_error(&err);
    free(reproduce);
    return exit_status;
}

static int run_parsed(const struct run_flags *flags, const struct kvc_target_flags *target_flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_registry registry;
    struct kvc_selection selection = {0};
    int exit_status = KVC_EXIT_USAGE;
    if (kvc_registry_load(&registry, &err) == KVC_OK &&
        kvc_run_flags_select(flags, &registry, &selection, &err) == KVC_OK)
        exit_status = run_selected(flags, target_flags, &registry, &selection);
    else
        kvc_print_error(&err);
    kvc_selection_clear(&selection);
    kvc_registry_clear(&registry);
    return exit_status;
}

static int command_run(int argc, char **argv)
{
    struct run_flags flags = {
        .level = "observed",
        .device = "cpu",
        .color = "auto",
        .seed = kvc_mix((uint64_t)kvc_now_ns()) % 1000000, /* short enough to be typed again */
    };
    struct kvc_target_flags target_flags = {0};
    struct kvc_option_group groups[KVC_RUN_GROUP_COUNT];
    kvc_run_flags_groups(&flags, &target_flags, groups);
    const struct kvc_command_line line = {
        .usage = "kvconform run [OPTION…]",
        .about =
            "Runs checks against a server, and reports to stderr. Exit status: 0 everything as "
            "expected, 1 not so, 2 wrong usage or nothing to run, 3 the server could not be reached, "
            "started or was lost.",
        .groups = groups,
        .group_count = KVC_RUN_GROUP_COUNT,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    signal(SIGPIPE, SIG_IGN); /* nobody reads on: the reports are written all the same */
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = run_parsed(&flags, &target_flags);
    kvc_texts_clear(&flags.select);
    kvc_texts_clear(&flags.skip);
    kvc_texts_clear(&flags.require);
    kvc_target_flags_clear(&target_flags);
    return exit_status;
}

const struct kvc_command kvc_command_run = {
    .name = "run",
    .summary = "run the checks against a server",
    .run = command_run,
};
