/* Operations about the server itself. */
#include <string.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

static void noop_says_ok(struct kvc_ctx *ctx)
{
    const struct kvc_request request = {.op = KVC_OP_NOOP};
    kvc_expect_str(ctx, "result of NOOP", kvc_call(ctx, kvc_ctx_rpc(ctx), &request)->text, "OK");
}
KVC_CHECK(noop_says_ok, .id = "control/noop", .clause = "NOOP answers \"OK\".",
          .source = "protocol 1.1, 4.15", .exchange = "NOOP", .level = KVC_LEVEL_MUST,
          .run = noop_says_ok);

static const char *const pinged[] = {"known", "unknown", "nobody", NULL};

static void answers_ping(struct kvc_ctx *ctx)
{
    struct kvc_request request = {.op = KVC_OP_PING};
    if (kvc_ctx_variant_is(ctx, "known"))
        request.ping_instance = KVC_SOME_INT(kvc_default_worker(ctx)->options.instance_id);
    else if (kvc_ctx_variant_is(ctx, "unknown"))
        request.ping_instance = KVC_SOME_INT(kvc_fresh_instance_id(ctx));
    kvc_expect_true(ctx, "result of PING", kvc_call(ctx, kvc_ctx_rpc(ctx), &request)->ok);
}
KVC_CHECK(
    answers_ping, .id = "control/ping",
    .clause = "PING answers true, whether it names a registered instance, an unknown one, or none.",
    .source = "protocol 4.5, B11", .exchange = "PING", .level = KVC_LEVEL_MUST, .variants = pinged,
    .run = answers_ping);

static const char *const bad_pings[] = {"bool", "text", "float", NULL};
static const struct kvc_str bad_ping_bytes[] = {KVC_TABLE_BYTES("\xc3"), KVC_TABLE_BYTES("\xa1x"),
                                                KVC_TABLE_BYTES("\xcb\x40\x08\0\0\0\0\0\0")};

static void refuses_bad_ping(struct kvc_ctx *ctx)
{
    const struct kvc_str bytes = bad_ping_bytes[kvc_variant_index(ctx)];
    const struct kvc_request ping = {.op = KVC_OP_PING};
    struct kvc_frames good = {0}, body = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "PING", kvc_request_encode(kvc_ctx_facts(ctx)->dialect, &ping, &good, &err),
                  &err);
    kvc_frames_append_copy(&body, good.items[0].data, good.items[0].size);
    kvc_frames_append_copy(&body, bytes.data, bytes.size);
    kvc_frames_clear(&good);
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &body, "a PING of what is no integer and no nil");
}
KVC_CHECK(refuses_bad_ping, .id = "control/bad-ping",
          .clause = "PING of anything but an integer or nil is not answered.",
          .source = "protocol 1.3", .exchange = "PING, NOOP", .level = KVC_LEVEL_OBSERVED,
          .variants = bad_pings, .run = refuses_bad_ping);

static int64_t chunk_size(struct kvc_ctx *ctx)
{
    const struct kvc_request request = {.op = KVC_OP_GET_CHUNK_SIZE};
    return kvc_call(ctx, kvc_ctx_rpc(ctx), &request)->count;
}

static void keeps_chunk_size(struct kvc_ctx *ctx)
{
    const int64_t before = kvc_ctx_facts(ctx)->chunk_size; /* when the run began */
    kvc_expect_int(ctx, "chunk size", chunk_size(ctx), before);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    kvc_expect_int(ctx, "chunk size after a registration", chunk_size(ctx), before);
    struct kvc_worker_options other = kvc_worker_defaults(ctx);
    other.geometry.groups[0].block_size *= 2;
    other.geometry.groups[0].num_layers += 1;
    kvc_open_worker(ctx, &other);
    kvc_expect_int(ctx, "chunk size after a registration of another geometry", chunk_size(ctx),
                   before);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    kvc_expect_int(ctx, "chunk size after an instance has left", chunk_size(ctx), before);
}
KVC_CHECK(keeps_chunk_size, .id = "control/chunk-size",
          .clause = "GET_CHUNK_SIZE answers the same before and after registrations.",
          .source = "protocol 4.15, B16",
          .exchange = "GET_CHUNK_SIZE, REGISTER, GET_CHUNK_SIZE, REGISTER, GET_CHUNK_SIZE",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = keeps_chunk_size);

static const char *const reports[] = {"known-instance", "unknown-instance", "empty-list",
                                      "no-blocks", NULL};

static void takes_report(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_block_allocation record = {
        .req_id = kvc_fresh_name(ctx, "request"),
        .new_block_ids = kvc_fresh_blocks(ctx, worker->options.geometry.groups[0].num_blocks, 4),
        .new_token_ids = kvc_fresh_chunks(ctx, 1),
    };
    struct kvc_request request = {
        .op = KVC_OP_REPORT_BLOCK_ALLOCATION,
        .instance_id = worker->options.instance_id,
        .model_name = worker->options.model_name,
        .allocations = {&record, 1},
    };
    if (kvc_ctx_variant_is(ctx, "unknown-instance"))
        request.instance_id = kvc_fresh_instance_id(ctx);
    if (kvc_ctx_variant_is(ctx, "empty-list"))
        request.allocations.count = 0;
    if (kvc_ctx_variant_is(ctx, "no-blocks"))
        record.new_block_ids.count = 0;
    kvc_call(ctx, &worker->rpc, &request);
}
KVC_CHECK(
    takes_report, .id = "control/report-block-allocation",
    .clause = "REPORT_BLOCK_ALLOCATION is answered, also for an unknown instance or an empty list.",
    .source = "protocol 4.15, B12", .exchange = "REGISTER, REPORT_BLOCK_ALLOCATION",
    .level = KVC_LEVEL_SHOULD, .variants = reports, .run = takes_report);

/* A subscription gets its first batch at once; it ends with this check's connection. */
static void expect_event_stream(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    const struct kvc_request subscribe = {.op = KVC_OP_SUBSCRIBE_KV_EVENTS,
                                          .instance_id = kvc_fresh_instance_id(ctx),
                                          .model_name = kvc_fresh_name(ctx, "model"),
                                          .max_events = 1};
    uint64_t uid = 0;
    struct kvc_frames batch = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "SUBSCRIBE_KV_EVENTS", kvc_rpc_send(rpc, &subscribe, &uid, &err), &err);
    kvc_expect_ok(ctx, "a batch of kv_event_stream, which is said to be on",
                  kvc_client_wait(rpc->client, uid, rpc->timeout_ms, &batch, &err), &err);
    kvc_frames_clear(&batch);
}

static void lists_experimental(struct kvc_ctx *ctx)
{
    const struct kvc_request request = {.op = KVC_OP_GET_EXPERIMENTAL};
    const struct kvc_strs names = kvc_call(ctx, kvc_ctx_rpc(ctx), &request)->names;
    if (!kvc_ctx_has(ctx, KVC_FEATURE_KV_EVENTS))
        kvc_expect_int(ctx, "experimental features", (int64_t)names.count, 0);
    for (size_t i = 0; i < names.count; i++) {
        if (kvc_str_is(names.items[i], "kv_event_stream"))
            expect_event_stream(ctx);
    }
}
KVC_CHECK(
    lists_experimental, .id = "control/get-experimental",
    .clause = "GET_EXPERIMENTAL lists the experimental features that are on: none up to 0.5.5, "
              "later the event stream only if a subscription is answered.",
    .source = "protocol 1.7, 1.8, 4.15", .exchange = "GET_EXPERIMENTAL, SUBSCRIBE_KV_EVENTS",
    .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_EXPERIMENTAL, .run = lists_experimental);
