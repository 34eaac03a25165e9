#include <criterion/criterion.h>
#include <string.h>

#include "src/watch/compare.h"
#include "src/wire/inline_data.h"
#include "src/wire/message.h"

/* Two replies to the same request, and what is said about them. */
static const char *differences(const struct kvc_reply *recorded, const struct kvc_reply *now,
                               bool is_racy)
{
    static struct kvc_buffer out;
    const struct kvc_dialect *dialect = kvc_dialect_find(KVC_STR("0.5.6"));
    const struct kvc_reply *replies[] = {recorded, now};
    struct kvc_frames frames[2] = {0};
    out.size = 0;
    for (size_t i = 0; i < 2; i++) {
        kvc_frames_append_copy(&frames[i], "\x05", 1);
        kvc_frames_append_copy(&frames[i], "\x12", 1);
        cr_assert_eq(kvc_reply_encode(dialect, replies[i], &frames[i], NULL), KVC_OK);
    }
    kvc_replies_compare(recorded->op, is_racy, &frames[0], &frames[1], &out);
    kvc_frames_clear(&frames[0]);
    kvc_frames_clear(&frames[1]);
    return kvc_buffer_text(&out);
}

static struct kvc_reply count_of(int64_t count)
{
    return (struct kvc_reply){.op = KVC_OP_QUERY_PREFETCH_STATUS, .count = count};
}

Test(compare, results_of_lookups)
{
    const struct kvc_reply two = count_of(2), none = count_of(0);
    const struct kvc_reply loading = {.op = two.op, .is_void = true};
    cr_assert_str_eq(differences(&two, &two, false), "");
    cr_assert_str_eq(differences(&two, &none, false), "result: recorded 2, now 0\n");
    cr_assert_str_eq(differences(&two, &none, true), "");
    cr_assert_str_eq(differences(&two, &loading, true), "recorded 3 frames, now 2\n");
}

static struct kvc_reply slots_of(const struct kvc_slot *slots, size_t count)
{
    static const int64_t indices[] = {0, 1};
    return (struct kvc_reply){.op = KVC_OP_PREPARE_STORE,
                              .context = {.has_slots = true,
                                          .slots = {slots, count},
                                          .has_chunk_indices = true,
                                          .chunk_indices = {indices, count}}};
}

Test(compare, slots_may_lie_anywhere_and_are_else_the_same)
{
    static const int64_t shape[] = {2, 4};
    const struct kvc_slot slot = {0, 64, {shape, 2}, KVC_STR("float16")};
    struct kvc_slot moved = slot, longer = slot, other = slot;
    moved.offset = 4096;
    longer.length = 128;
    other.dtype = KVC_STR("int8");
    const struct kvc_reply recorded = slots_of(&slot, 1), at_another_place = slots_of(&moved, 1),
                           of_another_length = slots_of(&longer, 1),
                           of_another_type = slots_of(&other, 1), none = slots_of(&slot, 0);
    const struct kvc_reply without = {.op = KVC_OP_PREPARE_STORE};
    cr_assert_str_eq(differences(&recorded, &at_another_place, false), "");
    cr_assert_str_eq(differences(&recorded, &of_another_length, false),
                     "result.context.slots[0].length: recorded 64, now 128\n");
    cr_assert_str_eq(differences(&recorded, &of_another_type, false),
                     "result.context.slots[0].dtype: recorded \"float16\", now \"int8\"\n");
    cr_assert_str_eq(differences(&recorded, &none, false),
                     "result.context.slots: recorded a list of 1, now a list of 0\n"
                     "result.context.chunk_indices: recorded a list of 1, now a list of 0\n");
    cr_assert_str_eq(differences(&recorded, &without, false),
                     "result.context: recorded a map of 2, now a map of 0\n");
}

