/* Requests in every dialect: what decodes must be written the same way again and again.
 * Input: the dialect's number, then frames: uid, operation, payloads. */
#include "src/wire/message.h"
#include "tests/fuzz/fuzz.h"

static void describe(const struct kvc_dialect *dialect, const struct kvc_frames *frames)
{
    struct kvc_buffer text = {0};
    kvc_frames_describe(frames, dialect, false, &text);
    kvc_frames_summarise(frames, dialect, false, 80, &text);
    FUZZ_REQUIRE(kvc_utf8_is_valid((const char *)text.data, text.size));
    kvc_buffer_clear(&text);
}

/* Decodes and writes again; false when it does not decode. The uid is kept. */
static bool write_again(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                        struct kvc_frames *again)
{
    struct kvc_arena arena = {0};
    struct kvc_request request;
    const bool decoded = kvc_request_decode(dialect, frames, &arena, &request, NULL) == KVC_OK;
    if (decoded) {
        kvc_frames_append_copy(again, frames->items[0].data, frames->items[0].size);
        FUZZ_REQUIRE(kvc_request_encode(dialect, &request, again, NULL) == KVC_OK);
    }
    kvc_arena_clear(&arena);
    return decoded;
}

void fuzz_one(struct kvc_bytes input)
{
    const struct kvc_dialect *dialect = kvc_dialects[fuzz_take_byte(&input) % kvc_dialect_count];
    struct kvc_frames frames = {0}, once = {0}, twice = {0};
    struct kvc_bytes frame;
    while (fuzz_take_frame(&input, &frame))
        kvc_frames_append_view(&frames, frame.data, frame.size);
    describe(dialect, &frames);
    if (write_again(dialect, &frames, &once)) {
        FUZZ_REQUIRE(write_again(dialect, &once, &twice));
        FUZZ_REQUIRE(kvc_frames_equal(&once, &twice));
    }
    kvc_frames_clear(&frames);
    kvc_frames_clear(&once);
    kvc_frames_clear(&twice);
}
