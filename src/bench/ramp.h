/* The highest rate that meets a latency limit: the limit as a user writes it, and the search.
 * For `bench server`. */
#ifndef KVC_BENCH_RAMP_H
#define KVC_BENCH_RAMP_H

#include "src/base/bytes.h"
#include "src/bench/histogram.h"

/* OPERATION.FIGURE<=VALUE: a limit on one figure of one operation. */
struct kvc_ramp_limit {
    const char *text; /* as given; operation is a view of it */
    struct kvc_str operation;
    char figure[16]; /* "p99", "mean", "max" */
    double share;    /* of a percentile, 0 … 1; < 0: the mean; > 1: the maximum */
    int64_t limit_ns;
};

/* FIGURE is p and a number up to 100, mean or max; VALUE a number with the unit us, ms (also when
 * there is none) or s. Spaces may stand around <=. text must outlive the limit; operation is not
 * judged. KVC_EUSAGE says what is accepted. */
kvc_status kvc_ramp_limit_parse(const char *text, struct kvc_ramp_limit *limit,
                                struct kvc_error *err);
/* The limit's figure of these latencies. */
int64_t kvc_ramp_limit_figure(const struct kvc_ramp_limit *limit,
                              const struct kvc_histogram *latencies);

/* A search in progress. rate is the one to try next. */
struct kvc_ramp {
    double rate;
    double highest_met;    /* 0: none so far */
    double lowest_not_met; /* 0: none so far */
    int steps;             /* rates that were decided */
    int met, not_met;      /* tries of this rate */
};

/* Starts with a rate: it is doubled until the limit is not met, or halved until it is; then the
 * middle is tried until the two are within 5 %. */
void kvc_ramp_start(struct kvc_ramp *ramp, double rate);
/* Notes whether a try of ramp->rate met the limit. True when that decides whether the rate does: one that
 * did not may have had a noisy neighbour, so it is repeated, and two of three decide. */
bool kvc_ramp_decide(struct kvc_ramp *ramp, bool try_met, bool *rate_met);
/* Notes what was decided. True when there is another rate to try. */
bool kvc_ramp_go_on(struct kvc_ramp *ramp, bool rate_met);

#endif
