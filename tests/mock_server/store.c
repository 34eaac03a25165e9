#include "tests/mock_server/store.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/l2.h"
#include "tests/mock_server/slot_guard.h"
#include "tests/mock_server/text.h"

void mock_store_init(struct mock_store *store, struct mock_pool *pool, int64_t read_ttl_ms)
{
    memset(store, 0, sizeof(*store));
    store->pool = pool;
    store->read_ttl_ms = read_ttl_ms;
    TAILQ_INIT(&store->by_use);
}

void mock_store_clear(struct mock_store *store)
{
    while (!TAILQ_EMPTY(&store->by_use))
        mock_store_remove(store, TAILQ_FIRST(&store->by_use));
}

static size_t bucket_of(const struct mock_object_key *key)
{
    uint64_t head = 0;
    memcpy(&head, key->hash, sizeof(head));
    return (head ^ (uint64_t)key->kv_rank * 0x9e3779b97f4a7c15u) % MOCK_STORE_BUCKETS;
}

static bool key_equal(const struct mock_object_key *a, const struct mock_object_key *b)
{
    return memcmp(a->hash, b->hash, sizeof(a->hash)) == 0 && a->kv_rank == b->kv_rank &&
           a->group == b->group && a->client == b->client && kvc_str_equal(a->model, b->model) &&
           kvc_str_equal(a->salt, b->salt);
}

struct mock_object *mock_store_find(const struct mock_store *store,
                                    const struct mock_object_key *key)
{
    struct mock_object *object;
    LIST_FOREACH(object, &store->buckets[bucket_of(key)], in_bucket)
    {
        if (key_equal(&object->key, key))
            return object;
    }
    return NULL;
}

static bool may_go(const struct mock_store *store, struct mock_object *object, int64_t now_ms)
{
    if (!object->ready)
        return store->evicts_pending && !object->keeps_room;
    return !store->evicts_nothing &&
           (store->evicts_locked || mock_object_locks(object, now_ms) == 0);
}

/* The least recently used object that may go, or NULL. */
static struct mock_object *next_to_go(struct mock_store *store, int64_t now_ms)
{
    struct mock_object *object;
    TAILQ_FOREACH(object, &store->by_use, by_use)
    {
        if (may_go(store, object, now_ms))
            return object;
    }
    return NULL;
}

/* Gives an object's place in the pool back. With it goes the object, unless, by a defect, somebody is
 * still writing it. */
static void drop(struct mock_store *store, struct mock_object *object)
{
    if (object->ready) {
        mock_store_remove(store, object);
        return;
    }
    mock_pool_give(store->pool, object->offset, object->layout.bytes);
    object->keeps_room = true;
}

static bool make_room(struct mock_store *store, int64_t size, int64_t now_ms, int64_t *offset)
{
    while (!mock_pool_take(store->pool, size, offset)) {
        struct mock_object *victim = next_to_go(store, now_ms);
        if (victim == NULL)
            return false;
        drop(store, victim);
    }
    return true;
}

struct mock_object *mock_store_reserve(struct mock_store *store, const struct mock_object_key *key,
                                       const struct mock_chunk_layout *layout, int64_t now_ms)
{
    int64_t offset = 0;
    if (!make_room(store, layout->bytes, now_ms, &offset))
        return NULL;
    struct mock_object *object = kvc_alloc_zero(1, sizeof(*object));
    object->key = *key;
    object->key.model = mock_text_copy(key->model);
    object->key.salt = mock_text_copy(key->salt);
    object->layout = *layout;
    object->offset = offset;
    mock_slot_arm(store, object);
    LIST_INSERT_HEAD(&store->buckets[bucket_of(key)], object, in_bucket);
    TAILQ_INSERT_TAIL(&store->by_use, object, by_use);
    store->count++;
    return object;
}

bool mock_store_could_fit(struct mock_store *store, const struct mock_chunk_layout *layout,
                          int64_t count, int64_t now_ms)
{
    int64_t room = store->pool->size - store->pool->used;
    const int64_t slot = mock_pool_footprint(store->pool, layout->bytes);
    struct mock_object *object;
    TAILQ_FOREACH(object, &store->by_use, by_use)
    {
        if (room / slot >= count)
            break;
        if (may_go(store, object, now_ms))
            room += mock_pool_footprint(store->pool, object->layout.bytes);
    }
    return room / slot >= count;
}

void mock_store_publish(struct mock_store *store, struct mock_object *object)
{
    object->ready = true;
    mock_slot_seal(store, object);
    mock_store_touch(store, object);
    if (store->below != NULL && !object->is_below)
        mock_l2_keep(store->below, object, mock_object_data(store, object));
}

