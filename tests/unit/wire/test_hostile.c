/* Messages that are cut, changed, or made to cost much. Run it under the address sanitizer: frames
 * here are allocated to the byte. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/wire/inline_data.h"
#include "src/wire/message.h"
#include "tests/unit/wire/recorded.h"
#include "tests/unit/wire/samples.h"

enum {
    FULL_SIZE = 400,  /* frames up to this are cut at every byte */
    SPARSE_STEP = 97, /* longer ones at every byte of both ends, and at each of these */
};

/* Whether it decodes; says so for a whole message of any kind. */
static kvc_status decode(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                         bool from_server, struct kvc_error *err)
{
    kvc_status status;
    if (from_server) {
        struct kvc_frames copy = {0};
        struct kvc_reply reply;
        enum kvc_op op = KVC_OP_NONE;
        status = kvc_request_op(dialect, kvc_frames_view(frames, 1), &op, err);
        if (status != KVC_OK)
            return status;
        for (size_t i = 0; i < frames->count; i++)
            kvc_frames_append_view(&copy, frames->items[i].data, frames->items[i].size);
        status = kvc_reply_decode(dialect, op, &copy, &reply, err);
        kvc_reply_clear(&reply);
    } else {
        struct kvc_arena arena = {0};
        struct kvc_request request;
        status = kvc_request_decode(dialect, frames, &arena, &request, err);
        kvc_arena_clear(&arena);
    }
    return status;
}

/* The message with one frame cut to size bytes: refused, and describable. */
static void cut_frame(const struct kvc_dialect *dialect, const struct kvc_recorded_message *message,
                      size_t number, size_t size, const char *place)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    for (size_t i = 0; i < message->frames.count; i++) {
        const struct kvc_frame *frame = &message->frames.items[i];
        kvc_frames_append_copy(&frames, frame->data, i == number ? size : frame->size);
    }
    const kvc_status status = decode(dialect, &frames, message->from_server, &err);
    cr_assert_eq(status, KVC_EFORMAT, "%s, frame %zu cut to %zu: %s", place, number, size,
                 kvc_status_name(status));
    cr_assert_neq(err.where[0], '\0', "%s, frame %zu cut to %zu", place, number, size);
    if (size % 16 == 0) {
        struct kvc_buffer text = {0};
        kvc_frames_describe(&frames, dialect, message->from_server, &text);
        kvc_frames_summarise(&frames, dialect, message->from_server, 60, &text);
        kvc_buffer_clear(&text);
    }
    kvc_frames_clear(&frames);
}

static void cut_message(const struct kvc_dialect *dialect,
                        const struct kvc_recorded_message *message, const char *place)
{
    /* The uid may be anything, and an operation of one byte is cut to nothing. */
    for (size_t number = 1; number < message->frames.count; number++) {
        const size_t whole = message->frames.items[number].size;
        for (size_t size = 0; size < whole; size++) {
            const bool near_an_end = size < FULL_SIZE || whole - size < FULL_SIZE / 2;
            if (near_an_end || size % SPARSE_STEP == 0)
                cut_frame(dialect, message, number, size, place);
        }
    }
}

Test(hostile, recorded_messages_cut_anywhere, .timeout = 100)
{
    for (size_t i = 0; i < recorded_file_count; i++) {
        struct kvc_recording recording;
        bool seen[2][KVC_OP_COUNT] = {{false}};
        recorded_load(i, &recording);
        for (size_t m = 0; m < recording.count; m++) {
            const struct kvc_recorded_message *message = &recording.messages[m];
            enum kvc_op op;
            char place[96];
            kvc_request_op(recorded_dialect(i), kvc_frames_view(&message->frames, 1), &op, NULL);
            if (seen[message->from_server][op])
                continue; /* one of a kind in each file */
            seen[message->from_server][op] = true;
            snprintf(place, sizeof(place), "%s, message %zu", recorded_files[i].name, m);
            cut_message(recorded_dialect(i), message, place);
        }
        kvc_recording_clear(&recording);
    }
}

/* The pickled tensors of a message, cut and with bytes changed: an error or other tensors, but no
 * access beyond. */
