#include "src/link/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "src/base/clock.h"
#include "src/link/socket.h"
#include "src/link/url.h"

enum {
    LINGER_MS = 100,       /* replies just sent still go out when the server closes */
    WAKE_CHECK_EVERY = 64, /* messages served before the wake descriptor is looked at */
};

struct kvc_server {
    void
        *context; /* its own: closing it waits until what was sent is out and the address is free */
    void *socket;
    int socket_fd;
    int wake_fd;
    unsigned served;
    void *monitor; /* NULL: peers are not counted */
    struct kvc_server_peers peers;
    char url[256];
    struct kvc_url address;
    ino_t ipc_inode; /* of the path that this server made; 0: none */
};

/* libzmq unlinks whatever is at an ipc path before it binds: a live server's, or a user's file. */
static kvc_status check_path_is_free(const char *path, struct kvc_error *err)
{
    struct stat status;
    if (path[0] == '@' || lstat(path, &status) != 0)
        return KVC_OK;
    if (!S_ISSOCK(status.st_mode))
        return kvc_fail(err, KVC_ESYSTEM, "cannot listen on ipc://%s: a file is in the way", path);
    if (kvc_url_ipc_is_alive(path))
        return kvc_fail(err, KVC_ESYSTEM, "cannot listen on ipc://%s: the address is taken", path);
    return KVC_OK;
}

static bool open_router(struct kvc_server *server)
{
    server->context = zmq_ctx_new();
    if (server->context == NULL)
        return false;
    server->socket = zmq_socket(server->context, ZMQ_ROUTER);
    if (server->socket == NULL)
        return false;
    const int64_t max_frame = KVC_SOCKET_MAX_FRAME_BYTES;
    kvc_socket_set_int(server->socket, ZMQ_LINGER, LINGER_MS);
    kvc_socket_set_int(server->socket, ZMQ_SNDHWM, 0);
    kvc_socket_set_int(server->socket, ZMQ_RCVHWM, 0);
    kvc_socket_set_int(server->socket, ZMQ_IPV6, server->address.is_ipv6 ? 1 : 0);
    zmq_setsockopt(server->socket, ZMQ_MAXMSGSIZE, &max_frame, sizeof(max_frame));
    return true;
}

/* libzmq leaves the path behind. It is removed unless somebody else has put something there. */
static void remove_ipc_path(const struct kvc_server *server)
{
    struct stat status;
    const char *path = server->address.path;
    if (server->ipc_inode != 0 && lstat(path, &status) == 0 && status.st_ino == server->ipc_inode)
        unlink(path);
}

static void remember_ipc_path(struct kvc_server *server)
{
    struct stat status;
    if (server->address.is_ipc && lstat(server->address.path, &status) == 0)
        server->ipc_inode = status.st_ino;
}

kvc_status kvc_server_open(const char *text, struct kvc_server **server, struct kvc_error *err)
{
    *server = NULL;
    struct kvc_url address;
    KVC_GUARD(kvc_url_parse(text, KVC_URL_BIND, &address, err));
    if (address.is_ipc)
        KVC_GUARD(check_path_is_free(address.path, err));

    struct kvc_server *opened = kvc_alloc_zero(1, sizeof(*opened));
    opened->wake_fd = -1;
    opened->address = address;
    size_t url_size = sizeof(opened->url);
    if (!open_router(opened) || zmq_bind(opened->socket, text) != 0 ||
        zmq_getsockopt(opened->socket, ZMQ_LAST_ENDPOINT, opened->url, &url_size) != 0) {
        const int code = zmq_errno();
        kvc_server_close(opened);
        return kvc_fail(err, KVC_ESYSTEM, "cannot listen on %s: %s", text, zmq_strerror(code));
    }
    remember_ipc_path(opened);
    opened->socket_fd = kvc_socket_fd(opened->socket);
    *server = opened;
    return KVC_OK;
}

void kvc_server_close(struct kvc_server *server)
{
    if (server == NULL)
        return;
    if (server->monitor != NULL)
        zmq_close(server->monitor);
    if (server->socket != NULL)
        zmq_close(server->socket);
    while (server->context != NULL && zmq_ctx_term(server->context) != 0 && zmq_errno() == EINTR) {
    }
    remove_ipc_path(server);
    free(server);
}

