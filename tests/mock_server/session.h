/* What the server remembers of a request between its messages: the result of its lookup until that is
 * fetched, the locks the lookup took, the hashes of its tokens. For the mock's handlers. */
#ifndef KVC_TESTS_MOCK_SERVER_SESSION_H
#define KVC_TESTS_MOCK_SERVER_SESSION_H

#include "src/wire/types.h"
#include "tests/mock_server/store.h"

struct mock_session {
    LIST_ENTRY(mock_session) in_bucket;
    struct kvc_str request_id; /* its own copy */
    int64_t created_ms;
    bool has_result;
    int64_t result;       /* chunks found, not yet fetched */
    size_t lookups;       /* how many there were */
    struct kvc_str model; /* of the last lookup, its own copy; for a defect */
    int64_t world_size;
    struct mock_holder locks;
    int64_t *tokens; /* that the hashes are of */
    size_t token_count;
    uint8_t *hashes; /* KVC_BLAKE3_SIZE bytes a chunk */
    size_t hash_count;
};

enum { MOCK_SESSION_BUCKETS = 1 << 10 };

struct mock_sessions {
    LIST_HEAD(, mock_session) buckets[MOCK_SESSION_BUCKETS];
    size_t count;
};

struct mock_session *mock_session_find(struct mock_sessions *sessions, struct kvc_str request_id);
/* Finds, or begins. */
struct mock_session *mock_session_get(struct mock_sessions *sessions, struct kvc_str request_id,
                                      int64_t now_ms);
/* Forgets a session; its locks are given back. */
void mock_session_end(struct mock_sessions *sessions, struct mock_session *session);
/* Ends the sessions begun at or before that time. Returns how many. */
size_t mock_sessions_expire(struct mock_sessions *sessions, int64_t begun_ms);
void mock_sessions_clear(struct mock_sessions *sessions);

/* The chunk hashes of a token sequence, remembered for the next message about the same one. Tokens
 * fit uint32. Owned by the session, valid until its next call. */
const uint8_t *mock_session_hashes(struct mock_session *session, struct kvc_ints tokens,
                                   int64_t chunk_tokens, bool keep_first);

#endif
