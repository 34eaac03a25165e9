#include "src/engine/event.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The names under which engines stream text; the first that a delta has counts. */
static const char *const text_members[] = {"content", "reasoning_content", "reasoning"};

static kvc_status wrong_type(const char *where, const char *expected, struct kvc_error *err)
{
    kvc_fail(err, KVC_EFORMAT, "an event of the stream has something else where %s belongs",
             expected);
    return kvc_error_set_where(err, "%s", where);
}

static kvc_status read_count(const json_t *usage, const char *name, int64_t *count,
                             struct kvc_error *err)
{
    const json_t *value = json_object_get(usage, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return wrong_type(name, "a number of tokens", err);
    *count = json_integer_value(value);
    return KVC_OK;
}

static kvc_status read_usage(const json_t *root, struct kvc_engine_event *event,
                             struct kvc_error *err)
{
    const json_t *usage = json_object_get(root, "usage");
    if (usage == NULL || json_is_null(usage))
        return KVC_OK;
    if (!json_is_object(usage))
        return wrong_type("usage", "an object", err);
    KVC_GUARD(read_count(usage, "prompt_tokens", &event->prompt_tokens, err));
    return read_count(usage, "completion_tokens", &event->completion_tokens, err);
}

static kvc_status read_delta(const json_t *delta, struct kvc_engine_event *event,
                             struct kvc_error *err)
{
    if (delta == NULL || json_is_null(delta))
        return KVC_OK;
    if (!json_is_object(delta))
        return wrong_type("choices[0].delta", "an object", err);
    for (size_t i = 0; i < KVC_COUNT_OF(text_members); i++) {
        const json_t *text = json_object_get(delta, text_members[i]);
        if (text == NULL || json_is_null(text))
            continue;
        if (!json_is_string(text))
            return wrong_type("choices[0].delta", "text", err);
        kvc_buffer_append(&event->text, json_string_value(text), json_string_length(text));
        return KVC_OK;
    }
    return KVC_OK;
}

static kvc_status read_choice(const json_t *root, struct kvc_engine_event *event,
                              struct kvc_error *err)
{
    const json_t *choices = json_object_get(root, "choices");
    if (choices == NULL || json_is_null(choices))
        return KVC_OK;
    if (!json_is_array(choices))
        return wrong_type("choices", "a list", err);
    const json_t *choice = json_array_get(choices, 0);
    if (choice == NULL)
        return KVC_OK;
    if (!json_is_object(choice))
        return wrong_type("choices[0]", "an object", err);
    const json_t *reason = json_object_get(choice, "finish_reason");
    event->is_finish = reason != NULL && !json_is_null(reason);
    return read_delta(json_object_get(choice, "delta"), event, err);
}

static void append_error(const json_t *root, struct kvc_buffer *out)
{
    const json_t *error = json_object_get(root, "error");
    const json_t *words = json_is_object(error) ? json_object_get(error, "message") : error;
    if (words == NULL)
        words = json_object_get(root, "message");
    if (words == NULL)
        words = json_object_get(root, "detail");
    if (json_is_string(words)) {
        kvc_buffer_append(out, json_string_value(words), json_string_length(words));
    } else if (words != NULL) {
        char *text = json_dumps(words, JSON_COMPACT | JSON_ENCODE_ANY);
        kvc_buffer_append_text(out, text == NULL ? "" : text);
        free(text);
    }
}

/* A sentence or two of what the engine says, harmless for a terminal. */
static void append_words(struct kvc_str words, struct kvc_buffer *out)
{
    enum { MOST = 200 };
    size_t size = words.size < MOST ? words.size : MOST;
    while (size < words.size && size > 0 && ((unsigned char)words.data[size] & 0xc0) == 0x80)
        size--;
    kvc_text_escape((struct kvc_str){words.data, size}, out);
    if (size < words.size)
        kvc_buffer_append_text(out, "…");
}

static struct kvc_str view(const struct kvc_buffer *buffer)
{
    return (struct kvc_str){(const char *)buffer->data, buffer->size};
}

static kvc_status read_object(const json_t *root, struct kvc_engine_event *event,
                              struct kvc_error *err)
{
    const json_t *error = json_object_get(root, "error");
    if (error != NULL && !json_is_null(error)) {
        struct kvc_buffer words = {0};
        struct kvc_buffer shown = {0};
        append_error(root, &words);
        append_words(view(&words), &shown);
        kvc_fail(err, KVC_EREFUSED, "the engine ended the stream with an error: %s",
                 kvc_buffer_text(&shown));
        kvc_buffer_clear(&words);
        kvc_buffer_clear(&shown);
        return KVC_EREFUSED;
    }
    KVC_GUARD(read_choice(root, event, err));
    return read_usage(root, event, err);
}

kvc_status kvc_engine_event_read(struct kvc_str data, struct kvc_engine_event *event,
                                 struct kvc_error *err)
{
    *event = (struct kvc_engine_event){
        .text = event->text, .prompt_tokens = -1, .completion_tokens = -1};
    event->text.size = 0;
    event->is_end = kvc_str_is(data, "[DONE]");
    if (event->is_end)
        return KVC_OK;
    json_error_t problem;
    json_t *root = json_loadb(data.data, data.size, JSON_ALLOW_NUL, &problem);
    if (!json_is_object(root)) {
        json_decref(root);
        kvc_fail(err, KVC_EFORMAT, "an event of the stream is no JSON object");
        return kvc_error_set_got(err, "%s", kvc_text_show(data).text);
    }
    const kvc_status status = read_object(root, event, err);
    json_decref(root);
    return status;
}

void kvc_engine_event_clear(struct kvc_engine_event *event)
{
    kvc_buffer_clear(&event->text);
}

void kvc_engine_error_text(struct kvc_str body, struct kvc_buffer *out)
{
    struct kvc_buffer words = {0};
    json_t *root = json_loadb(body.data, body.size, 0, NULL);
    if (json_is_object(root))
        append_error(root, &words);
    json_decref(root);
    /* Who is no engine may answer with a page. */
    const char *line_end = body.size > 0 ? memchr(body.data, '\n', body.size) : NULL;
    if (words.size == 0 && line_end != NULL)
        body.size = (size_t)(line_end - body.data);
    append_words(words.size > 0 ? view(&words) : body, out);
    kvc_buffer_clear(&words);
}
