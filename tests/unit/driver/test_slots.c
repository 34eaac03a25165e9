#include <criterion/criterion.h>
#include <string.h>

#include "src/driver/worker.h"

/* One chunk: [2, 1, 4, 8] float16 = 128 bytes, in a pool of 1024. */
static const int64_t shape[] = {2, 1, 4, 8};
enum { CHUNK = 128, POOL = 1024 };

static struct kvc_slot slot_at(int64_t offset)
{
    return (struct kvc_slot){offset, CHUNK, {shape, 4}, KVC_STR("float16")};
}

static struct kvc_error check(const struct kvc_slot *slots, size_t count, kvc_status expected)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_slots_check((struct kvc_slots){slots, count}, POOL, CHUNK, &err), expected,
                 "%s %s", err.where, err.what);
    return err;
}

Test(slots, good_ones_in_any_order_up_to_the_pools_end)
{
    const struct kvc_slot slots[] = {slot_at(POOL - CHUNK), slot_at(0), slot_at(CHUNK)};
    check(slots, 3, KVC_OK);
    check(NULL, 0, KVC_OK);
}

Test(slots, outside_the_pool)
{
    static const int64_t offsets[] = {-1,   INT64_MIN, POOL - CHUNK + 1,
                                      POOL, INT64_MAX, INT64_MAX - CHUNK + 1};
    for (size_t i = 0; i < KVC_COUNT_OF(offsets); i++) {
        const struct kvc_slot slots[] = {slot_at(0), slot_at(offsets[i])};
        const struct kvc_error err = check(slots, 2, KVC_EFORMAT);
        cr_assert_str_eq(err.where, "slots[1].offset");
        cr_assert_str_eq(err.what, "the slot is not inside the pool");
        cr_assert_str_eq(err.expected, "128 bytes within [0, 1024)");
    }
}

Test(slots, of_another_length)
{
    static const int64_t lengths[] = {0, -128, 127, 129, 256, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < KVC_COUNT_OF(lengths); i++) {
        struct kvc_slot slot = slot_at(0);
        slot.length = lengths[i];
        cr_assert_str_eq(check(&slot, 1, KVC_EFORMAT).where, "slots[0].length");
    }
}

Test(slots, larger_than_the_pool)
{
    const struct kvc_slot slot = slot_at(0);
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_slots_check((struct kvc_slots){&slot, 1}, CHUNK - 1, CHUNK, &err),
                 KVC_EFORMAT);
    cr_assert_str_eq(err.where, "slots[0].offset");
}

Test(slots, shape_times_element_size_must_be_the_length)
{
    static const int64_t shapes[][4] = {{2, 1, 4, 7},
                                        {2, 1, 4, 0},
                                        {2, 1, -4, -8},
                                        {INT64_MAX, INT64_MAX, 2, 2},
                                        {1LL << 32, 1LL << 31, 2, 1},
                                        {1LL << 61, 4, 1, 64}};
    for (size_t i = 0; i < KVC_COUNT_OF(shapes); i++) {
        struct kvc_slot slot = slot_at(0);
        slot.shape = (struct kvc_ints){shapes[i], 4};
        cr_assert_str_eq(check(&slot, 1, KVC_EFORMAT).where, "slots[0].shape");
    }
    struct kvc_slot slot = slot_at(0);
    slot.shape.count = 0;
    check(&slot, 1, KVC_EFORMAT);
    slot = slot_at(0);
    slot.dtype = KVC_STR("float32");
    cr_assert_str_eq(check(&slot, 1, KVC_EFORMAT).where, "slots[0].shape");
}

Test(slots, of_an_unknown_dtype)
{
    static const char *const names[] = {"", "torch.float16", "float17"};
    for (size_t i = 0; i < KVC_COUNT_OF(names); i++) {
        struct kvc_slot slot = slot_at(0);
        slot.dtype = kvc_str_of(names[i]);
        cr_assert_str_eq(check(&slot, 1, KVC_EFORMAT).where, "slots[0].dtype");
    }
}

Test(slots, that_overlap)
{
    const struct kvc_slot same[] = {slot_at(0), slot_at(256), slot_at(0)};
    const struct kvc_error err = check(same, 3, KVC_EFORMAT);
    cr_assert_str_eq(err.what, "the slot overlaps another one");
    const struct kvc_slot by_a_byte[] = {slot_at(512), slot_at(128), slot_at(255)};
    cr_assert_str_eq(check(by_a_byte, 3, KVC_EFORMAT).where, "slots[2].offset");
    const struct kvc_slot from_before[] = {slot_at(128), slot_at(1)};
    cr_assert_str_eq(check(from_before, 2, KVC_EFORMAT).where, "slots[0].offset");
}
