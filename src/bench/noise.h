/* Figures of several runs: what is in the middle, how far they lie apart, and whether two sides differ
 * by more than chance would make them. For `compare`. */
#ifndef KVC_BENCH_NOISE_H
#define KVC_BENCH_NOISE_H

#include <stdbool.h>
#include <stddef.h>

enum { KVC_NOISE_MAX_RUNS = 32 }; /* of one side */

struct kvc_spread {
    double median, min, max; /* all zero when there are no values */
};

struct kvc_spread kvc_spread_of(const double *values, size_t count);

/* The exact one-sided rank-sum test: were all values dealt out to the two sides by chance, the share of
 * deals in which the ranks of `high` sum up to at least what they do here. Equal values share their
 * ranks' mean. Each count is from 1 to KVC_NOISE_MAX_RUNS. */
double kvc_chance_of_higher(const double *low, size_t low_count, const double *high,
                            size_t high_count);

/* Whether chance does not explain it: a chance of at most 1 in 20, or, with too few values for that, no
 * value of one side that reaches into the other. */
bool kvc_is_beyond_noise(double chance, size_t low_count, size_t high_count);

#endif
