/* The flags of `kvconform bench l2`, and what they mean. For src/cli/bench_l2.c. */
#ifndef KVC_CLI_BENCH_L2_FLAGS_H
#define KVC_CLI_BENCH_L2_FLAGS_H

#include "src/bench/l2.h"
#include "src/cli/flamegraph.h"
#include "src/cli/options.h"

#define KVC_L2_ADAPTER_ENVIRONMENT "L2_ADAPTER_JSON"

struct kvc_l2_flags {
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
    bool check;
    int64_t threads;
    int64_t timeout_ms;
    const char *payload;
    uint64_t seed;
    struct kvc_flamegraph_flags flamegraph;
    const char *format;
    const char *output;
    bool quiet;
};

extern const struct kvc_option kvc_l2_flag_table[];
extern const size_t kvc_l2_flag_count;

/* Checks the flags together, and reads the adapter's JSON and the hit rate. KVC_EUSAGE. *config is to
 * be cleared in any case. */
kvc_status kvc_l2_flags_resolve(const struct kvc_l2_flags *flags, struct kvc_l2_config *config,
                                double *hit_rate, struct kvc_error *err);
/* KVC_BENCH_L2_…_BIT: those of --only, or all. */
uint32_t kvc_l2_flags_phases(const struct kvc_l2_flags *flags);

#endif
