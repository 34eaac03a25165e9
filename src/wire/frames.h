/* A message as ZMQ carries it: a list of byte frames. For link, which moves them, and for the
 * codecs, which fill and read them. */
#ifndef KVC_WIRE_FRAMES_H
#define KVC_WIRE_FRAMES_H

#include "src/base/bytes.h"

/* One frame. When release is set it is called with owner once the frame is cleared; otherwise the
 * bytes belong to somebody who outlives the frame. */
struct kvc_frame {
    const uint8_t *data;
    size_t size;
    void (*release)(void *owner);
    void *owner;
};

/* Zero-initialise; free with kvc_frames_clear. Without the identity frame of a ROUTER.
 * A request is [uid, op, payload…]; a reply [uid, op] or [uid, op, result]. */
struct kvc_frames {
    struct kvc_frame *items;
    size_t count;
    size_t capacity;
};

/* Appends a copy, a buffer that the frame takes over (emptied for the caller), a view of bytes that
 * outlive it, or a frame with its owner. */
void kvc_frames_append_copy(struct kvc_frames *frames, const void *data, size_t size);
void kvc_frames_append_buffer(struct kvc_frames *frames, struct kvc_buffer *buffer);
void kvc_frames_append_view(struct kvc_frames *frames, const void *data, size_t size);
void kvc_frames_append(struct kvc_frames *frames, struct kvc_frame frame);
struct kvc_bytes kvc_frames_view(const struct kvc_frames *frames, size_t index);
/* A deep copy appended to `copy`. */
void kvc_frames_copy(const struct kvc_frames *frames, struct kvc_frames *copy);
bool kvc_frames_equal(const struct kvc_frames *a, const struct kvc_frames *b);
void kvc_frames_clear(struct kvc_frames *frames);

/* Appends one line a frame: uid, operation by name, payloads as readable msgpack; long lists, byte
 * strings and nested handles are shortened. Never fails: bytes that do not read are shown as hex.
 * With a reply, the frame count decides between "void" and a result. */
struct kvc_dialect;
void kvc_frames_describe(const struct kvc_frames *frames, const struct kvc_dialect *dialect,
                         bool is_reply, struct kvc_buffer *out);
/* The message on one line of at most about `width` characters: "#5 lookup(key{…}, 1)". */
void kvc_frames_summarise(const struct kvc_frames *frames, const struct kvc_dialect *dialect,
                          bool is_reply, size_t width, struct kvc_buffer *out);

#endif
