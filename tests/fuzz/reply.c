/* Replies to every operation in every dialect: what decodes must be written the same way again and
 * again. Input: the dialect's number, the operation's, then frames: uid, operation, result. */
#include "src/wire/message.h"
#include "tests/fuzz/fuzz.h"

static void describe(const struct kvc_dialect *dialect, const struct kvc_frames *frames)
{
    struct kvc_buffer text = {0};
    kvc_frames_describe(frames, dialect, true, &text);
    kvc_frames_summarise(frames, dialect, true, 80, &text);
    FUZZ_REQUIRE(kvc_utf8_is_valid((const char *)text.data, text.size));
    kvc_buffer_clear(&text);
}

/* Decodes and writes again; false when it does not decode. uid and operation are kept. */
static bool write_again(const struct kvc_dialect *dialect, enum kvc_op op,
                        const struct kvc_frames *frames, struct kvc_frames *again)
{
    struct kvc_frames taken = {0};
    struct kvc_reply reply;
    kvc_frames_copy(frames, &taken);
    const bool decoded = kvc_reply_decode(dialect, op, &taken, &reply, NULL) == KVC_OK;
    if (decoded) {
        kvc_frames_append_copy(again, frames->items[0].data, frames->items[0].size);
        kvc_frames_append_copy(again, frames->items[1].data, frames->items[1].size);
        FUZZ_REQUIRE(kvc_reply_encode(dialect, &reply, again, NULL) == KVC_OK);
        FUZZ_REQUIRE(again->count == frames->count);
    }
    kvc_reply_clear(&reply);
    return decoded;
}

void fuzz_one(struct kvc_bytes input)
{
    const struct kvc_dialect *dialect = kvc_dialects[fuzz_take_byte(&input) % kvc_dialect_count];
    const enum kvc_op op = (enum kvc_op)(fuzz_take_byte(&input) % KVC_OP_COUNT);
    struct kvc_frames frames = {0}, once = {0}, twice = {0};
    struct kvc_bytes frame;
    while (fuzz_take_frame(&input, &frame))
        kvc_frames_append_view(&frames, frame.data, frame.size);
    describe(dialect, &frames);
    if (write_again(dialect, op, &frames, &once)) {
        FUZZ_REQUIRE(write_again(dialect, op, &once, &twice));
        FUZZ_REQUIRE(kvc_frames_equal(&once, &twice));
    }
    kvc_frames_clear(&frames);
    kvc_frames_clear(&once);
    kvc_frames_clear(&twice);
}
