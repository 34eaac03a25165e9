/* How messages are framed: what is echoed, how many frames an answer has, who gets it. */
#include "src/base/clock.h"
#include "src/wire/pack.h"
#include "tests/conformance/fixture.h"

/* ---- raw exchanges: the uid is ours ---- */

static struct kvc_bytes copy_bytes(struct kvc_ctx *ctx, struct kvc_buffer *buffer)
{
    const struct kvc_str copy = kvc_arena_copy_str(
        kvc_ctx_arena(ctx), (struct kvc_str){(const char *)buffer->data, buffer->size});
    kvc_buffer_clear(buffer);
    return (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
}

static struct kvc_bytes number_uid(struct kvc_ctx *ctx, uint64_t number)
{
    struct kvc_buffer uid = {0};
    kvc_msgpack_write_uint(&uid, number);
    return copy_bytes(ctx, &uid);
}

static struct kvc_bytes random_bytes(struct kvc_ctx *ctx, size_t size)
{
    struct kvc_buffer bytes = {0};
    while (bytes.size < size)
        kvc_buffer_append_byte(&bytes, (uint8_t)kvc_random_next(kvc_ctx_random(ctx)));
    return copy_bytes(ctx, &bytes);
}

/* [op, payload…] of a request. */
static struct kvc_frames encode(struct kvc_ctx *ctx, const struct kvc_request *request)
{
    struct kvc_frames body = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op),
                  kvc_request_encode(kvc_ctx_facts(ctx)->dialect, request, &body, &err), &err);
    return body;
}

static void send_frames(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_bytes uid,
                        struct kvc_frames *body)
{
    struct kvc_frames message = {0};
    kvc_frames_append_copy(&message, uid.data, uid.size);
    kvc_frames_copy(body, &message);
    kvc_frames_clear(body);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "sending", kvc_client_send_raw(rpc->client, &message, &err), &err);
}

static void send_request(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_bytes uid,
                         const struct kvc_request *request)
{
    struct kvc_frames body = encode(ctx, request);
    send_frames(ctx, rpc, uid, &body);
}

/* The next reply on this connection; the caller clears it. */
static struct kvc_frames receive(struct kvc_ctx *ctx, const struct kvc_rpc *rpc)
{
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the reply",
                  kvc_client_receive_raw(rpc->client, rpc->timeout_ms, &reply, &err), &err);
    KVC_EXPECT(ctx, reply.count >= 2, "a reply has %zu frames, at least 2 are due", reply.count);
    return reply;
}

/* Sends, and expects uid and operation back as they were sent, and so many frames. */
static void expect_echo(struct kvc_ctx *ctx, struct kvc_bytes uid, struct kvc_frames *body,
                        size_t frame_count)
{
    struct kvc_frames sent = {0};
    kvc_frames_copy(body, &sent);
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    send_frames(ctx, rpc, uid, body);
    struct kvc_frames reply = receive(ctx, rpc);
    kvc_expect_bytes(ctx, "the uid frame of the reply", kvc_frames_view(&reply, 0), uid);
    kvc_expect_bytes(ctx, "the operation frame of the reply", kvc_frames_view(&reply, 1),
                     kvc_frames_view(&sent, 0));
    kvc_expect_int(ctx, "frames of the reply", (int64_t)reply.count, (int64_t)frame_count);
    kvc_frames_clear(&sent);
    kvc_frames_clear(&reply);
}

static const struct kvc_request noop = {.op = KVC_OP_NOOP};
static const struct kvc_request get_chunk_size = {.op = KVC_OP_GET_CHUNK_SIZE};
static const struct kvc_request ping_nobody = {.op = KVC_OP_PING};

/* ---- echo ---- */

static const char *const uid_kinds[] = {"empty", "one-byte", "300-bytes", "64-kib", NULL};
static const size_t uid_sizes[] = {0, 1, 300, 1 << 16};

static void echoes_uid(struct kvc_ctx *ctx)
{
    struct kvc_frames body = encode(ctx, &noop);
    expect_echo(ctx, random_bytes(ctx, uid_sizes[kvc_variant_index(ctx)]), &body, 3);
}
KVC_CHECK(echoes_uid, .id = "framing/echo-uid",
          .clause = "The uid frame comes back byte for byte, whatever its bytes and length.",
          .source = "protocol 1.1", .exchange = "NOOP", .level = KVC_LEVEL_MUST,
          .variants = uid_kinds, .run = echoes_uid);

static const char *const uid_number_names[] = {"zero",           "two-31",         "two-32",
                                               "two-63-minus-1", "two-64-minus-1", NULL};
static const uint64_t uid_numbers[] = {0, 1ull << 31, 1ull << 32, INT64_MAX, UINT64_MAX};

