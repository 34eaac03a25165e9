/* Lookups, and the locks they take until the chunks are retrieved or freed. */
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"

/* As many readers as servers count; chunks of ranks that are counted here. */
enum { MAX_READERS = 128, MAX_COUNTED = 1 << 20 };

int64_t watch_locks_count(const struct watch_session *session)
{
    int64_t total = 0;
    for (int64_t i = 0; i < session->chunks * session->world_size; i++)
        total += session->locks[i];
    return total;
}

void watch_locks_clear(struct watch_session *session)
{
    free(session->locks);
    session->locks = NULL;
    session->chunks = 0;
}

/* The locks of a chunk and rank; NULL: none were ever taken. */
static int64_t *locks_of(struct watch_session *session, int64_t chunk, int64_t rank)
{
    if (chunk < 0 || chunk >= session->chunks || rank < 0 || rank >= session->world_size)
        return NULL;
    return &session->locks[chunk * session->world_size + rank];
}

static void make_room(struct watch_session *session, int64_t chunks)
{
    if (chunks <= session->chunks)
        return;
    int64_t *locks = kvc_alloc_zero((size_t)(chunks * session->world_size), sizeof(*locks));
    if (session->locks != NULL)
        memcpy(locks, session->locks,
               (size_t)(session->chunks * session->world_size) * sizeof(*locks));
    free(session->locks);
    session->locks = locks;
    session->chunks = chunks;
}

/* ---- looking up ---- */

/* Locks that a lookup takes on each chunk (protocol.md 4.6). */
static int64_t readers_of(const struct kvc_watch *watch, const struct kvc_request *request)
{
    int64_t readers = request->key.num_kv_readers;
    if (!kvc_dialect_has(watch->options.dialect, KVC_FEATURE_KV_READERS))
        readers = request->tp_size > 1 && request->tp_size > request->key.world_size
                      ? request->tp_size
                      : 1;
    return readers < MAX_READERS ? readers : MAX_READERS;
}

void watch_on_lookup(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct kvc_key *key = &request->key;
    const int64_t readers = readers_of(watch, request);
    if (readers < 1)
        watch_found(watch, KVC_RULE_NO_KV_READERS, "num_kv_readers is %lld",
                    (long long)key->num_kv_readers);
    watch_check_tokens(watch, key);
    if (!watch_model_is_served(watch, key->model_name, key->world_size))
        watch_found(watch, KVC_RULE_MODEL_NOT_REGISTERED, "%s in a world of %lld",
                    kvc_text_show(key->model_name).text, (long long)key->world_size);
    struct watch_session *session = watch_session_get(watch, key);
    if (session->lookup == WATCH_LOOKUP_ANSWERED)
        watch_found(watch, KVC_RULE_RESULT_NOT_FETCHED, "of the lookup before, request %s",
                    kvc_text_show(session->id).text);
    session->lookup = WATCH_LOOKUP_ASKED;
    session->readers = readers;
    session->first_rank = key->worker_id.present ? key->worker_id.value : 0;
    session->ranks = key->worker_id.present ? 1 : key->world_size;
}

void watch_looked_up(struct kvc_watch *watch, const struct watch_flight *flight,
                     const struct kvc_reply *reply)
{
    (void)reply;
    struct watch_session *session = watch_session_find(watch, flight->request_id);
    if (session != NULL && session->lookup == WATCH_LOOKUP_ASKED)
        session->lookup = WATCH_LOOKUP_ANSWERED;
}

void watch_not_looked_up(struct kvc_watch *watch, const struct watch_flight *flight)
{
    struct watch_session *session = watch_session_find(watch, flight->request_id);
    if (session != NULL && session->lookup == WATCH_LOOKUP_ASKED)
        session->lookup = WATCH_NO_LOOKUP;
}

void watch_on_query(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct watch_session *session = watch_session_find(watch, request->request_id);
    if (session == NULL || session->lookup == WATCH_NO_LOOKUP)
        watch_found(watch, KVC_RULE_POLLED_WITHOUT_LOOKUP, "request %s",
                    kvc_text_show(request->request_id).text);
    else if (session->lookup == WATCH_LOOKUP_FETCHED)
        watch_found(watch, KVC_RULE_POLLED_AFTER_RESULT, "request %s",
                    kvc_text_show(request->request_id).text);
}

