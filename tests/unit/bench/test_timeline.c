#include <criterion/criterion.h>

#include "src/bench/timeline.h"

Test(timeline, seconds_close_in_order)
{
    struct kvc_timeline timeline = {.lane_count = 2};
    kvc_timeline_add(&timeline, 0, 0, 10);
    kvc_timeline_add(&timeline, 0, 0, 30);
    kvc_timeline_add(&timeline, 1, 3, 7);
    kvc_timeline_close_before(&timeline, 1);
    cr_assert_eq(timeline.second_count, 1);
    const struct kvc_timeline_cell *row = kvc_timeline_row(&timeline, 0);
    cr_assert_eq(row[0].count, 2);
    cr_assert_eq(row[0].p50, 10);
    cr_assert_eq(row[0].p99, 30);
    cr_assert_eq(row[0].max, 30);
    cr_assert_eq(row[1].count, 0);

    kvc_timeline_add(&timeline, 0, 0, 50); /* too late: the second is closed */
    kvc_timeline_add(&timeline, 0, 2, 5);
    kvc_timeline_close_before(&timeline, 5);
    cr_assert_eq(timeline.second_count, 5);
    cr_assert_eq(kvc_timeline_row(&timeline, 0)[0].count, 2);
    cr_assert_eq(kvc_timeline_row(&timeline, 1)[0].count, 0, "a second in which nothing ended");
    cr_assert_eq(kvc_timeline_row(&timeline, 2)[0].max, 5);
    cr_assert_eq(kvc_timeline_row(&timeline, 3)[1].p50, 7);
    cr_assert_eq(kvc_timeline_row(&timeline, 4)[1].count, 0);
    kvc_timeline_clear(&timeline);
}

Test(timeline, closing_twice_or_early_changes_nothing)
{
    struct kvc_timeline timeline = {.lane_count = 1};
    kvc_timeline_close_before(&timeline, 0);
    cr_assert_eq(timeline.second_count, 0);
    kvc_timeline_add(&timeline, 0, 1, 9);
    kvc_timeline_close_before(&timeline, 2);
    kvc_timeline_close_before(&timeline, 2);
    kvc_timeline_close_before(&timeline, 1);
    cr_assert_eq(timeline.second_count, 2);
    cr_assert_eq(kvc_timeline_row(&timeline, 1)[0].count, 1);
    kvc_timeline_clear(&timeline);
}

Test(timeline, open_seconds_are_freed)
{
    struct kvc_timeline timeline = {.lane_count = 1};
    kvc_timeline_add(&timeline, 0, 100, 9);
    kvc_timeline_clear(&timeline);
    cr_assert_eq(timeline.second_count, 0);
}
