#include "src/l2/pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"

enum { MAX_LANES = 256, CLOSE_MS = 1000, STOP_POLL_MS = 50 };

/* A submit, from which lanes take a few items at a time. */
struct task {
    struct task *next;
    enum kvc_l2_operation operation;
    struct kvc_l2_item *items;
    size_t count, taken, step;
};

struct worker {
    struct kvc_l2_pool *pool;
    void *lane;
    pthread_t thread;
};

struct kvc_l2_pool {
    const struct kvc_l2_adapter *adapter;
    void *store;
    struct worker *workers;
    size_t lane_count;   /* opened */
    size_t thread_count; /* started */

    pthread_mutex_t lock;
    pthread_cond_t work; /* for the workers: a task, or the end */
    pthread_cond_t done; /* for the owner: nothing is left, or a worker ended */
    struct task *first, *last;
    size_t left;  /* items handed over and not done */
    size_t ended; /* workers that have returned */
    bool closing;
    struct kvc_error error; /* the first since it was taken */
};

/* ---- workers ---- */

/* With the lock held. False: the pool closes. */
static bool take_items(struct kvc_l2_pool *pool, struct task *part)
{
    while (pool->first == NULL && !pool->closing)
        pthread_cond_wait(&pool->work, &pool->lock);
    struct task *task = pool->first;
    if (task == NULL)
        return false;
    *part = *task;
    part->items = task->items + task->taken;
    part->count = task->count - task->taken < task->step ? task->count - task->taken : task->step;
    task->taken += part->count;
    if (task->taken == task->count) {
        pool->first = task->next;
        free(task);
    }
    return true;
}