Test(hostile, recorded_tensors_cut_and_changed, .timeout = 100)
{
    enum { ENGINE_DRIVEN = 3, COMMIT_STORE = 10, DATA = 4, HEAD = 5, CHANGES = 3000 };
    struct kvc_recording recording;
    recorded_load(ENGINE_DRIVEN, &recording);
    const struct kvc_bytes frame = kvc_frames_view(&recording.messages[COMMIT_STORE].frames, DATA);
    const struct kvc_bytes data = {frame.data + HEAD, frame.size - HEAD};
    struct kvc_random random = {1};
    for (size_t size = 0; size < data.size; size += size < 500 ? 1 : 61) {
        struct kvc_arena arena = {0};
        struct kvc_inline_tensor *tensors;
        size_t count;
        uint8_t *copy = kvc_alloc(size);
        memcpy(copy, data.data, size);
        cr_assert_eq(
            kvc_inline_decode((struct kvc_bytes){copy, size}, &arena, &tensors, &count, NULL),
            KVC_EFORMAT);
        kvc_arena_clear(&arena);
        free(copy);
    }
    uint8_t *changed = (uint8_t *)sample_copy(data).data;
    for (size_t i = 0; i < CHANGES; i++) {
        /* Mostly where the opcodes are. */
        const size_t place =
            i % 3 == 0 ? kvc_random_below(&random, data.size) : kvc_random_below(&random, 400);
        const uint8_t before = changed[place];
        changed[place] = (uint8_t)kvc_random_next(&random);
        struct kvc_arena arena = {0};
        struct kvc_inline_tensor *tensors;
        size_t count = 0;
        if (kvc_inline_decode((struct kvc_bytes){changed, data.size}, &arena, &tensors, &count,
                              NULL) == KVC_OK)
            for (size_t k = 0; k < count; k++)
                if (tensors[k].data.size > 0)
                    cr_assert_geq(tensors[k].data.data[0] +
                                      tensors[k].data.data[tensors[k].data.size - 1],
                                  0);
        kvc_arena_clear(&arena);
        changed[place] = before;
    }
    kvc_recording_clear(&recording);
}

/* Every recorded request with a byte changed, many times over. */
Test(hostile, recorded_messages_with_a_byte_changed, .timeout = 100)
{
    struct kvc_random random = {2};
    for (size_t i = 0; i < recorded_file_count; i++) {
        struct kvc_recording recording;
        recorded_load(i, &recording);
        for (size_t m = 0; m < recording.count; m++) {
            const struct kvc_recorded_message *message = &recording.messages[m];
            for (int change = 0; change < 40; change++) {
                struct kvc_frames frames = {0};
                kvc_frames_copy(&message->frames, &frames);
                struct kvc_frame *frame = &frames.items[kvc_random_below(&random, frames.count)];
                ((uint8_t *)frame->owner)[kvc_random_below(&random, frame->size)] =
                    (uint8_t)kvc_random_next(&random);
                decode(recorded_dialect(i), &frames, message->from_server, NULL);
                kvc_frames_clear(&frames);
            }
        }
        kvc_recording_clear(&recording);
    }
}

static void assert_costs_little(const char *what, const char *op, struct kvc_bytes payload)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_frames frames = {0};
    const struct kvc_bytes op_frame = sample_bytes(op);
    kvc_frames_append_view(&frames, "\x07", 1);
    kvc_frames_append_view(&frames, op_frame.data, op_frame.size);
    kvc_frames_append_view(&frames, payload.data, payload.size);
    if (kvc_str_is(kvc_str_of(op), "08"))
        kvc_frames_append_view(&frames, "\x01", 1);
    const int64_t start = kvc_now_ms();
    cr_assert_eq(decode(sample_dialect("0.5.6"), &frames, false, &err), KVC_EFORMAT, "%s", what);
    cr_assert_str_neq(err.where, "", "%s: %s", what, err.what);
    struct kvc_buffer text = {0};
    kvc_frames_describe(&frames, sample_dialect("0.5.6"), false, &text);
    cr_assert_lt(text.size, 40000, "%s", what);
    cr_assert_lt(kvc_now_ms() - start, 5000, "%s", what);
    kvc_buffer_clear(&text);
    kvc_frames_clear(&frames);
}

static struct kvc_bytes repeated(const char *head, uint8_t byte, size_t count)
{
    const struct kvc_bytes start = sample_bytes(head);
    uint8_t *bytes = sample_alloc(start.size + count);
    if (start.size > 0)
        memcpy(bytes, start.data, start.size);
    memset(bytes + start.size, byte, count);
    return (struct kvc_bytes){bytes, start.size + count};
}

Test(hostile, sizes_that_a_few_bytes_claim, .timeout = 60)
{
    assert_costs_little("array of 4 G", "08", sample_bytes("ddffffffff"));
    assert_costs_little("map of 4 G", "08", sample_bytes("dfffffffff"));
    assert_costs_little("bin of 4 G", "08", sample_bytes("c6ffffffff"));
    assert_costs_little("str of 4 G", "08", sample_bytes("dbffffffff"));
    assert_costs_little("ext of 4 G", "08", sample_bytes("c9ffffffff01"));
    assert_costs_little("arrays of 4 G in each other", "08", repeated("", 0xdd, 100000));
    assert_costs_little("100000 arrays in each other", "08", repeated("", 0x91, 100000));
    assert_costs_little("64 MiB of nothing", "08", repeated("c604000000", 0, 64 << 20));
    assert_costs_little("a key with 40 M tokens", "08",
                        repeated("81 a9746f6b656e5f696473 dd 02625a00", 0x01, 40000000));
}
