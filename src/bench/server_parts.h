/* What the files of `bench server` share. For them only.
 *
 * A run goes through phases: requests are prepared, warm up, are measured, are read back. In each,
 * every client runs in a thread of its own; between them only the main thread runs. Clients share
 * nothing while they run but the tickets that say which request is next, and the problems. */
#ifndef KVC_BENCH_SERVER_PARTS_H
#define KVC_BENCH_SERVER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/bench/server_figures.h"
#include "src/kv/stamp.h"

/* Whose tokens and data: no two kinds share any. */
enum kvc_bench_kind {
    KVC_BENCH_KIND_MEASURED,
    KVC_BENCH_KIND_WARMUP,
    KVC_BENCH_KIND_PREPARED,
    KVC_BENCH_KIND_SHARED, /* the part that the requests of prefix share */
};

/* With the seed, all that a request's tokens and bytes follow from. */
struct kvc_bench_id {
    enum kvc_bench_kind kind;
    int64_t number;        /* of a measured one: its sequence number */
    int64_t shared_tokens; /* leading ones that are those of the shared request */
};

/* One request: its tokens, and where its blocks are in every rank's cache. */
struct kvc_bench_request {
    struct kvc_bench_id id;
    const char *pass; /* part of the request id: "cold", "warm" */
    char name[80];    /* the request id */
    int64_t *tokens;
    int64_t *blocks; /* those that requests use, in any order: stores use the front, retrieves the
                        back */
    struct kvc_ints source_blocks;
    struct kvc_ints target_blocks;
    int64_t delay_ns; /* how long after it was due it began */
};

/* What one client measured in a phase. Samples are handed to the main thread while it runs. */
struct kvc_bench_sample {
    size_t lane; /* an operation, or KVC_BENCH_LATENESS */
    int64_t at_ns, latency_ns;
};

enum {
    KVC_BENCH_LATENESS = KVC_BENCH_OPERATION_COUNT,
    KVC_BENCH_READ_BACK = 64, /* requests of each client that are read back at the end */
};

struct kvc_bench_tally {
    int64_t service_ns[KVC_BENCH_OPERATION_COUNT];
    int64_t tokens[KVC_BENCH_OPERATION_COUNT];
    int64_t bytes[KVC_BENCH_OPERATION_COUNT];
    int64_t parts_ns[KVC_BENCH_PART_COUNT];
    int64_t whole_ns;
    int64_t begun, requests, checksum_ok, deferred;
    int64_t bytes_verified;
    int64_t ended_ns; /* when the last request was over */
};

struct kvc_bench;

struct kvc_bench_client {
    struct kvc_bench *bench;
    int64_t number;
    struct kvc_client *connection;
    struct kvc_rpc rpc;
    struct kvc_worker **workers; /* one a rank */
    int64_t serial;              /* request ids made so far */
    pthread_t thread;

    struct kvc_bench_tally tally; /* of this phase; the main thread reads it after the phase */
    struct kvc_bench_id
        stored[KVC_BENCH_READ_BACK]; /* the last ones that nobody has read: a ring */
    size_t stored_count;             /* ever */

    pthread_mutex_t lock; /* of the samples */
    struct kvc_bench_sample *samples;
    size_t sample_count, sample_capacity;
};

/* A stretch of a run. */
struct kvc_bench_phase {
    void (*work)(struct kvc_bench_client *client);
    enum kvc_bench_kind kind; /* of new requests */
    bool recorded;
    double rate;          /* 0: closed loop */
    int64_t count;        /* requests of all clients together; < 0: no limit */
    int64_t duration_ns;  /* requests are due within; 0: no limit */
    int64_t begin_ns;     /* when all clients had their first request ready */
    pthread_mutex_t gate; /* of the three below */
    pthread_cond_t moved;
    int64_t ready; /* clients at the gate */
    bool open;
    atomic_llong next;    /* ticket */
    atomic_llong running; /* clients that have not ended yet */
};

