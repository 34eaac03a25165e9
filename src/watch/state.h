/* What the watch knows about clients and what they have under way. Inside src/watch only. */
#ifndef KVC_WATCH_STATE_H
#define KVC_WATCH_STATE_H

#include <sys/queue.h>

#include "src/kv/digest.h"
#include "src/watch/watch.h"
#include "src/wire/message.h"

/* Where a registration puts an instance: the two tables of a server. */
enum watch_mode { WATCH_MAPPED, WATCH_ENGINE_DRIVEN, WATCH_MODE_COUNT };

enum { WATCH_MAX_GROUPS = 64 };

/* Layers that share one list of block ids. */
struct watch_group {
    int64_t blocks;
    int64_t tokens_per_block;
};

struct watch_instance {
    LIST_ENTRY(watch_instance) in_list;
    enum watch_mode mode;
    int64_t id;
    struct kvc_str model; /* its own copy */
    int64_t world_size;
    bool confirmed; /* the registration was answered */
    uint8_t arguments[KVC_BLAKE3_SIZE];
    /* engine-driven */
    bool has_pool;    /* once confirmed */
    int64_t shape[4]; /* of one chunk; an unknown number of tokens is 0 */
    size_t rank;
    /* lmcache-driven; no groups: they cannot be told from the tensors */
    struct watch_group groups[WATCH_MAX_GROUPS];
    size_t group_count;
};

/* Chunks of one rank. count is 0 as long as the chunk size is not known. */
struct watch_window {
    int64_t first, count;
    int64_t rank;
};

enum watch_lookup {
    WATCH_NO_LOOKUP,
    WATCH_LOOKUP_ASKED,
    WATCH_LOOKUP_ANSWERED, /* the result is still to be asked for */
    WATCH_LOOKUP_KNOWN,    /* the result was seen, by a question that leaves it */
    WATCH_LOOKUP_FETCHED,
};

/* Everything that is done under one request id, until END_SESSION. */
struct watch_session {
    TAILQ_ENTRY(watch_session) in_list; /* in the order in which they began */
    struct kvc_str id;                  /* its own copy */
    int64_t begun_ms;
    int64_t uses;    /* requests that are answered, or may be */
    int64_t *tokens; /* the longest sequence so far */
    size_t token_count;
    struct kvc_str model; /* of its last key; its own copy */
    int64_t world_size;
    bool was_served; /* an instance of the model was there */
    enum watch_lookup lookup;
    int64_t first_rank, ranks, readers; /* what the last lookup locks of each chunk */
    int64_t *locks;                     /* of chunk i and rank j: [i * world_size + j] */
    int64_t chunks;                     /* that locks have room for */
    bool muddled; /* after a mistake with locks nothing more is said about them */
};

/* Slots that were asked for by PREPARE_STORE or PREPARE_RETRIEVE. */
struct watch_transfer {
    LIST_ENTRY(watch_transfer) in_list;
    bool is_store;
    int64_t instance_id;
    uint8_t identity[KVC_BLAKE3_SIZE]; /* of the key */
    struct kvc_str request_id;         /* its own copy */
    bool answered;
    size_t slots;
};

/* A request that waits for its reply. */
struct watch_flight {
    TAILQ_ENTRY(watch_flight) in_list; /* in the order in which they were sent */
    struct kvc_str client;             /* its own copy, as the next two */
    struct kvc_str uid;
    struct kvc_str request_id;
    enum kvc_op op;
    int64_t instance_id;
    bool has_key;
    uint8_t identity[KVC_BLAKE3_SIZE];
    int64_t sent_ms;
    bool found; /* something is wrong with it, and was said */
};

/* The request at hand, for what is found. */
struct watch_current {
    struct kvc_str client;
    const struct kvc_frames *frames;
    enum kvc_op op;
    bool found; /* one finding a request: what follows from it is not said */
};

struct kvc_watch {
    struct kvc_watch_options options; /* with the defaults filled in */
    int64_t chunk_size;               /* 0: not known */
    int64_t now_ms;
    struct watch_current current;
    size_t findings, unanswered;
    TAILQ_HEAD(watch_flights, watch_flight) flights;
    size_t flight_count;
    LIST_HEAD(, watch_instance) instances;
    TAILQ_HEAD(, watch_session) sessions;
    size_t session_count;
    LIST_HEAD(, watch_transfer) transfers;
};

/* ---- watch.c ---- */

