/* What requests are made of: lookup, store, retrieve, verify, each timed. */
#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum { VISIBLE_WITHIN_MS = 5000 };

/* An operation under way: when it began, and what the client had waited until then. */
struct timing {
    int64_t begin_ns, waited_before_ns;
    int64_t copy_ns; /* by the worker */
};

static struct timing timing_begin(const struct kvc_bench_client *client)
{
    return (struct timing){.begin_ns = kvc_now_ns(),
                           .waited_before_ns = kvc_client_waited_ns(client->connection)};
}

/* What is neither waiting nor copying is making requests and reading replies. An operation of a
 * request that began late is counted from when it was due: its own beginning less that delay. */
static void timing_end(struct kvc_bench_client *client, const struct kvc_bench_request *request,
                       enum kvc_bench_operation operation, enum kvc_bench_part copying,
                       const struct timing *timing)
{
    const int64_t spent = kvc_now_ns() - timing->begin_ns;
    const int64_t waited = kvc_client_waited_ns(client->connection) - timing->waited_before_ns;
    int64_t *parts = client->tally.parts_ns;
    parts[KVC_BENCH_WAIT] += waited;
    parts[copying] += timing->copy_ns;
    parts[KVC_BENCH_ENCODE] += spent - waited - timing->copy_ns;
    client->tally.service_ns[operation] += spent;
    kvc_bench_sample(client, operation, spent + request->delay_ns);
}

static void note_wrong_hits(struct kvc_bench_client *client,
                            const struct kvc_bench_request *request,
                            enum kvc_bench_operation operation, int64_t found, int64_t expected)
{
    struct kvc_bench *bench = client->bench;
    const bool is_cold = operation == KVC_BENCH_COLD_LOOKUP;
    const bool may_be_evicted = request->id.kind == KVC_BENCH_KIND_PREPARED && found < expected;
    char text[160];
    snprintf(
        text, sizeof(text), "%s: %lld of %lld%s",
        found > expected ? "hit chunks that were never stored" : "missed chunks that were stored",
        (long long)found, (long long)expected,
        may_be_evicted ? " (evicted? --prepared says how many requests must fit the cache)" : "");
    pthread_mutex_lock(&bench->lock);
    *(is_cold ? &bench->result->cold_hits : &bench->result->warm_misses) += 1;
    pthread_mutex_unlock(&bench->lock);
    kvc_bench_problem(bench, request, is_cold ? "LOOKUP cold" : "LOOKUP warm", text);
}

bool kvc_bench_lookup(struct kvc_bench_client *client, struct kvc_bench_request *request,
                      enum kvc_bench_operation operation, int64_t expected)
{
    const struct kvc_bench *bench = client->bench;
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_key key = kvc_bench_request_key(client, request, 0, bench->chunk_count);
    key.worker_id = KVC_NIL_INT;
    int64_t found = 0;
    const struct timing timing = timing_begin(client);
    if (kvc_rpc_lookup(&client->rpc, &key, bench->options->tp_size, &found, &err) != KVC_OK) {
        kvc_bench_problem_error(client->bench, request, "LOOKUP", &err);
        return false;
    }
    timing_end(client, request, operation, KVC_BENCH_GATHER, &timing);
    client->tally.tokens[operation] += bench->chunk_count * bench->chunk_tokens;
    kvc_bench_step_line(client->bench, request, "LOOKUP %s: %lld/%lld chunks hit", request->pass,
                        (long long)found, (long long)bench->chunk_count);
    if (found == expected)
        return true;
    note_wrong_hits(client, request, operation, found, expected);
    return false;
}

bool kvc_bench_store(struct kvc_bench_client *client, struct kvc_bench_request *request,
                     int64_t first, int64_t end)
{
    const struct kvc_bench *bench = client->bench;
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_key key = kvc_bench_request_key(client, request, first, end);
    const struct kvc_ints blocks =
        kvc_bench_request_blocks(bench, request->source_blocks, first, end);
    const int64_t writers = bench->is_mla ? 1 : bench->options->tp_size;
    struct timing timing = timing_begin(client);
    for (int64_t rank = 0; rank < writers; rank++) {
        struct kvc_store_result stored = {0};
        kvc_status status = kvc_worker_store(client->workers[rank], &key, blocks, &stored, &err);
        if (status == KVC_OK && !stored.success)
            status = kvc_fail(&err, KVC_EREFUSED, "rank %lld: the server said the store failed",
                              (long long)rank);
        if (status != KVC_OK) {
            kvc_bench_problem_error(client->bench, request, "STORE", &err);
            return false;
        }
        timing.copy_ns += client->workers[rank]->timing.copy_ns;
    }
    timing_end(client, request, KVC_BENCH_COLD_STORE, KVC_BENCH_GATHER, &timing);
    client->tally.tokens[KVC_BENCH_COLD_STORE] += (end - first) * bench->chunk_tokens;
    client->tally.bytes[KVC_BENCH_COLD_STORE] +=
        writers * (end - first) * kvc_geometry_chunk_bytes(&bench->geometry, bench->chunk_tokens);
    kvc_bench_step_line(client->bench, request, "STORE: %lld chunks stored",
                        (long long)(end - first));
    return true;
}

