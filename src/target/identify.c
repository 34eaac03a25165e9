#include "src/target/identify.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/driver/rpc.h"
#include "src/link/http.h"
#include "src/wire/pack.h"

/* How long an answer may lag behind that of a question asked after it. */
enum { GRACE_MS = 100, MAX_HTTP_MS = 2000 };

/* What a reply's result is; NOTHING: no reply, NO_RESULT: a void one. */
enum answer { NOTHING, NO_RESULT, NUMBER, YES_OR_NO, TEXT, LIST, OTHER };

static const char *const answer_names[] = {
    [NOTHING] = "is silent",    [NO_RESULT] = "void", [NUMBER] = "a number",
    [YES_OR_NO] = "a bool",     [TEXT] = "a text",    [LIST] = "a list",
    [OTHER] = "something else",
};

/* The ids that mean something harmless, or nothing, in every release that may get them
 * (protocol.md 1.8). Payload counts are part of that: an id asked with a count that it does not take
 * is not answered. */
enum {
    ID_NOOP_OR_CHUNK_SIZE = 21, /* 0.5.0: NOOP; from 0.5.3: GET_CHUNK_SIZE; 0.4: wrong count */
    ID_PING_0_4_7 = 18,         /* 0.5.0: GET_CHUNK_SIZE; elsewhere a wrong count */
    ID_NOOP_0_4_6 = 19,         /* elsewhere a wrong count */
    ID_EXPERIMENTAL = 32,       /* 0.5.5, 0.5.6; 0.5.3: a wrong count; before: never to be sent */
    ID_LOOKUP_HITS = 11,        /* 0.5.5: QUERY_PREFETCH_LOOKUP_HITS; 0.5.6: retired */
    ID_STATUS = 9,              /* from 0.5.3: QUERY_PREFETCH_STATUS, in the class of 11 */
};

struct dialogue {
    struct kvc_client *client;
    int64_t timeout_ms;
    char request_id[48]; /* one that no session has */
};

static kvc_status send_question(struct dialogue *dialogue, int id, bool with_request_id,
                                uint64_t *uid, struct kvc_error *err)
{
    struct kvc_frames frames = {0};
    struct kvc_buffer frame = {0};
    kvc_msgpack_write_int(&frame, id);
    kvc_frames_append_buffer(&frames, &frame);
    if (with_request_id) {
        kvc_msgpack_write_str(&frame, kvc_str_of(dialogue->request_id));
        kvc_frames_append_buffer(&frames, &frame);
    }
    return kvc_client_send(dialogue->client, &frames, uid, err);
}

/* Ids below 128 are their own encoding, and come back as they were sent. */
static bool has_right_frames(const struct kvc_frames *reply, int id)
{
    return (reply->count == 2 || reply->count == 3) && reply->items[1].size == 1 &&
           reply->items[1].data[0] == id;
}

static enum answer classify(const struct kvc_frames *reply, int id, int64_t *number)
{
    static const struct {
        msgpack_object_type type;
        enum answer answer;
    } types[] = {
        {MSGPACK_OBJECT_POSITIVE_INTEGER, NUMBER},
        {MSGPACK_OBJECT_NEGATIVE_INTEGER, NUMBER},
        {MSGPACK_OBJECT_BOOLEAN, YES_OR_NO},
        {MSGPACK_OBJECT_STR, TEXT},
        {MSGPACK_OBJECT_ARRAY, LIST},
    };
    if (!has_right_frames(reply, id))
        return OTHER;
    if (reply->count == 2)
        return NO_RESULT;
    msgpack_zone zone;
    msgpack_object object;
    enum answer answer = OTHER;
    if (kvc_msgpack_read(kvc_frames_view(reply, 2), &zone, &object, NULL) == KVC_OK) {
        for (size_t i = 0; i < KVC_COUNT_OF(types); i++)
            answer = types[i].type == object.type ? types[i].answer : answer;
        if (object.type == MSGPACK_OBJECT_POSITIVE_INTEGER && object.via.u64 <= INT64_MAX)
            *number = object.via.i64;
    }
    msgpack_zone_destroy(&zone);
    return answer;
}

