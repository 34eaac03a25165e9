#include "tests/conformance/robust_fixture.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "src/link/url.h"
#include "src/wire/pack.h"

/* ---- the others ---- */

const struct kvc_rpc *kvc_bystander(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *rpc = kvc_ctx_rpc_new(ctx);
    kvc_expect_served(ctx, rpc, "NOOP of a client before anything happened");
    return rpc;
}

void kvc_expect_all_served(struct kvc_ctx *ctx, const struct kvc_rpc *bystander)
{
    const struct kvc_request ping = {.op = KVC_OP_PING};
    kvc_expect_served(ctx, bystander, "NOOP of a client that was there before");
    kvc_expect_served(ctx, kvc_ctx_rpc_new(ctx), "NOOP of a client that comes afterwards");
    kvc_expect_true(ctx, "PING of a client that was there before",
                    kvc_call(ctx, bystander, &ping)->ok);
}

/* ---- messages ---- */

void kvc_send_body(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body)
{
    struct kvc_frames message = {0};
    kvc_frames_append_copy(&message, "\x07", 1);
    for (size_t i = 0; i < body->count; i++) {
        kvc_frames_append(&message, body->items[i]);
        body->items[i] = (struct kvc_frame){0};
    }
    kvc_frames_clear(body);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "sending", kvc_client_send_raw(rpc->client, &message, &err), &err);
}

struct kvc_frames kvc_body_of(struct kvc_ctx *ctx, const struct kvc_request *request)
{
    struct kvc_frames body = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, kvc_op_name(request->op),
                  kvc_request_encode(kvc_ctx_facts(ctx)->dialect, request, &body, &err), &err);
    return body;
}

struct kvc_frames kvc_body_of_op(struct kvc_ctx *ctx, enum kvc_op op)
{
    struct kvc_buffer frame = {0};
    struct kvc_frames body = {0};
    kvc_msgpack_write_int(&frame, kvc_ctx_facts(ctx)->dialect->id[op]);
    kvc_frames_append_buffer(&body, &frame);
    return body;
}

struct kvc_frames kvc_body_with(const struct kvc_frames *body, size_t frame, struct kvc_bytes bytes)
{
    struct kvc_frames changed = {0};
    for (size_t i = 0; i < body->count; i++) {
        const struct kvc_bytes own = kvc_frames_view(body, i);
        const struct kvc_bytes used = i == frame ? bytes : own;
        kvc_frames_append_copy(&changed, used.data, used.size);
    }
    return changed;
}

/* ---- a peer on the bare connection ---- */

static void close_peer(void *arg)
{
    const int *peer = arg;
    close(*peer);
}

static int connect_to(const struct kvc_url *url, struct kvc_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%d", url->port);
    if (getaddrinfo(url->host, port, &hints, &found) != 0) {
        kvc_fail(err, KVC_ECONNECT, "the server's address is not known");
        return -1;
    }
    const struct timeval patience = {.tv_sec = 5}; /* also for connecting */
    const int peer = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const bool connected = peer >= 0 && connect(peer, found->ai_addr, found->ai_addrlen) == 0;
    if (!connected) {
        kvc_fail_errno(err, "cannot connect");
        err->status = KVC_ECONNECT;
        if (peer >= 0)
            close(peer);
    }
    freeaddrinfo(found);
    return connected ? peer : -1;
}

int kvc_peer_connect(struct kvc_ctx *ctx)
{
    struct kvc_url url;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the server's address",
                  kvc_url_parse(kvc_ctx_facts(ctx)->rpc_url, KVC_URL_CONNECT, &url, &err), &err);
    if (url.is_ipc)
        kvc_ctx_skip(ctx, "the server is not reached over TCP");
    int *peer = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *peer);
    *peer = connect_to(&url, &err);
    kvc_expect_ok(ctx, "a plain connection to the server", err.status, &err);
    kvc_ctx_defer(ctx, close_peer, peer);
    return *peer;
}

/* Keeps the descriptor, which is the check's to close, but ends the connection. */
void kvc_peer_close(int peer)
{
    shutdown(peer, SHUT_RDWR);
}

void kvc_peer_reset(int peer)
{
    /* A disconnected socket that is connected to nothing sends a reset in place of a goodbye. */
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connect(peer, &nowhere, sizeof nowhere);
}