void mock_store_remove(struct mock_store *store, struct mock_object *object)
{
    while (!LIST_EMPTY(&object->locks)) {
        struct mock_lock *lock = LIST_FIRST(&object->locks);
        mock_lock_release(lock, lock->count);
    }
    if (!object->keeps_room)
        mock_pool_give(store->pool, object->offset, object->layout.bytes);
    LIST_REMOVE(object, in_bucket);
    TAILQ_REMOVE(&store->by_use, object, by_use);
    store->count--;
    mock_text_free(object->key.model);
    mock_text_free(object->key.salt);
    free(object);
}

void mock_store_touch(struct mock_store *store, struct mock_object *object)
{
    if (store->ignores_use)
        return;
    TAILQ_REMOVE(&store->by_use, object, by_use);
    TAILQ_INSERT_TAIL(&store->by_use, object, by_use);
}

void mock_store_evict(struct mock_store *store, double share, int64_t now_ms)
{
    size_t going = (size_t)((double)store->count * share);
    while (going-- > 0) {
        struct mock_object *victim = next_to_go(store, now_ms);
        if (victim == NULL)
            return;
        drop(store, victim);
    }
}

uint8_t *mock_object_data(const struct mock_store *store, const struct mock_object *object)
{
    return store->pool->data + object->offset;
}

int64_t mock_object_locks(struct mock_object *object, int64_t now_ms)
{
    int64_t total = 0;
    struct mock_lock *lock = LIST_FIRST(&object->locks);
    while (lock != NULL) {
        struct mock_lock *next = LIST_NEXT(lock, of_object);
        if (now_ms >= object->locks_end_ms)
            mock_lock_release(lock, lock->count);
        else
            total += lock->count;
        lock = next;
    }
    return total;
}

static void add_locks(struct mock_object *object, struct mock_holder *holder, int64_t count)
{
    struct mock_lock *lock = mock_object_lock_of(object, holder);
    if (lock == NULL) {
        lock = kvc_alloc_zero(1, sizeof(*lock));
        lock->object = object;
        lock->holder = holder;
        LIST_INSERT_HEAD(&object->locks, lock, of_object);
        LIST_INSERT_HEAD(&holder->locks, lock, of_holder);
    }
    lock->count += count;
    lock->step = count;
}

void mock_store_lock(struct mock_store *store, struct mock_object *object,
                     struct mock_holder *holder, int64_t count, int64_t now_ms)
{
    const int64_t others = mock_object_locks(object, now_ms); /* what has expired is not revived */
    add_locks(object, holder, count);
    if (others > 0 && store->lease_runs_on)
        return;
    object->locks_end_ms =
        store->read_ttl_ms == INT64_MAX ? INT64_MAX : now_ms + store->read_ttl_ms;
}

struct mock_lock *mock_object_lock_of(struct mock_object *object, const struct mock_holder *holder)
{
    struct mock_lock *lock;
    LIST_FOREACH(lock, &object->locks, of_object)
    {
        if (lock->holder == holder)
            return lock;
    }
    return NULL;
}

/* The holder's locks on the object, or those that are there for longest; NULL: nobody has any. */
static struct mock_lock *lock_to_take(struct mock_object *object, const struct mock_holder *holder)
{
    struct mock_lock *lock = mock_object_lock_of(object, holder);
    struct mock_lock *oldest = NULL;
    if (lock != NULL)
        return lock;
    LIST_FOREACH(lock, &object->locks, of_object)
    {
        oldest = lock;
    }
    return oldest;
}

void mock_object_pass_lock(struct mock_object *object, const struct mock_holder *from,
                           struct mock_holder *to)
{
    struct mock_lock *lock = lock_to_take(object, from);
    if (lock == NULL)
        return;
    mock_lock_release(lock, 1);
    add_locks(object, to, 1);
}

void mock_object_unlock(struct mock_object *object, const struct mock_holder *holder)
{
    struct mock_lock *lock = lock_to_take(object, holder);
    if (lock != NULL)
        mock_lock_release(lock, 1);
}

void mock_lock_release(struct mock_lock *lock, int64_t count)
{
    lock->count -= count;
    if (lock->count > 0)
        return;
    LIST_REMOVE(lock, of_object);
    LIST_REMOVE(lock, of_holder);
    free(lock);
}

void mock_holder_release(struct mock_holder *holder)
{
    while (!LIST_EMPTY(&holder->locks)) {
        struct mock_lock *lock = LIST_FIRST(&holder->locks);
        mock_lock_release(lock, lock->count);
    }
}

void mock_holder_pass(struct mock_holder *from, struct mock_holder *to)
{
    while (!LIST_EMPTY(&from->locks)) {
        struct mock_lock *lock = LIST_FIRST(&from->locks);
        LIST_REMOVE(lock, of_holder);
        LIST_INSERT_HEAD(&to->locks, lock, of_holder);
        lock->holder = to;
    }
}
