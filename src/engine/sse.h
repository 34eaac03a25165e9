/* Server-sent events (WHATWG HTML, section 9.2), parsed as the bytes arrive, whatever the boundaries. For
 * client.c. */
#ifndef KVC_ENGINE_SSE_H
#define KVC_ENGINE_SSE_H

#include "src/base/bytes.h"

/* What an engine sends for one token is a few hundred bytes. */
enum { KVC_SSE_MAX_EVENT = 1 << 20 };

/* Takes the data of one event; lives until it returns. Anything but KVC_OK ends the parsing. */
typedef kvc_status (*kvc_sse_event_fn)(void *user, struct kvc_str data, struct kvc_error *err);

/* Zero-initialise; free with kvc_sse_clear. */
struct kvc_sse {
    struct kvc_buffer line; /* the line under way, when its start came with earlier bytes */
    struct kvc_buffer data; /* of the event under way */
    bool has_data;
    bool after_cr;     /* a line feed now is the rest of a line's end */
    bool past_start;   /* a byte order mark is none any more */
    uint64_t received; /* bytes */
    kvc_sse_event_fn take;
    void *user;
};

/* Feeds bytes. Each event that they complete and that has data goes to sse->take; other fields and
 * comments are passed over. KVC_EFORMAT when a line or an event is longer than KVC_SSE_MAX_EVENT; else
 * what take returned. After an error only kvc_sse_clear is allowed. */
kvc_status kvc_sse_feed(struct kvc_sse *sse, struct kvc_str bytes, struct kvc_error *err);

/* True when the bytes so far end in the middle of a line or an event: what is incomplete is never given
 * to take. */
bool kvc_sse_is_cut(const struct kvc_sse *sse);
void kvc_sse_clear(struct kvc_sse *sse);

#endif
