/* The window of chunks that a key names, checked. For the mock's handlers. */
#ifndef KVC_TESTS_MOCK_SERVER_WINDOW_H
#define KVC_TESTS_MOCK_SERVER_WINDOW_H

#include "tests/mock_server/state.h"

struct mock_window {
    const struct mock *mock;
    const struct kvc_key *key;
    struct mock_session *session;
    const uint8_t *hashes; /* of all full chunks of the tokens */
    int64_t chunks;        /* how many those are */
    int64_t first, count;  /* the window, in chunks; count 0: empty */
    int64_t worker;
    /* what goes into the objects' keys */
    struct kvc_str model, salt;
    uint64_t client;
};

/* The window of one worker's transfer. False, with the call refused, when it has no worker id, does not
 * lie on chunks, ends behind the tokens, or a token does not fit 32 bits. */
bool mock_window_read(struct mock_call *call, struct mock_window *window);
/* The same for all tokens and any rank, as LOOKUP and FREE_LOOKUP_LOCKS use keys: start and end are not
 * read, worker stays 0. */
bool mock_window_of_tokens(struct mock_call *call, struct mock_window *window);

/* The key of the object of chunk `chunk` (counted from token 0) and a rank. Views into the window. */
struct mock_object_key mock_window_key(const struct mock_window *window, int64_t chunk,
                                       int64_t worker);
/* The object of the window's i-th chunk and its worker; NULL: there is none. */
struct mock_object *mock_window_object(const struct mock_window *window, int64_t i);
/* The same if it can be read: committed, and locked by anybody. */
struct mock_object *mock_window_readable(const struct mock_window *window, int64_t i);
/* Whether a retrieve that finds the first `found` chunks of the window, and not the next, succeeds: only
 * when these are all, and some. */
bool mock_window_suffices(const struct mock_window *window, int64_t found);
/* Gives back one lock of every chunk of the window that has one: this session's if it has any. */
void mock_window_unlock(const struct mock_window *window);
/* A defect: the window's missing chunks are reserved as if somebody were writing them. */
void mock_window_reserve_for_nobody(struct mock *mock, const struct mock_window *window,
                                    const struct mock_chunk_layout *layout);
/* Whether readers see the object: it is committed. */
bool mock_object_is_visible(const struct mock *mock, const struct mock_object *object);
/* Whether a cached chunk can be given to a worker with that layout. */
bool mock_object_fits(const struct mock *mock, const struct mock_object *object,
                      const struct mock_chunk_layout *layout);

#endif
