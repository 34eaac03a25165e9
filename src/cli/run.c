/* `kvconform run`. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/cli/cli.h"
#include "src/kv/segment.h"
#include "src/report/report.h"
#include "src/run/nearest.h"
#include "src/run/runner.h"

struct run_flags {
    struct kvc_texts select, skip, require;
    const char *level, *transfer, *device;
    const char *expect;
    bool update_expect, destructive, quiet, verbose;
    int64_t min_checks, jobs, check_limit_ms, run_limit_ms;
    uint64_t seed;
    const char *junit, *json, *html, *trace, *color;
};

static const char *const level_choices[] = {"must", "should", "observed", NULL};
static const char *const transfer_choices[] = {"all", "auto", "engine_driven", "lmcache_driven",
                                               NULL};
static const char *const device_choices[] = {"cpu", "cuda", "all", NULL};

#define FLAG(member) offsetof(struct run_flags, member)

static const struct kvc_option selection_table[] = {
    {.name = "select",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(select),
     .argument = "PATTERN",
     .help = "only these checks: an id, or a glob over ids (* within a component, ** across), with "
             "everything below it; @FILE: one pattern a line; may be given several times"},
    {.name = "skip",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(skip),
     .argument = "PATTERN",
     .help = "not these checks"},
    {.name = "level",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(level),
     .argument = "LEVEL",
     .choices = level_choices,
     .help = "must: only what must hold; should: that and what should; observed (default): all"},
    {.name = "transfer",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(transfer),
     .argument = "MODE",
     .choices = transfer_choices,
     .help =
         "all (default), engine_driven or lmcache_driven; auto: what a worker would choose. The "
         "environment's LMCACHE_MP_TRANSFER_MODE counts when this is not given"},
    {.name = "device",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(device),
     .argument = "DEVICE",
     .choices = device_choices,
     .help = "where the workers' KV cache lives: cpu (default), cuda, all"},
    {.name = "destructive",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(destructive),
     .help = "also run checks that may end a server of somebody else, or empty its cache"},
    {.name = "require",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(require),
     .argument = "FEATURE",
     .help = "fail when the server lacks this, instead of skipping what needs it: http, pool, "
             "no-pool, status, p2p, checksums, restart, engine-driven, lmcache-driven"},
    {.name = "min-checks",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(min_checks),
     .argument = "N",
     .help = "fail when fewer checks were carried out"},
};

static const struct kvc_option execution_table[] = {
    {.name = "jobs",
     .letter = 'j',
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(jobs),
     .argument = "N",
     .minimum = 1,
     .help = "checks at the same time (default: four for each core, at most 16)"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help =
         "what names, tokens and data are drawn from (default: drawn from the clock, and said)"},
    {.name = "check-limit",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(check_limit_ms),
     .argument = "SECONDS",
     .help = "how long one check may take (default 30)"},
    {.name = "run-limit",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(run_limit_ms),
     .argument = "SECONDS",
     .help = "how long the whole run may take (default 1800)"},
};

static const struct kvc_option report_table[] = {
    {.name = "expect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(expect),
     .argument = "FILE",
     .help = "known deviations, one a line: ID OUTCOME # WHY"},
    {.name = "update-expect",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(update_expect),
     .help = "rewrite that file by what this run shows"},
    {.name = "junit",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(junit),
     .argument = "FILE",
     .help = "write a JUnit XML report (-: stdout)"},
    {.name = "json",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(json),
     .argument = "FILE",
     .help = "write a JSON report (-: stdout)"},
    {.name = "html",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(html),
     .argument = "FILE",
     .help = "write one self-contained HTML page"},
    {.name = "trace",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(trace),
     .argument = "DIR",
     .help = "write the frames of each failing check there, for `kvconform decode`"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "show failures and the last line only"},
    {.name = "verbose",
     .letter = 'v',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(verbose),
     .help = "show every check, and known failures in full"},
    {.name = "color",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(color),
     .argument = "WHEN",
     .choices = kvc_color_choices,
     .help = "auto (default), always or never"},
};

/* ---- from flags to options ---- */

