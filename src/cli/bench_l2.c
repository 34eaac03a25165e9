/* `kvconform bench l2`: the flags of `lmcache bench l2`, and a report to trust. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/bench/l2.h"
#include "src/cli/bench.h"
#include "src/cli/bench_l2_check.h"
#include "src/cli/bench_l2_flags.h"
#include "src/cli/stop.h"
#include "src/report/file.h"

/* ---- running ---- */

static kvc_status write_report(struct kvc_buffer *report, struct kvc_report_file *file,
                               struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    if (fwrite(report->data, 1, report->size, stdout) != report->size || fflush(stdout) != 0)
        status = kvc_fail_errno(err, "cannot write the report to stdout");
    if (file->stream != NULL) {
        const kvc_status committed =
            kvc_report_file_commit(file, kvc_buffer_view(report), status == KVC_OK ? err : NULL);
        status = status == KVC_OK ? committed : status;
    }
    kvc_buffer_clear(report);
    return status;
}

static bool as_json(const struct kvc_l2_flags *flags)
{
    return strcmp(flags->format, "json") == 0;
}

static int print_failure(kvc_status status, struct kvc_error *err)
{
    if (status == KVC_EUSAGE)
        kvc_error_prepend_where(err, "--l2-adapter%s", err->where[0] == '\0' ? "" : ": ");
    kvc_print_error(err);
    return kvc_exit_status(status);
}

/* A store that does not open is one failure, not one a check. */
static kvc_status try_to_open(const struct kvc_l2_check_options *check, struct kvc_error *err)
{
    const struct kvc_l2_memory memory = {check->object_size, check->align};
    struct kvc_l2_pool *pool;
    KVC_GUARD(kvc_l2_pool_open(check->config, &memory, 1, &pool, err));
    return kvc_l2_pool_close(pool, err);
}

