/* The flags of `kvconform bench server`: those of `lmcache bench server`, and more. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "src/cli/bench_flags.h"

enum { MAX_CLIENTS = 256 };

static const char *const modes[] = {"cpu", "gpu", NULL};
static const char *const formats[] = {"terminal", "json", NULL};

#define FLAG(member) offsetof(struct kvc_bench_flags, member)

static const struct kvc_option shape_options[] = {
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
     .help = "closed loop: rest between passes and between requests (default 0.5)"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help = "of tokens, data and block ids (default: drawn, so that every run is cold)"},
};

static const struct kvc_option load_options[] = {
    {.name = "workload",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(workload),
     .argument = "NAME",
     .help =
         "what a request is: pair (default: lookup that misses, store, lookup that hits, "
         "retrieve), store, retrieve (of what was stored beforehand), lookup (hits and misses in "
         "turn), prefix (lookup, retrieve a shared beginning, store the rest); or several with "
         "weights: store:1,retrieve:4"},
    {.name = "clients",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(clients),
     .argument = "N",
     .minimum = 1,
     .help = "connections that make requests at once, each with KV caches of its own (default 1)"},
    {.name = "rate",
     .kind = KVC_OPTION_RATE,
     .offset = FLAG(rate),
     .argument = "R",
     .help = "open loop: R requests a second, of all clients together, whether or not earlier ones "
             "are answered; latencies count from the moment a request was due"},
    {.name = "duration",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(duration_ms),
     .argument = "SECONDS",
     .help = "how long requests are made, unless --end comes first"},
    {.name = "warmup",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(warmup),
     .argument = "N",
     .help = "requests made beforehand and not counted (default 0)"},
    {.name = "prepared",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(prepared),
     .argument = "N",
     .minimum = 1,
     .help = "requests that each client stores beforehand for retrieve and lookup (default 4)"},
    {.name = "shared-tokens",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(shared_tokens),
     .argument = "N",
     .minimum = 1,
     .help = "tokens that the requests of prefix share, rounded down to chunks (default: half of "
             "the chunks)"},
    {.name = "ramp",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(ramp),
     .argument = "LIMIT",
     .help =
         "search the highest rate that keeps a limit, such as 'warm_retrieve.p99<=20ms'; starts "
         "at --rate (default 1)"},
    {.name = "ramp-step",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(ramp_step_ms),
     .argument = "SECONDS",
     .help = "how long each rate is tried (default 5)"},
};

static const struct kvc_option report_options[] = {
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "terminal (default) or json"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
    {.name = "csv",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(csv),
     .argument = "FILE",
     .help = "write the figures there as a table, a row an operation"},
    {.name = "html",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(html),
     .argument = "FILE",
     .help = "write a page with plots there"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no progress, and no report on stdout: only the exit status, and the files"},
};

static const struct kvc_option profile_options[] = {
    {.name = "profile-server-pid",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(flamegraph.pid),
     .argument = "PID",
     .minimum = 1,
     .help = "the server's process; a server that is started here is known"},
    KVC_FLAMEGRAPH_OPTIONS(FLAG(flamegraph), KVC_FLAMEGRAPH_MODES " (default gil)",
                           "server-pidPID"),
};

void kvc_bench_flags_init(struct kvc_bench_flags *flags)
{
    *flags = (struct kvc_bench_flags){
        .mode = "gpu",
        .shape_spec = "(2,1024,16,8,128):float16:32",
        .tp_size = 1,
        .num_tokens = 512,
        .num_blocks = 1024,
        .block_size = 16,
        .end = -1,
        .interval_ms = 500,
        .workload = "pair",
        .clients = 1,
        .prepared = 4,
        .ramp_step_ms = 5000,
        .flamegraph = {.on = "off", .modes = "gil"},
        .format = "terminal",
    };
}

void kvc_bench_flags_groups(struct kvc_bench_flags *flags,
                            struct kvc_option_group groups[KVC_BENCH_GROUP_COUNT])
{
    groups[0] =
        (struct kvc_option_group){"Bench", shape_options, KVC_COUNT_OF(shape_options), flags};
    groups[1] = (struct kvc_option_group){"Load", load_options, KVC_COUNT_OF(load_options), flags};
    groups[2] =
        (struct kvc_option_group){"Report", report_options, KVC_COUNT_OF(report_options), flags};
    groups[3] =
        (struct kvc_option_group){"Profile", profile_options, KVC_COUNT_OF(profile_options), flags};
    groups[4] = kvc_target_flag_group(true, &flags->target);
}

static kvc_status check_amounts(const struct kvc_bench_flags *flags, struct kvc_error *err)
{
    if (flags->end >= 0 && flags->end <= flags->start)
        return kvc_fail(err, KVC_EUSAGE, "--end %lld: nothing to run, --start is %lld",
                        (long long)flags->end, (long long)flags->start);
    if (flags->num_tokens > INT32_MAX)
        return kvc_fail(err, KVC_EUSAGE, "--num-tokens %lld: at most %d can be asked for",
                        (long long)flags->num_tokens, INT32_MAX);
    if (flags->clients > MAX_CLIENTS)
        return kvc_fail(err, KVC_EUSAGE, "--clients %lld: at most %d can be open",
                        (long long)flags->clients, MAX_CLIENTS);
    if (flags->ramp != NULL && (flags->end >= 0 || flags->duration_ms > 0))
        return kvc_fail(err, KVC_EUSAGE,
                        "--ramp tries each rate for --ramp-step seconds: leave out %s",
                        flags->end >= 0 ? "--end" : "--duration");
    return KVC_OK;
}

static kvc_status check_kv_cache(const struct kvc_bench_flags *flags, struct kvc_error *err)
{
    struct kvc_error why = KVC_ERROR_INIT;
    if (strcmp(flags->mode, "gpu") == 0 && kvc_device_cuda.probe(NULL, &why) != KVC_OK)
        return kvc_fail(err, KVC_EUSAGE, "--mode gpu: %s; --mode cpu needs no GPU", why.what);
    enum kvc_transfer_mode mode;
    if (flags->transfer_mode != NULL)
        KVC_GUARD(kvc_mode_parse(kvc_str_of(flags->transfer_mode), &mode, err));
    struct kvc_geometry geometry;
    const kvc_status status = kvc_geometry_parse_defaults(flags->shape_spec, flags->num_blocks,
                                                          flags->block_size, &geometry, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, "--kvcache-shape-spec: ");
    return status;
}

static kvc_status resolve_load(const struct kvc_bench_flags *flags,
                               struct kvc_bench_server_options *options,
                               struct kvc_ramp_limit *limit, struct kvc_error *err)
{
    if (kvc_bench_mix_parse(flags->workload, &options->mix, err) != KVC_OK)
        return kvc_error_set_where(err, "--workload");
    if (flags->ramp == NULL)
        return KVC_OK;
    kvc_status status = kvc_ramp_limit_parse(flags->ramp, limit, err);
    if (status == KVC_OK)
        status = kvc_bench_mix_check_limit(&options->mix, limit, err);
    if (status != KVC_OK)
        return kvc_error_set_where(err, "--ramp");
    options->ramp = limit;
    return KVC_OK;
}

kvc_status kvc_bench_flags_resolve(const struct kvc_bench_flags *flags,
                                   struct kvc_bench_server_options *options,
                                   struct kvc_ramp_limit *limit, struct kvc_error *err)
{
    *options = (struct kvc_bench_server_options){
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
        .workload = flags->workload,
        .clients = flags->clients,
        .rate = flags->rate,
        .warmup = flags->warmup,
        .duration_ms = flags->duration_ms,
        .prepared = flags->prepared,
        .shared_tokens = flags->shared_tokens,
        .ramp_step_ms = flags->ramp_step_ms,
        .seed = flags->seed,
    };
    KVC_GUARD(check_amounts(flags, err));
    KVC_GUARD(check_kv_cache(flags, err));
    const struct kvc_flamegraph_subject server = {
        .pid_flag = "--profile-server-pid",
        .is_started_here = flags->target.launch != NULL || flags->target.defects.count > 0};
    KVC_GUARD(kvc_flamegraph_check(&flags->flamegraph, &server, err));
    return resolve_load(flags, options, limit, err);
}