const char *kvc_server_url(const struct kvc_server *server)
{
    return server->url;
}

void kvc_server_set_wake_fd(struct kvc_server *server, int wake_fd)
{
    server->wake_fd = wake_fd;
}

void kvc_server_hand_identities_over(struct kvc_server *server)
{
    kvc_socket_set_int(server->socket, ZMQ_ROUTER_HANDOVER, 1);
}

enum { REFUSED_EVENTS = ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH };

void kvc_server_count_peers(struct kvc_server *server)
{
    static const char address[] = "inproc://peers"; /* the context is this server's alone */
    const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | REFUSED_EVENTS;
    if (server->monitor != NULL || zmq_socket_monitor(server->socket, address, events) != 0)
        return;
    server->monitor = zmq_socket(server->context, ZMQ_PAIR);
    if (server->monitor != NULL && zmq_connect(server->monitor, address) != 0) {
        zmq_close(server->monitor);
        server->monitor = NULL;
    }
}

/* An event of libzmq's monitor: its number in the first two bytes, in this machine's order. */
static void count_event(struct kvc_server_peers *peers, const struct kvc_frames *event)
{
    uint16_t number = 0;
    if (event->count == 0 || event->items[0].size < sizeof(number))
        return;
    memcpy(&number, event->items[0].data, sizeof(number));
    peers->accepted += number == ZMQ_EVENT_ACCEPTED;
    peers->greeted += number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    peers->refused += (number & REFUSED_EVENTS) != 0;
    peers->broken += number == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
}

struct kvc_server_peers kvc_server_peers(struct kvc_server *server)
{
    struct kvc_frames event = {0};
    while (server->monitor != NULL && kvc_socket_receive(server->monitor, NULL, &event)) {
        count_event(&server->peers, &event);
        kvc_frames_clear(&event);
    }
    return server->peers;
}

/* Waits for a message or for the wake descriptor; wait_ms 0 only looks. KVC_OK says nothing about
 * which messages there are. */
static kvc_status wait_for_news(struct kvc_server *server, int wait_ms, struct kvc_error *err)
{
    struct pollfd news[] = {
        {.fd = server->socket_fd, .events = POLLIN},
        {.fd = server->wake_fd, .events = POLLIN},
    };
    const int ready = poll(news, 2, wait_ms);
    const bool by_signal = ready < 0 && errno == EINTR;
    if (by_signal || kvc_link_stopped() || (ready > 0 && news[1].revents != 0))
        return kvc_fail(err, KVC_EINTERRUPTED, "asked to stop waiting");
    return KVC_OK;
}

kvc_status kvc_server_receive(struct kvc_server *server, int64_t timeout_ms,
                              struct kvc_buffer *identity, struct kvc_frames *frames,
                              struct kvc_error *err)
{
    const int64_t deadline = kvc_socket_deadline(timeout_ms < 0 ? INT64_MAX : timeout_ms);
    if (server->served++ % WAKE_CHECK_EVERY == 0)
        KVC_GUARD(wait_for_news(server, 0, err));
    *identity = (struct kvc_buffer){0};
    *frames = (struct kvc_frames){0};
    while (!kvc_socket_receive(server->socket, identity, frames)) {
        if (kvc_now_ns() >= deadline)
            return kvc_fail(err, KVC_ETIMEOUT, "no message within %lld ms", (long long)timeout_ms);
        KVC_GUARD(wait_for_news(server, kvc_socket_wait_ms(deadline), err));
    }
    return KVC_OK;
}

kvc_status kvc_server_send(struct kvc_server *server, struct kvc_bytes identity,
                           struct kvc_frames *frames, struct kvc_error *err)
{
    if (identity.data == NULL) {
        kvc_frames_clear(frames);
        return kvc_fail(err, KVC_EUSAGE, "a reply needs the identity of a peer");
    }
    kvc_socket_send(server->socket, identity, frames);
    return KVC_OK;
}
