/* `kvconform bench l2`: the flags of `lmcache bench l2`, and a report to trust. */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/l2.h"
#include "src/cli/bench.h"
#include "src/report/file.h"

#define ADAPTER_ENVIRONMENT "L2_ADAPTER_JSON"

struct flags {
    struct kvc_texts adapters;
    int64_t num_keys;
    int64_t in_flight;
    int64_t data_size_kb;
    int64_t align;
    bool hugepages;
    int64_t rounds;
    int64_t warmup_rounds;
    const char *lookup_max_hit_rate;
    bool skip_verify;
    bool no_skip_verify;
    const char *only;
    int64_t threads;
    int64_t timeout_ms;
    const char *payload;
    uint64_t seed;
    const char *format;
    const char *output;
    bool quiet;
};

static const char *const operations[] = {"lookup", "store", "load", NULL};
static const char *const formats[] = {"terminal", "json", NULL};
static const char *const payloads[] = {"stamps", "fill", NULL};

#define FLAG(member) offsetof(struct flags, member)

static const struct kvc_option options[] = {
    {.name = "l2-adapter",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(adapters),
     .argument = "JSON",
     .help = "the adapter: a \"type\" and its members; of several, the first. Not given: the "
             "environment variable " ADAPTER_ENVIRONMENT},
    {.name = "num-keys",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(num_keys),
     .argument = "N",
     .minimum = 1,
     .help = "keys a submit (default 32)"},
    {.name = "in-flight",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(in_flight),
     .argument = "N",
     .minimum = 1,
     .help = "submits a round, made one after the other and waited for together (default 1)"},
    {.name = "data-size-kb",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(data_size_kb),
     .argument = "N",
     .minimum = 1,
     .help = "KiB a key (default 256)"},
    {.name = "l1-align-bytes",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(align),
     .argument = "N",
     .minimum = 1,
     .help = "alignment of the buffers; the data size must be a multiple of it. 4096 for stores "
             "that bypass the page cache (default 1)"},
    {.name = "l1-use-hugepages",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(hugepages),
     .help = "buffers in 2 MiB pages of the pool that sysctl vm.nr_hugepages sets aside"},
    {.name = "rounds",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(rounds),
     .argument = "N",
     .minimum = 1,
     .help = "measured rounds an operation (default 1)"},
    {.name = "warmup-rounds",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(warmup_rounds),
     .argument = "N",
     .help = "rounds before them, in no figure (default 1)"},
    {.name = "lookup-max-hit-rate",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(lookup_max_hit_rate),
     .argument = "F",
     .help = "share, from 0 to 1, of the keys looked up that may be there; the others are ones "
             "that no operation stores (default 0)"},
    {.name = "skip-verify",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(skip_verify),
     .help = "do not look at the bytes that were loaded (the default)"},
    {.name = "no-skip-verify",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(no_skip_verify),
     .help = "compare every byte that was loaded, outside the time measured"},
    {.name = "only",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(only),
     .argument = "OPERATION",
     .choices = operations,
     .help = "lookup, store or load alone; not given: store, lookup, load"},
    {.name = "threads",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(threads),
     .argument = "N",
     .minimum = 1,
     .help = "that work on the store (default: what the adapter's members say, else one a "
             "processor)"},
    {.name = "timeout",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(timeout_ms),
     .argument = "SECONDS",
     .help = "for a round (default 120)"},
    {.name = "payload",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(payload),
     .argument = "KIND",
     .choices = payloads,
     .help = "stamps: every eight bytes say which key and place they belong to (default); fill: "
             "what `lmcache bench l2` writes"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help = "of the stamps (default 0)"},
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

static volatile int stop;
static volatile int stop_signal;

static void on_signal(int number)
{
    stop = 1;
    stop_signal = number;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a store that hangs up is an error of its lane */
}

/* ---- flags ---- */

static kvc_status parse_rate(const char *text, double *rate, struct kvc_error *err)
{
    char *end = NULL;
    *rate = strtod(text, &end);
    if (end != text && *end == '\0' && *rate >= 0 && *rate <= 1)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted: give a share from 0 to 1", text);
    return kvc_error_set_where(err, "--lookup-max-hit-rate");
}

/* Products stay far below what 64 bits hold, and key numbers below 2^32. */
static kvc_status check_sizes(const struct flags *flags, struct kvc_error *err)
{
    enum { MOST_KB = 1 << 25 };
    const double rounds = (double)flags->rounds + (double)flags->warmup_rounds;
    const double keys = (double)flags->num_keys * (double)flags->in_flight;
    if (rounds * keys > KVC_BENCH_L2_MOST_KEYS)
        return kvc_fail(err, KVC_EUSAGE,
                        "--num-keys x --in-flight x all rounds is %.0f keys; at most %d are "
                        "supported",
                        rounds * keys, KVC_BENCH_L2_MOST_KEYS);
    if (flags->data_size_kb > MOST_KB)
        return kvc_fail(err, KVC_EUSAGE, "--data-size-kb %lld: at most %d are supported",
                        (long long)flags->data_size_kb, MOST_KB);
    if (flags->data_size_kb * 1024 % flags->align != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--data-size-kb %lld: its bytes are no multiple of --l1-align-bytes %lld",
                        (long long)flags->data_size_kb, (long long)flags->align);
    if (flags->skip_verify && flags->no_skip_verify)
        return kvc_fail(err, KVC_EUSAGE, "give --skip-verify or --no-skip-verify, not both");
    return KVC_OK;
}

static kvc_status parse_adapter(const struct flags *flags, struct kvc_l2_config *config,
                                struct kvc_error *err)
{
    const bool given = flags->adapters.count > 0;
    const char *json = given ? flags->adapters.items[0] : getenv(ADAPTER_ENVIRONMENT);
    if (json == NULL || json[0] == '\0')
        return kvc_fail(err, KVC_EUSAGE,
                        "no adapter: give --l2-adapter JSON, or set " ADAPTER_ENVIRONMENT);
    if (kvc_l2_config_parse(json, config, err) == KVC_OK)
        return KVC_OK;
    kvc_error_prepend_where(err, "%s%s", given ? "--l2-adapter" : ADAPTER_ENVIRONMENT,
                            err->where[0] == '\0' ? "" : ": ");
    return KVC_EUSAGE;
}

static uint32_t phases_of(const char *only)
{
    static const uint32_t bits[] = {KVC_BENCH_L2_LOOKUP_BIT, KVC_BENCH_L2_STORE_BIT,
                                    KVC_BENCH_L2_LOAD_BIT};
    for (size_t i = 0; only != NULL && operations[i] != NULL; i++)
        if (strcmp(only, operations[i]) == 0)
            return bits[i];
    return KVC_BENCH_L2_STORE_BIT | KVC_BENCH_L2_LOOKUP_BIT | KVC_BENCH_L2_LOAD_BIT;
}

/* ---- running ---- */

static kvc_status write_report(const struct flags *flags, const struct kvc_bench_l2_options *bench,
                               const struct kvc_bench_l2_result *result,
                               struct kvc_report_file *file, struct kvc_error *err)
{
    struct kvc_buffer report = {0};
    if (strcmp(flags->format, "json") == 0)
        kvc_bench_l2_write_json(bench, result, &report);
    else
        kvc_bench_l2_write_terminal(bench, result, &report);
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

static int run_on_adapter(const struct flags *flags, const struct kvc_l2_config *config,
                          double hit_rate, struct kvc_report_file *file)
{
    const struct kvc_bench_l2_options bench = {
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
        .phases = phases_of(flags->only),
        .lanes = flags->threads,
        .timeout_ms = flags->timeout_ms,
        .payload = strcmp(flags->payload, "fill") == 0 ? KVC_L2_FILL : KVC_L2_STAMPS,
        .seed = flags->seed,
        /* The progress goes where the report does not: stdout stays a report that can be read. */
        .progress = flags->quiet ? NULL : stderr,
        .stop = &stop,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_l2_result result;
    int exit_status = KVC_EXIT_UNEXPECTED;
    kvc_status status = kvc_bench_l2_run(&bench, &result, &err);
    if (status == KVC_OK)
        status = write_report(flags, &bench, &result, file, &err);
    if (status != KVC_OK) {
        if (err.where[0] != '\0' && status == KVC_EUSAGE)
            kvc_error_prepend_where(&err, "--l2-adapter: ");
        kvc_print_error(&err);
        exit_status = status == KVC_EUSAGE ? KVC_EXIT_USAGE : KVC_EXIT_UNEXPECTED;
    } else if (result.interrupted) {
        exit_status = 128 + stop_signal;
    } else if (kvc_bench_l2_is_valid(&bench, &result)) {
        exit_status = KVC_EXIT_OK;
    }
    kvc_bench_l2_result_clear(&result);
    return exit_status;
}

static int run_flags(const struct flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_l2_config config = {0};
    struct kvc_report_file file = {0};
    double hit_rate = 0;
    int exit_status;
    kvc_status status = check_sizes(flags, &err);
    if (status == KVC_OK)
        status = parse_rate(flags->lookup_max_hit_rate, &hit_rate, &err);
    if (status == KVC_OK)
        status = parse_adapter(flags, &config, &err);
    /* An unwritable place is found before the run, not after it. */
    if (status == KVC_OK && flags->output != NULL &&
        kvc_report_file_open(flags->output, &file, &err) != KVC_OK) {
        kvc_error_set_where(&err, "--output");
        status = KVC_EUSAGE;
    }
    if (status == KVC_OK) {
        catch_signals();
        exit_status = run_on_adapter(flags, &config, hit_rate, &file);
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
    struct flags flags = {.num_keys = 32,
                          .in_flight = 1,
                          .data_size_kb = 256,
                          .align = 1,
                          .rounds = 1,
                          .warmup_rounds = 1,
                          .lookup_max_hit_rate = "0",
                          .timeout_ms = 120000,
                          .payload = "stamps",
                          .format = "terminal"};
    const struct kvc_option_group groups[] = {
        {"Bench", options, KVC_COUNT_OF(options), &flags},
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
