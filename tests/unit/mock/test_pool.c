#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/mock_server/pool.h"

static struct mock_pool open_private(int64_t size)
{
    struct mock_pool pool;
    cr_assert_eq(mock_pool_open(&pool, false, NULL, size, NULL), KVC_OK);
    return pool;
}

static int64_t take(struct mock_pool *pool, int64_t size)
{
    int64_t offset = -1;
    return mock_pool_take(pool, size, &offset) ? offset : -1;
}

Test(pool, ranges_are_aligned_and_follow_each_other)
{
    struct mock_pool pool = open_private(64 << 10);
    cr_assert_eq(take(&pool, 14336), 0);
    cr_assert_eq(take(&pool, 4096), 16384);
    cr_assert_eq(take(&pool, 1), 20480);
    cr_assert_eq(take(&pool, 4097), 24576);
    cr_assert_eq(pool.used, 32768);
    mock_pool_close(&pool);
}

Test(pool, the_first_gap_that_is_large_enough_is_used_again)
{
    struct mock_pool pool = open_private(64 << 10);
    const int64_t a = take(&pool, 4096), b = take(&pool, 8192), c = take(&pool, 4096);
    mock_pool_give(&pool, a, 4096);
    cr_assert_eq(take(&pool, 8192), 16384, "the gap of one page is too small");
    mock_pool_give(&pool, b, 8192);
    cr_assert_eq(take(&pool, 12288), 0, "neighbouring gaps are one");
    mock_pool_give(&pool, c, 4096);
    cr_assert_eq(take(&pool, 4096), 12288);
    mock_pool_close(&pool);
}

Test(pool, everything_given_back_in_any_order_is_one_range_again)
{
    enum { PAGES = 16 };
    static const int order[PAGES] = {3, 0, 15, 7, 8, 6, 1, 2, 14, 5, 4, 9, 13, 11, 12, 10};
    struct mock_pool pool = open_private(PAGES * 4096);
    for (int i = 0; i < PAGES; i++)
        cr_assert_eq(take(&pool, 4096), i * 4096);
    cr_assert_eq(take(&pool, 1), -1);
    for (int i = 0; i < PAGES; i++)
        mock_pool_give(&pool, order[i] * 4096, 4096);
    cr_assert_eq(pool.used, 0);
    cr_assert_eq(take(&pool, PAGES * 4096), 0);
    mock_pool_close(&pool);
}

Test(pool, what_does_not_fit_is_refused)
{
    struct mock_pool pool = open_private(10000);
    cr_assert_eq(take(&pool, 0), -1);
    cr_assert_eq(take(&pool, -4096), -1);
    cr_assert_eq(take(&pool, 10001), -1);
    cr_assert_eq(take(&pool, INT64_MAX), -1);
    cr_assert_eq(take(&pool, 8192), 0);
    cr_assert_eq(take(&pool, 1), -1, "a part of a page is no page");
    mock_pool_close(&pool);
}

Test(pool, a_shared_one_is_a_segment_of_exactly_its_size_and_leaves_nothing)
{
    struct mock_pool pool;
    struct stat info;
    char path[160];
    cr_assert_eq(mock_pool_open(&pool, true, NULL, 100000, NULL), KVC_OK);
    cr_assert(pool.shared);
    snprintf(path, sizeof(path), "/dev/shm%s", pool.segment.name);
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_size, 100000);
    mock_pool_close(&pool);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(pool, where_shared_memory_has_no_room_it_is_private)
{
    struct mock_pool pool;
    cr_assert_eq(mock_pool_open(&pool, true, NULL, (int64_t)1 << 45, NULL), KVC_OK);
    cr_assert_not(pool.shared);
    pool.data[12345] = 1;
    mock_pool_close(&pool);
}

Test(pool, needs_a_size)
{
    struct mock_pool pool;
    cr_assert_eq(mock_pool_open(&pool, true, NULL, -1, NULL), KVC_EUSAGE);
}
