/* The checks of `bench l2 --check`, run and reported. For src/cli/bench_l2.c. */
#ifndef KVC_CLI_BENCH_L2_CHECK_H
#define KVC_CLI_BENCH_L2_CHECK_H

#include "src/bench/l2_check.h"

/* Runs all checks and appends the report. True when every one that could run has passed, and at least
 * one could. */
bool kvc_bench_l2_check(const struct kvc_l2_check_options *options, bool as_json, FILE *progress,
                        struct kvc_buffer *report);

#endif
