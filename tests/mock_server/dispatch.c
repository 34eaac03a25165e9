#include "tests/mock_server/dispatch.h"

#include <stdlib.h>
#include <string.h>

#include "src/wire/pack.h"
#include "tests/mock_server/endings.h"
#include "tests/mock_server/handlers.h"
#include "tests/mock_server/housekeeping.h"

/* How servers schedule an operation, in the order in which the mock answers (protocol.md 1.5). */
enum operation_class { CLASS_NONE, CLASS_SYNC, CLASS_AFFINITY, CLASS_NORMAL, CLASS_END };

struct operation {
    enum operation_class class;
    mock_handler *handle;
};

static const struct operation operations[KVC_OP_COUNT] = {
    [KVC_OP_REGISTER_KV_CACHE] = {CLASS_SYNC, mock_on_register_kv_cache},
    [KVC_OP_UNREGISTER_KV_CACHE] = {CLASS_SYNC, mock_on_unregister_kv_cache},
    [KVC_OP_REGISTER_ENGINE_DRIVEN] = {CLASS_SYNC, mock_on_register_engine_driven},
    [KVC_OP_UNREGISTER_ENGINE_DRIVEN] = {CLASS_SYNC, mock_on_unregister_engine_driven},
    [KVC_OP_GET_CHUNK_SIZE] = {CLASS_SYNC, mock_on_chunk_size},
    [KVC_OP_NOOP] = {CLASS_SYNC, mock_on_noop},
    [KVC_OP_GET_EXPERIMENTAL] = {CLASS_SYNC, mock_on_experimental},
    [KVC_OP_STORE] = {CLASS_AFFINITY, mock_on_store},
    [KVC_OP_RETRIEVE] = {CLASS_AFFINITY, mock_on_retrieve},
    [KVC_OP_PREPARE_STORE] = {CLASS_AFFINITY, mock_on_prepare_store},
    [KVC_OP_COMMIT_STORE] = {CLASS_AFFINITY, mock_on_commit_store},
    [KVC_OP_PREPARE_RETRIEVE] = {CLASS_AFFINITY, mock_on_prepare_retrieve},
    [KVC_OP_COMMIT_RETRIEVE] = {CLASS_AFFINITY, mock_on_commit_retrieve},
    [KVC_OP_LOOKUP] = {CLASS_NORMAL, mock_on_lookup},
    [KVC_OP_QUERY_PREFETCH_STATUS] = {CLASS_NORMAL, mock_on_query_status},
    [KVC_OP_WAIT_PREFETCH_STATUS] = {CLASS_NORMAL, mock_on_wait_status},
    [KVC_OP_QUERY_PREFETCH_LOOKUP_HITS] = {CLASS_NORMAL, mock_on_query_hits},
    [KVC_OP_FREE_LOOKUP_LOCKS] = {CLASS_NORMAL, mock_on_free_locks},
    [KVC_OP_END_SESSION] = {CLASS_NORMAL, mock_on_end_session},
    [KVC_OP_CLEAR] = {CLASS_NORMAL, mock_on_clear},
    [KVC_OP_PING] = {CLASS_NORMAL, mock_on_ping},
    [KVC_OP_REPORT_BLOCK_ALLOCATION] = {CLASS_NORMAL, mock_on_report_blocks},
    [KVC_OP_P2P_LOOKUP_AND_LOCK] = {CLASS_NORMAL, mock_on_p2p_lookup},
    [KVC_OP_P2P_QUERY_LOOKUP_RESULTS] = {CLASS_NORMAL, mock_on_p2p_query},
    [KVC_OP_P2P_UNLOCK_OBJECTS] = {CLASS_NORMAL, mock_on_p2p_unlock},
};

enum {
    MAX_BATCH = 64,      /* messages taken up together */
    SWAP_WAIT_MS = 3,    /* a defect waits that long for a second request to swap replies with */
    LONGEST_CUT_UID = 8, /* bytes, a defect */
    WIDE_UID = 9,        /* bytes of a number above 32 bits, for defects */
    LONGEST_MESSAGE = 1024 * 1024 /* bytes, a defect */
};

struct message {
    struct kvc_buffer identity;
    struct kvc_frames frames;
    enum kvc_op op;
};

struct mock_late_reply {
    struct mock_late_reply *next;
    int64_t due_ms;
    struct kvc_buffer identity;
    struct kvc_frames frames;
};

