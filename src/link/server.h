/* A ZMQ server loop (ROUTER): for the mock and for scripted peers in tests. Single-threaded. */
#ifndef KVC_LINK_SERVER_H
#define KVC_LINK_SERVER_H

#include "src/wire/frames.h"

struct kvc_server;

/* Binds url. tcp with port 0 or "*" takes a free port. KVC_EUSAGE for a URL that is none,
 * KVC_ESYSTEM when the address is taken. */
kvc_status kvc_server_open(const char *url, struct kvc_server **server, struct kvc_error *err);
void kvc_server_close(struct kvc_server *server);
/* The URL it is bound to, with the real port. Owned by the server. */
const char *kvc_server_url(const struct kvc_server *server);

/* Waits up to timeout_ms (-1: for ever) for one message. *identity is the sender (owned by the
 * caller: kvc_buffer_clear), *frames the rest. KVC_ETIMEOUT when none came, KVC_EINTERRUPTED on a
 * signal or when wake_fd (see below) became readable. */
kvc_status kvc_server_receive(struct kvc_server *server, int64_t timeout_ms,
                              struct kvc_buffer *identity, struct kvc_frames *frames,
                              struct kvc_error *err);
/* A file descriptor that ends a wait when readable (signalfd, eventfd, a parent's pipe). -1: none. */
void kvc_server_set_wake_fd(struct kvc_server *server, int wake_fd);

/* From now on a peer that comes with the socket identity of another takes its place; libzmq's own rule is
 * that it is ignored. */
void kvc_server_hand_identities_over(struct kvc_server *server);

/* What became of connections since kvc_server_count_peers; zeros before. */
struct kvc_server_peers {
    uint64_t accepted;
    uint64_t greeted; /* the ZMTP handshake was completed */
    uint64_t refused; /* what came was no handshake */
    uint64_t broken;  /* it ended within the handshake */
};
void kvc_server_count_peers(struct kvc_server *server);
struct kvc_server_peers kvc_server_peers(struct kvc_server *server);

/* Sends frames to one peer; takes them over. A peer that is gone is no error. */
kvc_status kvc_server_send(struct kvc_server *server, struct kvc_bytes identity,
                           struct kvc_frames *frames, struct kvc_error *err);

#endif
