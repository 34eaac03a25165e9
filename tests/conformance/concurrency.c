/* Several clients at once, each with its own connection and thread, every byte compared. A thread
 * keeps to what the drivers do; what it finds is told by the check's own thread. */
#include <pthread.h>

#include "tests/conformance/transfer_fixture.h"

enum { CLIENTS = 4, ROUNDS = 5, CHUNKS = 2, MOST_KEYS = ROUNDS };

/* One client: a worker on a connection that is its own, and what it is to do. The connections are
 * not traced: a trace belongs to one thread. */
struct client {
    struct kvc_ctx *ctx;
    struct kvc_worker *worker;
    struct kvc_client *connection;
    struct kvc_key keys[MOST_KEYS];
    struct kvc_ints from[MOST_KEYS];
    struct kvc_ints into[MOST_KEYS];
    struct kvc_stamp_source sources[MOST_KEYS];
    kvc_status (*run)(struct client *client, struct kvc_error *err);
    struct kvc_error err;
    kvc_status status;
};

/* ---- what a client does; in its own thread ---- */

static kvc_status store_round(struct client *client, size_t round, struct kvc_error *err)
{
    struct kvc_worker *worker = client->worker;
    const struct kvc_key *key = &client->keys[round];
    const struct kvc_ints blocks = client->from[round];
    struct kvc_store_result result;
    kvc_stamp_blocks(&worker->paged, client->sources[round], 0, blocks.items, blocks.count);
    KVC_GUARD(kvc_worker_store(worker, key, blocks, &result, err));
    if (!result.success)
        return kvc_fail(err, KVC_EMISMATCH, "a store says false");
    return KVC_OK;
}

/* Looks up and retrieves; every byte must be right. */
static kvc_status retrieve_round(struct client *client, size_t round, struct kvc_error *err)
{
    struct kvc_worker *worker = client->worker;
    const struct kvc_key *key = &client->keys[round];
    const struct kvc_ints blocks = client->into[round];
    int64_t chunks = 0;
    bool success = false;
    for (size_t i = 0; i < blocks.count; i++)
        kvc_paged_fill_block(&worker->paged, blocks.items[i], KVC_POISON);
    KVC_GUARD(kvc_worker_lookup(worker, key, &chunks, err));
    if (chunks != CHUNKS)
        return kvc_fail(err, KVC_EMISMATCH, "LOOKUP finds %lld chunks of %d that are stored",
                        (long long)chunks, CHUNKS);
    KVC_GUARD(kvc_worker_retrieve(worker, key, blocks, 0, &success, err));
    if (!success)
        return kvc_fail(err, KVC_EMISMATCH, "a retrieve after a hit says false");
    KVC_GUARD(kvc_stamp_check_blocks(&worker->paged, client->sources[round], 0, blocks.items,
                                     blocks.count, client->sources, MOST_KEYS, err));
    KVC_GUARD(kvc_paged_check_guards(&worker->paged, err));
    return kvc_worker_end_session(worker, key->request_id, err);
}

static kvc_status wait_for_round(struct client *client, size_t round, struct kvc_error *err)
{
    return kvc_worker_wait_visible(client->worker, &client->keys[round], CHUNKS,
                                   client->worker->rpc.timeout_ms, err);
}

static kvc_status store_and_retrieve(struct client *client, struct kvc_error *err)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        KVC_GUARD(store_round(client, i, err));
        KVC_GUARD(wait_for_round(client, i, err));
        KVC_GUARD(retrieve_round(client, i, err));
    }
    return KVC_OK;
}

static kvc_status wait_and_retrieve(struct client *client, struct kvc_error *err)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        KVC_GUARD(wait_for_round(client, i, err));
        KVC_GUARD(retrieve_round(client, i, err));
    }
    return KVC_OK;
}

static kvc_status store_all(struct client *client, struct kvc_error *err)
{
    for (size_t i = 0; i < ROUNDS; i++)
        KVC_GUARD(store_round(client, i, err));
    return KVC_OK;
}

/* Comes and goes as another instance of the same model. */
static kvc_status come_and_go(struct client *client, struct kvc_error *err)
{
    struct kvc_worker_options options = client->worker->options;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct kvc_worker *guest = NULL;
        options.instance_id = client->worker->options.instance_id + 1 + (int64_t)i;
        KVC_GUARD(kvc_worker_open(&client->worker->rpc, &options, &guest, err));
        KVC_GUARD(kvc_worker_close(guest, err));
    }
    return KVC_OK;
}

/* ---- setting the clients up, and letting them go; in the check's thread ---- */

static void close_connection(void *connection)
{
    kvc_client_close(connection);
}

static void close_worker(void *worker)
{
    kvc_worker_close(worker, NULL);
}

