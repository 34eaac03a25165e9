/* `kvconform bench server`: the flags of `lmcache bench server`, and a report to trust. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "src/bench/server.h"
#include "src/cli/bench.h"
#include "src/report/file.h"

struct flags {
    struct kvc_target_flags target;
    const char *mode;
    const char *transfer_mode;
    const char *shape_spec;
    int64_t tp_size;
    bool use_mla;
    int64_t num_tokens;
    int64_t num_blocks;
    int64_t block_size;
    int64_t start;
    int64_t end;
    int64_t interval_ms;
    uint64_t seed; /* 0: drawn */
    const char *format;
    const char *output;
    bool quiet;
};

static const char *const modes[] = {"cpu", "gpu", NULL};
static const char *const formats[] = {"terminal", "json", NULL};

#define FLAG(member) offsetof(struct flags, member)

static const struct kvc_option options[] = {
    {.name = "mode",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(mode),
     .argument = "MODE",
     .choices = modes,
     .help = "where the KV cache lives: gpu (default) or cpu"},
    {.name = "transfer-mode",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(transfer_mode),
     .argument = "MODE",
     .help =
         "auto (default), engine_driven or lmcache_driven; not given: the environment variable " KVC_MODE_ENVIRONMENT
         " decides"},
    {.name = "tp-size",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(tp_size),
     .argument = "N",
     .minimum = 1,
     .help = "ranks, each registered as an instance of its own (default 1)"},
    {.name = "use-mla",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(use_mla),
     .help = "rank 0 stores and every rank retrieves the same objects; implied by a kv_size of 1"},
    {.name = "num-tokens",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(num_tokens),
     .argument = "N",
     .minimum = 1,
     .help = "tokens a request, besides the first one (default 512)"},
    {.name = "kvcache-shape-spec",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(shape_spec),
     .argument = "SPEC",
     .help = "(kv_size,NB,BS,NH,HS):dtype:layers[;...] (default (2,1024,16,8,128):float16:32)"},
    {.name = "num-blocks",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(num_blocks),
     .argument = "N",
     .minimum = 1,
     .help = "paged blocks, where the shape spec says 0 (default 1024)"},
    {.name = "block-size",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(block_size),
     .argument = "N",
     .minimum = 1,
     .help = "tokens a block, where the shape spec says 0 (default 16)"},
    {.name = "start",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(start),
     .argument = "N",
     .help = "first sequence number (default 0)"},
    {.name = "end",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(end),
     .argument = "N",
     .help = "last sequence number, exclusive; not given: runs until Ctrl-C"},
    {.name = "interval",
     .kind = KVC_OPTION_PAUSE,
     .offset = FLAG(interval_ms),
     .argument = "SECONDS",
     .help = "rest between passes (default 0.5)"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help = "of tokens, data and block ids (default: drawn, so that every run is cold)"},
    {.name = "format",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(format),
     .argument = "FORMAT",
     .choices = formats,
     .help = "of the report on stdout: terminal (default) or json"},
    {.name = "output",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(output),
     .argument = "FILE",
     .help = "write the report there as well"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no progress lines"},
};

/* The first signal ends the run after the step under way, so that the ranks still unregister; the
 * second one does not wait for replies any more. */
static volatile int stop;
static volatile int stop_waiting;
static volatile int stop_signal;

static void on_signal(int number)
{
    stop_waiting = stop;
    stop = 1;
    stop_signal = number;
}

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

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction bus_action = {.sa_handler = on_bus_error};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGBUS, &bus_action, NULL);
    signal(SIGPIPE, SIG_IGN); /* nobody reads on: the ranks unregister all the same */
    kvc_link_set_stop_flag(&stop_waiting);
}

static uint64_t drawn_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint64_t)time(NULL);
    return seed % (1u << 30) + 1;
}

/* The reference client's addresses, unless something else was said. */
static void set_default_addresses(struct kvc_target_flags *target)
{
    if (target->launch != NULL || target->defects.count > 0)
        return;
    if (target->rpc_url == NULL)
        target->rpc_url = "tcp://localhost:5555";
    if (target->url == NULL)
        target->url = "http://localhost:8080";
}

/* An unwritable place is found before the run, not after it. */
static kvc_status open_output(const char *path, struct kvc_report_file *file, struct kvc_error *err)
{
    *file = (struct kvc_report_file){0};
    if (path == NULL || kvc_report_file_open(path, file, err) == KVC_OK)
        return KVC_OK;
    kvc_error_set_where(err, "--output");
    return KVC_EUSAGE;
}

static kvc_status write_report(const struct flags *flags,
                               const struct kvc_bench_server_options *bench,
                               const struct kvc_bench_server_result *result,
                               struct kvc_report_file *file, struct kvc_error *err)
{
    struct kvc_buffer report = {0};
    if (strcmp(flags->format, "json") == 0)
        kvc_bench_server_write_json(bench, result, &report);
    else
        kvc_bench_server_write_terminal(bench, result, &report);
    kvc_status status = KVC_OK;
    if (fwrite(report.data, 1, report.size, stdout) != report.size || fflush(stdout) != 0)
        status = kvc_fail_errno(err, "cannot write the report to stdout");
    if (file->stream != NULL) {
        const kvc_status committed =
            kvc_report_file_commit(file, kvc_buffer_view(&report), status == KVC_OK ? err : NULL);
        status = status == KVC_OK ? committed : status;
    }
    kvc_buffer_clear(&report);
    return status;
}

