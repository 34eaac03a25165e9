#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/wire/samples.h"

static int released;

static void count_release(void *owner)
{
    cr_assert_eq(owner, &released);
    released++;
}

Test(frames, each_kind_of_ownership)
{
    static const uint8_t data[] = {1, 2, 3};
    struct kvc_frames frames = {0};
    struct kvc_buffer buffer = {0};
    kvc_buffer_append(&buffer, data, 2);

    kvc_frames_append_copy(&frames, data, sizeof(data));
    kvc_frames_append_buffer(&frames, &buffer);
    kvc_frames_append_view(&frames, data, sizeof(data));
    kvc_frames_append(&frames, (struct kvc_frame){data, 1, count_release, &released});

    cr_assert_null(buffer.data);
    cr_assert_eq(frames.count, 4);
    cr_assert_neq(frames.items[0].data, data);
    cr_assert_eq(frames.items[2].data, data);
    sample_assert_equal(kvc_frames_view(&frames, 0), sample_bytes("010203"), "copy");
    sample_assert_equal(kvc_frames_view(&frames, 1), sample_bytes("0102"), "buffer");
    cr_assert_eq(kvc_frames_view(&frames, 4).size, 0);
    kvc_frames_clear(&frames);
    cr_assert_eq(released, 1);
    cr_assert_eq(frames.count, 0);
}

Test(frames, copies_are_deep_and_appended)
{
    struct kvc_frames frames = sample_frames("07 | | cd0100");
    struct kvc_frames copy = {0};
    kvc_frames_append_view(&copy, "x", 1);
    kvc_frames_copy(&frames, &copy);
    cr_assert_eq(copy.count, 4);
    cr_assert_neq(copy.items[3].data, frames.items[2].data);
    sample_assert_equal(kvc_frames_view(&copy, 3), sample_bytes("cd0100"), "copy");
    cr_assert_eq(kvc_frames_view(&copy, 2).size, 0);
    kvc_frames_clear(&copy);
}

Test(frames, equal_when_count_sizes_and_bytes_are)
{
    struct kvc_frames frames = sample_frames("07 | 12 | cd0100");
    struct kvc_frames same = sample_frames("07 | 12 | cd0100");
    struct kvc_frames shorter = sample_frames("07 | 12");
    struct kvc_frames other = sample_frames("07 | 12 | cd0101");
    cr_assert(kvc_frames_equal(&frames, &same));
    cr_assert_not(kvc_frames_equal(&frames, &shorter));
    cr_assert_not(kvc_frames_equal(&shorter, &frames));
    cr_assert_not(kvc_frames_equal(&frames, &other));
    struct kvc_frames longer = sample_frames("07 | 12 | cd0100 | ");
    cr_assert_not(kvc_frames_equal(&frames, &longer));
    cr_assert_not(kvc_frames_equal(&longer, &frames));
}

Test(frames, many_grow)
{
    struct kvc_frames frames = {0};
    for (int i = 0; i < 1000; i++)
        kvc_frames_append_copy(&frames, &i, sizeof(i));
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(memcmp(frames.items[i].data, &i, sizeof(i)), 0);
    kvc_frames_clear(&frames);
}