static kvc_status wait_answer(struct dialogue *dialogue, int id, uint64_t uid, int64_t limit_ms,
                              enum answer *answer, int64_t *number, struct kvc_error *err)
{
    struct kvc_frames reply = {0};
    kvc_status status = kvc_client_wait(dialogue->client, uid, limit_ms, &reply, err);
    *answer = status == KVC_OK ? classify(&reply, id, number) : NOTHING;
    kvc_frames_clear(&reply);
    return status == KVC_ETIMEOUT ? KVC_OK : status;
}

/* A question that every release answers, or that tells nothing when it stays unanswered. */
static kvc_status ask(struct dialogue *dialogue, int id, int64_t limit_ms, enum answer *answer,
                      int64_t *number, struct kvc_error *err)
{
    uint64_t uid;
    KVC_GUARD(send_question(dialogue, id, false, &uid, err));
    return wait_answer(dialogue, id, uid, limit_ms, answer, number, err);
}

/* A question whose answer may be silence. `control` is sent after it, is served in the same queue, and
 * is always answered: once it is, an answer to the question would have come, too. Without that, silence
 * costs the whole limit. */
static kvc_status ask_beside(struct dialogue *dialogue, int id, int control, bool with_request_id,
                             enum answer *answer, struct kvc_error *err)
{
    uint64_t asked, controlled;
    enum answer control_answer;
    int64_t number;
    KVC_GUARD(send_question(dialogue, id, with_request_id, &asked, err));
    KVC_GUARD(send_question(dialogue, control, with_request_id, &controlled, err));
    KVC_GUARD(wait_answer(dialogue, control, controlled, dialogue->timeout_ms, &control_answer,
                          &number, err));
    if (control_answer == NOTHING)
        return kvc_fail(err, KVC_ETIMEOUT, "the server stopped answering after operation id %d",
                        id);
    return wait_answer(dialogue, id, asked, GRACE_MS, answer, &number, err);
}

static void note(struct kvc_identity *identity, const char *text)
{
    const size_t used = strlen(identity->how);
    snprintf(identity->how + used, sizeof(identity->how) - used, "%s%s", used == 0 ? "" : "; ",
             text);
}

static void note_answer(struct kvc_identity *identity, int id, enum answer answer)
{
    char text[64];
    snprintf(text, sizeof(text), "id %d: %s", id, answer_names[answer]);
    note(identity, text);
}

static const struct kvc_dialect *dialect_named(const char *release)
{
    return kvc_dialect_find(kvc_str_of(release));
}

/* Nobody answered what every release since 0.5.0 answers: an older one, one whose NOOP is broken, or
 * one that hangs. */
static kvc_status ask_old_releases(struct dialogue *dialogue, struct kvc_identity *identity,
                                   struct kvc_error *err)
{
    static const struct {
        int id;
        enum answer answer;
    } old_questions[] = {{ID_NOOP_0_4_6, TEXT}, {ID_PING_0_4_7, YES_OR_NO}};
    const int64_t limit = dialogue->timeout_ms < 1000 ? dialogue->timeout_ms : 1000;
    for (size_t i = 0; i < KVC_COUNT_OF(old_questions); i++) {
        enum answer answer;
        int64_t number = 0;
        KVC_GUARD(ask(dialogue, old_questions[i].id, limit, &answer, &number, err));
        note_answer(identity, old_questions[i].id, answer);
        if (answer == old_questions[i].answer)
            return kvc_fail(err, KVC_EUNSUPPORTED,
                            "the server is a release older than 0.5.0, the oldest supported");
        if (answer == NUMBER) {
            identity->dialect = dialect_named("0.5.0");
            identity->chunk_size = number;
            return kvc_rpc_check_chunk_size(number, err);
        }
    }
    kvc_fail(err, KVC_ETIMEOUT, "the server accepts connections, but does not answer");
    return kvc_error_set_got(err, "%s", identity->how), KVC_ETIMEOUT;
}

