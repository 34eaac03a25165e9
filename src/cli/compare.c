/* `kvconform compare OLD.json NEW.json`: what changed between two runs or two benches. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/compare.h"
#include "src/cli/cli.h"
#include "src/report/file.h"

struct compare_flags {
    struct kvc_texts old;
    struct kvc_texts new;
    struct kvc_texts fail_if;
    bool all;
    bool force;
    const char *format;
    const char *output;
};

static const char *const formats[] = {"text", "json", "markdown", NULL};

#define FLAG(member) offsetof(struct compare_flags, member)

static const struct kvc_option compare_table[] = {
    {.name = "old",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(old),
     .argument = "FILE",
     .help = "a report of the old side, instead of OLD.json; may be given several times, and three "
             "runs of each side or more tell an effect from noise"},
    {.name = "new",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(new),
     .argument = "FILE",
     .help = "the same of the new side"},
    {.name = "fail-if",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(fail_if),
     .argument = "LIMIT",
     .help = "OPERATION.FIGURE > RATIO (or >= < <=) of new to old, such as 'warm_retrieve.p99 > "
             "1.10'; * stands for any part of an operation's name; may be given several times "
             "(default: '*.p50 > 1.10', of bench transfer '*.ratio < 0.90')"},
    {.name = "force",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(force),
     .help = "compare also what was measured differently, and leave out runs that are not valid"},
    {.name = "all",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(all),
     .help =
         "show every figure, and not only p50, p99, throughput and those that a limit is about"},
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "text (default), json or markdown"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
};

/* One grammar at a time: OLD NEW, or --old and --new. */
static kvc_status check_sides(const struct compare_flags *flags, char **arguments, size_t count,
                              struct kvc_error *err)
{
    const bool has_old = flags->old.count > 0, has_new = flags->new.count > 0;
    if ((has_old || has_new) && count > 0)
        return kvc_fail(err, KVC_EUSAGE, "'%s': give either OLD.json NEW.json, or --old and --new",
                        arguments[0]);
    if (has_old != has_new)
        return kvc_fail(err, KVC_EUSAGE, "there is an %s, and no %s", has_old ? "--old" : "--new",
                        has_old ? "--new" : "--old");
    if (!has_old && count != 2)
        return kvc_fail(err, KVC_EUSAGE,
                        "which reports? Give OLD.json NEW.json, or --old and --new");
    if (flags->old.count > KVC_NOISE_MAX_RUNS || flags->new.count > KVC_NOISE_MAX_RUNS)
        return kvc_fail(err, KVC_EUSAGE, "at most %d reports of each side can be compared",
                        KVC_NOISE_MAX_RUNS);
    return KVC_OK;
}

/* Reads the reports of a side; the caller closes all of them, also after an error. */
static kvc_status open_side(const char *const *paths, size_t count, struct kvc_side *side,
                            struct kvc_error *err)
{
    side->reports = kvc_alloc_zero(count, sizeof(*side->reports));
    for (side->count = 0; side->count < count; side->count++)
        KVC_GUARD(kvc_saved_open(paths[side->count], &side->reports[side->count], err));
    return KVC_OK;
}

static void close_side(struct kvc_side *side)
{
    for (size_t i = 0; i < side->count; i++)
        kvc_saved_close(&side->reports[i]);
    free(side->reports);
}

static kvc_status parse_limits(const struct kvc_texts *texts, struct kvc_limit *limits,
                               struct kvc_error *err)
{
    for (size_t i = 0; i < texts->count; i++)
        KVC_GUARD(kvc_limit_parse(texts->items[i], &limits[i], err));
    return KVC_OK;
}

static kvc_status write_report(const struct compare_flags *flags,
                               const struct kvc_compare_options *options,
                               const struct kvc_comparison *comparison, struct kvc_error *err)
{
    struct kvc_buffer report = {0};
    if (strcmp(flags->format, "json") == 0)
        kvc_compare_write_json(options, comparison, &report);
    else
        kvc_compare_write_text(options, comparison, flags->all,
                               strcmp(flags->format, "markdown") == 0, &report);
    kvc_status status = KVC_OK;
    fwrite(report.data, 1, report.size, stdout); /* main() sees whether that failed */
    if (flags->output != NULL) {
        struct kvc_report_file file;
        status = kvc_report_file_open(flags->output, &file, err);
        if (status == KVC_OK) {
            status = kvc_report_file_commit(&file, kvc_buffer_view(&report), err);
            kvc_report_file_close(&file);
        } else {
            kvc_error_set_where(err, "--output");
        }
    }
    kvc_buffer_clear(&report);
    return status;
}

static kvc_status compare(const struct compare_flags *flags,
                          const struct kvc_compare_options *options, size_t *regressions,
                          struct kvc_error *err)
{
    struct kvc_comparison comparison;
    KVC_GUARD(kvc_compare(options, &comparison, err));
    *regressions = comparison.regression_count;
    const kvc_status status = write_report(flags, options, &comparison, err);
    kvc_comparison_clear(&comparison);
    return status;
}

static int run_flags(const struct compare_flags *flags, char **arguments, size_t count)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_limit *limits = kvc_alloc_zero(flags->fail_if.count + 1, sizeof(*limits));
    struct kvc_compare_options options = {
        .limits = limits, .limit_count = flags->fail_if.count, .force = flags->force};
    size_t regressions = 0;
    kvc_status status = check_sides(flags, arguments, count, &err);
    if (status == KVC_OK)
        status = parse_limits(&flags->fail_if, limits, &err);
    if (status == KVC_OK) {
        const bool by_flags = flags->old.count > 0;
        const char *const *old = by_flags ? flags->old.items : (const char *const *)arguments;
        const char *const *new = by_flags ? flags->new.items : (const char *const *)arguments + 1;
        status = open_side(old, by_flags ? flags->old.count : 1, &options.old, &err);
        if (status == KVC_OK)
            status = open_side(new, by_flags ? flags->new.count : 1, &options.new, &err);
    }
    if (status == KVC_OK)
        status = compare(flags, &options, &regressions, &err);
    close_side(&options.old);
    close_side(&options.new);
    free(limits);
    if (status == KVC_OK)
        return regressions == 0 ? KVC_EXIT_OK : KVC_EXIT_UNEXPECTED;
    kvc_print_error(&err);
    return kvc_exit_status(status);
}

static int command_compare(int argc, char **argv)
{
    struct compare_flags flags = {.format = "text"};
    const struct kvc_option_group groups[] = {
        {"Options", compare_table, KVC_COUNT_OF(compare_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform compare OLD.json NEW.json [OPTION…]",
        .about =
            "What changed between two reports of `bench server --format json`, or of `run --json`. "
            "For benches, a figure is a regression when the ratio of the medians, new to old, is "
            "beyond a limit and, with several runs, beyond what chance explains; for runs, a "
            "check that came out as expected and does not any more. Exit status 1 when there is "
            "one, or when a run is not valid.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
        .max_arguments = 2,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = run_flags(&flags, arguments, count);
    kvc_texts_clear(&flags.old);
    kvc_texts_clear(&flags.new);
    kvc_texts_clear(&flags.fail_if);
    return exit_status;
}

const struct kvc_command kvc_command_compare = {
    .name = "compare",
    .summary = "two runs or two benches: what changed, and whether beyond noise",
    .run = command_compare,
};
