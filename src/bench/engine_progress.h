/* The live line of `bench engine`. For engine_run.c. */
#ifndef KVC_BENCH_ENGINE_PROGRESS_H
#define KVC_BENCH_ENGINE_PROGRESS_H

#include <stdio.h>

#include "src/bench/engine.h"

/* Zero-initialise, and set stream. */
struct kvc_bench_engine_progress {
    FILE *stream; /* NULL: nothing is shown */
    int64_t shown_ns;
    size_t counted; /* records that the sums below hold */
    double ttft_ms; /* sums */
    double decode;
    size_t ok, decoded;
    int64_t input_tokens, output_tokens;
};

/* Draws the line anew, a few times a second. */
void kvc_bench_engine_progress_show(struct kvc_bench_engine_progress *progress,
                                    const struct kvc_bench_engine_result *result, size_t in_flight);
/* Takes the line away. */
void kvc_bench_engine_progress_clear(struct kvc_bench_engine_progress *progress);

#endif