static kvc_status resolve_selection(const struct run_flags *flags,
                                    const struct kvc_registry *registry,
                                    struct kvc_selection *selection, struct kvc_error *err)
{
    struct kvc_selection_options options = {.level = KVC_LEVEL_MUST};
    kvc_status status = KVC_OK;
    while (strcmp(level_choices[options.level], flags->level) != 0)
        options.level++;
    for (size_t i = 0; i < flags->select.count && status == KVC_OK; i++)
        status = kvc_patterns_add(&options.select, "--select", flags->select.items[i], err);
    for (size_t i = 0; i < flags->skip.count && status == KVC_OK; i++)
        status = kvc_patterns_add(&options.skip, "--skip", flags->skip.items[i], err);
    if (status == KVC_OK)
        status = kvc_select(registry, &options, selection, err);
    kvc_patterns_clear(&options.select);
    kvc_patterns_clear(&options.skip);
    return status;
}

static kvc_status resolve_required(const struct kvc_texts *names, uint32_t *required,
                                   struct kvc_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        uint32_t bit = 0;
        for (size_t j = 0; j < kvc_need_name_count; j++)
            if (strcmp(kvc_need_names[j].name, names->items[i]) == 0)
                bit = kvc_need_names[j].bit;
        if (bit == 0) {
            kvc_fail(err, KVC_EUSAGE, "there is no feature '%s'; --help shows them",
                     names->items[i]);
            kvc_error_set_where(err, "--require");
            return KVC_EUSAGE;
        }
        *required |= bit;
    }
    return KVC_OK;
}

/* Which paths --transfer, or the environment, leaves. */
static kvc_status resolve_paths(const struct run_flags *flags, struct kvc_applies_options *applies,
                                char *reason, size_t reason_size, struct kvc_error *err)
{
    const char *environment = getenv(KVC_MODE_ENVIRONMENT);
    const bool has_environment = environment != NULL && environment[0] != '\0';
    applies->paths = KVC_PATHS_ALL;
    if ((flags->transfer == NULL && !has_environment) ||
        (flags->transfer != NULL && strcmp(flags->transfer, "all") == 0))
        return KVC_OK;
    struct kvc_mode_choice choice;
    KVC_GUARD(kvc_mode_choose(flags->transfer, environment, &kvc_device_cpu, &choice, err));
    if (choice.mode == KVC_MODE_ENGINE_DRIVEN)
        applies->paths = KVC_PATHS_ENGINE_DRIVEN;
    else
        applies->paths = 1u << KVC_PATH_LMCACHE_DRIVEN;
    snprintf(reason, reason_size, "%s", choice.reason);
    applies->paths_reason = reason;
    return KVC_OK;
}

/* Checks place their workers' memory on the CPU; with cuda alone there is nothing to run. */
static void resolve_device(const struct run_flags *flags, struct kvc_applies_options *applies,
                           char *reason, size_t reason_size)
{
    if (strcmp(flags->device, "cuda") != 0)
        return;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_device_cuda.probe(&err) == KVC_OK)
        snprintf(reason, reason_size, "no check places its KV cache on cuda yet");
    else
        snprintf(reason, reason_size, "device cuda: %.160s", err.what);
    applies->device_skip = reason;
}

static kvc_status make_trace_dir(const char *path, struct kvc_error *err)
{
    if (path == NULL || (mkdir(path, 0777) == 0) || (errno == EEXIST && access(path, W_OK) == 0))
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, "cannot write into the folder '%s': %s", path, strerror(errno));
    kvc_error_set_where(err, "--trace");
    return KVC_EUSAGE;
}

