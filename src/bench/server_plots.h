/* The plots on the page of `bench server`. For server_html.c. */
#ifndef KVC_BENCH_SERVER_PLOTS_H
#define KVC_BENCH_SERVER_PLOTS_H

#include "src/bench/server.h"

/* Each appends one figure, or nothing when there is nothing to show. */
/* For each operation, what latency what share of the calls does not exceed. */
void kvc_bench_plot_distribution(const struct kvc_bench_measurement *measured,
                                 struct kvc_buffer *out);
/* For each operation, p50 and p99 second by second. */
void kvc_bench_plot_time(const struct kvc_bench_measurement *measured, struct kvc_buffer *out);
/* The rates that a ramp tried. */
void kvc_bench_plot_ramp(const struct kvc_ramp_limit *limit,
                         const struct kvc_bench_server_result *result, struct kvc_buffer *out);

#endif