static void echoes_uid_range(struct kvc_ctx *ctx)
{
    struct kvc_frames body = encode(ctx, &noop);
    expect_echo(ctx, number_uid(ctx, uid_numbers[kvc_variant_index(ctx)]), &body, 3);
}
KVC_CHECK(echoes_uid_range, .id = "framing/uid-range",
          .clause = "A uid that is a msgpack number comes back unchanged over its whole range.",
          .source = "protocol 1.1, B04", .exchange = "NOOP", .level = KVC_LEVEL_MUST,
          .variants = uid_number_names, .run = echoes_uid_range);

static const char *const op_forms[] = {"uint8", "uint16", "uint32", "uint64", "int8",
                                       "int16", "int32",  "int64",  NULL};
static const uint8_t op_prefixes[] = {0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3};
static const size_t op_widths[] = {1, 2, 4, 8, 1, 2, 4, 8};

static void echoes_op(struct kvc_ctx *ctx)
{
    const size_t form = kvc_variant_index(ctx);
    uint8_t op[9] = {op_prefixes[form]};
    /* Big endian, and every id is below 128. */
    op[op_widths[form]] = (uint8_t)kvc_ctx_facts(ctx)->dialect->id[KVC_OP_NOOP];
    struct kvc_frames body = {0};
    kvc_frames_append_copy(&body, op, op_widths[form] + 1);
    expect_echo(ctx, random_bytes(ctx, 5), &body, 3);
}
KVC_CHECK(echoes_op, .id = "framing/echo-op",
          .clause = "An operation may come in any width of a msgpack integer, and its frame comes "
                    "back byte for byte.",
          .source = "protocol 1.1", .exchange = "NOOP", .level = KVC_LEVEL_MUST,
          .variants = op_forms, .run = echoes_op);

static const char *const named_ops[] = {"noop", "ping", "get-chunk-size", NULL};

static void answers_to_name(struct kvc_ctx *ctx)
{
    static const struct kvc_request *const requests[] = {&noop, &ping_nobody, &get_chunk_size};
    const struct kvc_request *request = requests[kvc_variant_index(ctx)];
    struct kvc_buffer name = {0};
    kvc_msgpack_write_str(&name, kvc_str_of(kvc_op_name(request->op)));
    struct kvc_frames by_id = encode(ctx, request), body = {0};
    kvc_frames_append_buffer(&body, &name);
    for (size_t i = 1; i < by_id.count; i++)
        kvc_frames_append_copy(&body, by_id.items[i].data, by_id.items[i].size);
    kvc_frames_clear(&by_id);
    expect_echo(ctx, random_bytes(ctx, 5), &body, 3);
}
KVC_CHECK(answers_to_name, .id = "framing/op-by-name",
          .clause = "An operation that has an id also answers to its name, and echoes the name.",
          .source = "protocol 1.2", .exchange = "NOOP | PING | GET_CHUNK_SIZE by name",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_OP_NAMES, .variants = named_ops,
          .run = answers_to_name);

static const char *const op_classes[] = {"sync", "normal", "affinity", NULL};

/* One that its class of operations answers without moving data (protocol 1.5). */
static struct kvc_request request_of_class(struct kvc_ctx *ctx)
{
    if (kvc_ctx_variant_is(ctx, "sync"))
        return get_chunk_size;
    if (kvc_ctx_variant_is(ctx, "normal"))
        return ping_nobody;
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_group *group = &worker->options.geometry.groups[0];
    const int64_t chunk_size = worker->options.chunk_size;
    return (struct kvc_request){
        .op = worker->path == KVC_PATH_LMCACHE_DRIVEN ? KVC_OP_RETRIEVE : KVC_OP_PREPARE_RETRIEVE,
        .key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1)),
        .instance_id = worker->options.instance_id,
        .block_ids = kvc_one_list(
            ctx, kvc_fresh_blocks(ctx, group->num_blocks, chunk_size / group->block_size)),
    };
}

static void echoes_in_every_class(struct kvc_ctx *ctx)
{
    const struct kvc_request request = request_of_class(ctx);
    struct kvc_frames body = encode(ctx, &request);
    expect_echo(ctx, random_bytes(ctx, 40), &body, 3);
}
KVC_CHECK(echoes_in_every_class, .id = "framing/echo-in-every-class",
          .clause = "Uid and operation come back unchanged whichever queue of the server an "
                    "operation waits in.",
          .source = "protocol 1.1, 1.5",
          .exchange = "GET_CHUNK_SIZE | PING | RETRIEVE or PREPARE_RETRIEVE of nothing",
          .level = KVC_LEVEL_MUST, .variants = op_classes, .run = echoes_in_every_class);

