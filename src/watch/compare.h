/* A reply beside the one that was recorded. For `replay`. */
#ifndef KVC_WATCH_COMPARE_H
#define KVC_WATCH_COMPARE_H

#include "src/wire/dialect.h"
#include "src/wire/frames.h"

/* Appends one line for each difference; nothing when the replies to a request of operation op are alike:
 * the operation, the number of frames, the types and keys everywhere, and all values but those that
 * differ from server to server (offsets in the pool, the pool's name, event handles, addresses in
 * pickles). With is_racy, the result of a lookup may be any. Never fails, whatever the frames are. */
void kvc_replies_compare(enum kvc_op op, bool is_racy, const struct kvc_frames *recorded,
                         const struct kvc_frames *now, struct kvc_buffer *out);

#endif
