/* `kvconform bench transfer`: the data path alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/bench.h"
#include "src/cli/stop.h"
#include "src/cli/transfer_flags.h"
#include "src/report/file.h"

static const struct {
    const char *name;
    void (*write)(const struct kvc_transfer_options *options,
                  const struct kvc_transfer_result *result, struct kvc_buffer *out);
} writers[] = {
    {"text", kvc_transfer_write_text},
    {"json", kvc_transfer_write_json},
    {"csv", kvc_transfer_write_csv},
};

static kvc_status write_report(const struct kvc_transfer_flags *flags,
                               const struct kvc_transfer_options *options,
                               const struct kvc_transfer_result *result,
                               struct kvc_report_file *file, struct kvc_error *err)
{
    struct kvc_buffer report = {0};
    for (size_t i = 0; i < KVC_COUNT_OF(writers); i++)
        if (strcmp(flags->format, writers[i].name) == 0)
            writers[i].write(options, result, &report);
    fwrite(report.data, 1, report.size, stdout); /* main() sees whether that failed */
    const kvc_status status =
        file->stream == NULL ? KVC_OK : kvc_report_file_commit(file, kvc_buffer_view(&report), err);
    kvc_buffer_clear(&report);
    return status;
}

static bool is_below(const struct kvc_transfer_row *row, const struct kvc_transfer_minimum *minimum)
{
    return strcmp(row->measure->operation, minimum->operation) == 0 &&
           strcmp(row->measure->version, "fast") == 0 && row->ratio.median < minimum->ratio;
}

/* One line for each row that is slower than it must be. Returns how many. */
static size_t report_slow_rows(const struct kvc_transfer_plan *plan,
                               const struct kvc_transfer_result *result)
{
    size_t slow = 0;
    for (size_t i = 0; i < result->row_count; i++) {
        const struct kvc_transfer_row *row = &result->rows[i];
        const struct kvc_transfer_case *made = row->bench_case;
        for (size_t j = 0; j < plan->minimum_count; j++) {
            if (!is_below(row, &plan->minimums[j]))
                continue;
            slow++;
            fprintf(
                stderr,
                "kvconform: %s of %s %lldx%lld %s, %lld bytes, threads %lld: %.2f x %s is below %g\n",
                row->measure->operation, kvc_layout_name(made->group.layout),
                (long long)made->group.num_heads, (long long)made->group.head_size,
                made->group.dtype->name, (long long)kvc_transfer_case_bytes(made),
                (long long)made->threads, row->ratio.median, row->measure->baseline,
                plan->minimums[j].ratio);
        }
    }
    return slow;
}

static int run_plan(const struct kvc_transfer_flags *flags, struct kvc_transfer_plan *plan,
                    struct kvc_report_file *file)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_transfer_result result = {.row_count = 0};
    int exit_status = KVC_EXIT_OK;
    kvc_stop_catch();
    plan->options.stop = &kvc_stop_signal;
    kvc_status status = kvc_transfer_run(&plan->options, &result, &err);
    if (status == KVC_OK)
        status = write_report(flags, &plan->options, &result, file, &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    } else if (result.interrupted) {
        exit_status = kvc_stop_exit_status();
    } else if (report_slow_rows(plan, &result) > 0) {
        exit_status = KVC_EXIT_UNEXPECTED;
    }
    kvc_transfer_result_clear(&result);
    return exit_status;
}

static int run_flags(const struct kvc_transfer_flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_transfer_plan plan;
    struct kvc_report_file file = {0};
    int exit_status;
    kvc_status status = kvc_transfer_flags_resolve(flags, &plan, &err);
    if (status == KVC_OK && flags->output != NULL) {
        status = kvc_report_file_open(flags->output, &file, &err);
        if (status != KVC_OK)
            kvc_error_set_where(&err, "--output");
    }
    if (status == KVC_OK) {
        exit_status = run_plan(flags, &plan, &file);
    } else {
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    }
    kvc_report_file_close(&file);
    free(plan.cases);
    return exit_status;
}

static int run_bench_transfer(int argc, char **argv)
{
    struct kvc_transfer_flags flags;
    kvc_transfer_flags_init(&flags);
    const struct kvc_option_group groups[] = {
        {"Bench", kvc_transfer_flag_table, kvc_transfer_flag_count, &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform bench transfer [OPTION…]",
        .about = "The data path alone, without a server: gather, scatter, the stamps written and "
                 "checked, the digest; each beside memcpy, memcmp or MD5 of as many bytes in the "
                 "same memory, in the same round.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments;
    size_t argument_count;
    int exit_status = KVC_EXIT_OK;
    if (kvc_options_parse(&line, argc, argv, &arguments, &argument_count, &exit_status))
        exit_status = run_flags(&flags);
    return exit_status;
}

const struct kvc_command kvc_command_bench_transfer = {
    .name = "transfer",
    .summary = "gather, scatter, stamps and digest alone, beside memcpy",
    .run = run_bench_transfer,
};
