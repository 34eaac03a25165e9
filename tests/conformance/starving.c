/* Work that takes long, and everybody else meanwhile. */
#include "src/base/clock.h"
#include "tests/conformance/http_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* What others may be kept waiting for at most. */
enum { PATIENCE_MS = 1000 };

/* A client of its own with little patience. */
static struct kvc_rpc impatient_client(struct kvc_ctx *ctx)
{
    struct kvc_rpc rpc = *kvc_ctx_rpc_new(ctx);
    rpc.timeout_ms = PATIENCE_MS;
    return rpc;
}

/* What a worker of another engine does all the time. */
static void expect_served_soon(struct kvc_ctx *ctx, const struct kvc_rpc *rpc)
{
    const struct kvc_request ping = {.op = KVC_OP_PING};
    const struct kvc_request end = {.op = KVC_OP_END_SESSION,
                                    .request_id = kvc_fresh_name(ctx, "request")};
    kvc_expect_served(ctx, rpc, "NOOP of another client");
    kvc_call(ctx, rpc, &ping);
    kvc_call(ctx, rpc, &end);
}

static void waits_hold_up_nobody(struct kvc_ctx *ctx)
{
    enum { WAITS = 64, WAIT_SECONDS = 30 };
    const struct kvc_rpc other = impatient_client(ctx);
    const struct kvc_rpc *waiting = kvc_ctx_rpc(ctx);
    for (int i = 0; i < WAITS; i++) {
        const struct kvc_request wait = {.op = KVC_OP_WAIT_PREFETCH_STATUS,
                                         .request_id = kvc_fresh_name(ctx, "request"),
                                         .timeout_seconds = WAIT_SECONDS};
        kvc_send(ctx, waiting, &wait);
    }
    expect_served_soon(ctx, &other);
}
KVC_CHECK(
    waits_hold_up_nobody, .id = "lookup/waits-hold-up-nobody",
    .clause = "While 64 requests wait for results that never come others are served within a "
              "second.",
    .source = "protocol 1.5, 4.7, 11.3, B40",
    .exchange = "WAIT for 30 s for 64 unknown requests; NOOP, PING, END_SESSION of another client",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .run = waits_hold_up_nobody);

static void lookups_hold_up_nobody(struct kvc_ctx *ctx)
{
    enum { LOOKUPS = 64, CHUNKS = 4 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_rpc other = impatient_client(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    struct kvc_key keys[LOOKUPS];
    uint64_t uids[LOOKUPS];
    for (int i = 0; i < LOOKUPS; i++) {
        keys[i] = kvc_key_renamed(ctx, &key);
        const struct kvc_request lookup = kvc_lookup_request(&keys[i]);
        uids[i] = kvc_send(ctx, &worker->rpc, &lookup);
    }
    expect_served_soon(ctx, &other);
    for (int i = 0; i < LOOKUPS; i++) {
        kvc_receive(ctx, &worker->rpc, uids[i], KVC_OP_LOOKUP);
        kvc_free_locks(ctx, worker, &keys[i]);
    }
}
KVC_CHECK(
    lookups_hold_up_nobody, .id = "lookup/many-hold-up-nobody",
    .clause = "While 64 lookups are in flight others are served within a second, and then each of "
              "the 64 is answered.",
    .source = "protocol 1.5, 4.6, B40",
    .exchange = "REGISTER, store, LOOKUP x 64 without waiting; NOOP, PING, END_SESSION of another "
                "client",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .run = lookups_hold_up_nobody);

/* ---- registration ---- */

enum { LAYERS = 64, ROUNDS = 4 };

static struct kvc_worker_options many_layers(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    group->num_layers = LAYERS;
    group->num_blocks = options.chunk_size / group->block_size;
    return options;
}

static void registering_holds_up_nobody(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = many_layers(ctx);
    const struct kvc_rpc other = impatient_client(ctx);
    for (int i = 0; i < ROUNDS; i++) {
        struct kvc_worker *worker = kvc_open_worker(ctx, &options);
        const struct kvc_request leave = {.op = KVC_OP_UNREGISTER_KV_CACHE,
                                          .instance_id = options.instance_id};
        const uint64_t left = kvc_send(ctx, &worker->rpc, &leave);
        expect_served_soon(ctx, &other);
        kvc_receive(ctx, &worker->rpc, left, leave.op);
        if (kvc_ctx_facts(ctx)->http_url != NULL)
            kvc_http_expect(ctx, "GET", "/healthcheck", NULL, 200);
    }
}
KVC_CHECK(
    registering_holds_up_nobody, .id = "registration/holds-up-nobody",
    .clause = "While a worker of 64 layers comes and goes others are served within a second, over "
              "ZMQ and over HTTP.",
    .source = "protocol 1.5, 11.3, B44",
    .exchange = "(REGISTER_KV_CACHE of 64 tensors, UNREGISTER; NOOP, PING, END_SESSION of another "
                "client) x 4",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_FLAG_EXCLUSIVE, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .run = registering_holds_up_nobody);