/* A client of `model` whose keys are fresh: unlike any other client's. */
static void open_client(struct kvc_ctx *ctx, struct client *client, struct kvc_str model,
                        uint64_t first_request)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_error err = KVC_ERROR_INIT;
    options.model_name = model;
    client->ctx = ctx;
    kvc_expect_ok(ctx, "connecting",
                  kvc_client_open(facts->rpc_url, facts->timeout_ms, &client->connection, &err),
                  &err);
    kvc_ctx_defer(ctx, close_connection, client->connection);
    const struct kvc_rpc rpc = {client->connection, facts->dialect, facts->timeout_ms};
    kvc_expect_ok(ctx, "registration", kvc_worker_open(&rpc, &options, &client->worker, &err),
                  &err);
    kvc_ctx_defer(ctx, close_worker, client->worker);
    for (uint64_t i = 0; i < MOST_KEYS; i++) {
        client->keys[i] = kvc_key_for(ctx, client->worker, kvc_fresh_chunks(ctx, CHUNKS));
        client->from[i] = kvc_chunk_blocks(ctx, client->worker, CHUNKS);
        client->into[i] = kvc_chunk_blocks(ctx, client->worker, CHUNKS);
        client->sources[i] = (struct kvc_stamp_source){kvc_ctx_seed(ctx), first_request + i};
    }
}

static struct client *open_clients(struct kvc_ctx *ctx)
{
    struct client *clients = kvc_arena_alloc_array(kvc_ctx_arena(ctx), CLIENTS, sizeof *clients);
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    for (uint64_t i = 0; i < CLIENTS; i++)
        open_client(ctx, &clients[i], model, i * MOST_KEYS);
    return clients;
}

/* Lets a client work on the tokens of another, with request ids of its own. */
static void share_tokens(struct kvc_ctx *ctx, struct client *client, const struct client *other)
{
    for (size_t i = 0; i < MOST_KEYS; i++) {
        client->keys[i] = kvc_key_renamed(ctx, &other->keys[i]);
        client->sources[i] = other->sources[i];
    }
}

static void *client_thread(void *arg)
{
    struct client *client = arg;
    client->status = client->run(client, &client->err);
    return NULL;
}

static void run_clients(struct kvc_ctx *ctx, struct client *clients)
{
    pthread_t threads[CLIENTS];
    size_t started = 0;
    while (started < CLIENTS &&
           pthread_create(&threads[started], NULL, client_thread, &clients[started]) == 0)
        started++;
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < started; i++)
        kvc_expect_ok(ctx, "one of several clients at work", clients[i].status, &clients[i].err);
    if (started < CLIENTS) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_fail_errno(&err, "a thread cannot be started");
        kvc_ctx_error(ctx, "several clients", &err);
    }
}

/* ---- checks ---- */

static void own_requests(struct kvc_ctx *ctx)
{
    struct client *clients = open_clients(ctx);
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i].run = store_and_retrieve;
    run_clients(ctx, clients);
}

KVC_CHECK(
    own_requests, .id = "concurrency/own-requests",
    .clause = "Workers that store and retrieve at the same time each get their own bytes back.",
    .source = "N19, B51", .exchange = "from four threads: store, LOOKUP, retrieve, x5",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = own_requests);

static void same_tokens(struct kvc_ctx *ctx)
{
    struct client *clients = open_clients(ctx);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i].run = store_and_retrieve;
        share_tokens(ctx, &clients[i], &clients[0]);
    }
    run_clients(ctx, clients);
}

KVC_CHECK(
    same_tokens, .id = "concurrency/same-tokens",
    .clause = "Workers that store the same tokens at the same time all get the right bytes back.",
    .source = "protocol 4.10, 4.13, N19",
    .exchange = "from four threads, with the same tokens: store, LOOKUP, retrieve, x5",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = same_tokens);

static void hit_means_written(struct kvc_ctx *ctx)
{
    struct client *clients = open_clients(ctx);
    clients[0].run = store_all;
    for (size_t i = 1; i < CLIENTS; i++) {
        clients[i].run = wait_and_retrieve;
        share_tokens(ctx, &clients[i], &clients[0]);
    }
    run_clients(ctx, clients);
}

KVC_CHECK(hit_means_written, .id = "concurrency/hit-means-written",
          .clause = "Whoever finds a chunk while it is being stored also finds all its bytes.",
          .source = "B33, B35, B36",
          .exchange = "one thread: store x5; three threads: LOOKUP until it hits, retrieve, x5",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = hit_means_written);

static void workers_come_and_go(struct kvc_ctx *ctx)
{
    struct client *clients = open_clients(ctx);
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i].run = i % 2 == 0 ? store_and_retrieve : come_and_go;
    run_clients(ctx, clients);
}

KVC_CHECK(
    workers_come_and_go, .id = "concurrency/workers-come-and-go",
    .clause = "Workers that register and unregister do not disturb others at work.",
    .source = "B23, B44, N22",
    .exchange = "two threads: store, LOOKUP, retrieve, x5; two threads: REGISTER, UNREGISTER, x5",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = workers_come_and_go);
