/* Every recorded message of the real client and server is read and written again, byte for byte. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/message.h"
#include "src/wire/recording.h"
#include "tests/unit/wire/recorded.h"

static void rebuild_request(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                            const char *place)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_request request;
    const kvc_status status = kvc_request_decode(dialect, frames, &arena, &request, &err);
    cr_assert_eq(status, KVC_OK, "%s: %s: %s", place, err.where, err.what);
    struct kvc_frames rebuilt = {0};
    kvc_frames_append_copy(&rebuilt, frames->items[0].data, frames->items[0].size);
    cr_assert_eq(kvc_request_encode(dialect, &request, &rebuilt, &err), KVC_OK);
    cr_assert(kvc_frames_equal(frames, &rebuilt), "%s: %s", place, kvc_op_name(request.op));
    kvc_frames_clear(&rebuilt);
    kvc_arena_clear(&arena);
}

static void rebuild_reply(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                          const char *place)
{
    struct kvc_error err = KVC_ERROR_INIT;
    enum kvc_op op;
    struct kvc_reply reply;
    cr_assert_eq(kvc_request_op(dialect, kvc_frames_view(frames, 1), &op, &err), KVC_OK);
    struct kvc_frames copy = {0};
    kvc_frames_copy(frames, &copy);
    const kvc_status status = kvc_reply_decode(dialect, op, &copy, &reply, &err);
    cr_assert_eq(status, KVC_OK, "%s: %s: %s", place, err.where, err.what);
    cr_assert_eq(copy.count, 0);
    struct kvc_frames rebuilt = {0};
    kvc_frames_append_copy(&rebuilt, frames->items[0].data, frames->items[0].size);
    kvc_frames_append_copy(&rebuilt, frames->items[1].data, frames->items[1].size);
    cr_assert_eq(kvc_reply_encode(dialect, &reply, &rebuilt, &err), KVC_OK);
    cr_assert(kvc_frames_equal(frames, &rebuilt), "%s: %s", place, kvc_op_name(op));
    kvc_frames_clear(&rebuilt);
    kvc_reply_clear(&reply);
}

Test(recorded_frames, every_message_is_rebuilt)
{
    size_t messages = 0;
    for (size_t i = 0; i < recorded_file_count; i++) {
        struct kvc_recording recording;
        recorded_load(i, &recording);
        for (size_t m = 0; m < recording.count; m++) {
            char place[128];
            snprintf(place, sizeof(place), "%s, message %zu", recorded_files[i].name, m);
            if (recording.messages[m].from_server)
                rebuild_reply(recorded_dialect(i), &recording.messages[m].frames, place);
            else
                rebuild_request(recorded_dialect(i), &recording.messages[m].frames, place);
            messages++;
        }
        kvc_recording_clear(&recording);
    }
    cr_assert_eq(messages, 227);
}
