/* `bench l2`: store, lookup and load on an L2 adapter, in rounds of submits in flight. For the command
 * line. */
#ifndef KVC_BENCH_L2_H
#define KVC_BENCH_L2_H

#include <stdio.h>

#include "src/bench/flames.h"
#include "src/bench/series.h"
#include "src/l2/payload.h"
#include "src/l2/pool.h"

enum {
    KVC_BENCH_L2_STORE_BIT = 1u << KVC_L2_STORE,
    KVC_BENCH_L2_LOOKUP_BIT = 1u << KVC_L2_LOOKUP,
    KVC_BENCH_L2_LOAD_BIT = 1u << KVC_L2_LOAD,
    KVC_BENCH_L2_PHASES = 3,          /* in the order of enum kvc_l2_operation */
    KVC_BENCH_L2_MOST_KEYS = 1 << 30, /* num_keys x in_flight x all rounds */
};

struct kvc_bench_l2_options {
    const struct kvc_l2_config *config;
    int64_t num_keys;  /* a submit */
    int64_t in_flight; /* submits a round */
    int64_t data_size; /* bytes a key */
    int64_t align;     /* of every buffer's address */
    bool hugepages;
    int64_t rounds, warmup_rounds;
    double lookup_max_hit_rate; /* 0 to 1 */
    bool verify;
    uint32_t phases;    /* KVC_BENCH_L2_…_BIT */
    int64_t lanes;      /* 0: the adapter's */
    int64_t timeout_ms; /* of a round */
    enum kvc_l2_payload_kind payload;
    uint64_t seed;
    struct kvc_flames *flames; /* started when what is measured begins; NULL: none */
    FILE *progress;            /* NULL: quiet */
    const volatile int *stop;  /* ends the run when it becomes non-zero */
};

struct kvc_bench_l2_phase {
    bool ran;
    struct kvc_series durations; /* of the measured rounds that ended in time */
    int64_t rounds;              /* measured, those that timed out included */
    int64_t timed_out;
    int64_t success;        /* keys of the measured rounds: stored, found, loaded */
    int64_t expected_hits;  /* lookup: at most so many of them can be found */
    int64_t warmup_success; /* keys of the rounds before */
    int64_t verified;       /* load: keys whose every byte was right, in all rounds */
    int64_t wrong;          /* load: keys with a wrong one. Lookup: found though never stored */
};

struct kvc_bench_l2_result {
    struct kvc_bench_l2_phase phases[KVC_BENCH_L2_PHASES];
    size_t lanes;
    char first_problem[768]; /* "" when there was none */
    bool interrupted;
    bool timed_out; /* the run ended early */
};

/* Runs. KVC_OK also when operations failed: the result says so. Errors are what keeps the run from
 * starting: those of kvc_l2_pool_open, KVC_ENOMEM, those of kvc_flames_start. */
kvc_status kvc_bench_l2_run(const struct kvc_bench_l2_options *options,
                            struct kvc_bench_l2_result *result, struct kvc_error *err);
void kvc_bench_l2_result_clear(struct kvc_bench_l2_result *result);

/* True when every round of every phase ran and every key came out as it must. Only then are figures
 * given. */
bool kvc_bench_l2_is_valid(const struct kvc_bench_l2_options *options,
                           const struct kvc_bench_l2_result *result);

/* What the report gives for a phase: milliseconds, MiB and keys a second, over its rounds. */
struct kvc_bench_l2_figures {
    struct kvc_series_figures duration;
    double deviation; /* of the durations: a sample's */
    double throughput_mean, throughput_min, throughput_max;
    double keys_per_second;
    double latency_per_key;
};
struct kvc_bench_l2_figures kvc_bench_l2_summarise(const struct kvc_bench_l2_phase *phase,
                                                   int64_t keys_per_round, int64_t data_size);

/* The report in the form of `lmcache bench l2`, with what it lacks. Appends text to out. */
void kvc_bench_l2_write_terminal(const struct kvc_bench_l2_options *options,
                                 const struct kvc_bench_l2_result *result, struct kvc_buffer *out);
void kvc_bench_l2_write_json(const struct kvc_bench_l2_options *options,
                             const struct kvc_bench_l2_result *result, struct kvc_buffer *out);

#endif
