/* One event of a streamed chat completion, as OpenAI-compatible engines send them. For client.c. */
#ifndef KVC_ENGINE_EVENT_H
#define KVC_ENGINE_EVENT_H

#include "src/base/bytes.h"

struct kvc_engine_event {
    bool is_end;    /* the marker [DONE]: nothing else is set */
    bool is_finish; /* a choice ended: it has a finish_reason */
    struct kvc_buffer
        text; /* what was generated: content, else reasoning; "" if the event has none */
    int64_t prompt_tokens;     /* of the usage; -1 without one */
    int64_t completion_tokens; /* of the usage; -1 without one */
};

/* Reads the data of an event into *event, whose text buffer is used again. KVC_EFORMAT: not such an event,
 * with the place; KVC_EREFUSED: the engine says that it failed, in its words. */
kvc_status kvc_engine_event_read(struct kvc_str data, struct kvc_engine_event *event,
                                 struct kvc_error *err);
void kvc_engine_event_clear(struct kvc_engine_event *event);

/* What the body of an error says, in a line: {"error": {"message": …}}, {"detail": …}, else the body itself.
 * Appends to out. */
void kvc_engine_error_text(struct kvc_str body, struct kvc_buffer *out);

#endif