static int run_on_target(const struct flags *flags, const struct kvc_target *target,
                         struct kvc_report_file *file)
{
    const struct kvc_bench_server_options bench = {
        .rpc_url = target->rpc_url,
        .http_url = target->http_url,
        .mode = flags->mode,
        .transfer_mode = flags->transfer_mode,
        .shape_spec = flags->shape_spec,
        .tp_size = flags->tp_size,
        .use_mla = flags->use_mla,
        .num_tokens = flags->num_tokens,
        .num_blocks = flags->num_blocks,
        .block_size = flags->block_size,
        .start = flags->start,
        .end = flags->end,
        .interval = (double)flags->interval_ms / 1000,
        .timeout_ms = target->options.timeout_ms,
        .connect_timeout_ms = target->options.connect_timeout_ms,
        .dialect = target->identity.dialect,
        .seed = flags->seed,
        /* The progress goes where the report does not: stdout stays a report that can be read. */
        .progress = flags->quiet ? NULL : stderr,
        .stop = &stop,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_server_result result;
    int exit_status;
    kvc_status status = kvc_bench_server_run(&bench, &result, &err);
    if (status == KVC_OK)
        status = write_report(flags, &bench, &result, file, &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    } else if (result.interrupted) {
        exit_status = 128 + stop_signal;
    } else if (result.lost) {
        struct kvc_error lost = KVC_ERROR_INIT;
        kvc_fail(&lost, KVC_ELOST, "the server does not answer any more");
        kvc_print_error(&lost);
        exit_status = KVC_EXIT_TARGET;
    } else {
        exit_status = kvc_bench_server_is_valid(&result) ? KVC_EXIT_OK : KVC_EXIT_UNEXPECTED;
    }
    kvc_bench_server_result_clear(&result);
    return exit_status;
}

static kvc_status check_flags(const struct flags *flags, struct kvc_error *err)
{
    if (flags->end >= 0 && flags->end <= flags->start)
        return kvc_fail(err, KVC_EUSAGE, "--end %lld: nothing to run, --start is %lld",
                        (long long)flags->end, (long long)flags->start);
    if (strcmp(flags->mode, "gpu") == 0)
        return kvc_fail(
            err, KVC_EUSAGE,
            "--mode gpu: the drivers of this version keep KV caches in CPU memory only; "
            "use --mode cpu");
    if (flags->num_tokens > INT32_MAX)
        return kvc_fail(err, KVC_EUSAGE, "--num-tokens %lld: at most %d can be asked for",
                        (long long)flags->num_tokens, INT32_MAX);
    enum kvc_transfer_mode mode;
    if (flags->transfer_mode != NULL)
        KVC_GUARD(kvc_mode_parse(kvc_str_of(flags->transfer_mode), &mode, err));
    struct kvc_geometry geometry;
    return kvc_geometry_parse_defaults(flags->shape_spec, flags->num_blocks, flags->block_size,
                                       &geometry, err);
}

static int run_flags(struct flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_target_options target_options;
    struct kvc_target target;
    struct kvc_report_file file;
    kvc_status status = check_flags(flags, &err);
    if (status == KVC_OK)
        status = kvc_target_flags_resolve(&flags->target, &target_options, &err);
    if (status == KVC_OK)
        status = kvc_target_init(&target_options, &target, &err);
    if (status == KVC_OK)
        status = open_output(flags->output, &file, &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        return kvc_exit_status(status);
    }
    catch_signals();
    kvc_segment_sweep();
    int exit_status;
    status = kvc_target_start(&target, NULL, &err);
    if (status == KVC_OK) {
        exit_status = run_on_target(flags, &target, &file);
    } else {
        kvc_print_error(&err);
        exit_status = kvc_exit_status(status);
    }
    kvc_target_stop(&target);
    kvc_report_file_close(&file);
    return exit_status;
}

static int run_bench_server(int argc, char **argv)
{
    struct flags flags = {.mode = "gpu",
                          .shape_spec = "(2,1024,16,8,128):float16:32",
                          .tp_size = 1,
                          .num_tokens = 512,
                          .num_blocks = 1024,
                          .block_size = 16,
                          .end = -1,
                          .interval_ms = 500,
                          .format = "terminal"};
    const struct kvc_option_group groups[] = {
        {"Bench", options, KVC_COUNT_OF(options), &flags},
        {"Target", kvc_target_flag_table, kvc_target_flag_count, &flags.target},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform bench server [OPTION…]",
        .about =
            "For each sequence number a cold pass (LOOKUP misses, STORE) and a warm pass (LOOKUP "
            "hits, RETRIEVE into other blocks), every element verified. Flags, defaults and report "
            "are those of `lmcache bench server`; figures are given only for a run in which "
            "everything came out, else the exit status is 1. Without a target: "
            "tcp://localhost:5555 and http://localhost:8080.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments;
    size_t argument_count;
    int exit_status = KVC_EXIT_OK;
    if (kvc_options_parse(&line, argc, argv, &arguments, &argument_count, &exit_status)) {
        set_default_addresses(&flags.target);
        if (flags.seed == 0)
            flags.seed = drawn_seed();
        exit_status = run_flags(&flags);
    }
    kvc_texts_clear(&flags.target.defects);
    return exit_status;
}

const struct kvc_command kvc_command_bench_server = {
    .name = "server",
    .summary = "cold and warm lookup, store and retrieve",
    .run = run_bench_server,
};