/* ---- replies ---- */

static void append_uid(const struct mock *mock, struct kvc_bytes uid, struct kvc_frames *reply)
{
    if (mock_has(mock, MOCK_DEFECT_UID_CUT) && uid.size > LONGEST_CUT_UID)
        uid.size = LONGEST_CUT_UID;
    kvc_frames_append_copy(reply, uid.data, uid.size);
}

static void append_op(const struct mock *mock, const struct message *message,
                      struct kvc_frames *reply)
{
    const struct kvc_bytes op = kvc_frames_view(&message->frames, 1);
    const int16_t id = mock->options.dialect->id[message->op];
    if (!mock_has(mock, MOCK_DEFECT_OP_RE_ENCODED) || id < 0) {
        kvc_frames_append_copy(reply, op.data, op.size);
        return;
    }
    struct kvc_buffer encoded = {0};
    kvc_msgpack_write_int(&encoded, id);
    kvc_frames_append_buffer(reply, &encoded);
}

static void keep_for_later(struct mock_dispatch *dispatch, struct kvc_bytes identity,
                           struct kvc_frames *reply, int64_t due_ms)
{
    struct mock_late_reply *late = kvc_alloc_zero(1, sizeof(*late));
    late->due_ms = due_ms;
    kvc_buffer_append(&late->identity, identity.data, identity.size);
    kvc_frames_copy(reply, &late->frames);
    kvc_frames_clear(reply);
    late->next = dispatch->late;
    dispatch->late = late;
}

static void send_copy(struct mock_dispatch *dispatch, struct kvc_bytes identity,
                      const struct kvc_frames *reply)
{
    struct kvc_frames copy = {0};
    kvc_frames_copy(reply, &copy);
    kvc_server_send(dispatch->server, identity, &copy, NULL);
}

/* A defect: the reply once more, under a uid that nobody has sent. */
static void send_stray(struct mock_dispatch *dispatch, struct kvc_bytes identity,
                       const struct kvc_frames *reply)
{
    static const uint8_t uid[] = {0xc1}; /* never a msgpack number */
    struct kvc_frames stray = {0};
    kvc_frames_append_view(&stray, uid, sizeof(uid));
    for (size_t i = 1; i < reply->count; i++)
        kvc_frames_append_copy(&stray, reply->items[i].data, reply->items[i].size);
    kvc_server_send(dispatch->server, identity, &stray, NULL);
}

static void send_reply(struct mock_dispatch *dispatch, const struct mock *mock,
                       struct kvc_bytes identity, struct kvc_frames *reply, int64_t delay_ms)
{
    if (delay_ms > 0) {
        keep_for_later(dispatch, identity, reply, mock->now_ms + delay_ms);
        return;
    }
    if (mock_has(mock, MOCK_DEFECT_REPLY_TWICE))
        send_copy(dispatch, identity, reply);
    kvc_server_send(dispatch->server, identity, reply, NULL);
}

int64_t mock_dispatch_late(struct mock_dispatch *dispatch, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;
    struct mock_late_reply **link = &dispatch->late;
    while (*link != NULL) {
        struct mock_late_reply *late = *link;
        if (now_ms < late->due_ms) {
            next_ms = late->due_ms < next_ms ? late->due_ms : next_ms;
            link = &late->next;
            continue;
        }
        *link = late->next;
        kvc_server_send(dispatch->server, kvc_buffer_view(&late->identity), &late->frames, NULL);
        kvc_buffer_clear(&late->identity);
        free(late);
    }
    return next_ms;
}

void mock_dispatch_clear(struct mock_dispatch *dispatch)
{
    while (dispatch->late != NULL) {
        struct mock_late_reply *late = dispatch->late;
        dispatch->late = late->next;
        kvc_buffer_clear(&late->identity);
        kvc_frames_clear(&late->frames);
        free(late);
    }
    mock_memory_clear(&dispatch->uids);
    mock_memory_clear(&dispatch->muted);
}

/* ---- one request ---- */

