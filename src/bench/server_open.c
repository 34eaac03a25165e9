/* Before and after the phases: negotiation, registration, and the way back. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/bench/server_parts.h"
#include "src/target/identify.h"

static kvc_status check_shape(const struct kvc_bench *bench, struct kvc_error *err)
{
    const struct kvc_group *first = &bench->geometry.groups[0];
    if (bench->chunk_tokens % first->block_size != 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--kvcache-shape-spec: the server's chunk of %lld tokens is no multiple of "
                        "the block size %lld",
                        (long long)bench->chunk_tokens, (long long)first->block_size);
    if (bench->chunk_count == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--num-tokens %lld: with the sequence number's token that is less than one "
                        "chunk of %lld tokens",
                        (long long)bench->options->num_tokens, (long long)bench->chunk_tokens);
    const int64_t needed = bench->chunk_count * bench->chunk_tokens / first->block_size;
    if (needed > first->num_blocks)
        return kvc_fail(
            err, KVC_EUSAGE, "--num-tokens %lld needs %lld blocks, --kvcache-shape-spec has %lld",
            (long long)bench->options->num_tokens, (long long)needed, (long long)first->num_blocks);
    return KVC_OK;
}

/* Whole chunks, and at least one of each kind. */
static kvc_status choose_shared(struct kvc_bench *bench, struct kvc_error *err)
{
    const int64_t given = bench->options->shared_tokens;
    bench->shared_chunks = given == 0 ? bench->chunk_count / 2 : given / bench->chunk_tokens;
    if (bench->mix.weights[KVC_BENCH_PREFIX] == 0 ||
        (bench->shared_chunks > 0 && bench->shared_chunks < bench->chunk_count))
        return KVC_OK;
    return kvc_fail(
        err, KVC_EUSAGE,
        "--workload prefix shares %lld of the %lld chunks of %lld tokens that a request "
        "has: it needs one that is shared and one that is not (--num-tokens, "
        "--shared-tokens)",
        (long long)bench->shared_chunks, (long long)bench->chunk_count,
        (long long)bench->chunk_tokens);
}

static kvc_status use_device(struct kvc_bench *bench, const struct kvc_device *device,
                             struct kvc_error *err)
{
    struct kvc_device_text about = {"cpu"};
    if (device != &kvc_device_cpu) {
        bench->device = device;
        KVC_GUARD(device->probe(&about, err));
    }
    snprintf(bench->result->device, sizeof(bench->result->device), "%s", about.text);
    return KVC_OK;
}

static kvc_status read_options(struct kvc_bench *bench, struct kvc_mode_choice *choice,
                               struct kvc_error *err)
{
    const struct kvc_bench_server_options *options = bench->options;
    const struct kvc_device *device =
        kvc_device_find(strcmp(options->mode, "gpu") == 0 ? KVC_STR("cuda") : KVC_STR("cpu"));
    KVC_GUARD(
        kvc_mode_choose(options->transfer_mode, getenv(KVC_MODE_ENVIRONMENT), device, choice, err));
    KVC_GUARD(use_device(bench, device, err));
    KVC_GUARD(kvc_geometry_parse_defaults(options->shape_spec, options->num_blocks,
                                          options->block_size, &bench->geometry, err));
    if (choice->mode == KVC_MODE_ENGINE_DRIVEN && bench->geometry.group_count > 1)
        return kvc_fail(err, KVC_EUSAGE,
                        "--kvcache-shape-spec has %zu groups, engine_driven carries one; "
                        "--transfer-mode lmcache_driven carries several",
                        bench->geometry.group_count);
    bench->is_mla = options->use_mla || bench->geometry.groups[0].kv_size == 1;
    bench->mix = options->mix;
    for (size_t i = 0; i < KVC_BENCH_WORKLOAD_COUNT; i++) {
        if (bench->mix.weights[i] == 0)
            continue;
        bench->needs_prepared |= kvc_bench_workloads[i].needs_prepared;
        bench->leaves_unread |= kvc_bench_workloads[i].leaves_unread;
    }
    return KVC_OK;
}