static void lock_hits(struct watch_session *session, int64_t hits)
{
    if (hits < 1 || session->world_size < 1 || session->readers < 1 ||
        hits > MAX_COUNTED / session->world_size)
        return;
    make_room(session, hits);
    for (int64_t chunk = 0; chunk < hits; chunk++) {
        for (int64_t i = 0; i < session->ranks; i++) {
            int64_t *locks = locks_of(session, chunk, session->first_rank + i);
            if (locks != NULL)
                *locks += session->readers;
        }
    }
}

void watch_got_result(struct kvc_watch *watch, const struct watch_flight *flight,
                      const struct kvc_reply *reply)
{
    struct watch_session *session = watch_session_find(watch, flight->request_id);
    if (session == NULL || reply->is_void || session->lookup == WATCH_NO_LOOKUP ||
        session->lookup == WATCH_LOOKUP_FETCHED)
        return;
    /* Without the size of a chunk it cannot be told which ones are given back. */
    if (session->lookup != WATCH_LOOKUP_KNOWN && watch->chunk_size > 0)
        lock_hits(session, reply->count);
    session->lookup =
        flight->op == KVC_OP_QUERY_PREFETCH_LOOKUP_HITS ? WATCH_LOOKUP_KNOWN : WATCH_LOOKUP_FETCHED;
}

/* ---- giving back ---- */

/* Takes one lock of each chunk of the window; returns the first chunk that has none, or -1. */
static int64_t take(struct watch_session *session, const struct watch_window *window)
{
    int64_t missing = -1;
    for (int64_t i = 0; i < window->count; i++) {
        int64_t *locks = locks_of(session, window->first + i, window->rank);
        if (locks != NULL && *locks > 0)
            (*locks)--;
        else if (missing < 0)
            missing = window->first + i;
    }
    return missing;
}

void watch_locks_use(struct kvc_watch *watch, struct watch_session *session,
                     const struct watch_window *window)
{
    const struct kvc_shown_text id = kvc_text_show(session->id);
    const bool is_known =
        session->lookup == WATCH_LOOKUP_KNOWN || session->lookup == WATCH_LOOKUP_FETCHED;
    if (session->lookup == WATCH_NO_LOOKUP)
        watch_found(watch, KVC_RULE_RETRIEVE_WITHOUT_LOOKUP, "request %s", id.text);
    else if (!is_known)
        watch_found(watch, KVC_RULE_RESULT_NOT_FETCHED, "of request %s, before its retrieve",
                    id.text);
    const int64_t missing = take(session, window);
    if (is_known && missing >= 0 && !session->muddled)
        watch_found(watch, KVC_RULE_RETRIEVE_BEYOND_HITS,
                    "chunk %lld of request %s is not locked, the window is [%lld, %lld)",
                    (long long)missing, id.text, (long long)window->first,
                    (long long)(window->first + window->count));
    session->muddled |= watch->current.found;
    if (!is_known && session->lookup != WATCH_NO_LOOKUP)
        session->lookup = WATCH_LOOKUP_KNOWN;
}

/* Takes the locks that one lookup took; returns whether there were any. */
static bool free_chunk(struct watch_session *session, const struct kvc_key *key, int64_t chunk)
{
    bool any = false;
    const int64_t first = key->worker_id.present ? key->worker_id.value : 0;
    const int64_t ranks = key->worker_id.present ? 1 : session->world_size;
    for (int64_t i = 0; i < ranks; i++) {
        int64_t *locks = locks_of(session, chunk, first + i);
        if (locks == NULL || *locks == 0)
            continue;
        *locks -= session->readers < *locks ? session->readers : *locks;
        any = true;
    }
    return any;
}

/* A lookup that nobody has asked for its result is freed all the same, from 0.5.6 on. */
void watch_on_free_locks(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct kvc_key *key = &request->key;
    const struct watch_window window = watch_window_of(watch, key);
    watch_check_tokens(watch, key);
    struct watch_session *session = watch_session_get(watch, key);
    const bool is_unknown = session->lookup == WATCH_LOOKUP_ANSWERED;
    bool any = session->muddled || is_unknown || window.count == 0;
    for (int64_t i = 0; i < window.count; i++)
        any |= free_chunk(session, key, window.first + i);
    if (is_unknown)
        session->lookup = WATCH_LOOKUP_FETCHED;
    if (!any)
        watch_found(watch, KVC_RULE_FREED_NOTHING, "request %s, chunks [%lld, %lld)",
                    kvc_text_show(session->id).text, (long long)window.first,
                    (long long)(window.first + window.count));
}
