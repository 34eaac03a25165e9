#include "tests/mock_server/slot_guard.h"

#include <string.h>

#include "src/base/clock.h"

/* A run of bytes of the pool. */
struct extent {
    int64_t offset, size;
};

void mock_slots_guard(struct mock_pool *pool)
{
    pool->guard = pool->shared ? MOCK_POOL_ALIGN : 0;
}

/* The pattern at one place of the pool: no data are like it by chance. */
static uint64_t pattern_at(int64_t offset)
{
    return kvc_mix((uint64_t)offset ^ UINT64_C(0x6b76636f6e666f72));
}

static void fill(const struct mock_store *store, struct extent extent)
{
    for (int64_t at = 0; at < extent.size; at += 8) {
        const uint64_t pattern = pattern_at(extent.offset + at);
        const int64_t rest = extent.size - at;
        memcpy(store->pool->data + extent.offset + at, &pattern, rest < 8 ? (size_t)rest : 8);
    }
}

/* The first place with the pattern (or without), in whole words but for the last; -1: none. */
static int64_t first(const struct mock_store *store, struct extent extent, bool with_pattern)
{
    for (int64_t at = 0; at < extent.size; at += 8) {
        const uint64_t pattern = pattern_at(extent.offset + at);
        const int64_t rest = extent.size - at;
        const bool same = memcmp(store->pool->data + extent.offset + at, &pattern,
                                 rest < 8 ? (size_t)rest : 8) == 0;
        if (same == with_pattern && (rest >= 8 || !with_pattern))
            return extent.offset + at;
    }
    return -1;
}

static struct extent slot_of(const struct mock_object *object)
{
    return (struct extent){object->offset, object->layout.bytes};
}

static struct extent before(const struct mock_store *store, const struct mock_object *object)
{
    return (struct extent){object->offset - store->pool->guard, store->pool->guard};
}

static struct extent behind(const struct mock_store *store, const struct mock_object *object)
{
    const int64_t end = object->offset + object->layout.bytes;
    const int64_t all = mock_pool_footprint(store->pool, object->layout.bytes);
    return (struct extent){end, object->offset - store->pool->guard + all - end};
}

static bool is_guarded(const struct mock_store *store)
{
    return store->pool->guard > 0;
}

void mock_slot_arm(const struct mock_store *store, const struct mock_object *object)
{
    if (!is_guarded(store))
        return;
    fill(store, before(store, object));
    fill(store, slot_of(object));
    fill(store, behind(store, object));
}

static uint64_t sum_of(const struct mock_store *store, const struct mock_object *object)
{
    const uint8_t *data = mock_object_data(store, object);
    uint64_t sum = 0;
    for (int64_t at = 0; at < object->layout.bytes; at += 8) {
        const int64_t rest = object->layout.bytes - at;
        uint64_t word = 0;
        memcpy(&word, data + at, rest < 8 ? (size_t)rest : 8);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

void mock_slot_seal(const struct mock_store *store, struct mock_object *object)
{
    if (is_guarded(store))
        object->sum = sum_of(store, object);
}

/* The first byte around the slot that was changed; -1: none. */
static int64_t changed_around(const struct mock_store *store, const struct mock_object *object)
{
    const int64_t place = first(store, before(store, object), false);
    return place >= 0 ? place : first(store, behind(store, object), false);
}

void mock_slot_check_written(const struct mock_call *call, const struct mock_object *object)
{
    const struct mock_store *store = &call->mock->store;
    if (!is_guarded(store))
        return;
    const int64_t outside = changed_around(store, object);
    const int64_t unwritten = first(store, slot_of(object), true);
    if (outside >= 0) {
        mock_saw(call, KVC_RULE_WROTE_OUTSIDE_SLOT, "slot [%lld, %lld) of the pool, near byte %lld",
                 (long long)object->offset, (long long)(object->offset + object->layout.bytes),
                 (long long)outside);
        fill(store, before(store, object));
        fill(store, behind(store, object));
    }
    if (unwritten >= 0)
        mock_saw(call, KVC_RULE_SLOT_NOT_WRITTEN, "slot [%lld, %lld) of the pool, from byte %lld",
                 (long long)object->offset, (long long)(object->offset + object->layout.bytes),
                 (long long)unwritten);
}

void mock_slot_verify(const struct mock *mock, struct mock_object *object)
{
    const struct mock_store *store = &mock->store;
    if (mock->watch == NULL || !is_guarded(store))
        return;
    const int64_t outside = changed_around(store, object);
    if (sum_of(store, object) != object->sum)
        kvc_watch_saw(mock->watch, KVC_RULE_WROTE_AFTER_COMMIT, (struct kvc_str){0}, NULL,
                      "chunk [%lld, %lld) of the pool, of " KVC_STR_FMT, (long long)object->offset,
                      (long long)(object->offset + object->layout.bytes),
                      KVC_STR_ARG(object->key.model));
    if (outside >= 0)
        kvc_watch_saw(mock->watch, KVC_RULE_WROTE_OUTSIDE_SLOT, (struct kvc_str){0}, NULL,
                      "beside chunk [%lld, %lld) of the pool, near byte %lld",
                      (long long)object->offset, (long long)(object->offset + object->layout.bytes),
                      (long long)outside);
    fill(store, before(store, object));
    fill(store, behind(store, object));
    mock_slot_seal(store, object);
}

void mock_slots_verify_all(const struct mock *mock)
{
    struct mock_object *object;
    TAILQ_FOREACH(object, &mock->store.by_use, by_use)
    {
        if (object->ready)
            mock_slot_verify(mock, object);
    }
}
