/* Objects in memory, with a set latency, bandwidth and share of failures. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/l2/l2.h"

struct config {
    double max_size_gb;
    double bandwidth_gb; /* a second, all lanes together */
    double latency_ms;   /* of every operation */
    double failure_rate; /* share of the objects that can be neither stored nor loaded */
};

struct object {
    struct object *next;
    char *name;
    uint8_t *data;
    size_t size;
};

enum { BUCKETS = 4096 };

struct store {
    struct config config;
    pthread_mutex_t lock;
    struct object *buckets[BUCKETS];
    size_t used, capacity;
    int64_t line_free_at; /* when the last byte asked for so far will have passed */
};

#define FIELD(member) offsetof(struct config, member)

static const struct kvc_l2_field fields[] = {
    {.name = "max_size_gb",
     .kind = KVC_L2_NUMBER,
     .offset = FIELD(max_size_gb),
     .required = true,
     .minimum = 1e-9,
     .accepted = "a number of GiB above 0"},
    {.name = "mock_bandwidth_gb",
     .kind = KVC_L2_NUMBER,
     .offset = FIELD(bandwidth_gb),
     .required = true,
     .minimum = 1e-9,
     .accepted = "a number of GiB a second above 0"},
    {.name = "mock_latency_ms",
     .kind = KVC_L2_NUMBER,
     .offset = FIELD(latency_ms),
     .maximum = 3600000,
     .accepted = "a number of milliseconds, at most an hour"},
    {.name = "mock_failure_rate",
     .kind = KVC_L2_NUMBER,
     .offset = FIELD(failure_rate),
     .maximum = 1,
     .accepted = "a share from 0 to 1"},
};

static const struct config defaults;

static const double gib = 1 << 30;

/* ---- the objects ---- */

static char *name_of(const struct kvc_l2_item *item)
{
    struct kvc_buffer name = {0};
    kvc_l2_key_append(&item->key, &name);
    return kvc_buffer_take_text(&name);
}

static struct object **find(struct store *store, const char *name)
{
    struct object **place = &store->buckets[kvc_hash_text(name) % BUCKETS];
    while (*place != NULL && strcmp((*place)->name, name) != 0)
        place = &(*place)->next;
    return place;
}

static void drop(struct store *store, struct object **place)
{
    struct object *object = *place;
    *place = object->next;
    store->used -= object->size;
    free(object->name);
    free(object->data);
    free(object);
}

static kvc_status keep(struct store *store, const char *name, const struct kvc_l2_item *item,
                       struct kvc_error *err)
{
    struct object **place = find(store, name);
    if (*place != NULL)
        drop(store, place);
    if (item->size > store->capacity - store->used)
        return kvc_fail(err, KVC_EREFUSED, "the store is full: %zu of %zu bytes are in use",
                        store->used, store->capacity);
    struct object *object = kvc_alloc_zero(1, sizeof(*object));
    object->name = kvc_strdup(name);
    object->data = kvc_alloc(item->size);
    object->size = item->size;
    memcpy(object->data, item->data, item->size);
    store->used += item->size;
    place = find(store, name);
    *place = object;
    return KVC_OK;
}

/* ---- what it is slow and bad at ---- */