struct kvc_bench {
    const struct kvc_bench_server_options *options;
    struct kvc_bench_server_result *result;
    struct kvc_rpc rpc;
    struct kvc_bench_client *clients;
    int64_t client_count; /* that are open */
    bool is_mla;
    const struct kvc_device *device; /* NULL: the CPU */
    struct kvc_geometry geometry;
    int64_t chunk_tokens;
    int64_t chunk_count;   /* full chunks a request */
    int64_t shared_chunks; /* of them, shared by the requests of prefix */
    int64_t *used_blocks;  /* that requests store from and retrieve into */
    int64_t used_block_count;
    struct kvc_bench_mix mix;
    bool needs_prepared, leaves_unread; /* some workload of the mix does */
    bool compare_http;
    struct kvc_bench_phase *phase;
    struct kvc_bench_measurement *measuring; /* where samples go; NULL: nowhere */
    int64_t next_sequence;                   /* first sequence number of the next phase */
    atomic_int halted;                       /* the server is lost */
    pthread_mutex_t lock;                    /* of result while clients run, and of progress */
    bool live_shown;
};

/* ---- server_progress.c ---- */

/* A line about one step of one request: only where one client at a time makes them. */
void kvc_bench_step_line(struct kvc_bench *bench, const struct kvc_bench_request *request,
                         const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line about the run as a whole. */
void kvc_bench_line(struct kvc_bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Keeps the first problem for the report; every one goes to the progress, if any does. request: NULL
 * when it is none's. */
void kvc_bench_problem(struct kvc_bench *bench, const struct kvc_bench_request *request,
                       const char *step, const char *text);
void kvc_bench_problem_error(struct kvc_bench *bench, const struct kvc_bench_request *request,
                             const char *step, const struct kvc_error *err);
/* The line of a terminal that says how far the phase is. */
void kvc_bench_live_show(struct kvc_bench *bench, const char *what);
void kvc_bench_live_clear(struct kvc_bench *bench);

/* ---- server_open.c ---- */

/* Negotiates, and opens every client: connected, all ranks registered. kvc_bench_close in any case. */
kvc_status kvc_bench_open(struct kvc_bench *bench, struct kvc_error *err);
/* Leaves the server as it was found: every rank unregisters, whatever happened before. */
void kvc_bench_close(struct kvc_bench *bench);

/* ---- server_http.c ---- */

/* HTTP digests exist for tensors that the server has mapped; a server that does not answer there is
 * reported, and the stamps alone decide. */
void kvc_bench_http_probe(struct kvc_bench *bench);
/* The server's digests of blocks of a worker, against ours. KVC_EMISMATCH. */
kvc_status kvc_bench_http_compare(const struct kvc_bench *bench, const struct kvc_worker *worker,
                                  struct kvc_ints blocks, struct kvc_error *err);

/* ---- server_request.c ---- */

/* Chooses the blocks that requests use: as many as one stores and retrieves, the first and the last
 * block among them. A worker's memory has been in use for long when it is measured; here, too, all of
 * these blocks have been seen by both sides after a few requests, and no system hands out pages. */
void kvc_bench_choose_blocks(struct kvc_bench *bench);
/* Draws tokens and blocks from the seed and the id alone; freed with kvc_bench_request_clear. */
void kvc_bench_request_init(const struct kvc_bench *bench, struct kvc_bench_id id,
                            struct kvc_bench_request *request);
void kvc_bench_request_clear(struct kvc_bench_request *request);
/* The request id of the next calls. */
void kvc_bench_request_begin(struct kvc_bench_client *client, const char *pass,
                             struct kvc_bench_request *request);
/* The key of chunks [first, end). */
struct kvc_key kvc_bench_request_key(const struct kvc_bench_client *client,
                                     const struct kvc_bench_request *request, int64_t first,
                                     int64_t end);
/* The blocks of chunks [first, end), of the source or target blocks of a request. */
struct kvc_ints kvc_bench_request_blocks(const struct kvc_bench *bench, struct kvc_ints blocks,
                                         int64_t first, int64_t end);
/* Writes what a request stores into the source blocks of every rank that writes. */
void kvc_bench_request_fill(struct kvc_bench_client *client,
                            const struct kvc_bench_request *request);
/* Makes sure that nothing right stands in the target blocks of chunks [0, end). */
void kvc_bench_request_poison(struct kvc_bench_client *client,
                              const struct kvc_bench_request *request, int64_t end);
/* Checks every byte of chunks [0, end) in the target blocks of all ranks, and the guards around the
 * caches. KVC_EMISMATCH. */
kvc_status kvc_bench_request_check(struct kvc_bench_client *client,
                                   const struct kvc_bench_request *request, int64_t end,
                                   struct kvc_error *err);

/* ---- server_steps.c: the operations, timed ---- */

/* Each adds to the client's tally and samples. False: a problem was noted. */

/* Finds `expected` chunks, no more and no fewer. */
bool kvc_bench_lookup(struct kvc_bench_client *client, struct kvc_bench_request *request,
                      enum kvc_bench_operation operation, int64_t expected);
/* From every rank that writes; one sample for all of them. */
bool kvc_bench_store(struct kvc_bench_client *client, struct kvc_bench_request *request,
                     int64_t first, int64_t end);
/* Into the target blocks of every rank; one sample for all of them. */
bool kvc_bench_retrieve(struct kvc_bench_client *client, struct kvc_bench_request *request,
                        int64_t end);
/* Not timed as operations, but as parts of the time. */
bool kvc_bench_free_locks(struct kvc_bench_client *client, struct kvc_bench_request *request,
                          int64_t chunks);
bool kvc_bench_end_session(struct kvc_bench_client *client, struct kvc_bench_request *request);
/* STORE answers a little before LOOKUP can see the chunks [0, end); that wait is no lookup latency. */
bool kvc_bench_await_visible(struct kvc_bench_client *client, struct kvc_bench_request *request,
                             int64_t end);
/* Checks chunks [0, end) of the target blocks, and counts the request as right or wrong. */
void kvc_bench_verify(struct kvc_bench_client *client, struct kvc_bench_request *request,
                      int64_t end);

/* ---- server_workload.c ---- */

/* One way to make a request. */
struct kvc_bench_workload_steps {
    /* Makes the request itself, and what it needs in the caches, before it is due. */
    void (*get_ready)(struct kvc_bench_client *client, int64_t number,
                      struct kvc_bench_request *request);
    /* False: a problem was noted, or the run was stopped on the way. */
    bool (*run)(struct kvc_bench_client *client, struct kvc_bench_request *request);
    unsigned operations; /* a bit for each that it makes */
    bool needs_prepared; /* requests of every client */
    bool leaves_unread;  /* bytes that only reading back verifies */
};

extern const struct kvc_bench_workload_steps kvc_bench_workloads[KVC_BENCH_WORKLOAD_COUNT];

/* For what nobody has read yet: the last ones are read back at the end. */
void kvc_bench_remember(struct kvc_bench_client *client, struct kvc_bench_id id);

/* ---- server_mix.c ---- */

/* Which workload a request has. */
enum kvc_bench_workload kvc_bench_mix_choose(const struct kvc_bench_mix *mix, uint64_t number);

/* ---- server_work.c: what a client does in each phase ---- */

/* Stores what the mix needs beforehand: this client's part of it. */
void kvc_bench_prepare(struct kvc_bench_client *client);
/* Whether somebody is still there to answer, whatever the answer. */
bool kvc_bench_server_answers(struct kvc_bench_client *client);
/* Takes tickets and makes their requests until there are none. */
void kvc_bench_work(struct kvc_bench_client *client);
/* Retrieves and checks the last requests that nobody has read. What the server does not have any more
 * is counted. */
void kvc_bench_read_back(struct kvc_bench_client *client);

/* ---- server_phase.c ---- */

/* Runs a phase in one thread a client, and gathers what they measured. True when the next phase can
 * come: nobody asked to stop, and the server still answers. */
bool kvc_bench_phase_run(struct kvc_bench *bench, struct kvc_bench_phase *phase, const char *what);
/* Called once by a client in each phase, when its first request is ready: the phase begins when all
 * are, and everything until then is not counted. */
void kvc_bench_gate(struct kvc_bench_client *client);
/* Whether the run is to end: somebody asked for it, or the server is lost. */
bool kvc_bench_stopped(const struct kvc_bench *bench);
/* Sleeps until a moment of the monotonic clock, or until the run is to end. */
void kvc_bench_sleep_until(const struct kvc_bench *bench, int64_t moment_ns);
/* Adds the time since `since` to a part. */
void kvc_bench_spend(struct kvc_bench_client *client, enum kvc_bench_part part, int64_t since_ns);
void kvc_bench_sample(struct kvc_bench_client *client, size_t lane, int64_t latency_ns);

/* ---- server_ramp.c ---- */

/* Tries rates until the search ends; the best step's measurement becomes the result's. */
void kvc_bench_ramp_run(struct kvc_bench *bench);
/* Runs one measured stretch at a rate. False as kvc_bench_phase_run. */
bool kvc_bench_measure(struct kvc_bench *bench, double rate, int64_t count, int64_t duration_ms,
                       struct kvc_bench_measurement *measurement);
void kvc_bench_measurement_clear(struct kvc_bench_measurement *measurement);

#endif
