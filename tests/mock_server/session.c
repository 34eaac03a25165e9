#include "tests/mock_server/session.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/text.h"

static size_t bucket_of(struct kvc_str request_id)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < request_id.size; i++)
        hash = (hash ^ (uint8_t)request_id.data[i]) * 0x100000001b3u;
    return hash % MOCK_SESSION_BUCKETS;
}

struct mock_session *mock_session_find(struct mock_sessions *sessions, struct kvc_str request_id)
{
    struct mock_session *session;
    LIST_FOREACH(session, &sessions->buckets[bucket_of(request_id)], in_bucket)
    {
        if (kvc_str_equal(session->request_id, request_id))
            return session;
    }
    return NULL;
}

struct mock_session *mock_session_get(struct mock_sessions *sessions, struct kvc_str request_id,
                                      int64_t now_ms)
{
    struct mock_session *session = mock_session_find(sessions, request_id);
    if (session != NULL)
        return session;
    session = kvc_alloc_zero(1, sizeof(*session));
    session->request_id = mock_text_copy(request_id);
    session->created_ms = now_ms;
    LIST_INSERT_HEAD(&sessions->buckets[bucket_of(request_id)], session, in_bucket);
    sessions->count++;
    return session;
}

void mock_session_end(struct mock_sessions *sessions, struct mock_session *session)
{
    mock_holder_release(&session->locks);
    LIST_REMOVE(session, in_bucket);
    sessions->count--;
    mock_text_free(session->request_id);
    mock_text_free(session->model);
    free(session->tokens);
    free(session->hashes);
    free(session);
}

size_t mock_sessions_expire(struct mock_sessions *sessions, int64_t begun_ms)
{
    size_t ended = 0;
    for (size_t i = 0; i < MOCK_SESSION_BUCKETS; i++) {
        struct mock_session *session = LIST_FIRST(&sessions->buckets[i]);
        while (session != NULL) {
            struct mock_session *next = LIST_NEXT(session, in_bucket);
            if (session->created_ms <= begun_ms) {
                mock_session_end(sessions, session);
                ended++;
            }
            session = next;
        }
    }
    return ended;
}

void mock_sessions_clear(struct mock_sessions *sessions)
{
    mock_sessions_expire(sessions, INT64_MAX);
}

static bool knows_tokens(const struct mock_session *session, struct kvc_ints tokens)
{
    return session->hashes != NULL && session->token_count == tokens.count &&
           memcmp(session->tokens, tokens.items, tokens.count * sizeof(int64_t)) == 0;
}

const uint8_t *mock_session_hashes(struct mock_session *session, struct kvc_ints tokens,
                                   int64_t chunk_tokens, bool keep_first)
{
    const size_t chunks = tokens.count / (size_t)chunk_tokens;
    if (tokens.count == 0 || knows_tokens(session, tokens) ||
        (keep_first && session->hash_count >= chunks && session->hashes != NULL))
        return session->hashes;
    const size_t bytes = tokens.count * sizeof(int64_t);
    session->tokens = kvc_realloc(session->tokens, bytes);
    memcpy(session->tokens, tokens.items, bytes);
    session->token_count = tokens.count;
    session->hashes = kvc_realloc(session->hashes, chunks * KVC_BLAKE3_SIZE + 1);
    session->hash_count =
        kvc_chunk_hashes(tokens.items, tokens.count, chunk_tokens, session->hashes);
    return session->hashes;
}