/* A request that cannot be read is not answered, unless a defect says so. */
static void refuse_unreadable(struct mock_dispatch *dispatch, struct mock_call *call,
                              const struct message *message, const struct kvc_error *err)
{
    mock_refuse(call, "%s%s%s", err->where, err->where[0] != '\0' ? ": " : "", err->what);
    mock_end_by_bad_payload(call->mock, err);
    if (mock_has(call->mock, MOCK_DEFECT_BAD_PAYLOAD_MUTES))
        mock_memory_add(&dispatch->muted, call->identity);
    const bool salt_is_bad = strstr(err->where, "cache_salt") != NULL;
    if (!mock_has(call->mock, MOCK_DEFECT_ERROR_REPLIED) &&
        !(salt_is_bad && mock_has(call->mock, MOCK_DEFECT_SALT_REFUSED_ALOUD)))
        return;
    struct kvc_frames reply = {0};
    struct kvc_buffer text = {0};
    append_uid(call->mock, kvc_frames_view(&message->frames, 0), &reply);
    append_op(call->mock, message, &reply);
    kvc_msgpack_write_str(&text, kvc_str_of(err->what));
    kvc_frames_append_buffer(&reply, &text);
    send_reply(dispatch, call->mock, call->identity, &reply, 0);
}

/* The result is the one byte of 0 or of false. */
static bool is_zero(const struct kvc_frames *reply)
{
    return reply->count == 3 && reply->items[2].size == 1 &&
           (reply->items[2].data[0] == 0x00 || reply->items[2].data[0] == 0xc2);
}

static kvc_status encode_reply(const struct mock_call *call, const struct message *addressee,
                               struct kvc_frames *frames, struct kvc_error *err)
{
    const struct mock *mock = call->mock;
    kvc_frames_clear(frames);
    append_uid(mock, kvc_frames_view(&addressee->frames, 0), frames);
    append_op(mock, addressee, frames);
    KVC_GUARD(kvc_reply_encode(mock->options.dialect, call->reply, frames, err));
    if (!mock_has(mock, MOCK_DEFECT_ZERO_IS_VOID) || !is_zero(frames))
        return KVC_OK;
    call->reply->is_void = true;
    return encode_reply(call, addressee, frames, err);
}

/* Defects: a void reply has a result all the same. */
static bool is_followed_by_nil(const struct mock *mock, enum kvc_op op)
{
    if (op == KVC_OP_REPORT_BLOCK_ALLOCATION)
        return mock_has(mock, MOCK_DEFECT_NIL_FOR_VOID);
    return (op == KVC_OP_UNREGISTER_ENGINE_DRIVEN || op == KVC_OP_UNREGISTER_KV_CACHE) &&
           mock_has(mock, MOCK_DEFECT_UNREGISTER_NIL);
}

/* Puts the reply into frames and sends it under the uid of `addressee` (the message itself, but with a
 * defect). */
static void answer(struct mock_dispatch *dispatch, struct mock_call *call,
                   const struct message *addressee)
{
    const struct mock *mock = call->mock;
    struct kvc_frames frames = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    if (encode_reply(call, addressee, &frames, &err) != KVC_OK) {
        mock_refuse(call, "the reply cannot be written: %s", err.what);
        kvc_frames_clear(&frames);
        return;
    }
    if (is_followed_by_nil(mock, addressee->op)) {
        static const uint8_t nil = 0xc0;
        kvc_frames_append_view(&frames, &nil, sizeof(nil));
    }
    const struct kvc_bytes identity = kvc_buffer_view(&addressee->identity);
    mock_watch_reply(mock, identity, &frames);
    const bool is_transfer = operations[addressee->op].class == CLASS_AFFINITY;
    if (is_transfer && mock_has(mock, MOCK_DEFECT_TRANSFER_REPLY_TWICE))
        send_copy(dispatch, identity, &frames);
    if (is_transfer && mock_has(mock, MOCK_DEFECT_STRAY_REPLY))
        send_stray(dispatch, identity, &frames);
    send_reply(dispatch, mock, identity, &frames, call->delay_ms);
}

/* The frames as the decoder gets them. */
static void drop_surplus(const struct mock *mock, struct message *message)
{
    const int expected = kvc_request_payload_count(mock->options.dialect, message->op);
    if (expected >= 0 && message->frames.count > (size_t)expected + 2)
        message->frames.count = (size_t)expected + 2;
}

