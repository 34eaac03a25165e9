/* `bench server`: clients that store, look up and retrieve, closed loop or at a rate; every latency
 * counted, every byte verified. For the command line and the reports. */
#ifndef KVC_BENCH_SERVER_H
#define KVC_BENCH_SERVER_H

#include <stdio.h>

#include "src/bench/flames.h"
#include "src/bench/histogram.h"
#include "src/bench/machine.h"
#include "src/bench/ramp.h"
#include "src/bench/timeline.h"
#include "src/driver/worker.h"

/* ---- what is to be measured ---- */

/* What a request does. */
enum kvc_bench_workload {
    KVC_BENCH_PAIR,     /* new tokens: LOOKUP misses, STORE, LOOKUP hits, RETRIEVE */
    KVC_BENCH_STORE,    /* new tokens: STORE */
    KVC_BENCH_RETRIEVE, /* tokens stored beforehand: LOOKUP hits, RETRIEVE */
    KVC_BENCH_LOOKUP,   /* LOOKUP alone: of tokens stored beforehand and of new ones in turn */
    KVC_BENCH_PREFIX,   /* new tokens behind a shared part: LOOKUP, RETRIEVE that, STORE the rest */
    KVC_BENCH_WORKLOAD_COUNT,
};

/* How often each workload is chosen, in proportion; all 0: only pair. */
struct kvc_bench_mix {
    int64_t weights[KVC_BENCH_WORKLOAD_COUNT];
};

extern const char *const kvc_bench_workload_names[KVC_BENCH_WORKLOAD_COUNT];

/* "store", or "store:1,retrieve:4". KVC_EUSAGE names what there is. */
kvc_status kvc_bench_mix_parse(const char *text, struct kvc_bench_mix *mix, struct kvc_error *err);

/* KVC_EUSAGE unless the limit is on an operation that these workloads make. */
kvc_status kvc_bench_mix_check_limit(const struct kvc_bench_mix *mix,
                                     const struct kvc_ramp_limit *limit, struct kvc_error *err);

struct kvc_bench_server_options {
    const char *rpc_url;
    const char *http_url;      /* NULL or "": no checksums over HTTP */
    const char *mode;          /* "cpu" or "gpu" */
    const char *transfer_mode; /* as given; NULL: not given */
    const char *shape_spec;
    int64_t tp_size;
    bool use_mla;       /* rank 0 stores, every rank retrieves; implied by a kv_size of 1 */
    int64_t num_tokens; /* a request has one more: the sequence number's */
    int64_t num_blocks; /* used where the shape spec says 0 */
    int64_t block_size;
    int64_t start, end; /* sequence numbers; end < 0: until something else ends the run */
    double interval;    /* seconds between passes, closed loop */

    struct kvc_bench_mix mix;
    const char *workload; /* the mix as given */
    int64_t clients;      /* connections, each with ranks of its own */
    double rate;          /* requests a second of all clients together; 0: closed loop */
    int64_t warmup;       /* requests that come before the measured ones and are not counted */
    int64_t duration_ms;  /* 0: no limit */
    int64_t prepared;     /* requests that each client stores beforehand, for retrieve and lookup */
    int64_t shared_tokens;             /* of prefix; 0: half of the chunks */
    const struct kvc_ramp_limit *ramp; /* NULL: one run; else rate is where the search starts */
    int64_t ramp_step_ms;

    int64_t timeout_ms; /* for each call */
    int64_t connect_timeout_ms;
    const struct kvc_dialect *dialect; /* NULL: ask the server */
    uint64_t seed;                     /* of the tokens and the data */
    FILE *progress;                    /* where progress goes; NULL: quiet */
    bool live;                 /* progress is a terminal: one line, written again and again */
    struct kvc_flames *flames; /* started when what is measured begins; NULL: none */
    const volatile int *stop;  /* ends the run when it becomes non-zero */
};

/* ---- what came of it ---- */

enum kvc_bench_operation {
    KVC_BENCH_COLD_LOOKUP, /* of tokens that nobody stored */
    KVC_BENCH_COLD_STORE,
    KVC_BENCH_WARM_LOOKUP, /* that finds what was stored */
    KVC_BENCH_WARM_RETRIEVE,
    KVC_BENCH_OPERATION_COUNT,
};

/* "cold_lookup" and "Cold Lookup". */
extern const char *const kvc_bench_operation_names[KVC_BENCH_OPERATION_COUNT];
extern const char *const kvc_bench_operation_titles[KVC_BENCH_OPERATION_COUNT];

/* Where the clients' time went. */
enum kvc_bench_part {
    KVC_BENCH_ENCODE,  /* requests written, replies read */
    KVC_BENCH_WAIT,    /* for replies of lookups, stores and retrieves */
    KVC_BENCH_GATHER,  /* blocks into chunks, by the worker */
    KVC_BENCH_SCATTER, /* chunks into blocks, by the worker */
    KVC_BENCH_FILL,    /* blocks filled before a request */
    KVC_BENCH_VERIFY,
    KVC_BENCH_SETTLE, /* until what was stored can be seen; locks freed, sessions ended */
    KVC_BENCH_REST,   /* nothing to do: the interval, or the next request was not due */
    KVC_BENCH_PART_COUNT,
};

extern const char *const kvc_bench_part_names[KVC_BENCH_PART_COUNT];

