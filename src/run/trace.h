/* The messages that a check exchanged, kept so that a failure can show them. Bounded: the oldest go
 * first. For the check's process. */
#ifndef KVC_RUN_TRACE_H
#define KVC_RUN_TRACE_H

#include "src/link/client.h"
#include "src/wire/dialect.h"

struct kvc_trace_message {
    int64_t time_ns; /* since the trace began */
    int connection;
    bool received;
    struct kvc_frames frames;
};

enum {
    KVC_TRACE_MAX_MESSAGES = 256,
    KVC_TRACE_MAX_BYTES = 8 << 20,
};

struct kvc_trace {
    int64_t start_ns;
    struct kvc_trace_message *messages; /* a ring of KVC_TRACE_MAX_MESSAGES */
    size_t first, count;
    size_t bytes;
    size_t dropped;
};

void kvc_trace_open(struct kvc_trace *trace);
void kvc_trace_close(struct kvc_trace *trace);
void kvc_trace_add(struct kvc_trace *trace, int connection, bool received,
                   const struct kvc_frames *frames, int64_t now_ns);
/* Appends the last messages as text, one or more lines each; nothing for an empty trace. */
void kvc_trace_describe(const struct kvc_trace *trace, const struct kvc_dialect *dialect,
                        struct kvc_buffer *out);
/* Writes a recording as in fixtures/frames (src/wire/recording.h reads it). KVC_ESYSTEM when the file
 * cannot be written. */
kvc_status kvc_trace_write(const struct kvc_trace *trace, const char *path, struct kvc_error *err);

#endif