/* What the server says about itself, over the first client's connection. */
static kvc_status ask_server(struct kvc_bench *bench, struct kvc_error *err)
{
    const struct kvc_bench_server_options *options = bench->options;
    struct kvc_bench_server_result *result = bench->result;
    KVC_GUARD(kvc_rpc_chunk_size(&bench->clients[0].rpc, &bench->chunk_tokens, err));
    result->chunk_size = bench->chunk_tokens;
    bench->chunk_count = (options->num_tokens + 1) / bench->chunk_tokens;
    const int64_t writers = bench->is_mla ? 1 : options->tp_size;
    result->request_bytes = writers * bench->chunk_count *
                            kvc_geometry_chunk_bytes(&bench->geometry, bench->chunk_tokens);
    kvc_bench_line(bench, "Server chunk_size = %lld", (long long)bench->chunk_tokens);
    kvc_bench_line(bench, "Resolved KV shape spec: %s", options->shape_spec);
    KVC_GUARD(check_shape(bench, err));
    kvc_bench_choose_blocks(bench);
    return choose_shared(bench, err);
}

static kvc_status find_dialect(struct kvc_bench *bench, struct kvc_error *err)
{
    const struct kvc_bench_server_options *options = bench->options;
    bench->rpc.dialect = options->dialect;
    bench->rpc.timeout_ms = options->timeout_ms;
    if (bench->rpc.dialect == NULL) {
        struct kvc_identity identity;
        KVC_GUARD(kvc_identify(options->rpc_url, NULL, options->connect_timeout_ms,
                               options->timeout_ms, &identity, err));
        bench->rpc.dialect = identity.dialect;
    }
    snprintf(bench->result->dialect, sizeof(bench->result->dialect), "%s",
             bench->rpc.dialect->name);
    return KVC_OK;
}

/* ---- clients ---- */

static kvc_status connect_client(struct kvc_bench *bench, int64_t number, struct kvc_error *err)
{
    struct kvc_bench_client *client = &bench->clients[number];
    client->bench = bench;
    client->number = number;
    pthread_mutex_init(&client->lock, NULL);
    bench->client_count = number + 1;
    KVC_GUARD(kvc_client_open(bench->options->rpc_url, bench->options->connect_timeout_ms,
                              &client->connection, err));
    client->rpc = bench->rpc;
    client->rpc.client = client->connection;
    return KVC_OK;
}

static kvc_status register_rank(struct kvc_bench_client *client, int64_t rank,
                                enum kvc_transfer_mode mode, struct kvc_error *err)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t ranks = bench->options->tp_size;
    char model[64];
    snprintf(model, sizeof(model), "kvconform-bench-%016llx",
             (unsigned long long)bench->options->seed);
    const uint64_t base = kvc_mix(bench->options->seed) % (1u << 30);
    const struct kvc_worker_options options = {
        .geometry = bench->geometry,
        .instance_id = (int64_t)base + client->number * ranks + rank,
        .model_name = kvc_str_of(model),
        .world_size = bench->is_mla ? 1 : ranks,
        .worker_id = bench->is_mla ? 0 : rank,
        .num_kv_readers = bench->is_mla ? ranks : 1,
        .mode = mode,
        .chunk_size = bench->chunk_tokens,
        .device = bench->device,
    };
    return kvc_worker_open(&client->rpc, &options, &client->workers[rank], err);
}

static kvc_status register_client(struct kvc_bench *bench, int64_t number,
                                  enum kvc_transfer_mode mode, struct kvc_error *err)
{
    struct kvc_bench_client *client = &bench->clients[number];
    const int64_t ranks = bench->options->tp_size;
    client->workers = kvc_alloc_zero((size_t)ranks, sizeof(struct kvc_worker *));
    for (int64_t rank = 0; rank < ranks; rank++)
        KVC_GUARD(register_rank(client, rank, mode, err));
    return KVC_OK;
}

