#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/l2/store.h"

enum { SIZE = 1024 };

static uint8_t data[SIZE] = {1, 2, 3}, back[SIZE];

Test(l2_mock, an_object_comes_back)
{
    struct store store;
    const struct kvc_l2_key key = bench_key(1), other = bench_key(2);
    store_open(&store, "{\"type\":\"mock\",\"max_size_gb\":1,\"mock_bandwidth_gb\":100}");
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &key, data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE), KVC_L2_DONE);
    cr_assert_arr_eq(back, data, SIZE);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &key, back, SIZE - 1), KVC_L2_FAILED);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &other, NULL, 0), KVC_L2_ABSENT);
    cr_assert_eq(store_do(&store, KVC_L2_LOAD, &other, back, SIZE), KVC_L2_ABSENT);
    cr_assert_eq(store_do(&store, KVC_L2_REMOVE, &key, NULL, 0), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &key, NULL, 0), KVC_L2_ABSENT);
    store_close(&store);
}

/* 2.5 KiB: two objects of 1 KiB, and one of them again. */
Test(l2_mock, a_full_store_says_so)
{
    struct store store;
    const struct kvc_l2_key keys[] = {bench_key(1), bench_key(2), bench_key(3)};
    store_open(&store,
               "{\"type\":\"mock\",\"max_size_gb\":2.38418579e-06,\"mock_bandwidth_gb\":100}");
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &keys[0], data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &keys[1], data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &keys[2], data, SIZE), KVC_L2_FAILED);
    cr_assert_not_null(strstr(store.err.what, "full"));
    cr_assert_eq(store_do(&store, KVC_L2_STORE, &keys[1], data, SIZE), KVC_L2_DONE);
    cr_assert_eq(store_do(&store, KVC_L2_LOOKUP, &keys[2], NULL, 0), KVC_L2_ABSENT);
    store_close(&store);
}

Test(l2_mock, a_share_fails_and_it_is_always_the_same)
{
    struct store store;
    size_t failed[2] = {0};
    for (size_t run = 0; run < 2; run++) {
        store_open(&store, "{\"type\":\"mock\",\"max_size_gb\":1,\"mock_bandwidth_gb\":100,"
                           "\"mock_failure_rate\":0.25}");
        for (uint32_t i = 0; i < 64; i++) {
            const struct kvc_l2_key key = bench_key(i);
            const enum kvc_l2_outcome stored = store_do(&store, KVC_L2_STORE, &key, data, SIZE);
            cr_assert_eq(stored == KVC_L2_FAILED,
                         store_do(&store, KVC_L2_LOAD, &key, back, SIZE) == KVC_L2_FAILED);
            failed[run] += stored == KVC_L2_FAILED;
        }
        store_close(&store);
    }
    cr_assert_eq(failed[0], failed[1]);
    cr_assert(failed[0] > 4 && failed[0] < 32, "%zu of 64", failed[0]);
}
