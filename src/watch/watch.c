#include "src/watch/watch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"

enum {
    DEFAULT_PATIENCE_MS = 5000,
    DEFAULT_SESSION_TTL_MS = 600000, /* protocol.md 4.1 */
};

struct operation {
    watch_request_func *request;
    watch_reply_func *reply;
    watch_silence_func *silence;
};

static void got_chunk_size(struct kvc_watch *watch, const struct watch_flight *flight,
                           const struct kvc_reply *reply)
{
    (void)flight;
    if (watch->chunk_size == 0 && reply->count > 0)
        watch->chunk_size = reply->count;
}

static const struct operation operations[KVC_OP_COUNT] = {
    [KVC_OP_REGISTER_KV_CACHE] = {watch_on_register_mapped, watch_registered_mapped,
                                  watch_not_registered_mapped},
    [KVC_OP_UNREGISTER_KV_CACHE] = {.request = watch_on_unregister_mapped},
    [KVC_OP_REGISTER_ENGINE_DRIVEN] = {watch_on_register_engine_driven,
                                       watch_registered_engine_driven,
                                       watch_not_registered_engine_driven},
    [KVC_OP_UNREGISTER_ENGINE_DRIVEN] = {.request = watch_on_unregister_engine_driven},
    [KVC_OP_PING] = {.request = watch_on_ping},
    [KVC_OP_LOOKUP] = {watch_on_lookup, watch_looked_up, watch_not_looked_up},
    [KVC_OP_QUERY_PREFETCH_STATUS] = {watch_on_query, .reply = watch_got_result},
    [KVC_OP_WAIT_PREFETCH_STATUS] = {watch_on_query, .reply = watch_got_result},
    [KVC_OP_QUERY_PREFETCH_LOOKUP_HITS] = {watch_on_query, .reply = watch_got_result},
    [KVC_OP_FREE_LOOKUP_LOCKS] = {.request = watch_on_free_locks},
    [KVC_OP_END_SESSION] = {.request = watch_on_end_session},
    [KVC_OP_STORE] = {.request = watch_on_store},
    [KVC_OP_RETRIEVE] = {.request = watch_on_retrieve},
    [KVC_OP_PREPARE_STORE] = {watch_on_prepare_store, watch_prepared_store, watch_not_prepared},
    [KVC_OP_COMMIT_STORE] = {.request = watch_on_commit_store},
    [KVC_OP_PREPARE_RETRIEVE] = {watch_on_prepare_retrieve, watch_prepared_retrieve,
                                 watch_not_prepared},
    [KVC_OP_COMMIT_RETRIEVE] = {.request = watch_on_commit_retrieve},
    [KVC_OP_CLEAR] = {.request = watch_on_clear},
    [KVC_OP_GET_CHUNK_SIZE] = {.reply = got_chunk_size},
};

/* ---- findings ---- */

static void say(struct kvc_watch *watch, enum kvc_rule_id rule, const char *format, va_list args)
{
    char detail[512];
    vsnprintf(detail, sizeof(detail), format, args);
    const struct kvc_finding finding = {
        .rule = &kvc_rules[rule],
        .detail = detail,
        .client = watch->current.client,
        .op = watch->current.op,
        .frames = watch->current.frames,
    };
    watch->findings++;
    watch->options.found(watch->options.user, &finding);
}

void watch_found(struct kvc_watch *watch, enum kvc_rule_id rule, const char *format, ...)
{
    if (watch->current.found)
        return;
    watch->current.found = true;
    va_list args;
    va_start(args, format);
    say(watch, rule, format, args);
    va_end(args);
}

void watch_left(struct kvc_watch *watch, enum kvc_rule_id rule, const char *format, ...)
{
    watch->current.found = true;
    va_list args;
    va_start(args, format);
    say(watch, rule, format, args);
    va_end(args);
}

/* Somebody else's words on one line. */
struct escaped {
    char text[512];
};

static struct escaped escape(const char *text)
{
    struct escaped escaped;
    struct kvc_buffer buffer = {0};
    kvc_text_escape(kvc_str_of(text), &buffer);
    snprintf(escaped.text, sizeof(escaped.text), "%s", kvc_buffer_text(&buffer));
    kvc_buffer_clear(&buffer);
    return escaped;
}