struct kvc_bench_operation_result {
    struct kvc_histogram latency; /* at a rate: from when the operation was due */
    int64_t service_ns;           /* sum of what the operations themselves took */
    int64_t tokens, bytes;        /* moved, or looked up; all ranks together */
};

/* What a measured stretch of time gave. */
struct kvc_bench_measurement {
    struct kvc_bench_operation_result operations[KVC_BENCH_OPERATION_COUNT];
    struct kvc_histogram lateness; /* at a rate: requests that began later than they were due */
    struct kvc_timeline timeline;  /* a lane an operation */
    int64_t requests;              /* that came to their end */
    int64_t unserved;              /* at a rate: were due, and no client ever had time for them */
    int64_t elapsed_ns;
    double rate;                            /* that was asked for; 0: closed loop */
    int64_t parts_ns[KVC_BENCH_PART_COUNT]; /* of all clients together */
    int64_t whole_ns; /* the clients' time: the parts, and what no part names */
};

/* Requests a second that came to their end. 0 when nothing was measured. */
double kvc_bench_rate_reached(const struct kvc_bench_measurement *measurement);
/* Per second of the measured time, all clients together. */
double kvc_bench_tokens_per_second(const struct kvc_bench_measurement *measurement,
                                   enum kvc_bench_operation operation);
double kvc_bench_gigabytes_per_second(const struct kvc_bench_measurement *measurement,
                                      enum kvc_bench_operation operation);
/* Bytes (10^9) per second that an operation itself took: how fast one client's operation is. */
double kvc_bench_operation_speed(const struct kvc_bench_measurement *measurement,
                                 enum kvc_bench_operation operation);

/* One try of a rate by a ramp. */
struct kvc_bench_step {
    double rate, reached; /* requests a second */
    int number;           /* of the try of this rate: 1, 2, 3 */
    bool decided;         /* whether the rate meets the limit; until then it is tried again */
    int64_t requests;
    int64_t value_ns; /* of the figure that the limit is on */
    int64_t p50_ns, p99_ns;
    bool met;        /* by this try, and by the rate if this try decided */
    char reason[96]; /* why it was not met; "" when it was */
};

struct kvc_bench_server_result {
    struct kvc_bench_measurement measured; /* of a ramp: the highest rate that met the limit */
    struct kvc_bench_step *steps;          /* of a ramp: all tries, in order */
    size_t step_count;
    double highest_rate; /* of a ramp: that met the limit; 0: none did */

    int64_t requests;    /* measured ones that came to their end; all steps of a ramp */
    int64_t checksum_ok; /* requests whose every byte came back right */
    int64_t checksum_fail;
    int64_t deferred;          /* requests that read nothing themselves (store, lookup) */
    int64_t read_back;         /* requests that were read back, right, after the measured ones */
    int64_t read_back_evicted; /* and those that the server did not have any more */
    int64_t cold_hits;         /* requests that hit though their tokens are new */
    int64_t warm_misses;       /* requests that were stored and not found whole */
    int64_t errors; /* requests that a call or the server's word ended early, and ranks that could
                       not unregister */
    int64_t strays; /* replies that nobody asked for, or that came twice */
    int64_t bytes_verified;
    char first_problem[512]; /* "" when there was none */

    char path[32]; /* kvc_path_name of the path taken */
    char path_reason[336];
    char device[96]; /* "cpu", or what GPU */
    char dialect[16];
    char http_checksums[160]; /* compared, or why not */
    int64_t chunk_size;       /* tokens */
    int64_t request_bytes;    /* of one request's full chunks, all ranks that write */
    double memcpy_speed;      /* 10^9 bytes/s of copying as many bytes; 0: not measured */
    struct kvc_machine machine;
    char started[32]; /* ISO 8601, UTC */
    bool interrupted;
    bool server_answers; /* NOOP answered after the run */
    bool lost;           /* nobody answered any more, after an error or at the end */
};

/* Runs. KVC_OK also when requests failed: the result says so. Errors are what keeps the run from
 * starting: KVC_EUSAGE, KVC_ECONNECT, KVC_EUNSUPPORTED, KVC_ETIMEOUT. */
kvc_status kvc_bench_server_run(const struct kvc_bench_server_options *options,
                                struct kvc_bench_server_result *result, struct kvc_error *err);
void kvc_bench_server_result_clear(struct kvc_bench_server_result *result);

/* True when every request ran, verified, and came out as it must, and a ramp found a rate. */
bool kvc_bench_server_is_valid(const struct kvc_bench_server_result *result);
/* Whether figures are shown: those of a valid run, of one that was right until it was interrupted, or
 * of a ramp that found no rate; never those of a run in which something failed. */
bool kvc_bench_server_has_figures(const struct kvc_bench_server_result *result);
/* "valid", or "not valid: " and why. */
const char *kvc_bench_server_verdict(const struct kvc_bench_server_result *result);

/* The report in the form of `lmcache bench server`, with what it lacks. Appends text to out. */
void kvc_bench_server_write_terminal(const struct kvc_bench_server_options *options,
                                     const struct kvc_bench_server_result *result,
                                     struct kvc_buffer *out);
/* docs/json.md describes it. */
void kvc_bench_server_write_json(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out);

/* A row an operation. docs/bench.md names the columns. Only the head when there are no figures. */
void kvc_bench_server_write_csv(const struct kvc_bench_server_options *options,
                                const struct kvc_bench_server_result *result,
                                struct kvc_buffer *out);
/* One self-contained page with plots. */
void kvc_bench_server_write_html(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out);

#endif
