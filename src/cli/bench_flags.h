/* The flags of `kvconform bench server`, and what they mean. For bench_server.c. */
#ifndef KVC_CLI_BENCH_FLAGS_H
#define KVC_CLI_BENCH_FLAGS_H

#include "src/bench/server.h"
#include "src/cli/cli.h"
#include "src/cli/flamegraph.h"

struct kvc_bench_flags {
    struct kvc_target_flags target;
    const char *mode, *transfer_mode, *shape_spec;
    int64_t tp_size, num_tokens, num_blocks, block_size;
    bool use_mla;
    int64_t start, end, interval_ms;
    uint64_t seed; /* 0: drawn */
    const char *workload, *ramp;
    int64_t clients, warmup, duration_ms, prepared, shared_tokens, ramp_step_ms;
    double rate;
    struct kvc_flamegraph_flags flamegraph;
    const char *format, *output, *csv, *html;
    bool quiet;
};

/* The defaults: where `lmcache bench server` has the flag, its own. */
void kvc_bench_flags_init(struct kvc_bench_flags *flags);

/* The options by the headings of the help, to be filled into flags. */
enum { KVC_BENCH_GROUP_COUNT = 5 };
void kvc_bench_flags_groups(struct kvc_bench_flags *flags,
                            struct kvc_option_group groups[KVC_BENCH_GROUP_COUNT]);

/* Fills options, but for the target and the progress. limit is where those of --ramp go: options point
 * to it. KVC_EUSAGE names the flag. */
kvc_status kvc_bench_flags_resolve(const struct kvc_bench_flags *flags,
                                   struct kvc_bench_server_options *options,
                                   struct kvc_ramp_limit *limit, struct kvc_error *err);

#endif
