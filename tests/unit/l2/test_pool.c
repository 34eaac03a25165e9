/* The pool, on an adapter of this file's that waits until it may go on. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "src/base/clock.h"
#include "src/l2/pool.h"

static atomic_int lanes_open, stores_open, work_begun, work_done, may_go_on;

static kvc_status open_store(const void *config, const struct kvc_l2_memory *memory, void **store,
                             struct kvc_error *err)
{
    (void)config, (void)memory, (void)err;
    stores_open++;
    *store = NULL;
    return KVC_OK;
}

static kvc_status open_lane(void *store, void **lane, struct kvc_error *err)
{
    (void)store;
    if (lanes_open == 3)
        return kvc_fail(err, KVC_ECONNECT, "three lanes are all there is");
    lanes_open++;
    *lane = NULL;
    return KVC_OK;
}

static kvc_status store_item(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    (void)lane;
    if (item->size == 13)
        return kvc_fail(err, KVC_EREFUSED, "not 13");
    item->outcome = KVC_L2_DONE;
    work_done++;
    return KVC_OK;
}

static kvc_status wait_item(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    work_begun++;
    while (!may_go_on)
        kvc_sleep_ms(1);
    return store_item(lane, item, err);
}

static void close_lane(void *lane)
{
    (void)lane;
    lanes_open--;
}

static kvc_status close_store(void *store, struct kvc_error *err)
{
    (void)store, (void)err;
    stores_open--;
    return KVC_OK;
}

static const struct kvc_l2_adapter adapter = {
    .type = "test",
    .batch = 4,
    .open = open_store,
    .open_lane = open_lane,
    .operations = {store_item, wait_item, store_item, store_item},
    .close_lane = close_lane,
    .close = close_store,
};

static const struct kvc_l2_config config = {.adapter = &adapter};
static const struct kvc_l2_memory memory = {1, 1};

enum { ITEMS = 1000 };
static struct kvc_l2_item items[ITEMS];

Test(l2_pool, every_item_is_done_once)
{
    struct kvc_l2_pool *pool;
    cr_assert_eq(kvc_l2_pool_open(&config, &memory, 3, &pool, NULL), KVC_OK);
    cr_assert_eq(kvc_l2_pool_lanes(pool), 3);
    for (size_t at = 0; at < ITEMS; at += 100)
        kvc_l2_pool_submit(pool, KVC_L2_STORE, items + at, 100);
    cr_assert_eq(kvc_l2_pool_wait(pool, 10000, NULL), KVC_OK);
    cr_assert_eq(work_done, ITEMS);
    for (size_t i = 0; i < ITEMS; i++)
        cr_assert_eq(items[i].outcome, KVC_L2_DONE);
    cr_assert_eq(kvc_l2_pool_take_error(pool, NULL), KVC_OK);
    cr_assert_eq(kvc_l2_pool_close(pool, NULL), KVC_OK);
    cr_assert_eq(lanes_open, 0);
    cr_assert_eq(stores_open, 0);
}

Test(l2_pool, a_failed_item_is_told_and_the_others_are_done)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_l2_pool *pool;
    kvc_l2_pool_open(&config, &memory, 2, &pool, NULL);
    items[5].size = 13;
    kvc_l2_pool_submit(pool, KVC_L2_STORE, items, 20);
    cr_assert_eq(kvc_l2_pool_wait(pool, 10000, NULL), KVC_OK);
    cr_assert_eq(work_done, 19);
    cr_assert_eq(items[5].outcome, KVC_L2_FAILED);
    cr_assert_eq(kvc_l2_pool_take_error(pool, &err), KVC_EREFUSED);
    cr_assert_str_eq(err.what, "not 13");
    cr_assert_eq(kvc_l2_pool_take_error(pool, &err), KVC_OK, "it is taken once");
    kvc_l2_pool_close(pool, NULL);
}

Test(l2_pool, a_lane_that_does_not_open_closes_everything)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_l2_pool *pool;
    cr_assert_eq(kvc_l2_pool_open(&config, &memory, 4, &pool, &err), KVC_ECONNECT);
    cr_assert_str_eq(err.what, "three lanes are all there is");
    cr_assert_eq(lanes_open, 0);
    cr_assert_eq(stores_open, 0);
}

Test(l2_pool, a_wait_ends_in_time_and_drops_the_rest)
{
    struct kvc_l2_pool *pool;
    kvc_l2_pool_open(&config, &memory, 1, &pool, NULL);
    kvc_l2_pool_submit(pool, KVC_L2_LOOKUP, items, 100);
    cr_assert_eq(kvc_l2_pool_wait(pool, 20, NULL), KVC_ETIMEOUT);
    may_go_on = 1;
    cr_assert_eq(kvc_l2_pool_wait(pool, 10000, NULL), KVC_OK, "what was begun ends");
    cr_assert_leq(work_done, 4);
    cr_assert_eq(kvc_l2_pool_close(pool, NULL), KVC_OK);
}

Test(l2_pool, a_wait_can_be_stopped)
{
    static const volatile int stop = 1;
    struct kvc_l2_pool *pool;
    kvc_l2_pool_open(&config, &memory, 1, &pool, NULL);
    kvc_l2_pool_submit(pool, KVC_L2_LOOKUP, items, 100);
    cr_assert_eq(kvc_l2_pool_wait(pool, 10000, &stop), KVC_EINTERRUPTED);
    may_go_on = 1;
    cr_assert_eq(kvc_l2_pool_close(pool, NULL), KVC_OK);
}

Test(l2_pool, a_store_that_hangs_is_left_behind)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_l2_pool *pool;
    kvc_l2_pool_open(&config, &memory, 1, &pool, NULL);
    kvc_l2_pool_submit(pool, KVC_L2_LOOKUP, items, 1);
    while (!work_begun)
        kvc_sleep_ms(1);
    cr_assert_eq(kvc_l2_pool_close(pool, &err), KVC_ETIMEOUT);
}