static int run_checks(const struct kvc_l2_flags *flags, const struct kvc_l2_config *config,
                      struct kvc_report_file *file)
{
    const struct kvc_l2_check_options check = {
        .config = config,
        .object_size = (size_t)flags->data_size_kb * 1024,
        .align = (size_t)flags->align,
        .timeout_ms = flags->timeout_ms,
        .seed = flags->seed,
        .stop = &kvc_stop_signal,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_buffer report = {0};
    const kvc_status opened = try_to_open(&check, &err);
    if (opened != KVC_OK)
        return print_failure(opened, &err);
    const bool good =
        kvc_bench_l2_check(&check, as_json(flags), flags->quiet ? NULL : stderr, &report);
    if (write_report(&report, file, &err) != KVC_OK) {
        kvc_print_error(&err);
        return KVC_EXIT_UNEXPECTED;
    }
    if (kvc_stop_signal != 0)
        return kvc_stop_exit_status();
    return good ? KVC_EXIT_OK : KVC_EXIT_UNEXPECTED;
}

static int run_on_adapter(const struct kvc_l2_flags *flags, const struct kvc_l2_config *config,
                          double hit_rate, struct kvc_report_file *file)
{
    struct kvc_bench_l2_options bench = {
        .config = config,
        .num_keys = flags->num_keys,
        .in_flight = flags->in_flight,
        .data_size = flags->data_size_kb * 1024,
        .align = flags->align,
        .hugepages = flags->hugepages,
        .rounds = flags->rounds,
        .warmup_rounds = flags->warmup_rounds,
        .lookup_max_hit_rate = hit_rate,
        .verify = flags->no_skip_verify,
        .phases = kvc_l2_flags_phases(flags),
        .lanes = flags->threads,
        .timeout_ms = flags->timeout_ms,
        .payload = strcmp(flags->payload, "fill") == 0 ? KVC_L2_FILL : KVC_L2_STAMPS,
        .seed = flags->seed,
        /* The progress goes where the report does not: stdout stays a report that can be read. */
        .progress = flags->quiet ? NULL : stderr,
        .stop = &kvc_stop_signal,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_l2_result result;
    int exit_status = KVC_EXIT_UNEXPECTED;
    struct kvc_buffer report = {0};
    struct kvc_flamegraph flamegraph = {0};
    if (kvc_flamegraph_open(&flags->flamegraph, getpid(), config->adapter->title, &flamegraph,
                            &err) != KVC_OK) {
        kvc_flamegraph_close(&flamegraph);
        kvc_print_error(&err);
        return KVC_EXIT_USAGE;
    }
    bench.flames = &flamegraph.flames;
    kvc_status status = kvc_bench_l2_run(&bench, &result, &err);
    if (status == KVC_OK) {
        if (as_json(flags))
            kvc_bench_l2_write_json(&bench, &result, &report);
        else
            kvc_bench_l2_write_terminal(&bench, &result, &report);
        status = write_report(&report, file, &err);
    }
    if (status == KVC_OK)
        status = kvc_flamegraph_draw(&flamegraph, "bench l2", bench.progress, &err);
    if (status != KVC_OK) {
        exit_status = print_failure(status, &err);
    } else if (result.interrupted) {
        exit_status = kvc_stop_exit_status();
    } else if (kvc_bench_l2_is_valid(&bench, &result)) {
        exit_status = KVC_EXIT_OK;
    }
    kvc_bench_l2_result_clear(&result);
    kvc_flamegraph_close(&flamegraph);
    return exit_status;
}

static int run_flags(const struct kvc_l2_flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_l2_config config = {0};
    struct kvc_report_file file = {0};
    double hit_rate = 0;
    int exit_status;
    kvc_status status = kvc_l2_flags_resolve(flags, &config, &hit_rate, &err);
    /* An unwritable place is found before the run, not after it. */
    if (status == KVC_OK && flags->output != NULL &&
        kvc_report_file_open(flags->output, &file, &err) != KVC_OK) {
        kvc_error_set_where(&err, "--output");
        status = KVC_EUSAGE;
    }
    if (status == KVC_OK) {
        kvc_stop_catch();
        exit_status = flags->check ? run_checks(flags, &config, &file)
                                   : run_on_adapter(flags, &config, hit_rate, &file);
    } else {
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    }
    kvc_report_file_close(&file);
    kvc_l2_config_clear(&config);
    return exit_status;
}

static int run_bench_l2(int argc, char **argv)
{
    struct kvc_l2_flags flags = {.num_keys = 32,
                                 .in_flight = 1,
                                 .data_size_kb = 256,
                                 .align = 1,
                                 .rounds = 1,
                                 .warmup_rounds = 1,
                                 .lookup_max_hit_rate = "0",
                                 .timeout_ms = 120000,
                                 .payload = "stamps",
                                 .flamegraph = {.on = "off", .modes = "on-cpu"},
                                 .format = "terminal"};
    const struct kvc_option_group groups[] = {
        {"Bench", kvc_l2_flag_table, kvc_l2_flag_count, &flags},
    };
    struct kvc_buffer types = {0};
    kvc_l2_append_types(&types);
    char *about = kvc_format(
        "Stores objects through an L2 adapter, looks them up and loads them, in rounds of submits "
        "in flight. Flags, defaults and report are those of `lmcache bench l2`, and objects are "
        "interchangeable with its adapters'; figures are given only for a run in which every key "
        "came out as it must, else the exit status is 1. Types: %s.",
        kvc_buffer_text(&types));
    const struct kvc_command_line line = {
        .usage = "kvconform bench l2 [OPTION…]",
        .about = about,
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments;
    size_t argument_count;
    int exit_status = KVC_EXIT_OK;
    if (kvc_options_parse(&line, argc, argv, &arguments, &argument_count, &exit_status))
        exit_status = run_flags(&flags);
    kvc_texts_clear(&flags.adapters);
    kvc_buffer_clear(&types);
    free(about);
    return exit_status;
}

const struct kvc_command kvc_command_bench_l2 = {
    .name = "l2",
    .summary = "store, lookup and load on the store below a server's own memory",
    .run = run_bench_l2,
};