static void answers_repeated_uid(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    const struct kvc_bytes uid = random_bytes(ctx, 9);
    for (int i = 0; i < 3; i++)
        send_request(ctx, rpc, uid, &noop);
    for (int i = 0; i < 3; i++) {
        struct kvc_frames reply = receive(ctx, rpc);
        kvc_expect_bytes(ctx, "the uid frame of the reply", kvc_frames_view(&reply, 0), uid);
        kvc_frames_clear(&reply);
    }
}
KVC_CHECK(answers_repeated_uid, .id = "framing/repeated-uid",
          .clause = "Requests that repeat a uid are each answered with it.",
          .source = "protocol 1.1", .exchange = "NOOP x 3 with one uid", .level = KVC_LEVEL_SHOULD,
          .run = answers_repeated_uid);

/* ---- the number of frames ---- */

static const char *const void_op_names[] = {"lookup", "free-lookup-locks", "end-session",
                                            "report-block-allocation", NULL};
static const enum kvc_op void_ops[] = {KVC_OP_LOOKUP, KVC_OP_FREE_LOOKUP_LOCKS, KVC_OP_END_SESSION,
                                       KVC_OP_REPORT_BLOCK_ALLOCATION};
static const char *const value_op_names[] = {
    "noop", "ping", "get-chunk-size", "query-prefetch-status", "wait-prefetch-status", NULL};
static const enum kvc_op value_ops[] = {KVC_OP_NOOP, KVC_OP_PING, KVC_OP_GET_CHUNK_SIZE,
                                        KVC_OP_QUERY_PREFETCH_STATUS, KVC_OP_WAIT_PREFETCH_STATUS};

/* A request of the operation, for a model and an instance that are there. */
static struct kvc_request request_of(struct kvc_ctx *ctx, enum kvc_op op)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_request request = {
        .op = op,
        .instance_id = worker->options.instance_id,
        .ping_instance = KVC_SOME_INT(worker->options.instance_id),
        .model_name = worker->options.model_name,
        .key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1)),
        .tp_size = 1,
    };
    request.key.worker_id = KVC_NIL_INT;
    request.request_id = request.key.request_id;
    return request;
}

static void void_is_two_frames(struct kvc_ctx *ctx)
{
    const struct kvc_request request = request_of(ctx, void_ops[kvc_variant_index(ctx)]);
    struct kvc_frames body = encode(ctx, &request);
    expect_echo(ctx, random_bytes(ctx, 5), &body, 2);
}
KVC_CHECK(void_is_two_frames, .id = "framing/void-is-two-frames",
          .clause = "An answer without a result has two frames: no third one, not even a nil.",
          .source = "protocol 1.1", .exchange = "REGISTER, then the operation of the variant",
          .level = KVC_LEVEL_MUST, .variants = void_op_names, .run = void_is_two_frames);

static void unregister_is_two_frames(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_request request = {
        .op = worker->path == KVC_PATH_LMCACHE_DRIVEN ? KVC_OP_UNREGISTER_KV_CACHE
                                                      : KVC_OP_UNREGISTER_ENGINE_DRIVEN,
        .instance_id = worker->options.instance_id,
    };
    struct kvc_frames body = encode(ctx, &request);
    expect_echo(ctx, random_bytes(ctx, 5), &body, 2);
}
KVC_CHECK(unregister_is_two_frames, .id = "framing/unregister-is-two-frames",
          .clause = "The answer to an unregistration has two frames.",
          .source = "protocol 1.1, 4.4", .exchange = "REGISTER, UNREGISTER",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = unregister_is_two_frames);

static void value_is_one_frame(struct kvc_ctx *ctx)
{
    const struct kvc_request request = request_of(ctx, value_ops[kvc_variant_index(ctx)]);
    struct kvc_frames body = encode(ctx, &request);
    expect_echo(ctx, random_bytes(ctx, 5), &body, 3);
}
KVC_CHECK(value_is_one_frame, .id = "framing/value-is-one-frame",
          .clause = "A result, also a zero, is exactly one frame behind the operation.",
          .source = "protocol 1.1", .exchange = "REGISTER, then the operation of the variant",
          .level = KVC_LEVEL_MUST, .variants = value_op_names, .run = value_is_one_frame);

/* ---- many requests, many clients ---- */

static void expect_result(struct kvc_ctx *ctx, const struct kvc_request *request,
                          struct kvc_frames *frames)
{
    struct kvc_reply reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op),
                  kvc_reply_decode(kvc_ctx_facts(ctx)->dialect, request->op, frames, &reply, &err),
                  &err);
    if (request->op == KVC_OP_PING)
        kvc_expect_true(ctx, "result of PING", reply.ok);
    if (request->op == KVC_OP_GET_CHUNK_SIZE)
        KVC_EXPECT(ctx, reply.count > 0, "the result of GET_CHUNK_SIZE is %lld",
                   (long long)reply.count);
    kvc_reply_clear(&reply);
}

enum { PIPELINED = 200 };