/* Between the releases that have GET_CHUNK_SIZE as 21. */
static kvc_status tell_apart_new_releases(struct dialogue *dialogue, struct kvc_identity *identity,
                                          struct kvc_error *err)
{
    enum answer answer;
    KVC_GUARD(ask_beside(dialogue, ID_EXPERIMENTAL, ID_NOOP_OR_CHUNK_SIZE, false, &answer, err));
    note_answer(identity, ID_EXPERIMENTAL, answer);
    if (answer != LIST) {
        identity->dialect = dialect_named("0.5.3");
        return KVC_OK;
    }
    KVC_GUARD(ask_beside(dialogue, ID_LOOKUP_HITS, ID_STATUS, true, &answer, err));
    note_answer(identity, ID_LOOKUP_HITS, answer);
    identity->dialect = dialect_named(answer == NOTHING ? "0.5.6" : "0.5.5");
    return KVC_OK;
}

static kvc_status ask_chunk_size(struct dialogue *dialogue, struct kvc_identity *identity,
                                 struct kvc_error *err)
{
    const struct kvc_rpc rpc = {dialogue->client, identity->dialect, dialogue->timeout_ms};
    return kvc_rpc_chunk_size(&rpc, &identity->chunk_size, err);
}

static kvc_status identify_by_zmq(struct dialogue *dialogue, struct kvc_identity *identity,
                                  struct kvc_error *err)
{
    enum answer answer;
    int64_t number = 0;
    KVC_GUARD(ask(dialogue, ID_NOOP_OR_CHUNK_SIZE, dialogue->timeout_ms, &answer, &number, err));
    note_answer(identity, ID_NOOP_OR_CHUNK_SIZE, answer);
    switch (answer) {
    case TEXT:
        identity->dialect = dialect_named("0.5.0");
        return ask_chunk_size(dialogue, identity, err);
    case NUMBER:
        identity->chunk_size = number;
        KVC_GUARD(kvc_rpc_check_chunk_size(number, err));
        return tell_apart_new_releases(dialogue, identity, err);
    case NOTHING:
        return ask_old_releases(dialogue, identity, err);
    default:
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "the server answers operation id %d with %s, as no known release does",
                        ID_NOOP_OR_CHUNK_SIZE, answer_names[answer]);
    }
}

/* What HTTP says; "" when it says nothing. The body is a JSON string. */
static void ask_http(const char *http_url, int64_t timeout_ms, struct kvc_identity *identity)
{
    struct kvc_http_response response;
    const int64_t limit = timeout_ms < MAX_HTTP_MS ? timeout_ms : MAX_HTTP_MS;
    if (kvc_http_request("GET", http_url, "/lmc_version", NULL, limit, &response, NULL) != KVC_OK)
        return;
    const char *text = kvc_buffer_text(&response.body);
    const char *start = text + strspn(text, " \t\r\n\"");
    const size_t size = strspn(start, "0123456789abcdefghijklmnopqrstuvwxyz.+-_");
    if (response.status == 200 && size < sizeof(identity->version))
        snprintf(identity->version, sizeof(identity->version), "%.*s", (int)size, start);
    kvc_http_response_clear(&response);
}

static void compare_with_http(struct kvc_identity *identity)
{
    char text[160];
    if (identity->version[0] == '\0') {
        note(identity, "HTTP does not say its version");
        return;
    }
    const bool agrees = dialect_named(identity->version) == identity->dialect;
    snprintf(text, sizeof(text), "HTTP says %s%s", identity->version,
             agrees ? "" : ", which speaks otherwise: the answers above decide");
    note(identity, text);
}

kvc_status kvc_identify(const char *rpc_url, const char *http_url, int64_t connect_timeout_ms,
                        int64_t timeout_ms, struct kvc_identity *identity, struct kvc_error *err)
{
    *identity = (struct kvc_identity){0};
    struct dialogue dialogue = {.timeout_ms = timeout_ms};
    snprintf(dialogue.request_id, sizeof(dialogue.request_id), "kvconform-identify-%d-%lld",
             (int)getpid(), (long long)kvc_now_ns());
    KVC_GUARD(kvc_client_open(rpc_url, connect_timeout_ms, &dialogue.client, err));
    const kvc_status status = identify_by_zmq(&dialogue, identity, err);
    kvc_client_close(dialogue.client);
    if (http_url != NULL)
        ask_http(http_url, timeout_ms, identity);
    if (status == KVC_OK && http_url != NULL)
        compare_with_http(identity);
    if (status == KVC_ETIMEOUT && strncmp(identity->version, "0.4.", 4) == 0)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "the server is release %s; the oldest supported is 0.5.0",
                        identity->version);
    return status;
}
