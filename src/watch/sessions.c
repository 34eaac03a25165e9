/* Sessions: what is done under one request id. */
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"

struct watch_session *watch_session_find(struct kvc_watch *watch, struct kvc_str id)
{
    struct watch_session *session;
    TAILQ_FOREACH(session, &watch->sessions, in_list)
    {
        if (kvc_str_equal(session->id, id))
            return session;
    }
    return NULL;
}

void watch_session_remove(struct kvc_watch *watch, struct watch_session *session)
{
    TAILQ_REMOVE(&watch->sessions, session, in_list);
    watch->session_count--;
    watch_free(session->id);
    watch_free(session->model);
    free(session->tokens);
    free(session->locks);
    free(session);
}

static struct watch_session *begin(struct kvc_watch *watch, struct kvc_str id)
{
    struct watch_session *session = kvc_alloc_zero(1, sizeof(*session));
    session->id = watch_copy(id);
    session->begun_ms = watch->now_ms;
    TAILQ_INSERT_TAIL(&watch->sessions, session, in_list);
    watch->session_count++;
    return session;
}

/* A session may go on with more of the same tokens, or fewer (protocol.md 4.9). Returns the first that is
 * another one, or -1. */
static int64_t first_other(const struct watch_session *session, const struct kvc_ints *tokens)
{
    const size_t both = tokens->count < session->token_count ? tokens->count : session->token_count;
    for (size_t i = 0; i < both; i++) {
        if (tokens->items[i] != session->tokens[i])
            return (int64_t)i;
    }
    return -1;
}

static void keep_tokens(struct watch_session *session, const struct kvc_ints *tokens)
{
    if (tokens->count == 0)
        return;
    session->tokens = kvc_realloc(session->tokens, tokens->count * sizeof(int64_t));
    memcpy(session->tokens, tokens->items, tokens->count * sizeof(int64_t));
    session->token_count = tokens->count;
}

/* Goes on with a key's tokens. */
static void check_tokens(struct kvc_watch *watch, struct watch_session *session,
                         const struct kvc_ints *tokens)
{
    const int64_t other = first_other(session, tokens);
    if (other >= 0) {
        watch_found(watch, KVC_RULE_REQUEST_ID_REUSED,
                    "request %s: token %lld was %lld and is %lld", kvc_text_show(session->id).text,
                    (long long)other, (long long)session->tokens[other],
                    (long long)tokens->items[other]);
        session->muddled = true;
    }
    if (other >= 0 || tokens->count > session->token_count)
        keep_tokens(session, tokens);
}

/* Goes on with a key's model and world. Locks are counted by rank: another world has others. */
static void check_model(struct kvc_watch *watch, struct watch_session *session,
                        const struct kvc_key *key)
{
    if (session->world_size != key->world_size && session->locks != NULL) {
        watch_locks_clear(session);
        session->muddled = true;
    }
    watch_free(session->model);
    session->model = watch_copy(key->model_name);
    session->world_size = key->world_size;
    session->was_served |= watch_model_is_served(watch, key->model_name, key->world_size);
}

struct watch_session *watch_session_get(struct kvc_watch *watch, const struct kvc_key *key)
{
    struct watch_session *session = watch_session_find(watch, key->request_id);
    if (session == NULL)
        session = begin(watch, key->request_id);
    session->uses++;
    check_tokens(watch, session, &key->token_ids);
    check_model(watch, session, key);
    return session;
}

void watch_session_put(struct kvc_watch *watch, struct kvc_str id)
{
    struct watch_session *session = watch_session_find(watch, id);
    if (session != NULL && --session->uses == 0)
        watch_session_remove(watch, session);
}

/* ---- its end ---- */

void watch_session_account(struct kvc_watch *watch, const struct watch_session *session)
{
    const int64_t locks = watch_locks_count(session);
    if (session->lookup == WATCH_LOOKUP_ANSWERED)
        watch_left(watch, KVC_RULE_RESULT_NOT_FETCHED, "of request %s",
                   kvc_text_show(session->id).text);
    else if (locks > 0 && !session->muddled)
        watch_left(watch, KVC_RULE_LOCK_NOT_RELEASED, "%lld locks of request %s", (long long)locks,
                   kvc_text_show(session->id).text);
}

void watch_on_end_session(struct kvc_watch *watch, const struct kvc_request *request)
{
    struct watch_session *session = watch_session_find(watch, request->request_id);
    watch_transfers_end_request(watch, request->request_id);
    if (session == NULL)
        return;
    if (session->was_served && !watch_model_is_served(watch, session->model, session->world_size))
        watch_found(watch, KVC_RULE_ENDED_AFTER_UNREGISTER, "request %s of %s",
                    kvc_text_show(session->id).text, kvc_text_show(session->model).text);
    else
        watch_session_account(watch, session);
    watch_session_remove(watch, session);
}

/* Sessions that are too old, or too many to be remembered: the server forgets them as well. */
void watch_sessions_expire(struct kvc_watch *watch)
{
    enum { MAX_SESSIONS = 4096 };
    struct watch_session *oldest;
    while ((oldest = TAILQ_FIRST(&watch->sessions)) != NULL &&
           (watch->session_count > MAX_SESSIONS ||
            watch->now_ms - oldest->begun_ms >= watch->options.session_ttl_ms)) {
        watch_left(watch, KVC_RULE_SESSION_NOT_ENDED, "request %s, begun %lld s ago",
                   kvc_text_show(oldest->id).text,
                   (long long)(watch->now_ms - oldest->begun_ms) / 1000);
        watch_session_account(watch, oldest);
        watch_session_remove(watch, oldest);
    }
}