/* The command line that repeats this run, without --select. */
static char *reproduce_line(const struct run_flags *flags, const struct kvc_target_flags *target)
{
    struct kvc_buffer line = {0};
    kvc_buffer_append_text(&line, "kvconform run");
    kvc_target_flags_append(target, &line);
    if (flags->transfer != NULL)
        kvc_buffer_printf(&line, " --transfer %s", flags->transfer);
    if (flags->destructive)
        kvc_buffer_append_text(&line, " --destructive");
    kvc_buffer_printf(&line, " --seed %llu", (unsigned long long)flags->seed);
    return kvc_buffer_take_text(&line);
}

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
    for (size_t i = 0; i < KVC_COUNT_OF(files); i++) {
        if (files[i].path == NULL)
            continue;
        if (files[i].open(files[i].path, false, &reports->items[reports->count], err) != KVC_OK) {
            kvc_error_set_where(err, "%s", files[i].flag);
            return err->status;
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

/* With everything that can be wrong found out before anything is started. */
static int run_checks(const struct run_flags *flags, const struct kvc_target_flags *target_flags,
                      struct kvc_run_options *options)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_expectations expectations = {0};
    struct reports reports = {0};
    struct kvc_summary summary = {.exit_status = KVC_EXIT_USAGE};
    char *reproduce = reproduce_line(flags, target_flags);
    kvc_status status = KVC_OK;
    if (flags->expect != NULL)
        status = kvc_expect_load(flags->expect, flags->update_expect, options->registry,
                                 &expectations, &err);
    else if (flags->update_expect)
        status = kvc_fail(&err, KVC_EUSAGE, "--update-expect needs --expect FILE");
    if (status == KVC_OK)
        status = make_trace_dir(flags->trace, &err);
    if (status == KVC_OK)
        status = open_reports(flags, &reports, &err);
    if (status == KVC_OK) {
        options->expectations = &expectations;
        options->reports = reports.items;
        options->report_count = reports.count;
        options->reproduce = reproduce;
        kvc_segment_sweep();
        status = kvc_run(options, &summary, &err);
    }
    if (status == KVC_OK && flags->update_expect)
        status = kvc_expect_update(&expectations, &err);
    free_reports(&reports);
    if (status != KVC_OK && status != KVC_EINTERRUPTED)
        kvc_print_error(&err);
    const int exit_status = summary.exit_status;
    kvc_expect_clear(&expectations);
    kvc_summary_clear(&summary);
    free(reproduce);
    return exit_status;
}

static int run_selected(const struct run_flags *flags, const struct kvc_target_flags *target_flags,
                        const struct kvc_registry *registry, const struct kvc_selection *selection)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_target_options target_options;
    struct kvc_target target;
    char paths_reason[200], device_reason[200];
    struct kvc_run_options options = {
        .registry = registry,
        .selection = selection,
        .target = &target,
        .seed = flags->seed,
        .jobs = (size_t)flags->jobs,
        .check_limit_ms = flags->check_limit_ms,
        .run_limit_ms = flags->run_limit_ms,
        .min_checks = (size_t)flags->min_checks,
        .trace_dir = flags->trace,
        .applies = {.destructive = flags->destructive},
    };
    kvc_status status = kvc_target_flags_resolve(target_flags, &target_options, &err);
    if (status == KVC_OK)
        status = kvc_target_init(&target_options, &target, &err);
    if (status == KVC_OK)
        status = resolve_required(&flags->require, &options.required, &err);
    if (status == KVC_OK)
        status = resolve_paths(flags, &options.applies, paths_reason, sizeof(paths_reason), &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        return KVC_EXIT_USAGE;
    }
    resolve_device(flags, &options.applies, device_reason, sizeof(device_reason));
    options.facts.timeout_ms = target_options.timeout_ms;
    return run_checks(flags, target_flags, &options);
}

static int run_parsed(const struct run_flags *flags, const struct kvc_target_flags *target_flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_registry registry;
    struct kvc_selection selection = {0};
    int exit_status = KVC_EXIT_USAGE;
    if (kvc_registry_load(&registry, &err) == KVC_OK &&
        resolve_selection(flags, &registry, &selection, &err) == KVC_OK)
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
        .seed = kvc_mix((uint64_t)kvc_now_ns()) % 1000000,
    };
    struct kvc_target_flags target_flags = {0};
    const struct kvc_option_group groups[] = {
        {"What to run", selection_table, KVC_COUNT_OF(selection_table), &flags},
        {"Target (default: the bundled mock server)", kvc_target_flag_table, kvc_target_flag_count,
         &target_flags},
        {"How to run it", execution_table, KVC_COUNT_OF(execution_table), &flags},
        {"What to expect and report", report_table, KVC_COUNT_OF(report_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform run [OPTION…]",
        .about =
            "Runs checks against a server. Exit status: 0 everything as expected, 1 not so, 2 wrong "
            "usage or nothing to run, 3 the server could not be reached, started or was lost.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = run_parsed(&flags, &target_flags);
    kvc_texts_clear(&flags.select);
    kvc_texts_clear(&flags.skip);
    kvc_texts_clear(&flags.require);
    kvc_texts_clear(&target_flags.defects);
    return exit_status;
}

const struct kvc_command kvc_command_run = {
    .name = "run",
    .summary = "run the checks against a server",
    .run = command_run,
};
