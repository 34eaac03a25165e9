#include "src/cli/bench_l2_flags.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const operations[] = {"lookup", "store", "load", NULL};

static const char *const formats[] = {"terminal", "json", NULL};
static const char *const payloads[] = {"stamps", "fill", NULL};

#define FLAG(member) offsetof(struct kvc_l2_flags, member)

const struct kvc_option kvc_l2_flag_table[] = {
    {.name = "l2-adapter",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(adapters),
     .argument = "JSON",
     .help = "the adapter: a \"type\" and its members; of several, the first. Not given: the "
             "environment variable " KVC_L2_ADAPTER_ENVIRONMENT},
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
    {.name = "check",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(check),
     .help =
         "no figures: whether the store keeps what it is given, also when it is killed, full or "
         "gone"},
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
    KVC_FLAMEGRAPH_OPTIONS(
        FLAG(flamegraph),
        "on-cpu (default; perf), off-cpu, wakeup, offwake (bcc, as root); several "
        "are recorded at the same time",
        "ADAPTER"),
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "terminal (default) or json"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no progress lines"},
};
const size_t kvc_l2_flag_count = KVC_COUNT_OF(kvc_l2_flag_table);

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
static kvc_status check_sizes(const struct kvc_l2_flags *flags, struct kvc_error *err)
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
    if (flags->check && (flags->align & (flags->align - 1)) != 0)
        return kvc_fail(err, KVC_EUSAGE, "--l1-align-bytes %lld: with --check, give a power of two",
                        (long long)flags->align);
    if (flags->skip_verify && flags->no_skip_verify)
        return kvc_fail(err, KVC_EUSAGE, "give --skip-verify or --no-skip-verify, not both");
    return KVC_OK;
}

static kvc_status parse_adapter(const struct kvc_l2_flags *flags, struct kvc_l2_config *config,
                                struct kvc_error *err)
{
    const bool given = flags->adapters.count > 0;
    const char *json = given ? flags->adapters.items[0] : getenv(KVC_L2_ADAPTER_ENVIRONMENT);
    if (json == NULL || json[0] == '\0')
        return kvc_fail(err, KVC_EUSAGE,
                        "no adapter: give --l2-adapter JSON, or set " KVC_L2_ADAPTER_ENVIRONMENT);
    if (kvc_l2_config_parse(json, config, err) == KVC_OK)
        return KVC_OK;
    kvc_error_prepend_where(err, "%s%s", given ? "--l2-adapter" : KVC_L2_ADAPTER_ENVIRONMENT,
                            err->where[0] == '\0' ? "" : ": ");
    return KVC_EUSAGE;
}

uint32_t kvc_l2_flags_phases(const struct kvc_l2_flags *flags)
{
    static const uint32_t bits[] = {KVC_BENCH_L2_LOOKUP_BIT, KVC_BENCH_L2_STORE_BIT,
                                    KVC_BENCH_L2_LOAD_BIT};
    for (size_t i = 0; flags->only != NULL && operations[i] != NULL; i++)
        if (strcmp(flags->only, operations[i]) == 0)
            return bits[i];
    return KVC_BENCH_L2_STORE_BIT | KVC_BENCH_L2_LOOKUP_BIT | KVC_BENCH_L2_LOAD_BIT;
}

kvc_status kvc_l2_flags_resolve(const struct kvc_l2_flags *flags, struct kvc_l2_config *config,
                                double *hit_rate, struct kvc_error *err)
{
    KVC_GUARD(check_sizes(flags, err));
    const struct kvc_flamegraph_subject ourselves = {.pid_flag = NULL};
    KVC_GUARD(parse_rate(flags->lookup_max_hit_rate, hit_rate, err));
    KVC_GUARD(kvc_flamegraph_check(&flags->flamegraph, &ourselves, err));
    return parse_adapter(flags, config, err);
}
