/* A ZMQ client (DEALER): many requests in flight, replies matched by uid, never by arrival.
 * For drivers, checks and the bench. Knows frames, not what they mean. One thread at a time. */
#ifndef KVC_LINK_CLIENT_H
#define KVC_LINK_CLIENT_H

#include "src/wire/frames.h"

struct kvc_client;

/* What went over the wire, for traces. Called for every message sent and received, in order; the
 * frames belong to the client. received includes replies that nobody waits for. */
typedef void kvc_client_trace_func(void *user, bool received, const struct kvc_frames *frames,
                                   int64_t now_ns);

/* Counts of what a correct server never sends. */
struct kvc_client_counters {
    uint64_t late;      /* replies to requests given up on */
    uint64_t duplicate; /* second replies to requests already answered */
    uint64_t unknown;   /* replies with a uid never sent, or with no frame at all */
};

/* Whether kvc_client_open takes the URL. KVC_EUSAGE. */
kvc_status kvc_client_check_url(const char *url, struct kvc_error *err);

/* Connects to url (tcp://HOST:PORT or ipc://PATH) and waits until the peer has completed the ZMQ
 * handshake. KVC_EUSAGE for a URL that is none; KVC_ECONNECT when there is no peer within
 * connect_timeout_ms, saying why if the system knows (refused, no such host). Never sets a socket
 * identity. *client is closed with kvc_client_close, which never blocks. */
kvc_status kvc_client_open(const char *url, int64_t connect_timeout_ms, struct kvc_client **client,
                           struct kvc_error *err);
void kvc_client_close(struct kvc_client *client);

void kvc_client_set_trace(struct kvc_client *client, kvc_client_trace_func *trace, void *user);
struct kvc_client_counters kvc_client_counters(const struct kvc_client *client);

/* How long this client has waited for replies so far, pauses included. */
int64_t kvc_client_waited_ns(const struct kvc_client *client);
/* Sleeps before asking again whether something is done: as part of waiting for it. */
void kvc_client_pause(struct kvc_client *client, int64_t milliseconds);

/* Sends a request: body is [op, payload…]; the client puts the next uid (msgpack uint, from 0)
 * before it. Takes the frames over (emptied, sent or not); those that own their bytes travel without
 * a copy, and are then released from a thread of libzmq. *uid names the request for
 * kvc_client_wait. KVC_ELOST when the server has closed the connection. */
kvc_status kvc_client_send(struct kvc_client *client, struct kvc_frames *body, uint64_t *uid,
                           struct kvc_error *err);

/* Waits for the reply to uid, which may have come while others were waited for. *reply is
 * [uid, op, …], owned by the caller. KVC_ETIMEOUT after timeout_ms: the request is then given up,
 * and a reply that comes later is counted as late. KVC_ELOST at once when the server closes the
 * connection: this client then stays lost, since libzmq would connect anew and hand what is unsent to
 * whoever listens there by then. KVC_EINTERRUPTED when a signal asked to stop. */
kvc_status kvc_client_wait(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                           struct kvc_frames *reply, struct kvc_error *err);

/* Waits until the reply to uid has come, and leaves it for kvc_client_wait. Errors as there; after a
 * KVC_ETIMEOUT the request is still in flight. */
kvc_status kvc_client_await(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                            struct kvc_error *err);

/* Raw exchange, uid included, for checks that send what a worker never would. Replies to raw
 * requests, and every reply whose uid was not made by kvc_client_send, come out of
 * kvc_client_receive_raw in order of arrival. Takes the frames over. */
kvc_status kvc_client_send_raw(struct kvc_client *client, struct kvc_frames *frames,
                               struct kvc_error *err);
kvc_status kvc_client_receive_raw(struct kvc_client *client, int64_t timeout_ms,
                                  struct kvc_frames *reply, struct kvc_error *err);

/* A pointer to a flag that a signal handler sets; every wait of this process returns
 * KVC_EINTERRUPTED once it is non-zero. Set once at start; NULL: none. */
void kvc_link_set_stop_flag(const volatile int *stop);

#endif
