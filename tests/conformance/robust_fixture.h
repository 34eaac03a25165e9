/* Whether others are still served, and a peer that speaks as much of ZeroMQ's wire protocol (ZMTP 3.0)
 * as it is told. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_ROBUST_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_ROBUST_FIXTURE_H

#include "tests/conformance/fixture.h"

#define KVC_ROBUST_FLAGS (KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE)

/* ---- the others ---- */

/* A client that was there before, and is served. */
const struct kvc_rpc *kvc_bystander(struct kvc_ctx *ctx);
/* The bystander is answered, both by the main loop and by a worker of the server, and so is a client
 * that comes now. */
void kvc_expect_all_served(struct kvc_ctx *ctx, const struct kvc_rpc *bystander);

/* ---- messages that no worker sends ---- */

/* Sends [uid, op, payload…] and waits for nothing. Takes the body over. */
void kvc_send_body(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body);
/* [op, payload…] of a request as a worker sends it; the caller clears it. */
struct kvc_frames kvc_body_of(struct kvc_ctx *ctx, const struct kvc_request *request);
/* The operation's frame alone. */
struct kvc_frames kvc_body_of_op(struct kvc_ctx *ctx, enum kvc_op op);
/* A copy of a body with other bytes in one frame; the caller clears it. */
struct kvc_frames kvc_body_with(const struct kvc_frames *body, size_t frame,
                                struct kvc_bytes bytes);

/* ---- a peer on the bare connection ---- */

/* Connects to the server's address; closed when the check ends, or by kvc_peer_close. */
int kvc_peer_connect(struct kvc_ctx *ctx);
void kvc_peer_close(int peer);
/* The same without a goodbye: the server's side is reset. */
void kvc_peer_reset(int peer);
/* Sends all of it, if the server takes it: one that has closed the connection, or takes nothing for
 * some time, is no failure. False then. */
bool kvc_peer_send(int peer, const void *bytes, size_t size);
/* The 64 bytes with which a connection begins. */
void kvc_peer_greeting(uint8_t greeting[64]);
/* Greets and is greeted: afterwards messages can be sent. identity may be "". Ends the check when the
 * server does not greet. */
void kvc_peer_greet(struct kvc_ctx *ctx, int peer, const char *socket_type, const char *identity);
/* Sends one frame of a message; more: others follow. */
bool kvc_peer_send_frame(int peer, const void *bytes, size_t size, bool more);
/* Sends [uid, NOOP]. */
bool kvc_peer_send_noop(struct kvc_ctx *ctx, int peer);
/* Whether a byte comes within that time; it is taken. */
bool kvc_peer_hears(int peer, int64_t timeout_ms);

#endif