/* Says what is wrong with the request at hand, unless something was said about it already. */
void watch_found(struct kvc_watch *watch, enum kvc_rule_id rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for what was left behind: each thing is said. */
void watch_left(struct kvc_watch *watch, enum kvc_rule_id rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
struct kvc_str watch_copy(struct kvc_str text);
void watch_free(struct kvc_str text);

/* ---- flights.c ---- */

struct watch_flight *watch_flight_find(struct kvc_watch *watch, struct kvc_str client,
                                       struct kvc_bytes uid);
struct watch_flight *watch_flight_add(struct kvc_watch *watch, struct kvc_str client,
                                      struct kvc_bytes uid, enum kvc_op op);
void watch_flight_remove(struct kvc_watch *watch, struct watch_flight *flight);
/* Notes what other requests may depend on. */
void watch_flight_describe(struct watch_flight *flight, const struct kvc_request *request);
/* Finds KVC_RULE_SENT_BEFORE_REPLY. */
void watch_check_order(struct kvc_watch *watch, const struct watch_flight *flight);

/* ---- instances.c ---- */

struct watch_instance *watch_instance_find(struct kvc_watch *watch, enum watch_mode mode,
                                           int64_t id);
/* The instance of a transfer; NULL: it is not registered, which was said. */
struct watch_instance *watch_instance_of(struct kvc_watch *watch, enum watch_mode mode,
                                         const struct kvc_request *request);
bool watch_model_is_served(struct kvc_watch *watch, struct kvc_str model, int64_t world_size);
void watch_instance_free(struct watch_instance *instance);

/* ---- groups.c ---- */

/* Finds the groups of block ids in a REGISTER_KV_CACHE. */
void watch_groups_read(const struct kvc_request *request, struct watch_instance *instance);
/* Finds wrong block ids of a STORE or RETRIEVE. */
void watch_check_blocks(struct kvc_watch *watch, const struct kvc_request *request,
                        const struct watch_instance *instance);

/* ---- keys.c ---- */

/* Finds what is wrong with a transfer's key. */
void watch_check_transfer_key(struct kvc_watch *watch, const struct kvc_key *key,
                              const struct watch_instance *instance);
void watch_check_tokens(struct kvc_watch *watch, const struct kvc_key *key);
struct watch_window watch_window_of(const struct kvc_watch *watch, const struct kvc_key *key);
/* What makes two keys the same transfer (protocol.md 3.1). */
void watch_key_identity(const struct kvc_key *key, uint8_t identity[KVC_BLAKE3_SIZE]);

/* ---- sessions.c ---- */

/* The session of a key, made if it is new. Finds KVC_RULE_REQUEST_ID_REUSED. */
struct watch_session *watch_session_get(struct kvc_watch *watch, const struct kvc_key *key);
struct watch_session *watch_session_find(struct kvc_watch *watch, struct kvc_str id);
/* A request of the session is not answered: if that was all, there never was a session. */
void watch_session_put(struct kvc_watch *watch, struct kvc_str id);
void watch_session_remove(struct kvc_watch *watch, struct watch_session *session);
/* What a session that ends, or is forgotten, has left behind. */
void watch_session_account(struct kvc_watch *watch, const struct watch_session *session);
void watch_sessions_expire(struct kvc_watch *watch);

/* ---- locks.c ---- */

/* Uses up one lock of every chunk of the window. Finds chunks that are not locked. */
void watch_locks_use(struct kvc_watch *watch, struct watch_session *session,
                     const struct watch_window *window);
int64_t watch_locks_count(const struct watch_session *session);
void watch_locks_clear(struct watch_session *session);

/* ---- transfers.c ---- */

/* What was prepared under a request id, or by an instance, and never committed; it is forgotten. */
void watch_transfers_end_request(struct kvc_watch *watch, struct kvc_str request_id);
void watch_transfers_leave(struct kvc_watch *watch, int64_t instance_id);
void watch_transfers_account(struct kvc_watch *watch);
void watch_transfers_forget(struct kvc_watch *watch);

/* ---- what is done with the operations; watch.c has the table ---- */

typedef void watch_request_func(struct kvc_watch *watch, const struct kvc_request *request);
typedef void watch_reply_func(struct kvc_watch *watch, const struct watch_flight *flight,
                              const struct kvc_reply *reply);
typedef void watch_silence_func(struct kvc_watch *watch, const struct watch_flight *flight);

watch_request_func watch_on_register_mapped, watch_on_register_engine_driven;
watch_reply_func watch_registered_mapped, watch_registered_engine_driven;
watch_silence_func watch_not_registered_mapped, watch_not_registered_engine_driven;
watch_request_func watch_on_unregister_mapped, watch_on_unregister_engine_driven, watch_on_ping;

watch_request_func watch_on_lookup, watch_on_query, watch_on_free_locks, watch_on_end_session;
watch_reply_func watch_looked_up, watch_got_result;
watch_silence_func watch_not_looked_up;

watch_request_func watch_on_store, watch_on_retrieve;
watch_request_func watch_on_prepare_store, watch_on_commit_store;
watch_request_func watch_on_prepare_retrieve, watch_on_commit_retrieve;
watch_reply_func watch_prepared_store, watch_prepared_retrieve;
watch_silence_func watch_not_prepared;

watch_request_func watch_on_clear;

#endif