/* A defect: whether the payloads are byte for byte what the codec would write. */
static bool is_own_form(const struct mock *mock, const struct kvc_request *request,
                        const struct kvc_frames *frames)
{
    struct kvc_frames own = {0};
    bool same = kvc_request_encode(mock->options.dialect, request, &own, NULL) == KVC_OK &&
                own.count + 1 == frames->count;
    for (size_t i = 1; same && i < own.count; i++)
        same = kvc_bytes_equal(kvc_frames_view(&own, i), kvc_frames_view(frames, i + 1));
    kvc_frames_clear(&own);
    return same;
}

static void handle(struct mock_dispatch *dispatch, struct mock *mock, struct message *message,
                   const struct message *addressee)
{
    struct kvc_arena arena = {0};
    struct kvc_buffer buffer = {0};
    struct kvc_request request;
    struct kvc_reply reply = {.op = message->op};
    struct mock_call call = {
        .mock = mock,
        .identity = kvc_buffer_view(&message->identity),
        .frames = &message->frames,
        .request = &request,
        .reply = &reply,
        .arena = &arena,
        .buffer = &buffer,
    };
    struct kvc_error err = KVC_ERROR_INIT;
    const size_t frame_count = message->frames.count;
    if (mock_has(mock, MOCK_DEFECT_SURPLUS_PAYLOAD_ACCEPTED))
        drop_surplus(mock, message);
    request.op = message->op;
    if (kvc_request_decode(mock->options.dialect, &message->frames, &arena, &request, &err) !=
        KVC_OK)
        refuse_unreadable(dispatch, &call, message, &err);
    else if (mock_has(mock, MOCK_DEFECT_ONE_FORM_ONLY) &&
             !is_own_form(mock, &request, &message->frames))
        mock_refuse(&call, "a payload has another form than the mock would give it");
    else if (operations[message->op].handle(&call) == MOCK_REPLY)
        answer(dispatch, &call, addressee);
    message->frames.count = frame_count;
    kvc_buffer_clear(&buffer);
    kvc_arena_clear(&arena);
}

/* ---- many ---- */

static bool is_large(const struct kvc_frames *frames)
{
    size_t size = 0;
    for (size_t i = 0; i < frames->count; i++)
        size += frames->items[i].size;
    return size > LONGEST_MESSAGE;
}

/* Defects: the message is dropped, whatever it is. */
static bool is_dropped(struct mock_dispatch *dispatch, const struct mock *mock,
                       const struct message *message)
{
    const struct kvc_bytes identity = kvc_buffer_view(&message->identity);
    if (mock_memory_has(&dispatch->muted, identity) ||
        (mock_has(mock, MOCK_DEFECT_LARGE_MESSAGE_DROPPED) && is_large(&message->frames)))
        return true;
    if (!mock_has(mock, MOCK_DEFECT_UID_REMEMBERED) || message->frames.count == 0 ||
        message->frames.items[0].size < WIDE_UID)
        return false;
    const struct kvc_bytes uid = kvc_frames_view(&message->frames, 0);
    const bool repeated = mock_memory_has(&dispatch->uids, uid);
    if (!repeated)
        mock_memory_add(&dispatch->uids, uid);
    return repeated;
}

/* Which operation a message is for; KVC_OP_NONE, with the reason said, when it cannot be answered. */
static enum kvc_op operation_of(struct mock *mock, const struct message *message)
{
    const struct mock_call call = {
        .mock = mock, .identity = kvc_buffer_view(&message->identity), .frames = &message->frames};
    enum kvc_op op = KVC_OP_NONE;
    struct kvc_error err = KVC_ERROR_INIT;
    mock_end_by_message(mock, call.identity, &message->frames);
    if (message->frames.count < 2) {
        mock_refuse(&call, "a message of %zu frames, where a uid and an operation must be",
                    message->frames.count);
        mock->loop_is_dead |= mock_has(mock, MOCK_DEFECT_SHORT_MESSAGE_KILLS);
    } else if (kvc_request_op(mock->options.dialect, kvc_frames_view(&message->frames, 1), &op,
                              &err) != KVC_OK) {
        mock_refuse(&call, "%s", err.what);
        mock->loop_is_dead |= mock_has(mock, MOCK_DEFECT_UNKNOWN_OP_KILLS);
    } else if (operations[op].handle == NULL) {
        mock_refuse(&call, "%s is not enabled", kvc_op_name(op));
        mock->loop_is_dead |= mock_has(mock, MOCK_DEFECT_DISABLED_OP_KILLS);
        op = KVC_OP_NONE;
    }
    return op;
}

