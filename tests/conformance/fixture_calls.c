/* Single calls of checks: answered, or rightly not answered. */
#include <string.h>

#include "tests/conformance/fixture.h"

static void free_reply(void *arg)
{
    struct kvc_reply *reply = arg;
    kvc_reply_clear(reply);
}

static struct kvc_reply *new_reply(struct kvc_ctx *ctx)
{
    struct kvc_reply *reply = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *reply);
    kvc_ctx_defer(ctx, free_reply, reply);
    return reply;
}

struct kvc_request kvc_lookup_request(const struct kvc_key *key)
{
    struct kvc_request request = {.op = KVC_OP_LOOKUP, .key = *key, .tp_size = 1};
    request.key.worker_id = KVC_NIL_INT;
    return request;
}

struct kvc_reply *kvc_call(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                           const struct kvc_request *request)
{
    struct kvc_reply *reply = new_reply(ctx);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op), kvc_rpc_call(rpc, request, reply, &err), &err);
    return reply;
}

void kvc_expect_served(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, const char *what)
{
    const struct kvc_request noop = {.op = KVC_OP_NOOP};
    struct kvc_frames reply = {0};
    uint64_t uid = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, what, kvc_rpc_send(rpc, &noop, &uid, &err), &err);
    kvc_expect_ok(ctx, what, kvc_client_wait(rpc->client, uid, rpc->timeout_ms, &reply, &err),
                  &err);
    kvc_frames_clear(&reply);
}

/* Waits for an answer that may well not come: in the end NOOPs on the same connection are answered, and what
 * has come by then counts. Two, since a NOOP may be answered before what the server took in with it. A
 * server that works in that order is never thought silent because it is slow; the stand-in does, and
 * needs no long wait. */
static void await_or_fence(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, uint64_t uid,
                           const char *what)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    const int64_t wait_ms = facts->stand_in ? facts->silence_ms / 5 : facts->silence_ms;
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status = kvc_client_await(rpc->client, uid, wait_ms, &err);
    for (int i = 0; status == KVC_ETIMEOUT && i < 2; i++)
        kvc_expect_served(ctx, rpc, "NOOP after a request that is not answered");
    if (status != KVC_ETIMEOUT)
        kvc_expect_ok(ctx, what, status, &err);
}

bool kvc_try_call(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, const struct kvc_request *request,
                  struct kvc_reply **reply)
{
    const char *name = kvc_op_name(request->op);
    *reply = new_reply(ctx);
    uint64_t uid = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, name, kvc_rpc_send(rpc, request, &uid, &err), &err);
    await_or_fence(ctx, rpc, uid, name);
    const kvc_status status = kvc_rpc_receive(rpc, uid, request->op, 0, *reply, &err);
    if (status == KVC_ETIMEOUT)
        return false;
    kvc_expect_ok(ctx, name, status, &err);
    return true;
}

/* Ends the check if uid is answered, or if the connection is no longer served. */
static void expect_no_reply(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, uint64_t uid,
                            const char *what)
{
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    await_or_fence(ctx, rpc, uid, what);
    const kvc_status status = kvc_client_wait(rpc->client, uid, 0, &reply, &err);
    if (status == KVC_OK) {
        struct kvc_buffer got = {0};
        kvc_frames_summarise(&reply, rpc->dialect, true, 200, &got);
        kvc_frames_clear(&reply);
        const struct kvc_str text =
            kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&got)));
        kvc_buffer_clear(&got);
        kvc_ctx_fail_values(ctx, what, "no answer", text.data);
    }
    if (status != KVC_ETIMEOUT)
        kvc_expect_ok(ctx, what, status, &err);
}

void kvc_expect_silence(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                        const struct kvc_request *request, const char *what)
{
    uint64_t uid = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op), kvc_rpc_send(rpc, request, &uid, &err), &err);
    expect_no_reply(ctx, rpc, uid, what);
}

void kvc_expect_silence_raw(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body,
                            const char *what)
{
    uint64_t uid = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "sending", kvc_client_send(rpc->client, body, &uid, &err), &err);
    expect_no_reply(ctx, rpc, uid, what);
}

void kvc_append_nested_arrays(struct kvc_frames *frames)
{
    enum { DEPTH = 200000 };
    struct kvc_buffer nested = {0};
    kvc_buffer_reserve(&nested, DEPTH);
    memset(nested.data, 0x91, DEPTH); /* an array of one element */
    nested.size = DEPTH;
    kvc_buffer_append_byte(&nested, 0xc0);
    kvc_frames_append_buffer(frames, &nested);
}