void kvc_watch_saw(struct kvc_watch *watch, enum kvc_rule_id rule, struct kvc_str client,
                   const struct kvc_frames *frames, const char *format, ...)
{
    watch->current = (struct watch_current){.client = client, .frames = frames};
    if (frames != NULL && frames->count > 1)
        kvc_request_op(watch->options.dialect, kvc_frames_view(frames, 1), &watch->current.op,
                       NULL);
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    watch_left(watch, rule, "%s", escape(text).text);
    watch->current = (struct watch_current){0};
}

/* ---- open and close ---- */

struct kvc_watch *kvc_watch_open(const struct kvc_watch_options *options)
{
    struct kvc_watch *watch = kvc_alloc_zero(1, sizeof(*watch));
    watch->options = *options;
    watch->chunk_size = options->chunk_size;
    if (watch->options.patience_ms == 0)
        watch->options.patience_ms = DEFAULT_PATIENCE_MS;
    if (watch->options.session_ttl_ms == 0)
        watch->options.session_ttl_ms = DEFAULT_SESSION_TTL_MS;
    TAILQ_INIT(&watch->flights);
    TAILQ_INIT(&watch->sessions);
    LIST_INIT(&watch->instances);
    LIST_INIT(&watch->transfers);
    return watch;
}

void kvc_watch_close(struct kvc_watch *watch)
{
    if (watch == NULL)
        return;
    while (!TAILQ_EMPTY(&watch->flights))
        watch_flight_remove(watch, TAILQ_FIRST(&watch->flights));
    while (!TAILQ_EMPTY(&watch->sessions))
        watch_session_remove(watch, TAILQ_FIRST(&watch->sessions));
    while (!LIST_EMPTY(&watch->instances))
        watch_instance_free(LIST_FIRST(&watch->instances));
    watch_transfers_forget(watch);
    free(watch);
}

size_t kvc_watch_findings(const struct kvc_watch *watch)
{
    return watch->findings;
}

size_t kvc_watch_unanswered(const struct kvc_watch *watch)
{
    return watch->unanswered + watch->flight_count;
}

struct kvc_str watch_copy(struct kvc_str text)
{
    char *copy = kvc_alloc(text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return (struct kvc_str){copy, text.size};
}

void watch_free(struct kvc_str text)
{
    free((char *)text.data);
}

/* ---- messages ---- */

/* Nobody will answer this request any more. */
static void give_up(struct kvc_watch *watch, struct watch_flight *flight)
{
    watch_silence_func *silence = operations[flight->op].silence;
    if (silence != NULL)
        silence(watch, flight);
    if (flight->has_key)
        watch_session_put(watch, flight->request_id);
    watch->unanswered++;
    watch_flight_remove(watch, flight);
}

static void pass_time(struct kvc_watch *watch, int64_t now_ms)
{
    enum { MAX_FLIGHTS = 4096 };
    watch->now_ms = now_ms;
    struct watch_flight *oldest;
    while ((oldest = TAILQ_FIRST(&watch->flights)) != NULL &&
           (watch->flight_count > MAX_FLIGHTS ||
            now_ms - oldest->sent_ms >= watch->options.patience_ms))
        give_up(watch, oldest);
    watch_sessions_expire(watch);
}

/* Credits of a stream: an empty operation and a word (protocol.md 1.7). */
static bool is_stream_control(const struct kvc_watch *watch, const struct kvc_frames *frames)
{
    return frames->count == 3 && frames->items[1].size == 0 &&
           kvc_dialect_has(watch->options.dialect, KVC_FEATURE_KV_EVENTS);
}

/* Says why a request does not read. */
static void find_unreadable(struct kvc_watch *watch, const struct kvc_frames *frames,
                            const struct kvc_error *err)
{
    static const char salt[] = ".cache_salt";
    const size_t where = strlen(err->where);
    char line[512];
    kvc_error_line(err, line, sizeof(line));
    if (kvc_request_payload_count(watch->options.dialect, watch->current.op) !=
        (int)frames->count - 2)
        watch_found(watch, KVC_RULE_PAYLOAD_COUNT, "%zu payloads; expected %s", frames->count - 2,
                    err->expected);
    else if (where >= sizeof(salt) - 1 &&
             strcmp(err->where + where - (sizeof(salt) - 1), salt) == 0)
        watch_found(watch, KVC_RULE_BAD_SALT, "%s", line);
    else
        watch_found(watch, KVC_RULE_PAYLOAD_TYPE, "%s", line);
}

/* Judges a request whose operation is known. */
static void judge(struct kvc_watch *watch, const struct kvc_frames *frames,
                  struct watch_flight *flight)
{
    struct kvc_arena arena = {0};
    struct kvc_request request;
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status =
        kvc_request_decode(watch->options.dialect, frames, &arena, &request, &err);
    if (status == KVC_OK) {
        watch_flight_describe(flight, &request);
        watch_check_order(watch, flight);
        if (operations[request.op].request != NULL)
            operations[request.op].request(watch, &request);
    } else if (status != KVC_EUNSUPPORTED) {
        find_unreadable(watch, frames, &err);
    }
    kvc_arena_clear(&arena);
}

static void take_request(struct kvc_watch *watch, struct kvc_str client,
                         const struct kvc_frames *frames)
{
    if (frames->count < 2) {
        watch_found(watch, KVC_RULE_SHORT_MESSAGE, "%zu frames; expected a uid and an operation",
                    frames->count);
        return;
    }
    if (is_stream_control(watch, frames))
        return;
    const struct kvc_bytes uid = kvc_frames_view(frames, 0);
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_request_op(watch->options.dialect, kvc_frames_view(frames, 1), &watch->current.op,
                       &err) != KVC_OK) {
        struct kvc_buffer shown = {0};
        kvc_frames_summarise(frames, watch->options.dialect, false, 100, &shown);
        watch_found(watch, KVC_RULE_UNKNOWN_OPERATION, "%s", kvc_buffer_text(&shown));
        kvc_buffer_clear(&shown);
        return;
    }
    if (watch_flight_find(watch, client, uid) != NULL)
        watch_found(watch, KVC_RULE_UID_IN_FLIGHT, "an earlier request with it is not answered");
    struct watch_flight *flight = watch_flight_add(watch, client, uid, watch->current.op);
    judge(watch, frames, flight);
    flight->found = watch->current.found;
}

