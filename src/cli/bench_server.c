/* `kvconform bench server`: the flags of `lmcache bench server`, and a report to trust. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "src/cli/bench.h"
#include "src/cli/bench_flags.h"
#include "src/cli/stop.h"
#include "src/report/file.h"

/* A server can cut off a segment that it shares with us at any time; whoever touches it then gets
 * SIGBUS. */
static void on_bus_error(int number)
{
    static const char text[] =
        "kvconform: memory shared with the server is gone: a segment was cut "
        "off while it was in use\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)number, (void)written;
    kvc_segment_sweep_pid(getpid());
    _exit(KVC_EXIT_UNEXPECTED);
}

/* The first signal ends the run after the step under way, so that the ranks still unregister; the
 * second one does not wait for replies any more. */
static void catch_signals(void)
{
    struct sigaction bus_action = {.sa_handler = on_bus_error};
    sigaction(SIGBUS, &bus_action, NULL);
    kvc_stop_catch();
    kvc_link_set_stop_flag(&kvc_stop_again);
}

static uint64_t drawn_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)time(NULL);
    return seed % (1u << 30) + 1;
}

/* The reference client's addresses, unless something else was said. */
static void set_default_addresses(struct kvc_target_options *target)
{
    if (target->launch != NULL || target->defects != NULL)
        return;
    if (target->rpc_url == NULL)
        target->rpc_url = "tcp://localhost:5555";
    target->http_is_default = target->http_url == NULL;
    if (target->http_is_default)
        target->http_url = "http://localhost:8080";
}

/* Nobody gave the address at which there is no server. */
static void explain_default(const struct kvc_target_flags *flags, struct kvc_error *err)
{
    if (flags->rpc_url != NULL || flags->launch != NULL || flags->defects.count > 0 ||
        err->status != KVC_ECONNECT)
        return;
    kvc_error_append(
        err, "; that is where LMCache serves by default: give --rpc-url or --launch for another "
             "server, and start `kvconform mock` for the bundled one");
}

typedef void write_func(const struct kvc_bench_server_options *options,
                        const struct kvc_bench_server_result *result, struct kvc_buffer *out);

static write_func *form_of(const struct kvc_bench_flags *flags)
{
    return strcmp(flags->format, "json") == 0 ? kvc_bench_server_write_json
                                              : kvc_bench_server_write_terminal;
}

/* The files that were asked for, each in a form of its own. */
enum { OUTPUT, CSV, HTML, FILE_COUNT };

struct files {
    struct kvc_report_file items[FILE_COUNT]; /* without a stream: not asked for */
    write_func *write[FILE_COUNT];
};

/* An unwritable place is found before the run, not after it. Afterwards close_files in any case. */
static kvc_status open_files(const struct kvc_bench_flags *flags, struct files *files,
                             struct kvc_error *err)
{
    const struct {
        const char *flag, *path;
        write_func *write;
    } wanted[FILE_COUNT] = {
        [OUTPUT] = {"--output", flags->output, form_of(flags)},
        [CSV] = {"--csv", flags->csv, kvc_bench_server_write_csv},
        [HTML] = {"--html", flags->html, kvc_bench_server_write_html},
    };
    for (size_t i = 0; i < FILE_COUNT; i++) {
        files->write[i] = wanted[i].write;
        if (wanted[i].path == NULL ||
            kvc_report_file_open(wanted[i].path, &files->items[i], err) == KVC_OK)
            continue;
        kvc_error_set_where(err, "%s", wanted[i].flag);
        return KVC_EUSAGE;
    }
    return KVC_OK;
}

static void close_files(struct files *files)
{
    for (size_t i = 0; i < FILE_COUNT; i++)
        kvc_report_file_close(&files->items[i]);
}

static kvc_status write_stdout(write_func *write, const struct kvc_bench_server_options *options,
                               const struct kvc_bench_server_result *result, struct kvc_error *err)
{
    struct kvc_buffer report = {0};
    kvc_status status = KVC_OK;
    write(options, result, &report);
    if (fwrite(report.data, 1, report.size, stdout) != report.size || fflush(stdout) != 0)
        status = kvc_fail_errno(err, "cannot write the report to stdout");
    kvc_buffer_clear(&report);
    return status;
}

/* Every report, also when an earlier one could not be written; *err is of the first that could not. */
static kvc_status write_reports(const struct kvc_bench_flags *flags,
                                const struct kvc_bench_server_options *options,
                                const struct kvc_bench_server_result *result, struct files *files,
                                struct kvc_error *err)
{
    kvc_status status = flags->quiet ? KVC_OK : write_stdout(form_of(flags), options, result, err);
    for (size_t i = 0; i < FILE_COUNT; i++) {
        struct kvc_buffer report = {0};
        if (files->items[i].stream == NULL)
            continue;
        files->write[i](options, result, &report);
        const kvc_status committed = kvc_report_file_commit(
            &files->items[i], kvc_buffer_view(&report), status == KVC_OK ? err : NULL);
        status = status == KVC_OK ? committed : status;
        kvc_buffer_clear(&report);
    }
    return status;
}

/* Without a report a failure still has its line. */
static void tell_problem(const struct kvc_bench_server_result *result)
{
    struct kvc_error problem = KVC_ERROR_INIT;
    kvc_fail(&problem, KVC_EMISMATCH, "%s",
             result->first_problem[0] != '\0' ? result->first_problem
                                              : "not every request came out as it must");
    kvc_print_error(&problem);
}