Test(compare, of_a_pool_only_whether_there_is_one)
{
    const struct kvc_reply mine = {.op = KVC_OP_REGISTER_ENGINE_DRIVEN,
                                   .pool = {KVC_STR("mine"), 4096}},
                           yours = {.op = mine.op, .pool = {KVC_STR("yours"), 8192}},
                           none = {.op = mine.op};
    cr_assert_str_eq(differences(&mine, &yours, false), "");
    cr_assert_str_eq(differences(&mine, &none, false),
                     "result.shm_name: recorded \"mine\", now \"\"\n");
}

Test(compare, of_a_transfer_only_whether_it_succeeded)
{
    const struct kvc_reply good = {.op = KVC_OP_STORE, .transfer = {{NULL, 0}, true}},
                           same = {.op = good.op, .transfer = {{(const uint8_t *)"e", 1}, true}},
                           bad = {.op = good.op, .transfer = {{NULL, 0}, false}};
    cr_assert_str_eq(differences(&good, &same, false), "");
    cr_assert_str_eq(differences(&good, &bad, false), "result[1]: recorded true, now false\n");
}

/* Tensors in one of the two forms in which they can be pickled. */
static struct kvc_reply tensors_of(struct kvc_buffer *buffer, const char *data, bool by_numpy)
{
    static const int64_t shape[] = {4};
    const struct kvc_inline_tensor tensor = {
        .dtype = KVC_STR("uint8"), .shape = {shape, 1}, .data = {(const uint8_t *)data, 4}};
    cr_assert_eq(by_numpy ? kvc_inline_encode_numpy(&tensor, 1, buffer, NULL)
                          : kvc_inline_encode_torch(&tensor, 1, buffer, NULL),
                 KVC_OK);
    return (struct kvc_reply){.op = KVC_OP_PREPARE_RETRIEVE,
                              .retrieve = {.success = true, .data = kvc_buffer_view(buffer)}};
}

Test(compare, of_pickles_what_they_hold)
{
    struct kvc_buffer buffers[3] = {0};
    const struct kvc_reply recorded = tensors_of(&buffers[0], "abcd", false),
                           same = tensors_of(&buffers[1], "abcd", true),
                           other = tensors_of(&buffers[2], "abce", false);
    cr_assert_str_eq(differences(&recorded, &same, false), "");
    cr_assert_eq(strncmp(differences(&recorded, &other, false), "result.data: recorded ", 22), 0);
    for (size_t i = 0; i < 3; i++)
        kvc_buffer_clear(&buffers[i]);
}

static const char *raw_differences(const char *recorded, size_t recorded_size, const char *now,
                                   size_t now_size)
{
    static struct kvc_buffer out;
    struct kvc_frames frames[2] = {0};
    out.size = 0;
    for (size_t i = 0; i < 2; i++) {
        kvc_frames_append_copy(&frames[i], "\x05", 1);
        kvc_frames_append_copy(&frames[i], i == 0 ? "\x12" : "\x13", 1);
    }
    kvc_frames_append_copy(&frames[0], recorded, recorded_size);
    kvc_frames_append_copy(&frames[1], now, now_size);
    kvc_replies_compare(KVC_OP_NOOP, false, &frames[0], &frames[1], &out);
    kvc_frames_clear(&frames[0]);
    kvc_frames_clear(&frames[1]);
    return kvc_buffer_text(&out);
}

Test(compare, what_is_no_reply_at_all)
{
    cr_assert_str_eq(raw_differences("\xa1x", 2, "\xc1", 1),
                     "the operation frame is another one\nresult: it cannot be read now\n");
    cr_assert_str_eq(raw_differences("\xc1", 1, "\xa1x", 2),
                     "the operation frame is another one\n"
                     "result: the recorded one cannot be read\n");
    cr_assert_str_eq(raw_differences("\xa1x", 2, "\x01", 1),
                     "the operation frame is another one\nresult: recorded \"x\", now 1\n");
    cr_assert_str_eq(raw_differences("\x81\xa1\x78\x01", 4, "\x81\xa1\x79\x01", 4),
                     "the operation frame is another one\nresult: recorded \"x\", now \"y\"\n");
}