static void note_path(struct kvc_bench *bench, const struct kvc_mode_choice *choice)
{
    struct kvc_bench_server_result *result = bench->result;
    const struct kvc_worker *worker = bench->clients[0].workers[0];
    snprintf(result->path, sizeof(result->path), "%s", kvc_path_name(worker->path));
    snprintf(result->path_reason, sizeof(result->path_reason), "%s; %s", choice->reason,
             worker->path_reason);
    kvc_bench_line(bench, "Transfer path: %s (%s)", result->path, result->path_reason);
}

kvc_status kvc_bench_open(struct kvc_bench *bench, struct kvc_error *err)
{
    const struct kvc_bench_server_options *options = bench->options;
    struct kvc_mode_choice choice;
    KVC_GUARD(read_options(bench, &choice, err));
    kvc_bench_line(bench, "Connecting to LMCache MP Server at %s (mode=%s) ...", options->rpc_url,
                   options->mode);
    KVC_GUARD(find_dialect(bench, err));
    bench->clients = kvc_alloc_zero((size_t)options->clients, sizeof(*bench->clients));
    KVC_GUARD(connect_client(bench, 0, err));
    KVC_GUARD(ask_server(bench, err));
    for (int64_t i = 1; i < options->clients; i++)
        KVC_GUARD(connect_client(bench, i, err));
    for (int64_t i = 0; i < options->clients; i++)
        KVC_GUARD(register_client(bench, i, choice.mode, err));
    note_path(bench, &choice);
    kvc_bench_http_probe(bench);
    return KVC_OK;
}

/* ---- the way back ---- */

/* A server that does not let a rank go is not left as it was found. */
static void unregister_ranks(struct kvc_bench_client *client)
{
    struct kvc_bench *bench = client->bench;
    for (int64_t rank = 0; client->workers != NULL && rank < bench->options->tp_size; rank++) {
        struct kvc_error err = KVC_ERROR_INIT;
        if (client->workers[rank] == NULL ||
            kvc_worker_unregister(client->workers[rank], &err) == KVC_OK ||
            err.status == KVC_EINTERRUPTED || bench->result->lost)
            continue;
        bench->result->errors++;
        kvc_bench_problem_error(bench, NULL, "UNREGISTER", &err);
    }
}

static void count_strays(struct kvc_bench_client *client)
{
    struct kvc_bench *bench = client->bench;
    const struct kvc_client_counters counters = kvc_client_counters(client->connection);
    const int64_t strays = (int64_t)(counters.duplicate + counters.unknown);
    if (strays > 0 && bench->result->strays == 0)
        kvc_bench_problem(bench, NULL, "replies", "some came twice, or to a request never made");
    bench->result->strays += strays;
}

/* The last word, over a connection that is still open, after everybody else left. */
static void say_last_word(struct kvc_bench *bench)
{
    struct kvc_bench_server_result *result = bench->result;
    result->server_answers = kvc_bench_server_answers(&bench->clients[0]);
    result->lost |= !result->server_answers && !result->interrupted;
}

static void close_client(struct kvc_bench_client *client)
{
    for (int64_t rank = 0; client->workers != NULL && rank < client->bench->options->tp_size;
         rank++)
        kvc_worker_close(client->workers[rank], NULL);
    free(client->workers);
    kvc_client_close(client->connection);
    pthread_mutex_destroy(&client->lock);
    free(client->samples);
}

void kvc_bench_close(struct kvc_bench *bench)
{
    for (int64_t i = bench->client_count - 1; i >= 0; i--) {
        struct kvc_bench_client *client = &bench->clients[i];
        if (client->connection != NULL) {
            unregister_ranks(client);
            if (i == 0)
                say_last_word(bench);
            count_strays(client);
        }
        close_client(client);
    }
    free(bench->clients);
    free(bench->used_blocks);
}
