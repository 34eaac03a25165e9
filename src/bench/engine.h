/* `bench engine`: a workload against an inference engine, each request followed token by token. For the command
 * line. */
#ifndef KVC_BENCH_ENGINE_H
#define KVC_BENCH_ENGINE_H

#include <stdio.h>

#include "src/bench/engine_calibrate.h"
#include "src/bench/engine_settings.h"
#include "src/bench/engine_workload.h"
#include "src/bench/flames.h"
#include "src/bench/histogram.h"

/* One measured request. Times are of kvc_now_ns; 0: it did not get there. */
struct kvc_bench_engine_record {
    char id[48];
    bool is_ok;
    const char *problem; /* "" when it is; of the result's arena */
    int64_t due_ns;      /* when it was to be sent: where its latencies start */
    int64_t first_token_ns;
    int64_t last_token_ns;
    int64_t finished_ns;
    int64_t prompt_tokens; /* as the engine counts; -1: it did not say */
    int64_t completion_tokens;
    int64_t expected_tokens; /* what the prompt was made to have; 0: not known */
};

struct kvc_bench_engine_result {
    struct kvc_arena texts;
    struct kvc_bench_engine_record *records; /* in the order in which they ended */
    size_t count;
    size_t failed;
    struct kvc_histogram gaps; /* between events with text of one stream */
    int64_t planned;           /* requests of the workload; 0 while it warms up */
    int64_t unsent; /* that were due and never sent: their session was still busy at the end */
    int64_t warmups_planned;
    int64_t warmups; /* that ended */
    int64_t warmup_failures;
    char warmup_problem[512]; /* of the first */
    int64_t started_ns, finished_ns;
    int64_t wall_offset_ns; /* from kvc_now_ns to the time of day */
    struct kvc_prompt_calibration calibration;
    bool interrupted;
};

struct kvc_bench_engine_options {
    const struct kvc_bench_engine_settings
        *settings;             /* workload, model and tokens per GB are set */
    const char *base_url;      /* of kvc_engine_base_url, with v1 */
    const char *api_key;       /* NULL: none */
    int64_t timeout_ms;        /* for a stream that brings nothing */
    FILE *log;                 /* what the workload is, in lines; NULL: quiet */
    FILE *live;                /* one live line, on a terminal; NULL: none */
    struct kvc_flames *flames; /* started when what is measured begins; NULL: none */
    const volatile int *stop;  /* ends the run when it becomes non-zero */
    const char *output_dir;    /* where which files go: for the report only */
    bool export_csv, export_json;
};

/* Runs. KVC_OK also when requests failed, or all of them: the result says so; it is to be cleared in any
 * case. KVC_EUSAGE: settings that do not go together; KVC_ECONNECT: nobody is there. */
kvc_status kvc_bench_engine_run(const struct kvc_bench_engine_options *bench,
                                struct kvc_bench_engine_result *result, struct kvc_error *err);
void kvc_bench_engine_result_clear(struct kvc_bench_engine_result *result);

/* True when every request was sent and answered, those of the warm-up, too. */
bool kvc_bench_engine_result_is_valid(const struct kvc_bench_engine_result *result);

/* ---- figures ---- */

struct kvc_bench_engine_figures {
    size_t count; /* 0: nothing was measured, and the rest means nothing */
    double mean, p50, p90, p99;
};

struct kvc_bench_engine_summary {
    double duration;                            /* seconds, of the measured part */
    int64_t input_tokens, output_tokens;        /* of the requests that succeeded */
    double input_throughput, output_throughput; /* tokens a second */
    double request_throughput;                  /* requests a second */
    struct kvc_bench_engine_figures ttft;       /* ms, from when the request was due */
    struct kvc_bench_engine_figures latency;    /* ms, likewise, to the end */
    struct kvc_bench_engine_figures gap;        /* ms between two events with text */
    struct kvc_bench_engine_figures
        decode;             /* tokens a second; p99: 99 of 100 requests were faster */
    size_t sized;           /* prompts whose length is known, */
    double worst_deviation; /* and the largest share by which one was longer or shorter */
};

/* Over the requests that succeeded. */
struct kvc_bench_engine_summary
kvc_bench_engine_summarise(const struct kvc_bench_engine_result *result);
/* Tokens a second from the first event to the last: -1 unless there are two tokens at two times. */
double kvc_bench_engine_decode_speed(const struct kvc_bench_engine_record *record);

/* ---- reports: append text to out ---- */

void kvc_bench_engine_write_terminal(const struct kvc_bench_engine_options *bench,
                                     const struct kvc_bench_engine_result *result,
                                     struct kvc_buffer *out);
void kvc_bench_engine_write_json(const struct kvc_bench_engine_options *bench,
                                 const struct kvc_bench_engine_result *result,
                                 struct kvc_buffer *out);
/* One line a request, with the columns of LMCache's bench_results.csv; what was not measured is empty. */
void kvc_bench_engine_write_csv(const struct kvc_bench_engine_result *result,
                                struct kvc_buffer *out);

#endif
