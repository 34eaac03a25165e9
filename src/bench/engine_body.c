#include "src/bench/engine_body.h"

#include <stdlib.h>

void kvc_bench_engine_message_add(json_t *messages, const char *role, struct kvc_str text)
{
    json_t *content = json_stringn(text.size == 0 ? "" : text.data, text.size);
    json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content",
                                              content == NULL ? json_string("") : content));
}

static int append(const char *data, size_t size, void *user)
{
    kvc_buffer_append(user, data, size);
    return 0;
}

void kvc_bench_engine_body_write(const char *model, json_t *messages, int64_t max_tokens,
                                 bool ignore_eos, struct kvc_buffer *out)
{
    json_t *body = json_pack("{s:s, s:o, s:b, s:I, s:f, s:{s:b}}", "model", model, "messages",
                             messages, "stream", 1, "max_tokens", (json_int_t)max_tokens,
                             "temperature", 0.0, "stream_options", "include_usage", 1);
    if (ignore_eos)
        json_object_set_new(body, "ignore_eos", json_true());
    json_dump_callback(body, append, out, JSON_COMPACT);
    json_decref(body);
}
