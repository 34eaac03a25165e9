#include "src/link/connect.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "src/base/clock.h"
#include "src/link/socket.h"
#include "src/link/url.h"

enum {
    RECONNECT_MS = 20,
    RECONNECT_MAX_MS = 200,
    RECEIVE_QUEUE = 65536, /* replies not yet looked at; then the peer has to wait */
};

/* One libzmq context a process. After a fork the parent's is of no use: its threads are gone. It is
 * kept reachable and never touched. */
struct process_context {
    void *zmq;
    pid_t pid;
    struct process_context *inherited;
};

static struct process_context *current;
static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;

static void *context_of_this_process(void)
{
    pthread_mutex_lock(&current_lock);
    if (current == NULL || current->pid != getpid()) {
        struct process_context *context = kvc_alloc_zero(1, sizeof(*context));
        context->zmq = zmq_ctx_new();
        context->pid = getpid();
        context->inherited = current;
        current = context;
    }
    void *zmq = current->zmq;
    pthread_mutex_unlock(&current_lock);
    return zmq;
}

static void *open_dealer(void *context, const struct kvc_url *url)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket == NULL)
        return NULL;
    const int64_t max_frame = KVC_SOCKET_MAX_FRAME_BYTES;
    kvc_socket_set_int(socket, ZMQ_LINGER, 0);
    kvc_socket_set_int(socket, ZMQ_SNDHWM, 0);
    kvc_socket_set_int(socket, ZMQ_RCVHWM, RECEIVE_QUEUE);
    kvc_socket_set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS);
    kvc_socket_set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    kvc_socket_set_int(socket, ZMQ_IPV6, url->is_ipv6 ? 1 : 0);
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_frame, sizeof(max_frame));
    return socket;
}

static void *open_monitor(void *context, void *socket)
{
    static unsigned counter;
    char endpoint[48];
    snprintf(endpoint, sizeof(endpoint), "inproc://kvconform-monitor-%u",
             __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
    if (zmq_socket_monitor(socket, endpoint,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0)
        return NULL;
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (monitor == NULL)
        return NULL;
    kvc_socket_set_int(monitor, ZMQ_LINGER, 0);
    kvc_socket_set_int(monitor, ZMQ_RCVHWM, 0); /* libzmq's own thread would wait for room */
    if (zmq_connect(monitor, endpoint) == 0)
        return monitor;
    zmq_close(monitor);
    return NULL;
}

/* Takes one event; 0 when there is none. An event begins with its number, 16 bits in host order. */
static uint16_t next_event(void *monitor)
{
    struct kvc_frames frames = {0};
    uint16_t event = 0;
    if (kvc_socket_receive(monitor, NULL, &frames) && frames.items[0].size >= sizeof(event))
        memcpy(&event, frames.items[0].data, sizeof(event));
    kvc_frames_clear(&frames);
    return event;
}

/* Takes all events; true when the wanted one was among them. All, since the descriptor stays silent
 * as long as something is left. */
static bool take_events(struct kvc_connection *connection, uint16_t wanted)
{
    bool found = false;
    uint16_t event;
    while ((event = next_event(connection->monitor)) != 0)
        found = found || event == wanted;
    return found;
}

static kvc_status await_handshake(struct kvc_connection *connection, int64_t timeout_ms,
                                  struct kvc_error *err)
{
    const int64_t deadline = kvc_socket_deadline(timeout_ms);
    for (;;) {
        if (take_events(connection, ZMQ_EVENT_HANDSHAKE_SUCCEEDED))
            return KVC_OK;
        if (kvc_link_stopped())
            return kvc_fail(err, KVC_EINTERRUPTED, "interrupted while connecting");
        if (kvc_now_ns() >= deadline)
            return KVC_ECONNECT;
        struct pollfd news = {.fd = connection->monitor_fd, .events = POLLIN};
        poll(&news, 1, kvc_socket_wait_ms(deadline));
    }
}

kvc_status kvc_connection_open(const char *text, int64_t timeout_ms,
                               struct kvc_connection *connection, struct kvc_error *err)
{
    *connection = (struct kvc_connection){0};
    struct kvc_url url;
    KVC_GUARD(kvc_url_parse(text, KVC_URL_CONNECT, &url, err));

    void *context = context_of_this_process();
    connection->socket = open_dealer(context, &url);
    if (connection->socket != NULL)
        connection->monitor = open_monitor(context, connection->socket);
    if (connection->monitor == NULL || zmq_connect(connection->socket, text) != 0) {
        const int code = zmq_errno();
        kvc_connection_close(connection);
        return kvc_fail(err, KVC_ESYSTEM, "cannot open a connection to %s: %s", text,
                        zmq_strerror(code));
    }
    connection->socket_fd = kvc_socket_fd(connection->socket);
    connection->monitor_fd = kvc_socket_fd(connection->monitor);

    const kvc_status status = await_handshake(connection, timeout_ms, err);
    if (status != KVC_OK)
        kvc_connection_close(connection);
    if (status == KVC_ECONNECT) {
        char reason[128];
        kvc_url_explain_unreachable(&url, reason, sizeof(reason));
        return kvc_fail(err, KVC_ECONNECT, "cannot reach %s: %s", text, reason);
    }
    return status;
}

void kvc_connection_close(struct kvc_connection *connection)
{
    if (connection->socket != NULL) {
        /* An event that finds no monitor any more blocks libzmq's thread for good. */
        zmq_socket_monitor(connection->socket, NULL, 0);
        zmq_close(connection->socket);
    }
    if (connection->monitor != NULL)
        zmq_close(connection->monitor);
    *connection = (struct kvc_connection){0};
}

bool kvc_connection_is_lost(struct kvc_connection *connection)
{
    return take_events(connection, ZMQ_EVENT_DISCONNECTED);
}