static void sleep_until(int64_t moment)
{
    const struct timespec until = {.tv_sec = moment / 1000000000, .tv_nsec = moment % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

/* Lanes share the line: each waits until its own bytes have passed behind those of the others. */
static void wait_for_line(struct store *store, size_t size)
{
    const int64_t start = kvc_now_ns() + (int64_t)(store->config.latency_ms * 1e6);
    const int64_t takes = (int64_t)((double)size / (store->config.bandwidth_gb * gib) * 1e9);
    pthread_mutex_lock(&store->lock);
    if (store->line_free_at < start)
        store->line_free_at = start;
    store->line_free_at += takes;
    const int64_t until = store->line_free_at;
    pthread_mutex_unlock(&store->lock);
    sleep_until(until);
}

/* The same objects on every run. */
static kvc_status fail_some(const struct store *store, const char *name, struct kvc_error *err)
{
    const double place = (double)(kvc_mix(kvc_hash_text(name)) >> 11) / (double)(1ull << 53);
    if (place >= store->config.failure_rate)
        return KVC_OK;
    return kvc_fail(err, KVC_EREFUSED, "'%s' is one of those that fail (mock_failure_rate)", name);
}

/* ---- operations ---- */

static kvc_status mock_store(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct store *store = lane;
    char *name = name_of(item);
    wait_for_line(store, item->size);
    kvc_status status = fail_some(store, name, err);
    if (status == KVC_OK) {
        pthread_mutex_lock(&store->lock);
        status = keep(store, name, item, err);
        pthread_mutex_unlock(&store->lock);
    }
    if (status == KVC_OK)
        item->outcome = KVC_L2_DONE;
    free(name);
    return status;
}

static kvc_status mock_lookup(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    (void)err;
    struct store *store = lane;
    char *name = name_of(item);
    wait_for_line(store, 0);
    pthread_mutex_lock(&store->lock);
    item->outcome = *find(store, name) != NULL ? KVC_L2_DONE : KVC_L2_ABSENT;
    pthread_mutex_unlock(&store->lock);
    free(name);
    return KVC_OK;
}

static kvc_status hand_out(const struct object *object, struct kvc_l2_item *item,
                           struct kvc_error *err)
{
    if (object == NULL) {
        item->outcome = KVC_L2_ABSENT;
        return KVC_OK;
    }
    if (object->size != item->size)
        return kvc_fail(err, KVC_EFORMAT, "'%s' has %zu bytes, not %zu", object->name, object->size,
                        item->size);
    memcpy(item->data, object->data, item->size);
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

static kvc_status mock_load(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct store *store = lane;
    char *name = name_of(item);
    wait_for_line(store, item->size);
    kvc_status status = fail_some(store, name, err);
    if (status == KVC_OK) {
        pthread_mutex_lock(&store->lock);
        status = hand_out(*find(store, name), item, err);
        pthread_mutex_unlock(&store->lock);
    }
    free(name);
    return status;
}

static kvc_status mock_remove(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    (void)err;
    struct store *store = lane;
    char *name = name_of(item);
    pthread_mutex_lock(&store->lock);
    struct object **place = find(store, name);
    item->outcome = *place != NULL ? KVC_L2_DONE : KVC_L2_ABSENT;
    if (*place != NULL)
        drop(store, place);
    pthread_mutex_unlock(&store->lock);
    free(name);
    return KVC_OK;
}

/* ---- opening ---- */

static kvc_status mock_open(const void *values, const struct kvc_l2_memory *memory, void **opened,
                            struct kvc_error *err)
{
    (void)memory, (void)err;
    const struct config *config = values;
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    store->config = *config;
    store->capacity = config->max_size_gb < 1e9 ? (size_t)(config->max_size_gb * gib) : SIZE_MAX;
    pthread_mutex_init(&store->lock, NULL);
    *opened = store;
    return KVC_OK;
}

static kvc_status mock_open_lane(void *store, void **lane, struct kvc_error *err)
{
    (void)err;
    *lane = store;
    return KVC_OK;
}

static void mock_close_lane(void *lane)
{
    (void)lane;
}

static kvc_status mock_close(void *opaque, struct kvc_error *err)
{
    (void)err;
    struct store *store = opaque;
    for (size_t i = 0; i < BUCKETS; i++)
        while (store->buckets[i] != NULL)
            drop(store, &store->buckets[i]);
    pthread_mutex_destroy(&store->lock);
    free(store);
    return KVC_OK;
}

static size_t mock_lanes(const void *config)
{
    (void)config;
    return 8; /* they mostly sleep */
}

const struct kvc_l2_adapter kvc_l2_mock = {
    .type = "mock",
    .title = "MockL2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 1,
    .lanes = mock_lanes,
    .open = mock_open,
    .open_lane = mock_open_lane,
    .operations = {mock_store, mock_lookup, mock_load, mock_remove},
    .close_lane = mock_close_lane,
    .close = mock_close,
};
