#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "src/wire/recording.h"
#include "tests/unit/wire/recorded.h"

Test(recording, members_are_those_of_the_file)
{
    struct kvc_recording recording;
    recorded_load(0, &recording);
    cr_assert_eq(recording.count, 46);
    cr_assert_not(recording.messages[0].from_server);
    cr_assert(recording.messages[1].from_server);
    cr_assert_eq(recording.messages[1].client, 0);
    cr_assert_eq(recording.messages[1].frames.count, 3);
    cr_assert_eq(recording.messages[1].frames.items[2].size, 3);
    for (size_t i = 1; i < recording.count; i++)
        cr_assert_geq(recording.messages[i].seconds, recording.messages[i - 1].seconds);
    kvc_recording_clear(&recording);
    cr_assert_eq(recording.count, 0);
}

/* Loads text as a file; the error's place without the file's name. */
static void assert_refused(const char *text, const char *where, const char *what)
{
    char path[] = "/tmp/kvc-recording-XXXXXX";
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_geq(dprintf(file, "%s", text), 0);
    close(file);
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_recording recording;
    const kvc_status status = kvc_recording_load(path, &recording, &err);
    unlink(path);
    cr_assert_eq(status, KVC_EUSAGE, "%s", text);
    cr_assert_eq(recording.count, 0);
    char expected[256];
    snprintf(expected, sizeof(expected), "%s%s", path, where);
    cr_assert_str_eq(err.where, expected);
    cr_assert_str_eq(err.what, what);
}

Test(recording, what_is_none)
{
    const char none[] = "this is no recorded message";
    assert_refused("{}", "", "a recording is a list of messages");
    assert_refused("[1]", ": message 0, \"t\"", none);
    assert_refused("[{\"t\": 1, \"dir\": \"c2s\", \"frames\": []}]", ": message 0, \"client\"",
                   none);
    assert_refused("[{\"t\": 1, \"client\": 0, \"dir\": \"up\", \"frames\": []}]",
                   ": message 0, \"dir\"", none);
    assert_refused("[{\"t\": 1, \"client\": 0, \"dir\": \"c2s\", \"frames\": []},"
                   " {\"t\": 1, \"client\": 0, \"dir\": \"s2c\", \"frames\": [\"0\"]}]",
                   ": message 1, \"frames\"", none);
    assert_refused("[{\"t\": 1, \"client\": 0, \"dir\": \"s2c\", \"frames\": [1]}]",
                   ": message 0, \"frames\"", none);
    assert_refused("[{\"t\": 1, \"client\": 0, \"dir\": \"s2c\"}]", ": message 0, \"frames\"",
                   none);
    assert_refused("[\n\n", ": line 3", "']' expected near end of file");
}

Test(recording, no_file)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_recording recording;
    cr_assert_eq(kvc_recording_load("/nonexistent/file.json", &recording, &err), KVC_EUSAGE);
    cr_assert_str_eq(err.where, "/nonexistent/file.json");
    cr_assert_eq(recording.count, 0);
}

Test(recording, a_message_is_written_as_it_is_read)
{
    struct kvc_recorded_message message = {.seconds = 1.25, .from_server = true, .client = 3};
    struct kvc_buffer text = {0};
    kvc_frames_append_view(&message.frames, "\x01\xff", 2);
    kvc_frames_append_view(&message.frames, "", 0);
    kvc_recording_append(&message, &text);
    cr_assert_str_eq(kvc_buffer_text(&text), "{\"t\": 1.250000, \"dir\": \"s2c\", \"client\": 3, "
                                             "\"frames\": [\"01ff\", \"\"]}");
    kvc_buffer_clear(&text);
    kvc_frames_clear(&message.frames);
}
