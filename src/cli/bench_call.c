/* `kvconform bench call`: what one small call costs. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/bench/call.h"
#include "src/cli/bench.h"
#include "src/cli/stop.h"
#include "src/link/client.h"
#include "src/report/file.h"

struct flags {
    struct kvc_target_flags target;
    int64_t rounds;
    int64_t calls;
    const char *format;
    const char *output;
};

static const char *const formats[] = {"terminal", "json", NULL};

#define FLAG(member) offsetof(struct flags, member)

static const struct kvc_option options[] = {
    {.name = "rounds",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(rounds),
     .argument = "N",
     .minimum = 1,
     .help = "how often each way of calling is measured, in turn (default 20)"},
    {.name = "calls",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(calls),
     .argument = "N",
     .minimum = 1,
     .help = "calls of each way in a round (default 500)"},
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "terminal (default) or json"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
};

static kvc_status check_flags(const struct flags *flags, struct kvc_error *err)
{
    enum { MOST = 1000000 };
    if (flags->rounds > MOST || flags->calls > MOST)
        return kvc_fail(err, KVC_EUSAGE, "--%s %lld: at most %d",
                        flags->rounds > MOST ? "rounds" : "calls",
                        (long long)(flags->rounds > MOST ? flags->rounds : flags->calls), MOST);
    return KVC_OK;
}

static kvc_status measure(const struct flags *flags, const struct kvc_target *target,
                          struct kvc_report_file *file, struct kvc_error *err)
{
    const struct kvc_bench_call_options bench = {
        .rpc_url = target->rpc_url,
        .dialect = target->identity.dialect,
        .rounds = flags->rounds,
        .calls = flags->calls,
        .timeout_ms = target->options.timeout_ms,
        .connect_timeout_ms = target->options.connect_timeout_ms,
    };
    struct kvc_bench_call_result result;
    struct kvc_buffer report = {0};
    KVC_GUARD(kvc_bench_call_run(&bench, &result, err));
    if (strcmp(flags->format, "json") == 0)
        kvc_bench_call_write_json(&bench, &result, &report);
    else
        kvc_bench_call_write_terminal(&bench, &result, &report);
    fwrite(report.data, 1, report.size, stdout); /* main() sees whether that failed */
    const kvc_status status =
        file->stream == NULL ? KVC_OK : kvc_report_file_commit(file, kvc_buffer_view(&report), err);
    kvc_buffer_clear(&report);
    return status;
}

static int run_flags(const struct flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_target_options target_options;
    struct kvc_target target;
    struct kvc_report_file file = {0};
    kvc_status status = check_flags(flags, &err);
    if (status == KVC_OK)
        status = kvc_target_flags_resolve(&flags->target, &target_options, &err);
    if (status == KVC_OK)
        status = kvc_target_init(&target_options, &target, &err);
    if (status == KVC_OK && flags->output != NULL) {
        status = kvc_report_file_open(flags->output, &file, &err);
        if (status != KVC_OK)
            kvc_error_set_where(&err, "--output");
    }
    if (status == KVC_OK) {
        kvc_stop_catch();
        kvc_link_set_stop_flag(&kvc_stop_signal);
        status = kvc_target_start(&target, NULL, &err);
        if (status == KVC_OK)
            status = measure(flags, &target, &file, &err);
        kvc_target_clear(&target);
    }
    kvc_report_file_close(&file);
    if (status == KVC_OK)
        return KVC_EXIT_OK;
    kvc_print_error(&err);
    return kvc_stop_signal != 0 ? kvc_stop_exit_status() : kvc_exit_status(status);
}

static int run_bench_call(int argc, char **argv)
{
    struct flags flags = {.rounds = 20, .calls = 500, .format = "terminal"};
    const struct kvc_option_group groups[] = {
        {"Bench", options, KVC_COUNT_OF(options), &flags},
        kvc_target_flag_group(true, &flags.target),
    };
    const struct kvc_command_line line = {
        .usage = "kvconform bench call [OPTION…]",
        .about =
            "What one small call (NOOP) costs: by this program's client, by libzmq alone, and by "
            "libzmq alone to a peer that only sends everything back; one call at a time. Without "
            "a target: the bundled mock server.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments;
    size_t argument_count;
    int exit_status = KVC_EXIT_OK;
    if (kvc_options_parse(&line, argc, argv, &arguments, &argument_count, &exit_status))
        exit_status = run_flags(&flags);
    kvc_target_flags_clear(&flags.target);
    return exit_status;
}

const struct kvc_command kvc_command_bench_call = {
    .name = "call",
    .summary = "what one small call costs, beside libzmq alone",
    .run = run_bench_call,
};
