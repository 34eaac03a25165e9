/* Recorded exchanges, and their messages as text. */
#include "src/wire/recording.h"
#include "src/wire/dialect.h"
#include "tests/fuzz/fuzz.h"

static void describe(const struct kvc_recorded_message *message)
{
    struct kvc_buffer text = {0};
    for (size_t i = 0; i < kvc_dialect_count; i++)
        kvc_frames_describe(&message->frames, kvc_dialects[i], message->from_server, &text);
    FUZZ_REQUIRE(kvc_utf8_is_valid((const char *)text.data, text.size));
    kvc_buffer_clear(&text);
}

void fuzz_one(struct kvc_bytes input)
{
    struct kvc_recording recording;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_recording_load(fuzz_file(input), &recording, &err) != KVC_OK) {
        FUZZ_REQUIRE(err.status == KVC_EUSAGE && err.what[0] != '\0' && err.where[0] != '\0');
        return;
    }
    for (size_t i = 0; i < recording.count; i++)
        describe(&recording.messages[i]);
    kvc_recording_clear(&recording);
}