static kvc_status take_up(struct mock_dispatch *dispatch, struct mock *mock, int64_t timeout_ms,
                          struct message messages[MAX_BATCH], size_t *count, struct kvc_error *err)
{
    *count = 0;
    KVC_GUARD(kvc_server_receive(dispatch->server, timeout_ms, &messages[0].identity,
                                 &messages[0].frames, err));
    const bool swaps =
        mock_has(mock, MOCK_DEFECT_REPLIES_SWAPPED) || mock_has(mock, MOCK_DEFECT_CLIENTS_MIXED_UP);
    const int64_t more_ms = swaps ? SWAP_WAIT_MS : 0;
    do {
        (*count)++;
    } while (*count < MAX_BATCH &&
             kvc_server_receive(dispatch->server, more_ms, &messages[*count].identity,
                                &messages[*count].frames, NULL) == KVC_OK);
    return KVC_OK;
}

/* A defect: the message of another client that has the same uid, a wide one; neither has a
 * payload. */
static const struct message *namesake_of(const struct message *messages, size_t count,
                                         const struct message *message)
{
    for (size_t i = 0; i < count; i++) {
        if (messages[i].op != message->op && messages[i].op != KVC_OP_NONE &&
            messages[i].frames.count == 2 && message->frames.count == 2 &&
            message->frames.items[0].size >= WIDE_UID &&
            kvc_bytes_equal(kvc_frames_view(&messages[i].frames, 0),
                            kvc_frames_view(&message->frames, 0)) &&
            !kvc_bytes_equal(kvc_buffer_view(&messages[i].identity),
                             kvc_buffer_view(&message->identity)))
            return &messages[i];
    }
    return message;
}

/* Defects: who gets the reply to the i-th message. Pairs of neighbours from one client are swapped, or
 * clients that use one uid. */
static const struct message *addressee_of(const struct mock *mock, const struct message *messages,
                                          size_t count, size_t i)
{
    const size_t other = i ^ 1;
    if (mock_has(mock, MOCK_DEFECT_REPLIES_SWAPPED) && other < count &&
        kvc_bytes_equal(kvc_buffer_view(&messages[i].identity),
                        kvc_buffer_view(&messages[other].identity)) &&
        messages[i].op != KVC_OP_NONE && messages[other].op != KVC_OP_NONE)
        return &messages[other];
    if (mock_has(mock, MOCK_DEFECT_CLIENTS_MIXED_UP))
        return namesake_of(messages, count, &messages[i]);
    return &messages[i];
}

/* A defect: an instance leaves in the order of its transfers, so that there is something under way. */
static enum operation_class class_of(const struct mock *mock, enum kvc_op op)
{
    if (op == KVC_OP_UNREGISTER_KV_CACHE && mock_has(mock, MOCK_DEFECT_STORE_READS_SUCCESSOR))
        return CLASS_AFFINITY;
    return operations[op].class;
}

kvc_status mock_dispatch_serve(struct mock_dispatch *dispatch, struct mock *mock,
                               int64_t timeout_ms, struct kvc_error *err)
{
    struct message messages[MAX_BATCH];
    size_t count = 0;
    KVC_GUARD(take_up(dispatch, mock, timeout_ms, messages, &count, err));
    mock_pass_time(mock);
    for (size_t i = 0; i < count; i++)
        mock_watch_request(mock, kvc_buffer_view(&messages[i].identity), &messages[i].frames);
    for (size_t i = 0; i < count; i++)
        messages[i].op = is_dropped(dispatch, mock, &messages[i])
                             ? KVC_OP_NONE
                             : operation_of(mock, &messages[i]);
    for (int class = CLASS_SYNC; class < CLASS_END; class ++) {
        const bool last_first =
            class == CLASS_AFFINITY && mock_has(mock, MOCK_DEFECT_TRANSFERS_REORDERED);
        for (size_t n = 0; n < count && !mock->loop_is_dead; n++) {
            const size_t i = last_first ? count - 1 - n : n;
            if (class_of(mock, messages[i].op) == (enum operation_class) class)
                handle(dispatch, mock, &messages[i], addressee_of(mock, messages, count, i));
        }
    }
    for (size_t i = 0; i < count; i++) {
        kvc_buffer_clear(&messages[i].identity);
        kvc_frames_clear(&messages[i].frames);
    }
    return KVC_OK;
}
