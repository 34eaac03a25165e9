#include "src/wire/recording.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The place in a file that an error is about. */
struct place {
    const char *path;
    size_t message;
    struct kvc_error *err;
};

static kvc_status fail_at(const struct place *place, const char *member, const char *expected)
{
    kvc_fail(place->err, KVC_EUSAGE, "this is no recorded message");
    kvc_error_set_where(place->err, "%s: message %zu, \"%s\"", place->path, place->message, member);
    kvc_error_set_expected(place->err, "%s", expected);
    return KVC_EUSAGE;
}

static kvc_status load_frames(const struct place *place, const json_t *list,
                              struct kvc_frames *frames)
{
    static const char expected[] = "a list of texts in hex";
    if (!json_is_array(list))
        return fail_at(place, "frames", expected);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const struct kvc_str hex = {json_string_value(item), json_string_length(item)};
        struct kvc_buffer bytes = {0};
        if (!json_is_string(item) || kvc_hex_decode(hex, &bytes, NULL) != KVC_OK) {
            kvc_buffer_clear(&bytes);
            return fail_at(place, "frames", expected);
        }
        kvc_frames_append_buffer(frames, &bytes);
    }
    return KVC_OK;
}

static kvc_status load_message(const struct place *place, const json_t *object,
                               struct kvc_recorded_message *message)
{
    const json_t *seconds = json_object_get(object, "t");
    const json_t *client = json_object_get(object, "client");
    const struct kvc_str direction = kvc_str_of(json_string_value(json_object_get(object, "dir")));
    if (!json_is_number(seconds))
        return fail_at(place, "t", "seconds");
    if (!json_is_integer(client))
        return fail_at(place, "client", "a number");
    if (!kvc_str_is(direction, "c2s") && !kvc_str_is(direction, "s2c"))
        return fail_at(place, "dir", "\"c2s\" or \"s2c\"");
    message->seconds = json_number_value(seconds);
    message->client = json_integer_value(client);
    message->from_server = kvc_str_is(direction, "s2c");
    return load_frames(place, json_object_get(object, "frames"), &message->frames);
}

static kvc_status load_list(const char *path, const json_t *list, struct kvc_recording *recording,
                            struct kvc_error *err)
{
    if (!json_is_array(list)) {
        kvc_fail(err, KVC_EUSAGE, "a recording is a list of messages");
        kvc_error_set_where(err, "%s", path);
        return KVC_EUSAGE;
    }
    const size_t count = json_array_size(list);
    recording->messages = kvc_alloc_zero(count, sizeof(*recording->messages));
    for (size_t i = 0; i < count; i++) {
        const struct place place = {path, i, err};
        recording->count = i + 1;
        KVC_GUARD(load_message(&place, json_array_get(list, i), &recording->messages[i]));
    }
    return KVC_OK;
}

kvc_status kvc_recording_load(const char *path, struct kvc_recording *recording,
                              struct kvc_error *err)
{
    json_error_t json_error;
    *recording = (struct kvc_recording){0};
    json_t *list = json_load_file(path, JSON_REJECT_DUPLICATES, &json_error);
    if (list == NULL && json_error.line <= 0) {
        kvc_fail(err, KVC_EUSAGE, "cannot be read: %s", strerror(errno));
        kvc_error_set_where(err, "%s", path);
        return KVC_EUSAGE;
    }
    if (list == NULL) {
        kvc_fail(err, KVC_EUSAGE, "%s", json_error.text);
        kvc_error_set_where(err, "%s: line %d", path, json_error.line);
        return KVC_EUSAGE;
    }
    const kvc_status status = load_list(path, list, recording, err);
    json_decref(list);
    if (status != KVC_OK)
        kvc_recording_clear(recording);
    return status;
}

void kvc_recording_clear(struct kvc_recording *recording)
{
    for (size_t i = 0; i < recording->count; i++)
        kvc_frames_clear(&recording->messages[i].frames);
    free(recording->messages);
    *recording = (struct kvc_recording){0};
}

void kvc_recording_append(const struct kvc_recorded_message *message, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "{\"t\": %.6f, \"dir\": \"%s\", \"client\": %lld, \"frames\": [",
                      message->seconds, message->from_server ? "s2c" : "c2s",
                      (long long)message->client);
    for (size_t i = 0; i < message->frames.count; i++) {
        kvc_buffer_append_text(out, i > 0 ? ", \"" : "\"");
        kvc_hex_encode(kvc_frames_view(&message->frames, i), out);
        kvc_buffer_append_byte(out, '"');
    }
    kvc_buffer_append_text(out, "]}");
}
