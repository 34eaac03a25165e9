/* `bench call`: what one small call costs, by this program's client and by libzmq alone, to the server and
 * to a peer that does nothing. For the command line. */
#ifndef KVC_BENCH_CALL_H
#define KVC_BENCH_CALL_H

#include "src/bench/noise.h"
#include "src/wire/dialect.h"

struct kvc_bench_call_options {
    const char *rpc_url;
    const struct kvc_dialect *dialect;
    int64_t rounds; /* each measures every lane, in turn */
    int64_t calls;  /* of a lane in a round */
    int64_t timeout_ms;
    int64_t connect_timeout_ms;
};

/* Who calls whom. */
enum kvc_call_lane {
    KVC_CALL_CLIENT, /* NOOP, by this program's client, to the server */
    KVC_CALL_BARE,   /* the same frames, by libzmq alone, to the server */
    KVC_CALL_ECHO,   /* the same frames, by libzmq alone, to a ROUTER that sends them back */
    KVC_CALL_LANE_COUNT,
};

struct kvc_bench_call_result {
    struct kvc_spread microseconds[KVC_CALL_LANE_COUNT]; /* of a call: medians of the rounds */
    struct kvc_spread client_cost;                       /* CLIENT over BARE, of each round */
    struct kvc_spread server_share;                      /* ECHO over BARE, of each round */
};

/* Measures. Errors: what keeps it from starting or from its end; there are no figures then. */
kvc_status kvc_bench_call_run(const struct kvc_bench_call_options *options,
                              struct kvc_bench_call_result *result, struct kvc_error *err);

void kvc_bench_call_write_terminal(const struct kvc_bench_call_options *options,
                                   const struct kvc_bench_call_result *result,
                                   struct kvc_buffer *out);
/* docs/json.md describes it. */
void kvc_bench_call_write_json(const struct kvc_bench_call_options *options,
                               const struct kvc_bench_call_result *result, struct kvc_buffer *out);

#endif