bool kvc_bench_retrieve(struct kvc_bench_client *client, struct kvc_bench_request *request,
                        int64_t end)
{
    const struct kvc_bench *bench = client->bench;
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_key key = kvc_bench_request_key(client, request, 0, end);
    const struct kvc_ints blocks = kvc_bench_request_blocks(bench, request->target_blocks, 0, end);
    const int64_t readers = bench->options->tp_size;
    struct timing timing = timing_begin(client);
    for (int64_t rank = 0; rank < readers; rank++) {
        bool success = false;
        kvc_status status =
            kvc_worker_retrieve(client->workers[rank], &key, blocks, 0, &success, &err);
        if (status == KVC_OK && !success)
            status = kvc_fail(&err, KVC_EREFUSED, "rank %lld: the server said the retrieve failed",
                              (long long)rank);
        if (status != KVC_OK) {
            kvc_bench_problem_error(client->bench, request, "RETRIEVE", &err);
            return false;
        }
        timing.copy_ns += client->workers[rank]->timing.copy_ns;
    }
    timing_end(client, request, KVC_BENCH_WARM_RETRIEVE, KVC_BENCH_SCATTER, &timing);
    client->tally.tokens[KVC_BENCH_WARM_RETRIEVE] += end * bench->chunk_tokens;
    client->tally.bytes[KVC_BENCH_WARM_RETRIEVE] +=
        readers * end * kvc_geometry_chunk_bytes(&bench->geometry, bench->chunk_tokens);
    kvc_bench_step_line(client->bench, request, "RETRIEVE: %lld chunks retrieved", (long long)end);
    return true;
}

bool kvc_bench_free_locks(struct kvc_bench_client *client, struct kvc_bench_request *request,
                          int64_t chunks)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_key key = kvc_bench_request_key(client, request, 0, chunks);
    key.worker_id = KVC_NIL_INT;
    const int64_t begin = kvc_now_ns();
    const kvc_status status =
        kvc_rpc_free_locks(&client->rpc, &key, client->bench->options->tp_size, &err);
    kvc_bench_spend(client, KVC_BENCH_SETTLE, begin);
    if (status != KVC_OK)
        kvc_bench_problem_error(client->bench, request, "FREE_LOOKUP_LOCKS", &err);
    return status == KVC_OK;
}

bool kvc_bench_end_session(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const int64_t begin = kvc_now_ns();
    const kvc_status status = kvc_rpc_end_session(&client->rpc, kvc_str_of(request->name), &err);
    kvc_bench_spend(client, KVC_BENCH_SETTLE, begin);
    if (status != KVC_OK)
        kvc_bench_problem_error(client->bench, request, "END_SESSION", &err);
    return status == KVC_OK;
}

bool kvc_bench_await_visible(struct kvc_bench_client *client, struct kvc_bench_request *request,
                             int64_t end)
{
    struct kvc_bench *bench = client->bench;
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_key key = kvc_bench_request_key(client, request, 0, end);
    const int64_t begin = kvc_now_ns();
    const kvc_status status =
        kvc_worker_wait_visible(client->workers[0], &key, end, VISIBLE_WITHIN_MS, &err);
    kvc_bench_spend(client, KVC_BENCH_SETTLE, begin);
    if (status == KVC_OK)
        return true;
    if (status != KVC_EINTERRUPTED) {
        pthread_mutex_lock(&bench->lock);
        bench->result->warm_misses++;
        pthread_mutex_unlock(&bench->lock);
    }
    kvc_bench_problem_error(bench, request, "LOOKUP after STORE", &err);
    return false;
}

void kvc_bench_verify(struct kvc_bench_client *client, struct kvc_bench_request *request,
                      int64_t end)
{
    struct kvc_bench *bench = client->bench;
    struct kvc_error err = KVC_ERROR_INIT;
    const int64_t begin = kvc_now_ns();
    const kvc_status status = kvc_bench_request_check(client, request, end, &err);
    kvc_bench_spend(client, KVC_BENCH_VERIFY, begin);
    if (status == KVC_OK) {
        client->tally.checksum_ok++;
        kvc_bench_step_line(bench, request, "CHECKSUM MATCH OK");
        return;
    }
    pthread_mutex_lock(&bench->lock);
    bench->result->checksum_fail++;
    pthread_mutex_unlock(&bench->lock);
    kvc_bench_problem_error(bench, request, "CHECKSUM MISMATCH", &err);
}
