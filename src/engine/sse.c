#include "src/engine/sse.h"

#include <string.h>

static const char byte_order_mark[] = "\xef\xbb\xbf";

static kvc_status dispatch(struct kvc_sse *sse, struct kvc_error *err)
{
    if (!sse->has_data)
        return KVC_OK;
    const struct kvc_str data = {(const char *)sse->data.data, sse->data.size};
    const kvc_status status = sse->take(sse->user, data, err);
    sse->data.size = 0;
    sse->has_data = false;
    return status;
}

static kvc_status too_long(struct kvc_error *err)
{
    return kvc_fail(err, KVC_EFORMAT, "an event is longer than %d KiB", KVC_SSE_MAX_EVENT >> 10);
}

static kvc_status add_data(struct kvc_sse *sse, struct kvc_str value, struct kvc_error *err)
{
    if (sse->data.size >= KVC_SSE_MAX_EVENT || value.size >= KVC_SSE_MAX_EVENT - sse->data.size)
        return too_long(err);
    if (sse->has_data)
        kvc_buffer_append_byte(&sse->data, '\n');
    kvc_buffer_append(&sse->data, value.data, value.size);
    sse->has_data = true;
    return KVC_OK;
}

/* A line without its end. Only the field `data` matters here: event, id and retry say nothing about
 * a completion, and a line that starts with a colon is a comment. */
static kvc_status take_line(struct kvc_sse *sse, struct kvc_str line, struct kvc_error *err)
{
    if (!sse->past_start && line.size >= 3 && memcmp(line.data, byte_order_mark, 3) == 0)
        line = (struct kvc_str){line.data + 3, line.size - 3};
    sse->past_start = true;
    if (line.size == 0)
        return dispatch(sse, err);
    const char *colon = memchr(line.data, ':', line.size);
    const size_t name_size = colon == NULL ? line.size : (size_t)(colon - line.data);
    if (name_size != 4 || memcmp(line.data, "data", 4) != 0)
        return KVC_OK;
    struct kvc_str value = {line.data + name_size, 0};
    if (colon != NULL)
        value = (struct kvc_str){colon + 1, line.size - name_size - 1};
    if (value.size > 0 && value.data[0] == ' ')
        value = (struct kvc_str){value.data + 1, value.size - 1};
    return add_data(sse, value, err);
}

/* A whole line is used where it lies; only one whose start came earlier is put together. */
static kvc_status end_line(struct kvc_sse *sse, struct kvc_str rest, struct kvc_error *err)
{
    if (sse->line.size == 0)
        return take_line(sse, rest, err);
    kvc_buffer_append(&sse->line, rest.data, rest.size);
    const struct kvc_str line = {(const char *)sse->line.data, sse->line.size};
    const kvc_status status = take_line(sse, line, err);
    sse->line.size = 0;
    return status;
}

/* The place of the first line feed or carriage return, or the end. */
static size_t find_end(struct kvc_str bytes)
{
    const char *feed = memchr(bytes.data, '\n', bytes.size);
    const size_t before = feed == NULL ? bytes.size : (size_t)(feed - bytes.data);
    const char *carriage = memchr(bytes.data, '\r', before);
    return carriage == NULL ? before : (size_t)(carriage - bytes.data);
}

kvc_status kvc_sse_feed(struct kvc_sse *sse, struct kvc_str bytes, struct kvc_error *err)
{
    sse->received += bytes.size;
    while (bytes.size > 0) {
        if (sse->after_cr && bytes.data[0] == '\n')
            bytes = (struct kvc_str){bytes.data + 1, bytes.size - 1};
        sse->after_cr = false;
        if (bytes.size == 0)
            break;
        const size_t size = find_end(bytes);
        if (size > KVC_SSE_MAX_EVENT || sse->line.size > KVC_SSE_MAX_EVENT - size)
            return too_long(err);
        if (size == bytes.size) {
            kvc_buffer_append(&sse->line, bytes.data, size);
            break;
        }
        sse->after_cr = bytes.data[size] == '\r';
        KVC_GUARD(end_line(sse, (struct kvc_str){bytes.data, size}, err));
        bytes = (struct kvc_str){bytes.data + size + 1, bytes.size - size - 1};
    }
    return KVC_OK;
}

bool kvc_sse_is_cut(const struct kvc_sse *sse)
{
    return sse->line.size > 0 || sse->has_data;
}

void kvc_sse_clear(struct kvc_sse *sse)
{
    kvc_buffer_clear(&sse->line);
    kvc_buffer_clear(&sse->data);
}