void kvc_watch_request(struct kvc_watch *watch, struct kvc_str client,
                       const struct kvc_frames *frames, int64_t now_ms)
{
    pass_time(watch, now_ms);
    watch->current = (struct watch_current){.client = client, .frames = frames};
    take_request(watch, client, frames);
    watch->current = (struct watch_current){0};
}

/* A stream's batches leave it open. */
static bool is_last_reply(const struct watch_flight *flight, const struct kvc_frames *frames)
{
    return flight->op != KVC_OP_SUBSCRIBE_KV_EVENTS || frames->count < 3;
}

void kvc_watch_reply(struct kvc_watch *watch, struct kvc_str client,
                     const struct kvc_frames *frames)
{
    if (frames->count < 2)
        return;
    struct watch_flight *flight = watch_flight_find(watch, client, kvc_frames_view(frames, 0));
    if (flight == NULL)
        return;
    if (operations[flight->op].reply != NULL) {
        struct kvc_frames copy = {0};
        struct kvc_reply reply;
        kvc_frames_copy(frames, &copy);
        if (kvc_reply_decode(watch->options.dialect, flight->op, &copy, &reply, NULL) == KVC_OK)
            operations[flight->op].reply(watch, flight, &reply);
        kvc_reply_clear(&reply);
    }
    if (is_last_reply(flight, frames))
        watch_flight_remove(watch, flight);
}

void kvc_watch_refused(struct kvc_watch *watch, struct kvc_str client,
                       const struct kvc_frames *frames, const char *reason)
{
    if (frames->count == 0)
        return;
    struct watch_flight *flight = watch_flight_find(watch, client, kvc_frames_view(frames, 0));
    if (flight == NULL)
        return;
    watch->current = (struct watch_current){client, frames, flight->op, flight->found};
    watch_found(watch, KVC_RULE_REFUSED, "%s", escape(reason).text);
    give_up(watch, flight);
    watch->current = (struct watch_current){0};
}

void kvc_watch_finish(struct kvc_watch *watch)
{
    struct watch_session *session;
    struct watch_instance *instance;
    watch_transfers_account(watch);
    TAILQ_FOREACH(session, &watch->sessions, in_list)
    {
        watch_left(watch, KVC_RULE_SESSION_NOT_ENDED, "request %s",
                   kvc_text_show(session->id).text);
        watch_session_account(watch, session);
    }
    LIST_FOREACH(instance, &watch->instances, in_list)
    {
        if (instance->confirmed)
            watch_left(watch, KVC_RULE_NOT_UNREGISTERED, "instance %lld of %s",
                       (long long)instance->id, kvc_text_show(instance->model).text);
    }
}
