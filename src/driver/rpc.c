#include "src/driver/rpc.h"

#include "src/base/clock.h"
#include "src/wire/pack.h"

enum {
    FIRST_PAUSE_MS = 1, /* between two questions whether a lookup is done */
    LONGEST_PAUSE_MS = 20,
    SHOWN_BYTES = 24,
};

/* Puts the operation before the place of an error, and keeps what is there. */
static kvc_status name_operation(struct kvc_error *err, enum kvc_op op, kvc_status status)
{
    if (status != KVC_OK && err != NULL)
        kvc_error_prepend_where(err, "%s%s", kvc_op_name(op), err->where[0] == '\0' ? "" : ": ");
    return status;
}

kvc_status kvc_rpc_send(const struct kvc_rpc *rpc, const struct kvc_request *request, uint64_t *uid,
                        struct kvc_error *err)
{
    struct kvc_frames frames = {0};
    kvc_status status = kvc_request_encode(rpc->dialect, request, &frames, err);
    if (status == KVC_OK)
        status = kvc_client_send(rpc->client, &frames, uid, err);
    kvc_frames_clear(&frames);
    return name_operation(err, request->op, status);
}

/* The op frame as kvc_request_encode writes it: the reply must repeat it byte for byte. */
static void encode_op(const struct kvc_dialect *dialect, enum kvc_op op, struct kvc_buffer *out)
{
    if (dialect->id[op] >= 0)
        kvc_msgpack_write_int(out, dialect->id[op]);
    else
        kvc_msgpack_write_str(out, kvc_str_of(kvc_op_name(op)));
}

static kvc_status check_op_echo(const struct kvc_dialect *dialect, enum kvc_op op,
                                const struct kvc_frames *frames, struct kvc_error *err)
{
    if (frames->count < 2)
        return kvc_fail(err, KVC_EFORMAT, "the reply has no op frame");
    struct kvc_buffer sent = {0};
    encode_op(dialect, op, &sent);
    const struct kvc_bytes got = kvc_frames_view(frames, 1);
    kvc_status status = KVC_OK;
    if (!kvc_bytes_equal(kvc_buffer_view(&sent), got)) {
        struct kvc_buffer hex = {0};
        status = kvc_fail(err, KVC_EFORMAT, "the reply's op frame is not the one that was sent");
        kvc_hex_encode(kvc_buffer_view(&sent), &hex);
        kvc_error_set_expected(err, "%s", kvc_buffer_text(&hex));
        hex.size = 0;
        kvc_hex_encode(
            (struct kvc_bytes){got.data, got.size < SHOWN_BYTES ? got.size : SHOWN_BYTES}, &hex);
        kvc_error_set_got(err, "%s", kvc_buffer_text(&hex));
        kvc_buffer_clear(&hex);
    }
    kvc_buffer_clear(&sent);
    return status;
}

kvc_status kvc_rpc_receive(const struct kvc_rpc *rpc, uint64_t uid, enum kvc_op op,
                           int64_t timeout_ms, struct kvc_reply *reply, struct kvc_error *err)
{
    *reply = (struct kvc_reply){0};
    struct kvc_frames frames = {0};
    kvc_status status = kvc_client_wait(rpc->client, uid, timeout_ms, &frames, err);
    if (status == KVC_OK)
        status = check_op_echo(rpc->dialect, op, &frames, err);
    if (status == KVC_OK)
        status = kvc_reply_decode(rpc->dialect, op, &frames, reply, err);
    kvc_frames_clear(&frames);
    return name_operation(err, op, status);
}

kvc_status kvc_rpc_call(const struct kvc_rpc *rpc, const struct kvc_request *request,
                        struct kvc_reply *reply, struct kvc_error *err)
{
    *reply = (struct kvc_reply){0};
    uint64_t uid;
    KVC_GUARD(kvc_rpc_send(rpc, request, &uid, err));
    return kvc_rpc_receive(rpc, uid, request->op, rpc->timeout_ms, reply, err);
}

/* A call whose reply must be void, or must not be. */
static kvc_status call_expecting(const struct kvc_rpc *rpc, const struct kvc_request *request,
                                 bool is_void, struct kvc_reply *reply, struct kvc_error *err)
{
    kvc_status status = kvc_rpc_call(rpc, request, reply, err);
    if (status != KVC_OK || reply->is_void == is_void)
        return status;
    kvc_fail(err, KVC_EFORMAT,
             is_void ? "the reply has a result where none belongs" : "the reply has no result");
    kvc_error_set_where(err, "%s", kvc_op_name(request->op));
    return KVC_EFORMAT;
}

kvc_status kvc_rpc_call_void(const struct kvc_rpc *rpc, const struct kvc_request *request,
                             struct kvc_error *err)
{
    struct kvc_reply reply;
    const kvc_status status = call_expecting(rpc, request, true, &reply, err);
    kvc_reply_clear(&reply);
    return status;
}

kvc_status kvc_rpc_call_count(const struct kvc_rpc *rpc, const struct kvc_request *request,
                              int64_t *count, struct kvc_error *err)
{
    struct kvc_reply reply;
    const kvc_status status = call_expecting(rpc, request, false, &reply, err);
    *count = reply.count;
    kvc_reply_clear(&reply);
    return status;
}

