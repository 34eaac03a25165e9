/* The figures that both forms of the report of `bench server` give for an operation. */
#ifndef KVC_BENCH_SERVER_FIGURES_H
#define KVC_BENCH_SERVER_FIGURES_H

#include "src/bench/server.h"

enum { KVC_BENCH_LATENCY_COUNT = 8 };

/* "mean", "min", "max", "p50" … "p99.9", in the order in which they are shown. */
extern const char *const kvc_bench_latency_names[KVC_BENCH_LATENCY_COUNT];

/* Nanoseconds, in the order of the names. */
void kvc_bench_latencies(const struct kvc_histogram *histogram,
                         double values[KVC_BENCH_LATENCY_COUNT]);

/* Requests that came out as they must, in percent of those tried. */
double kvc_bench_pass_rate(const struct kvc_bench_server_result *result);

/* The clients' time that no part names. */
int64_t kvc_bench_other_ns(const struct kvc_bench_measurement *measurement);

#endif
