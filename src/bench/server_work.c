/* What a client does in each phase of a run. */
#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum { VISIBLE_WITHIN_MS = 5000 };

/* ---- after a request that failed ---- */

bool kvc_bench_server_answers(struct kvc_bench_client *client)
{
    const kvc_status status = kvc_rpc_noop(&client->rpc, NULL);
    return status != KVC_ETIMEOUT && status != KVC_ELOST && status != KVC_EINTERRUPTED;
}

/* Counts it, leaves no locks behind, and finds out whether anybody is there any more: each further
 * request would only wait for its limits. */
static void note_failure(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    struct kvc_bench *bench = client->bench;
    if (kvc_bench_stopped(bench))
        return;
    const bool answers = kvc_bench_server_answers(client);
    if (answers)
        kvc_rpc_end_session(&client->rpc, kvc_str_of(request->name), NULL);
    pthread_mutex_lock(&bench->lock);
    bench->result->errors++;
    if (!answers && !kvc_bench_stopped(bench)) {
        bench->result->lost = true;
        atomic_store(&bench->halted, 1);
    }
    pthread_mutex_unlock(&bench->lock);
}

/* ---- preparing ---- */

static bool store_one(struct kvc_bench_client *client, struct kvc_bench_id id, int64_t chunks)
{
    struct kvc_bench_request request;
    kvc_bench_request_init(client->bench, id, &request);
    kvc_bench_request_fill(client, &request);
    kvc_bench_request_begin(client, "prepare", &request);
    const bool done = kvc_bench_store(client, &request, 0, chunks) &&
                      kvc_bench_end_session(client, &request) &&
                      kvc_bench_await_visible(client, &request, chunks);
    if (!done)
        note_failure(client, &request);
    kvc_bench_request_clear(&request);
    return done;
}

void kvc_bench_prepare(struct kvc_bench_client *client)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t each = bench->options->prepared;
    kvc_bench_gate(client);
    if (bench->mix.weights[KVC_BENCH_PREFIX] > 0 && client->number == 0 &&
        !store_one(client, (struct kvc_bench_id){.kind = KVC_BENCH_KIND_SHARED},
                   bench->shared_chunks))
        return;
    if (!bench->needs_prepared)
        return;
    for (int64_t i = 0; i < each && !kvc_bench_stopped(bench); i++) {
        const struct kvc_bench_id id = {.kind = KVC_BENCH_KIND_PREPARED,
                                        .number = client->number * each + i};
        if (!store_one(client, id, bench->chunk_count))
            return;
        if (bench->mix.weights[KVC_BENCH_LOOKUP] > 0)
            kvc_bench_remember(client, id);
    }
}

/* ---- working ---- */

/* A request that is ready to be made. */
struct job {
    const struct kvc_bench_workload_steps *workload;
    struct kvc_bench_request request;
    int64_t due_ns; /* after the phase began */
};

/* The next ticket; false when there is none. At a rate, what is due within the duration is served
 * until that has passed twice: what is left then is beyond the server. */
static bool take_ticket(const struct kvc_bench *bench, int64_t *ticket, int64_t *due_ns)
{
    struct kvc_bench_phase *phase = bench->phase;
    if (kvc_bench_stopped(bench))
        return false;
    *ticket = atomic_fetch_add(&phase->next, 1);
    const int64_t passed = kvc_now_ns() - phase->begin_ns;
    *due_ns = phase->rate > 0 ? (int64_t)((double)*ticket * 1e9 / phase->rate) : passed;
    if (phase->count >= 0 && *ticket >= phase->count)
        return false;
    return phase->duration_ns == 0 ||
           (*due_ns < phase->duration_ns && passed < 2 * phase->duration_ns);
}

static bool take_job(struct kvc_bench_client *client, struct job *job)
{
    const struct kvc_bench *bench = client->bench;
    int64_t ticket;
    if (!take_ticket(bench, &ticket, &job->due_ns))
        return false;
    const int64_t number = bench->next_sequence + ticket;
    job->workload = &kvc_bench_workloads[kvc_bench_mix_choose(&bench->mix, (uint64_t)number)];
    job->workload->get_ready(client, number, &job->request);
    return true;
}

/* At a rate: waits until the request is due, and notes how late it is. Closed loop: rests, but not
 * before the first one. */