kvc_status kvc_rpc_call_bool(const struct kvc_rpc *rpc, const struct kvc_request *request, bool *ok,
                             struct kvc_error *err)
{
    struct kvc_reply reply;
    const kvc_status status = call_expecting(rpc, request, false, &reply, err);
    *ok = reply.ok;
    kvc_reply_clear(&reply);
    return status;
}

/* Nobody finds more chunks than there are tokens; callers count on that. */
static kvc_status check_found(const struct kvc_key *key, int64_t chunks, struct kvc_error *err)
{
    if (chunks >= 0 && (uint64_t)chunks <= key->token_ids.count)
        return KVC_OK;
    kvc_fail(err, KVC_EFORMAT, "the lookup of %zu tokens found an impossible number of chunks",
             key->token_ids.count);
    kvc_error_set_got(err, "%lld", (long long)chunks);
    return name_operation(err, KVC_OP_QUERY_PREFETCH_STATUS, KVC_EFORMAT);
}

/* Asks until the lookup's result is there: a void reply means "still loading". */
static kvc_status await_prefetch(const struct kvc_rpc *rpc, struct kvc_str request_id,
                                 int64_t *chunks, struct kvc_error *err)
{
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS, .request_id = request_id};
    const int64_t deadline = kvc_now_ms() + rpc->timeout_ms;
    for (int64_t pause = FIRST_PAUSE_MS;;) {
        struct kvc_reply reply;
        const kvc_status status = kvc_rpc_call(rpc, &query, &reply, err);
        const bool done = status != KVC_OK || !reply.is_void;
        *chunks = reply.count;
        kvc_reply_clear(&reply);
        if (done)
            return status;
        if (kvc_now_ms() >= deadline) {
            kvc_fail(err, KVC_ETIMEOUT, "the lookup was still loading after %lld ms",
                     (long long)rpc->timeout_ms);
            return name_operation(err, query.op, KVC_ETIMEOUT);
        }
        kvc_client_pause(rpc->client, pause);
        pause = 2 * pause < LONGEST_PAUSE_MS ? 2 * pause : LONGEST_PAUSE_MS;
    }
}

kvc_status kvc_rpc_lookup(const struct kvc_rpc *rpc, const struct kvc_key *key, int64_t tp_size,
                          int64_t *chunks, struct kvc_error *err)
{
    *chunks = 0;
    const struct kvc_request lookup = {.op = KVC_OP_LOOKUP, .key = *key, .tp_size = tp_size};
    KVC_GUARD(kvc_rpc_call_void(rpc, &lookup, err));
    KVC_GUARD(await_prefetch(rpc, key->request_id, chunks, err));
    return check_found(key, *chunks, err);
}

kvc_status kvc_rpc_free_locks(const struct kvc_rpc *rpc, const struct kvc_key *key, int64_t tp_size,
                              struct kvc_error *err)
{
    const struct kvc_request request = {
        .op = KVC_OP_FREE_LOOKUP_LOCKS, .key = *key, .tp_size = tp_size};
    return kvc_rpc_call_void(rpc, &request, err);
}

kvc_status kvc_rpc_end_session(const struct kvc_rpc *rpc, struct kvc_str request_id,
                               struct kvc_error *err)
{
    const struct kvc_request request = {.op = KVC_OP_END_SESSION, .request_id = request_id};
    return kvc_rpc_call_void(rpc, &request, err);
}

kvc_status kvc_rpc_noop(const struct kvc_rpc *rpc, struct kvc_error *err)
{
    const struct kvc_request request = {.op = KVC_OP_NOOP};
    struct kvc_reply reply;
    kvc_status status = call_expecting(rpc, &request, false, &reply, err);
    if (status == KVC_OK && !kvc_str_is(reply.text, "OK")) {
        status = kvc_fail(err, KVC_EFORMAT, "the reply is not \"OK\"");
        name_operation(err, KVC_OP_NOOP, status);
    }
    kvc_reply_clear(&reply);
    return status;
}

kvc_status kvc_rpc_check_chunk_size(int64_t chunk_size, struct kvc_error *err)
{
    if (chunk_size >= 1 && chunk_size <= KVC_MAX_CHUNK_TOKENS)
        return KVC_OK;
    kvc_fail(err, KVC_EFORMAT, "the server says that a chunk has %lld tokens",
             (long long)chunk_size);
    kvc_error_set_expected(err, "1 to %d", KVC_MAX_CHUNK_TOKENS);
    return name_operation(err, KVC_OP_GET_CHUNK_SIZE, KVC_EFORMAT);
}

kvc_status kvc_rpc_chunk_size(const struct kvc_rpc *rpc, int64_t *chunk_size, struct kvc_error *err)
{
    const struct kvc_request request = {.op = KVC_OP_GET_CHUNK_SIZE};
    KVC_GUARD(kvc_rpc_call_count(rpc, &request, chunk_size, err));
    return kvc_rpc_check_chunk_size(*chunk_size, err);
}

kvc_status kvc_rpc_clear(const struct kvc_rpc *rpc, bool force, struct kvc_error *err)
{
    const struct kvc_request request = {.op = KVC_OP_CLEAR, .force = force};
    return kvc_rpc_call_void(rpc, &request, err);
}
