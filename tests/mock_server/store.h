/* The objects: what is cached, who has locked it, what goes when room is needed. Knows nothing of
 * requests. For the mock's handlers. */
#ifndef KVC_TESTS_MOCK_SERVER_STORE_H
#define KVC_TESTS_MOCK_SERVER_STORE_H

#include <sys/queue.h>

#include "src/kv/digest.h"
#include "tests/mock_server/chunk.h"
#include "tests/mock_server/pool.h"

/* Which object: one chunk of one rank. */
struct mock_object_key {
    uint8_t hash[KVC_BLAKE3_SIZE];
    struct kvc_str model;
    int64_t kv_rank;
    int64_t group;
    struct kvc_str salt;
    uint64_t client; /* 0, but with a defect */
};

struct mock_object;

/* Read locks that one holder has on one object. */
struct mock_lock {
    LIST_ENTRY(mock_lock) of_object;
    LIST_ENTRY(mock_lock) of_holder;
    struct mock_object *object;
    struct mock_holder *holder;
    int64_t count;
    int64_t step; /* how many one lookup took: what freeing that lookup gives back */
};

/* Whoever locks objects: a session, a retrieve under way, a P2P task. Zero-initialised: holds
 * nothing. Any holder's lock lets anybody read; only who holds it can free it by name. */
struct mock_holder {
    LIST_HEAD(, mock_lock) locks;
};

struct mock_object {
    LIST_ENTRY(mock_object) in_bucket;
    TAILQ_ENTRY(mock_object) by_use;
    struct mock_object_key key; /* texts are the object's own */
    struct mock_chunk_layout layout;
    int64_t offset;   /* in the pool */
    bool ready;       /* false: reserved for a writer, invisible to readers */
    bool is_owned;    /* a transfer has it: that one publishes or removes it */
    bool keeps_room;  /* a defect: its place in the pool is not given back when it goes */
    uint64_t request; /* whose transfer made it; for a defect */
    bool is_below;    /* it comes from the store below */
    uint64_t sum;     /* of its bytes when it was published, see slot_guard.h */
    LIST_HEAD(, mock_lock) locks;
    int64_t locks_end_ms; /* when all read locks expire */
};

enum { MOCK_STORE_BUCKETS = 1 << 14 };

struct mock_l2;

struct mock_store {
    struct mock_pool *pool;
    struct mock_l2 *below; /* where chunks are also kept; NULL: nowhere */
    LIST_HEAD(, mock_object) buckets[MOCK_STORE_BUCKETS];
    TAILQ_HEAD(mock_use_list, mock_object) by_use; /* least recently used first */
    size_t count;
    int64_t read_ttl_ms;
    bool evicts_locked, evicts_pending, evicts_nothing, ignores_use, lease_runs_on; /* defects */
};

void mock_store_init(struct mock_store *store, struct mock_pool *pool, int64_t read_ttl_ms);
void mock_store_clear(struct mock_store *store);

/* The object of that key, ready or reserved; NULL: none. */
struct mock_object *mock_store_find(const struct mock_store *store,
                                    const struct mock_object_key *key);
/* Room for one more object, reserved for a writer. Drops unlocked objects, least recently used
 * first, if that makes room. NULL when there is none. The key must not be in the store. */
struct mock_object *mock_store_reserve(struct mock_store *store, const struct mock_object_key *key,
                                       const struct mock_chunk_layout *layout, int64_t now_ms);
/* Whether `count` more objects of a layout could fit, with everything dropped that may be. */
bool mock_store_could_fit(struct mock_store *store, const struct mock_chunk_layout *layout,
                          int64_t count, int64_t now_ms);
/* What a writer has reserved becomes readable, or goes. */
void mock_store_publish(struct mock_store *store, struct mock_object *object);
void mock_store_remove(struct mock_store *store, struct mock_object *object);
/* Marks an object as just used. */
void mock_store_touch(struct mock_store *store, struct mock_object *object);
/* Drops `share` (of 1) of the objects, least recently used first; locked and reserved ones stay. */
void mock_store_evict(struct mock_store *store, double share, int64_t now_ms);
uint8_t *mock_object_data(const struct mock_store *store, const struct mock_object *object);

/* Read locks on an object that have not expired. */
int64_t mock_object_locks(struct mock_object *object, int64_t now_ms);
/* Adds count locks for a holder, and restarts the lease of all locks on the object. */
void mock_store_lock(struct mock_store *store, struct mock_object *object,
                     struct mock_holder *holder, int64_t count, int64_t now_ms);
/* The locks a holder has on an object; NULL: none. */
struct mock_lock *mock_object_lock_of(struct mock_object *object, const struct mock_holder *holder);
/* Hands one lock over to another holder: the first holder's if it has one, else the oldest. */
void mock_object_pass_lock(struct mock_object *object, const struct mock_holder *from,
                           struct mock_holder *to);
/* Takes one lock away: the holder's if it has one (holder may be NULL), else the oldest. */
void mock_object_unlock(struct mock_object *object, const struct mock_holder *holder);
/* Takes count locks of this lock away; it is gone when none are left. */
void mock_lock_release(struct mock_lock *lock, int64_t count);
/* Gives back everything a holder has locked. */
void mock_holder_release(struct mock_holder *holder);
/* Hands everything over to another holder. */
void mock_holder_pass(struct mock_holder *from, struct mock_holder *to);

#endif
