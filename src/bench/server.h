/* `bench server`: for each request a cold pass (LOOKUP misses, STORE) and a warm pass (LOOKUP hits,
 * RETRIEVE), every byte verified. For the command line. */
#ifndef KVC_BENCH_SERVER_H
#define KVC_BENCH_SERVER_H

#include <stdio.h>

#include "src/bench/series.h"
#include "src/driver/worker.h"

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
    int64_t start, end; /* sequence numbers; end < 0: until interrupted */
    double interval;    /* seconds between passes */
    int64_t timeout_ms; /* for each call */
    int64_t connect_timeout_ms;
    const struct kvc_dialect *dialect; /* NULL: ask the server */
    uint64_t seed;                     /* of the tokens and the data */
    FILE *progress;                    /* one line a step; NULL: quiet */
    const volatile int *stop;          /* ends the run when it becomes non-zero */
};

enum kvc_bench_operation {
    KVC_BENCH_COLD_LOOKUP,
    KVC_BENCH_COLD_STORE,
    KVC_BENCH_WARM_LOOKUP,
    KVC_BENCH_WARM_RETRIEVE,
    KVC_BENCH_OPERATION_COUNT,
};

struct kvc_bench_server_result {
    struct kvc_series series[KVC_BENCH_OPERATION_COUNT];
    int64_t requests;    /* both passes done */
    int64_t checksum_ok; /* requests whose every byte came back right */
    int64_t checksum_fail;
    int64_t cold_hits;   /* requests that hit though their tokens are new */
    int64_t warm_misses; /* requests that were stored and not found whole */
    int64_t errors;      /* requests that a call or the server's word ended early */
    int64_t bytes_verified;
    char first_problem[512]; /* "" when there was none */
    char path[32];           /* kvc_path_name of the path taken */
    char path_reason[336];
    char dialect[16];
    char http_checksums[160]; /* compared, or why not */
    int64_t chunk_size;       /* tokens */
    bool interrupted;
    bool server_answers; /* NOOP answered after the run */
    bool lost;           /* the run ended early, since after an error nobody answered any more */
};

/* Runs. KVC_OK also when requests failed: the result says so. Errors are what keeps the run from
 * starting: KVC_EUSAGE, KVC_ECONNECT, KVC_EUNSUPPORTED, KVC_ETIMEOUT. */
kvc_status kvc_bench_server_run(const struct kvc_bench_server_options *options,
                                struct kvc_bench_server_result *result, struct kvc_error *err);
void kvc_bench_server_result_clear(struct kvc_bench_server_result *result);

/* True when every request ran, verified, and came out as it must: only then are figures given. */
bool kvc_bench_server_is_valid(const struct kvc_bench_server_result *result);

/* The report in the form of `lmcache bench server`, with what it lacks. Appends text to out. */
void kvc_bench_server_write_terminal(const struct kvc_bench_server_options *options,
                                     const struct kvc_bench_server_result *result,
                                     struct kvc_buffer *out);
void kvc_bench_server_write_json(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out);

#endif