/* What the result says to a script. */
static int status_of(const struct kvc_bench_server_result *result, bool quiet)
{
    if (result->interrupted)
        return kvc_stop_exit_status();
    if (!result->lost && kvc_bench_server_is_valid(result))
        return KVC_EXIT_OK;
    if (!result->lost) {
        if (quiet)
            tell_problem(result);
        return KVC_EXIT_UNEXPECTED;
    }
    struct kvc_error lost = KVC_ERROR_INIT;
    kvc_fail(&lost, KVC_ELOST, "the server does not answer any more");
    kvc_print_error(&lost);
    return KVC_EXIT_TARGET;
}

static void set_target(const struct kvc_target *target, struct kvc_bench_server_options *options)
{
    options->rpc_url = target->rpc_url;
    options->http_url = target->http_url;
    options->timeout_ms = target->options.timeout_ms;
    options->connect_timeout_ms = target->options.connect_timeout_ms;
    options->dialect = target->identity.dialect;
}

static kvc_status open_flamegraph(const struct kvc_bench_flags *flags,
                                  const struct kvc_target *target,
                                  struct kvc_flamegraph *flamegraph, struct kvc_error *err)
{
    const pid_t server = flags->flamegraph.pid > 0 ? (pid_t)flags->flamegraph.pid
                                                   : kvc_flamegraph_worker(target->process);
    char label[40];
    snprintf(label, sizeof(label), "server-pid%d", (int)server);
    return kvc_flamegraph_open(&flags->flamegraph, server, label, flamegraph, err);
}

static int run_on_target(const struct kvc_bench_flags *flags,
                         struct kvc_bench_server_options *options, const struct kvc_target *target,
                         struct files *files)
{
    set_target(target, options);
    /* The progress goes where the report does not: stdout stays a report that can be read. */
    options->progress = flags->quiet ? NULL : stderr;
    options->live = isatty(STDERR_FILENO) == 1;
    options->stop = &kvc_stop_signal;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_server_result result = {0};
    struct kvc_flamegraph flamegraph = {0};
    options->flames = &flamegraph.flames;
    kvc_status status = open_flamegraph(flags, target, &flamegraph, &err);
    if (status == KVC_OK)
        status = kvc_bench_server_run(options, &result, &err);
    if (status == KVC_OK)
        status = write_reports(flags, options, &result, files, &err);
    if (status == KVC_OK)
        status = kvc_flamegraph_draw(&flamegraph, "bench server", options->progress, &err);
    if (status != KVC_OK)
        kvc_print_error(&err);
    const int exit_status =
        status != KVC_OK ? kvc_exit_status(status) : status_of(&result, flags->quiet);
    kvc_flamegraph_close(&flamegraph);
    kvc_bench_server_result_clear(&result);
    return exit_status;
}

static int run_with_flags(struct kvc_bench_flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_server_options options;
    struct kvc_ramp_limit limit;
    struct kvc_target_options target_options;
    struct kvc_target target;
    struct files files = {0};
    kvc_status status = kvc_bench_flags_resolve(flags, &options, &limit, &err);
    if (status == KVC_OK)
        status = kvc_target_flags_resolve(&flags->target, &target_options, &err);
    if (status == KVC_OK) {
        set_default_addresses(&target_options);
        status = kvc_target_init(&target_options, &target, &err);
    }
    if (status == KVC_OK)
        status = open_files(flags, &files, &err);
    if (status != KVC_OK) {
        close_files(&files);
        kvc_print_error(&err);
        return kvc_exit_status(status);
    }
    catch_signals();
    kvc_segment_sweep();
    int exit_status;
    status = kvc_target_start(&target, NULL, &err);
    if (status == KVC_OK) {
        exit_status = run_on_target(flags, &options, &target, &files);
    } else {
        explain_default(&flags->target, &err);
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    }
    kvc_target_clear(&target);
    close_files(&files);
    return exit_status;
}

static int run_bench_server(int argc, char **argv)
{
    struct kvc_bench_flags flags;
    struct kvc_option_group groups[KVC_BENCH_GROUP_COUNT];
    kvc_bench_flags_init(&flags);
    kvc_bench_flags_groups(&flags, groups);
    const struct kvc_command_line line = {
        .usage = "kvconform bench server [OPTION…]",
        .about =
            "For each sequence number a request, by default a cold pass (LOOKUP misses, STORE) and a "
            "warm pass (LOOKUP hits, RETRIEVE into other blocks), every element verified. Flags, "
            "defaults and report are those of `lmcache bench server`, and more; figures are given "
            "only for a run in which everything came out, else the exit status is 1. Without a "
            "target: tcp://localhost:5555 and http://localhost:8080.",
        .groups = groups,
        .group_count = KVC_BENCH_GROUP_COUNT,
    };
    char **arguments;
    size_t argument_count;
    int exit_status = KVC_EXIT_OK;
    if (kvc_options_parse(&line, argc, argv, &arguments, &argument_count, &exit_status)) {
        if (flags.seed == 0)
            flags.seed = drawn_seed();
        exit_status = run_with_flags(&flags);
    }
    kvc_target_flags_clear(&flags.target);
    return exit_status;
}

const struct kvc_command kvc_command_bench_server = {
    .name = "server",
    .summary = "lookup, store and retrieve: latency and throughput, closed loop or at a rate",
    .run = run_bench_server,
};