static void *work(void *arg)
{
    const struct worker *worker = arg;
    struct kvc_l2_pool *pool = worker->pool;
    struct task part;
    pthread_mutex_lock(&pool->lock);
    while (take_items(pool, &part)) {
        pthread_mutex_unlock(&pool->lock);
        struct kvc_error err = KVC_ERROR_INIT;
        const kvc_status status =
            kvc_l2_run(pool->adapter, worker->lane, part.operation, part.items, part.count, &err);
        pthread_mutex_lock(&pool->lock);
        if (status != KVC_OK && pool->error.status == KVC_OK)
            pool->error = err;
        pool->left -= part.count;
        if (pool->left == 0)
            pthread_cond_signal(&pool->done);
    }
    pool->ended++;
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- opening ---- */

static size_t choose_lanes(const struct kvc_l2_config *config, size_t lanes)
{
    if (lanes == 0 && config->adapter->lanes != NULL)
        lanes = config->adapter->lanes(config->values);
    if (lanes == 0) {
        const long processors = sysconf(_SC_NPROCESSORS_ONLN);
        lanes = processors < 1 ? 1 : (size_t)processors;
    }
    return lanes > MAX_LANES ? MAX_LANES : lanes;
}

static kvc_status start_worker(struct kvc_l2_pool *pool, struct worker *worker,
                               struct kvc_error *err)
{
    worker->pool = pool;
    KVC_GUARD(pool->adapter->open_lane(pool->store, &worker->lane, err));
    pool->lane_count++;
    if (pthread_create(&worker->thread, NULL, work, worker) != 0)
        return kvc_fail(err, KVC_ESYSTEM, "cannot start thread %zu", pool->thread_count + 1);
    pool->thread_count++;
    return KVC_OK;
}

static void init_waiting(struct kvc_l2_pool *pool)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, &monotonic);
    pthread_cond_init(&pool->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

kvc_status kvc_l2_pool_open(const struct kvc_l2_config *config, const struct kvc_l2_memory *memory,
                            size_t lanes, struct kvc_l2_pool **opened, struct kvc_error *err)
{
    void *store;
    KVC_GUARD(config->adapter->open(config->values, memory, &store, err));
    lanes = choose_lanes(config, lanes);
    struct kvc_l2_pool *pool = kvc_alloc_zero(1, sizeof(*pool));
    pool->adapter = config->adapter;
    pool->store = store;
    pool->workers = kvc_alloc_zero(lanes, sizeof(pool->workers[0]));
    init_waiting(pool);
    kvc_status status = KVC_OK;
    for (size_t i = 0; status == KVC_OK && i < lanes; i++)
        status = start_worker(pool, &pool->workers[i], err);
    if (status == KVC_OK)
        *opened = pool;
    else
        kvc_l2_pool_close(pool, NULL);
    return status;
}

size_t kvc_l2_pool_lanes(const struct kvc_l2_pool *pool)
{
    return pool->lane_count;
}

/* ---- handing over and waiting ---- */

void kvc_l2_pool_submit(struct kvc_l2_pool *pool, enum kvc_l2_operation operation,
                        struct kvc_l2_item *items, size_t count)
{
    if (count == 0)
        return;
    struct task *task = kvc_alloc_zero(1, sizeof(*task));
    const size_t fair = (count + pool->lane_count - 1) / pool->lane_count;
    *task = (struct task){.operation = operation, .items = items, .count = count};
    task->step = fair < pool->adapter->batch ? fair : pool->adapter->batch;
    for (size_t i = 0; i < count; i++)
        items[i].outcome = KVC_L2_FAILED;
    pthread_mutex_lock(&pool->lock);
    if (pool->first == NULL)
        pool->first = task;
    else
        pool->last->next = task;
    pool->last = task;
    pool->left += count;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
}

static void wait_until(struct kvc_l2_pool *pool, int64_t moment_ms)
{
    const struct timespec until = {.tv_sec = moment_ms / 1000,
                                   .tv_nsec = moment_ms % 1000 * 1000000};
    pthread_cond_timedwait(&pool->done, &pool->lock, &until);
}

/* With the lock held. */
static void drop_waiting(struct kvc_l2_pool *pool)
{
    while (pool->first != NULL) {
        struct task *task = pool->first;
        pool->first = task->next;
        pool->left -= task->count - task->taken;
        free(task);
    }
}

kvc_status kvc_l2_pool_wait(struct kvc_l2_pool *pool, int64_t timeout_ms, const volatile int *stop)
{
    const int64_t deadline = kvc_now_ms() + timeout_ms;
    kvc_status status = KVC_OK;
    pthread_mutex_lock(&pool->lock);
    while (pool->left > 0 && status == KVC_OK) {
        const int64_t now = kvc_now_ms();
        if (stop != NULL && *stop)
            status = KVC_EINTERRUPTED;
        else if (now >= deadline)
            status = KVC_ETIMEOUT;
        else
            wait_until(pool, now + STOP_POLL_MS < deadline ? now + STOP_POLL_MS : deadline);
    }
    if (status != KVC_OK)
        drop_waiting(pool);
    pthread_mutex_unlock(&pool->lock);
    return status;
}

kvc_status kvc_l2_pool_take_error(struct kvc_l2_pool *pool, struct kvc_error *err)
{
    pthread_mutex_lock(&pool->lock);
    const kvc_status status = pool->error.status;
    if (status != KVC_OK && err != NULL)
        *err = pool->error;
    pool->error = (struct kvc_error)KVC_ERROR_INIT;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* ---- closing ---- */

/* False when a lane does not come back. */
static bool end_workers(struct kvc_l2_pool *pool)
{
    const int64_t deadline = kvc_now_ms() + CLOSE_MS;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    drop_waiting(pool);
    pthread_cond_broadcast(&pool->work);
    while (pool->ended < pool->thread_count && kvc_now_ms() < deadline)
        wait_until(pool, deadline);
    const bool ended = pool->ended == pool->thread_count;
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->thread_count; i++) {
        if (ended)
            pthread_join(pool->workers[i].thread, NULL);
        else
            pthread_detach(pool->workers[i].thread);
    }
    return ended;
}

kvc_status kvc_l2_pool_close(struct kvc_l2_pool *pool, struct kvc_error *err)
{
    if (!end_workers(pool))
        return kvc_fail(err, KVC_ETIMEOUT, "the store does not finish what it has begun");
    for (size_t i = 0; i < pool->lane_count; i++)
        pool->adapter->close_lane(pool->workers[i].lane);
    const kvc_status status = pool->adapter->close(pool->store, err);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
    return status;
}