static void await_turn(struct kvc_bench_client *client, struct job *job)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t begin = kvc_now_ns();
    if (bench->phase->rate > 0) {
        const int64_t due = bench->phase->begin_ns + job->due_ns;
        kvc_bench_sleep_until(bench, due);
        job->request.delay_ns = kvc_now_ns() - due;
        kvc_bench_sample(client, KVC_BENCH_LATENESS, job->request.delay_ns);
    } else if (client->tally.begun > 0) {
        kvc_bench_sleep_until(bench, begin + (int64_t)(bench->options->interval * 1e9));
    }
    kvc_bench_spend(client, KVC_BENCH_REST, begin);
}

static void do_job(struct kvc_bench_client *client, struct job *job)
{
    await_turn(client, job);
    if (!kvc_bench_stopped(client->bench)) {
        client->tally.begun++;
        if (job->workload->run(client, &job->request))
            client->tally.requests++;
        else
            note_failure(client, &job->request);
        client->tally.ended_ns = kvc_now_ns();
    }
    kvc_bench_request_clear(&job->request);
}

/* Each rank has a mapping of its own, and each GiB of it 2 MiB of page tables: not for any number. */
static void map_pool_ahead(const struct kvc_bench_client *client)
{
    const struct kvc_bench_server_options *options = client->bench->options;
    const uint64_t most = (uint64_t)64 << 30;
    for (int64_t rank = 0; rank < options->tp_size; rank++)
        if (client->workers[rank]->pool.size <=
            most / (uint64_t)(options->clients * options->tp_size))
            kvc_worker_map_ahead(client->workers[rank]);
}

void kvc_bench_work(struct kvc_bench_client *client)
{
    struct job job;
    bool has_job = take_job(client, &job);
    map_pool_ahead(client);
    kvc_bench_gate(client);
    const int64_t begin = kvc_now_ns();
    while (has_job) {
        do_job(client, &job);
        has_job = take_job(client, &job);
    }
    client->tally.whole_ns = kvc_now_ns() - begin;
}

/* ---- reading back ---- */

static bool count_evicted(struct kvc_bench *bench)
{
    pthread_mutex_lock(&bench->lock);
    bench->result->read_back_evicted++;
    pthread_mutex_unlock(&bench->lock);
    return true;
}

/* LOOKUP, RETRIEVE and verify, if the server still has all of it. */
static bool read_one(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    struct kvc_bench *bench = client->bench;
    const int64_t chunks = bench->chunk_count;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_key key = kvc_bench_request_key(client, request, 0, chunks);
    key.worker_id = KVC_NIL_INT;
    int64_t found = 0;
    if (kvc_rpc_lookup(&client->rpc, &key, bench->options->tp_size, &found, &err) != KVC_OK) {
        kvc_bench_problem_error(bench, request, "LOOKUP of what was stored", &err);
        return false;
    }
    if (found < chunks)
        return count_evicted(bench) && kvc_bench_end_session(client, request);
    if (!kvc_bench_retrieve(client, request, chunks))
        return false;
    const int64_t right = client->tally.checksum_ok;
    kvc_bench_verify(client, request, chunks);
    pthread_mutex_lock(&bench->lock);
    bench->result->read_back += client->tally.checksum_ok - right;
    pthread_mutex_unlock(&bench->lock);
    return kvc_bench_end_session(client, request);
}

static void read_stored(struct kvc_bench_client *client, struct kvc_bench_id id, bool is_newest)
{
    struct kvc_bench_request request;
    kvc_bench_request_init(client->bench, id, &request);
    kvc_bench_request_poison(client, &request, client->bench->chunk_count);
    kvc_bench_request_begin(client, "read-back", &request);
    if (is_newest) { /* it may not be visible yet; if it is gone, the lookup below says so */
        const struct kvc_key key =
            kvc_bench_request_key(client, &request, 0, client->bench->chunk_count);
        kvc_worker_wait_visible(client->workers[0], &key, client->bench->chunk_count,
                                VISIBLE_WITHIN_MS, NULL);
    }
    if (!read_one(client, &request))
        note_failure(client, &request);
    kvc_bench_request_clear(&request);
}

void kvc_bench_read_back(struct kvc_bench_client *client)
{
    kvc_bench_gate(client);
    const size_t count = client->stored_count;
    const size_t kept = count < KVC_BENCH_READ_BACK ? count : KVC_BENCH_READ_BACK;
    for (size_t i = 0; i < kept && !kvc_bench_stopped(client->bench); i++)
        read_stored(client, client->stored[(count - 1 - i) % KVC_BENCH_READ_BACK], i == 0);
}
