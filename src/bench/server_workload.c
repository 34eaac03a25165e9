/* The workloads: what a request consists of, and what has to be there before it. */
#include "src/base/clock.h"
#include "src/bench/server_parts.h"

static struct kvc_bench_id new_id(const struct kvc_bench_client *client, int64_t number)
{
    return (struct kvc_bench_id){.kind = client->bench->phase->kind, .number = number};
}

/* Any client's, so that clients read what others stored. */
static struct kvc_bench_id prepared_id(const struct kvc_bench_client *client, int64_t number)
{
    const struct kvc_bench_server_options *options = client->bench->options;
    const uint64_t count = (uint64_t)(options->clients * options->prepared);
    return (struct kvc_bench_id){.kind = KVC_BENCH_KIND_PREPARED,
                                 .number =
                                     (int64_t)(kvc_mix((uint64_t)number ^ options->seed) % count)};
}

void kvc_bench_remember(struct kvc_bench_client *client, struct kvc_bench_id id)
{
    client->stored[client->stored_count++ % KVC_BENCH_READ_BACK] = id;
}

static bool rest_between_passes(struct kvc_bench_client *client)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t begin = kvc_now_ns();
    if (bench->phase->rate <= 0)
        kvc_bench_sleep_until(bench, begin + (int64_t)(bench->options->interval * 1e9));
    kvc_bench_spend(client, KVC_BENCH_REST, begin);
    return !kvc_bench_stopped(bench);
}

static void ready_to_store(struct kvc_bench_client *client, int64_t number,
                           struct kvc_bench_request *request)
{
    kvc_bench_request_init(client->bench, new_id(client, number), request);
    kvc_bench_request_fill(client, request);
}

/* ---- pair ---- */

static bool run_pair(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    const int64_t chunks = client->bench->chunk_count;
    kvc_bench_request_begin(client, "cold", request);
    if (!kvc_bench_lookup(client, request, KVC_BENCH_COLD_LOOKUP, 0) ||
        !kvc_bench_store(client, request, 0, chunks) || !kvc_bench_end_session(client, request) ||
        !kvc_bench_await_visible(client, request, chunks) || !rest_between_passes(client))
        return false;
    kvc_bench_request_poison(client, request, chunks);
    kvc_bench_request_begin(client, "warm", request);
    if (!kvc_bench_lookup(client, request, KVC_BENCH_WARM_LOOKUP, chunks) ||
        !kvc_bench_retrieve(client, request, chunks))
        return false;
    kvc_bench_verify(client, request, chunks);
    return kvc_bench_end_session(client, request);
}

/* ---- store ---- */

static bool run_store(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    kvc_bench_request_begin(client, "cold", request);
    if (!kvc_bench_store(client, request, 0, client->bench->chunk_count))
        return false;
    kvc_bench_remember(client, request->id);
    client->tally.deferred++;
    return kvc_bench_end_session(client, request);
}

/* ---- retrieve ---- */

static void ready_to_retrieve(struct kvc_bench_client *client, int64_t number,
                              struct kvc_bench_request *request)
{
    kvc_bench_request_init(client->bench, prepared_id(client, number), request);
    kvc_bench_request_poison(client, request, client->bench->chunk_count);
}

static bool run_retrieve(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    const int64_t chunks = client->bench->chunk_count;
    kvc_bench_request_begin(client, "warm", request);
    if (!kvc_bench_lookup(client, request, KVC_BENCH_WARM_LOOKUP, chunks) ||
        !kvc_bench_retrieve(client, request, chunks))
        return false;
    kvc_bench_verify(client, request, chunks);
    return kvc_bench_end_session(client, request);
}

/* ---- lookup ---- */

/* What is there and what is not, in turn. */
static void ready_to_look_up(struct kvc_bench_client *client, int64_t number,
                             struct kvc_bench_request *request)
{
    const bool is_warm = number % 2 == 0;
    kvc_bench_request_init(client->bench,
                           is_warm ? prepared_id(client, number) : new_id(client, number), request);
}

static bool run_lookup(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    const bool is_warm = request->id.kind == KVC_BENCH_KIND_PREPARED;
    const int64_t expected = is_warm ? client->bench->chunk_count : 0;
    kvc_bench_request_begin(client, is_warm ? "warm" : "cold", request);
    if (!kvc_bench_lookup(client, request, is_warm ? KVC_BENCH_WARM_LOOKUP : KVC_BENCH_COLD_LOOKUP,
                          expected))
        return false;
    if (is_warm && !kvc_bench_free_locks(client, request, expected))
        return false;
    client->tally.deferred++;
    return kvc_bench_end_session(client, request);
}

/* ---- prefix ---- */

/* Stored and retrieved chunks are different ones, so that they can have the same list of blocks. */
static void ready_to_share(struct kvc_bench_client *client, int64_t number,
                           struct kvc_bench_request *request)
{
    const struct kvc_bench *bench = client->bench;
    struct kvc_bench_id id = new_id(client, number);
    id.shared_tokens = bench->shared_chunks * bench->chunk_tokens;
    kvc_bench_request_init(bench, id, request);
    request->target_blocks = request->source_blocks;
    kvc_bench_request_fill(client, request);
    kvc_bench_request_poison(client, request, bench->shared_chunks);
}

static bool run_prefix(struct kvc_bench_client *client, struct kvc_bench_request *request)
{
    const struct kvc_bench *bench = client->bench;
    kvc_bench_request_begin(client, "warm", request);
    if (!kvc_bench_lookup(client, request, KVC_BENCH_WARM_LOOKUP, bench->shared_chunks) ||
        !kvc_bench_retrieve(client, request, bench->shared_chunks) ||
        !kvc_bench_store(client, request, bench->shared_chunks, bench->chunk_count))
        return false;
    kvc_bench_remember(client, request->id);
    kvc_bench_verify(client, request, bench->shared_chunks);
    return kvc_bench_end_session(client, request);
}

enum {
    COLD_LOOKUP = 1 << KVC_BENCH_COLD_LOOKUP,
    COLD_STORE = 1 << KVC_BENCH_COLD_STORE,
    WARM_LOOKUP = 1 << KVC_BENCH_WARM_LOOKUP,
    WARM_RETRIEVE = 1 << KVC_BENCH_WARM_RETRIEVE,
};

const struct kvc_bench_workload_steps kvc_bench_workloads[KVC_BENCH_WORKLOAD_COUNT] = {
    [KVC_BENCH_PAIR] = {ready_to_store, run_pair,
                        COLD_LOOKUP | COLD_STORE | WARM_LOOKUP | WARM_RETRIEVE, false, false},
    [KVC_BENCH_STORE] = {ready_to_store, run_store, COLD_STORE, false, true},
    [KVC_BENCH_RETRIEVE] = {ready_to_retrieve, run_retrieve, WARM_LOOKUP | WARM_RETRIEVE, true,
                            false},
    [KVC_BENCH_LOOKUP] = {ready_to_look_up, run_lookup, COLD_LOOKUP | WARM_LOOKUP, true, true},
    [KVC_BENCH_PREFIX] = {ready_to_share, run_prefix, WARM_LOOKUP | WARM_RETRIEVE | COLD_STORE,
                          false, true},
};
