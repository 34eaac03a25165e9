/* Frames over a ZMQ socket, and the process-wide stop flag: what client and server share.
 * For this folder only. */
#ifndef KVC_LINK_SOCKET_H
#define KVC_LINK_SOCKET_H

#include "src/wire/frames.h"

enum {
    KVC_SOCKET_MAX_FRAMES = 4096,   /* frames of one message that are kept; the rest is dropped */
    KVC_SOCKET_WAIT_SLICE_MS = 100, /* a signal that comes just before a wait is seen after this */
};

/* The largest frame that is taken from a peer; whoever announces more is disconnected. */
#define KVC_SOCKET_MAX_FRAME_BYTES ((int64_t)1 << 34)

/* Sends [first, frames…] as one message; first.data NULL: no first frame. Takes the frames over,
 * sent or not. Frames that own their bytes travel without a copy: their release function is then
 * called from a thread of libzmq. False when the socket cannot take the message now. */
bool kvc_socket_send(void *socket, struct kvc_bytes first, struct kvc_frames *frames);

/* Takes one whole message, if one has arrived, appending to *frames. With identity not NULL the
 * first frame goes there instead. False when none has arrived. */
bool kvc_socket_receive(void *socket, struct kvc_buffer *identity, struct kvc_frames *frames);

/* The descriptor that becomes readable when the socket has news. It tells of changes only: take
 * every message before waiting for it. */
int kvc_socket_fd(void *socket);

void kvc_socket_set_int(void *socket, int option, int value);

/* The moment a limit of so many milliseconds ends, by kvc_now_ns. Negative limits end now; no limit is
 * so long that it overflows. */
int64_t kvc_socket_deadline(int64_t timeout_ms);

/* How long the next wait may take: until the deadline, at least 1 ms, at most a slice. */
int kvc_socket_wait_ms(int64_t deadline_ns);

/* The flag of kvc_link_set_stop_flag is up. */
bool kvc_link_stopped(void);

#endif