bool kvc_peer_send(int peer, const void *bytes, size_t size)
{
    enum { PATIENCE_MS = 500 };
    const uint8_t *rest = bytes;
    while (size > 0) {
        struct pollfd ready = {.fd = peer, .events = POLLOUT};
        if (poll(&ready, 1, PATIENCE_MS) <= 0)
            return false;
        const ssize_t sent = send(peer, rest, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        rest += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

void kvc_peer_greeting(uint8_t greeting[64])
{
    static const uint8_t signature[10] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f};
    memset(greeting, 0, 64);
    memcpy(greeting, signature, sizeof signature);
    greeting[10] = 3; /* version 3.0, without security */
    memcpy(greeting + 12, "NULL", 4);
}

static bool receive(int peer, void *bytes, size_t size, int64_t timeout_ms)
{
    uint8_t *rest = bytes;
    while (size > 0) {
        struct pollfd ready = {.fd = peer, .events = POLLIN};
        if (poll(&ready, 1, (int)timeout_ms) <= 0)
            return false;
        const ssize_t got = recv(peer, rest, size, 0);
        if (got <= 0)
            return false;
        rest += got;
        size -= (size_t)got;
    }
    return true;
}

static void append_property(struct kvc_buffer *out, const char *name, const char *value)
{
    const size_t size = strlen(value);
    kvc_buffer_append_byte(out, (uint8_t)strlen(name));
    kvc_buffer_append_text(out, name);
    for (int shift = 24; shift >= 0; shift -= 8)
        kvc_buffer_append_byte(out, (uint8_t)(size >> shift));
    kvc_buffer_append_text(out, value);
}

/* READY with its properties, as one command. */
static void send_ready(int peer, const char *socket_type, const char *identity)
{
    struct kvc_buffer body = {0}, command = {0};
    kvc_buffer_append_byte(&body, 5);
    kvc_buffer_append_text(&body, "READY");
    append_property(&body, "Socket-Type", socket_type);
    append_property(&body, "Identity", identity);
    kvc_buffer_append_byte(&command, 0x04);
    kvc_buffer_append_byte(&command, (uint8_t)body.size);
    kvc_buffer_append(&command, body.data, body.size);
    kvc_peer_send(peer, command.data, command.size);
    kvc_buffer_clear(&body);
    kvc_buffer_clear(&command);
}

void kvc_peer_greet(struct kvc_ctx *ctx, int peer, const char *socket_type, const char *identity)
{
    const int64_t timeout_ms = kvc_ctx_facts(ctx)->timeout_ms;
    uint8_t greeting[64], head[2], command[256];
    kvc_peer_greeting(greeting);
    kvc_peer_send(peer, greeting, sizeof greeting);
    KVC_EXPECT(ctx, receive(peer, greeting, sizeof greeting, timeout_ms),
               "the server does not greet a new connection");
    send_ready(peer, socket_type, identity);
    KVC_EXPECT(ctx,
               receive(peer, head, sizeof head, timeout_ms) &&
                   receive(peer, command, head[1], timeout_ms),
               "the server does not say READY to a new connection");
}

bool kvc_peer_send_frame(int peer, const void *bytes, size_t size, bool more)
{
    uint8_t head[9] = {more ? 0x01 : 0x00, (uint8_t)size};
    size_t head_size = 2;
    if (size > 255) {
        head[0] |= 0x02;
        head_size = sizeof head;
        for (int i = 0; i < 8; i++)
            head[1 + i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
    }
    return kvc_peer_send(peer, head, head_size) && kvc_peer_send(peer, bytes, size);
}

bool kvc_peer_send_noop(struct kvc_ctx *ctx, int peer)
{
    struct kvc_frames body = kvc_body_of_op(ctx, KVC_OP_NOOP);
    const struct kvc_bytes op = kvc_frames_view(&body, 0);
    const bool sent = kvc_peer_send_frame(peer, "\x07", 1, true) &&
                      kvc_peer_send_frame(peer, op.data, op.size, false);
    kvc_frames_clear(&body);
    return sent;
}

bool kvc_peer_hears(int peer, int64_t timeout_ms)
{
    uint8_t byte;
    return receive(peer, &byte, 1, timeout_ms);
}