static size_t find_uid(struct kvc_ctx *ctx, const struct kvc_bytes *uids, struct kvc_bytes uid)
{
    for (size_t i = 0; i < PIPELINED; i++) {
        if (kvc_bytes_equal(uids[i], uid))
            return i;
    }
    kvc_ctx_fail(ctx, "a reply has a uid that was never sent");
}

static void answers_pipelined(struct kvc_ctx *ctx)
{
    static const struct kvc_request *const kinds[] = {&noop, &ping_nobody, &get_chunk_size};
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    struct kvc_bytes uids[PIPELINED];
    bool answered[PIPELINED] = {false};
    for (size_t i = 0; i < PIPELINED; i++)
        uids[i] = number_uid(ctx, kvc_random_next(kvc_ctx_random(ctx)) >> 1);
    uids[17] = number_uid(ctx, 0);
    uids[60] = number_uid(ctx, (uint64_t)1 << 31);
    uids[133] = number_uid(ctx, INT64_MAX - 1);
    for (size_t i = 0; i < PIPELINED; i++)
        send_request(ctx, rpc, uids[i], kinds[i % KVC_COUNT_OF(kinds)]);
    for (size_t n = 0; n < PIPELINED; n++) {
        struct kvc_frames reply = receive(ctx, rpc);
        const size_t i = find_uid(ctx, uids, kvc_frames_view(&reply, 0));
        KVC_EXPECT(ctx, !answered[i], "request %zu of %d is answered twice", i, PIPELINED);
        answered[i] = true;
        expect_result(ctx, kinds[i % KVC_COUNT_OF(kinds)], &reply);
    }
}
KVC_CHECK(answers_pipelined, .id = "framing/pipelined",
          .clause = "Of 200 requests in flight each is answered once, with its own uid and result.",
          .source = "protocol 1.5, B04", .exchange = "(NOOP, PING, GET_CHUNK_SIZE) x 200",
          .level = KVC_LEVEL_MUST, .run = answers_pipelined);

static void expect_op_back(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                           const struct kvc_request *request)
{
    struct kvc_frames reply = receive(ctx, rpc);
    struct kvc_frames body = encode(ctx, request);
    kvc_expect_bytes(ctx, "operation of the reply on this connection", kvc_frames_view(&reply, 1),
                     kvc_frames_view(&body, 0));
    kvc_frames_clear(&body);
    expect_result(ctx, request, &reply);
}

static void keeps_clients_apart(struct kvc_ctx *ctx)
{
    enum { EACH = 50 };
    const struct kvc_rpc *one = kvc_ctx_rpc(ctx), *other = kvc_ctx_rpc_new(ctx);
    const uint64_t first = kvc_random_next(kvc_ctx_random(ctx)) >> 1;
    for (uint64_t i = 0; i < EACH; i++) {
        send_request(ctx, one, number_uid(ctx, first + i), &noop);
        send_request(ctx, other, number_uid(ctx, first + i), &get_chunk_size);
    }
    for (int i = 0; i < EACH; i++) {
        expect_op_back(ctx, other, &get_chunk_size);
        expect_op_back(ctx, one, &noop);
    }
}
KVC_CHECK(
    keeps_clients_apart, .id = "framing/two-clients",
    .clause = "Clients that use the same uids at the same time each get their own answers only.",
    .source = "protocol 1.6",
    .exchange = "NOOP x 50 on one connection, GET_CHUNK_SIZE x 50 on another",
    .level = KVC_LEVEL_MUST, .run = keeps_clients_apart);

static void survives_gone_client(struct kvc_ctx *ctx)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    struct kvc_client *client = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "connecting",
                  kvc_client_open(facts->rpc_url, facts->timeout_ms, &client, &err), &err);
    const struct kvc_rpc leaver = {client, facts->dialect, facts->timeout_ms};
    const struct kvc_rpc *other = kvc_ctx_rpc(ctx);
    const uint64_t first = kvc_random_next(kvc_ctx_random(ctx)) >> 1;
    for (uint64_t i = 0; i < 50; i++)
        send_request(ctx, &leaver, number_uid(ctx, first + i), i % 2 == 0 ? &noop : &ping_nobody);
    struct kvc_frames reply = receive(ctx, &leaver);
    kvc_frames_clear(&reply);
    kvc_client_close(client);
    send_request(ctx, other, number_uid(ctx, first), &noop);
    expect_op_back(ctx, other, &noop);
}
KVC_CHECK(survives_gone_client, .id = "framing/client-gone",
          .clause =
              "A client that leaves before its answers come does not keep others from theirs, also "
              "under the same uids.",
          .source = "protocol 1.6, 11.2",
          .exchange = "(NOOP, PING) x 25, one answer, close; NOOP on another connection",
          .level = KVC_LEVEL_MUST, .run = survives_gone_client);
