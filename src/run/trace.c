#include "src/run/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "src/base/clock.h"
#include "src/wire/recording.h"

/* How much of a long exchange a failure shows: the end, where it went wrong. */
enum { SHOWN_MESSAGES = 24 };

void kvc_trace_open(struct kvc_trace *trace)
{
    *trace = (struct kvc_trace){.start_ns = kvc_now_ns()};
    trace->messages = kvc_alloc_zero(KVC_TRACE_MAX_MESSAGES, sizeof(trace->messages[0]));
}

static struct kvc_trace_message *message_at(const struct kvc_trace *trace, size_t index)
{
    return &trace->messages[(trace->first + index) % KVC_TRACE_MAX_MESSAGES];
}

static size_t frames_size(const struct kvc_frames *frames)
{
    size_t size = 0;
    for (size_t i = 0; i < frames->count; i++)
        size += frames->items[i].size;
    return size;
}

static void drop_oldest(struct kvc_trace *trace)
{
    struct kvc_trace_message *oldest = message_at(trace, 0);
    trace->bytes -= frames_size(&oldest->frames);
    kvc_frames_clear(&oldest->frames);
    trace->first = (trace->first + 1) % KVC_TRACE_MAX_MESSAGES;
    trace->count--;
    trace->dropped++;
}

void kvc_trace_close(struct kvc_trace *trace)
{
    while (trace->count > 0)
        drop_oldest(trace);
    free(trace->messages);
    *trace = (struct kvc_trace){0};
}

void kvc_trace_add(struct kvc_trace *trace, int connection, bool received,
                   const struct kvc_frames *frames, int64_t now_ns)
{
    const size_t size = frames_size(frames);
    while (trace->count > 0 &&
           (trace->count == KVC_TRACE_MAX_MESSAGES || trace->bytes + size > KVC_TRACE_MAX_BYTES))
        drop_oldest(trace);
    struct kvc_trace_message *message = message_at(trace, trace->count);
    *message = (struct kvc_trace_message){
        .time_ns = now_ns - trace->start_ns, .connection = connection, .received = received};
    kvc_frames_copy(frames, &message->frames);
    trace->bytes += size;
    trace->count++;
}

static void append_indented(const char *text, struct kvc_buffer *out)
{
    for (; *text != '\0'; text++) {
        kvc_buffer_append_byte(out, (uint8_t)*text);
        if (*text == '\n' && text[1] != '\0')
            kvc_buffer_append_text(out, "    ");
    }
}

void kvc_trace_describe(const struct kvc_trace *trace, const struct kvc_dialect *dialect,
                        struct kvc_buffer *out)
{
    if (trace->count == 0)
        return;
    const size_t skipped = trace->count > SHOWN_MESSAGES ? trace->count - SHOWN_MESSAGES : 0;
    kvc_buffer_append_text(out, "exchange (-> to the server, <- from it; ms since the check began");
    if (skipped + trace->dropped > 0)
        kvc_buffer_printf(out, "; %zu earlier messages left out", skipped + trace->dropped);
    kvc_buffer_append_text(out, "):\n");
    for (size_t i = skipped; i < trace->count; i++) {
        const struct kvc_trace_message *message = message_at(trace, i);
        struct kvc_buffer text = {0};
        kvc_frames_describe(&message->frames, dialect, message->received, &text);
        kvc_buffer_printf(out, "  %s %.1f ms, connection %d\n    ", message->received ? "<-" : "->",
                          (double)message->time_ns / 1e6, message->connection);
        append_indented(kvc_buffer_text(&text), out);
        if (out->size > 0 && out->data[out->size - 1] != '\n')
            kvc_buffer_append_byte(out, '\n');
        kvc_buffer_clear(&text);
    }
}

kvc_status kvc_trace_write(const struct kvc_trace *trace, const char *path, struct kvc_error *err)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return kvc_fail_errno(err, "cannot write the trace '%s'", path);
    struct kvc_buffer text = {0};
    kvc_buffer_append_byte(&text, '[');
    for (size_t i = 0; i < trace->count; i++) {
        kvc_buffer_append_text(&text, i > 0 ? ",\n" : "");
        const struct kvc_trace_message *message = message_at(trace, i);
        kvc_recording_append(&(struct kvc_recorded_message){(double)message->time_ns / 1e9,
                                                            message->received, message->connection,
                                                            message->frames},
                             &text);
    }
    kvc_buffer_append_text(&text, "]\n");
    const bool written = fwrite(text.data, 1, text.size, file) == text.size;
    const bool closed = fclose(file) == 0;
    kvc_buffer_clear(&text);
    return written && closed ? KVC_OK : kvc_fail_errno(err, "cannot write the trace '%s'", path);
}
