#include "src/link/proxy.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>

#include <zmq.h>

#include "src/base/clock.h"
#include "src/link/client.h"
#include "src/link/server.h"
#include "src/link/socket.h"

enum {
    LINGER_MS = 100,   /* what has just passed still goes out when the proxy closes */
    MAX_CLIENTS = 500, /* then the one that was silent for longest is forgotten */
    MAX_PASSES = 64,   /* over all sockets, before the caller gets its turn */
};

/* One client and its connection to the server. */
struct pair {
    TAILQ_ENTRY(pair) by_use; /* the one that is silent for longest first */
    struct kvc_buffer identity;
    int64_t number;
    void *dealer;
};

struct kvc_proxy {
    struct kvc_server *front;
    void *context;
    char *server_url;
    TAILQ_HEAD(pairs, pair) pairs;
    size_t pair_count;
    int64_t next_number;
    int wake_fd; /* epoll: readable when one of the dealers has news */
    kvc_proxy_func *show;
    void *user;
};

/* ---- clients ---- */

/* Identities that begin with a zero byte are the ROUTER's own making. */
static void keep_identity(void *dealer, struct kvc_bytes identity)
{
    if (identity.size > 0 && identity.data[0] != 0)
        zmq_setsockopt(dealer, ZMQ_ROUTING_ID, identity.data, identity.size);
}

static void *open_dealer(struct kvc_proxy *proxy, struct kvc_bytes identity)
{
    void *dealer = zmq_socket(proxy->context, ZMQ_DEALER);
    if (dealer == NULL)
        return NULL;
    const int64_t max_frame = KVC_SOCKET_MAX_FRAME_BYTES;
    kvc_socket_set_int(dealer, ZMQ_LINGER, LINGER_MS);
    kvc_socket_set_int(dealer, ZMQ_SNDHWM, 0);
    kvc_socket_set_int(dealer, ZMQ_RCVHWM, 0);
    kvc_socket_set_int(dealer, ZMQ_IPV6, 1);
    zmq_setsockopt(dealer, ZMQ_MAXMSGSIZE, &max_frame, sizeof(max_frame));
    keep_identity(dealer, identity);
    struct epoll_event event = {.events = EPOLLIN};
    if (zmq_connect(dealer, proxy->server_url) == 0 &&
        epoll_ctl(proxy->wake_fd, EPOLL_CTL_ADD, kvc_socket_fd(dealer), &event) == 0)
        return dealer;
    zmq_close(dealer);
    return NULL;
}

static void close_pair(struct kvc_proxy *proxy, struct pair *pair)
{
    TAILQ_REMOVE(&proxy->pairs, pair, by_use);
    proxy->pair_count--;
    epoll_ctl(proxy->wake_fd, EPOLL_CTL_DEL, kvc_socket_fd(pair->dealer), NULL);
    zmq_close(pair->dealer);
    kvc_buffer_clear(&pair->identity);
    free(pair);
}

static struct pair *new_pair(struct kvc_proxy *proxy, struct kvc_bytes identity)
{
    if (proxy->pair_count == MAX_CLIENTS)
        close_pair(proxy, TAILQ_FIRST(&proxy->pairs));
    void *dealer = open_dealer(proxy, identity);
    if (dealer == NULL)
        return NULL;
    struct pair *pair = kvc_alloc_zero(1, sizeof(*pair));
    kvc_buffer_append(&pair->identity, identity.data, identity.size);
    pair->number = proxy->next_number++;
    pair->dealer = dealer;
    TAILQ_INSERT_TAIL(&proxy->pairs, pair, by_use);
    proxy->pair_count++;
    return pair;
}

/* The client's connection, made if it is new; NULL: it cannot be made. */
static struct pair *pair_of(struct kvc_proxy *proxy, struct kvc_bytes identity)
{
    struct pair *pair;
    TAILQ_FOREACH(pair, &proxy->pairs, by_use)
    {
        if (!kvc_bytes_equal(kvc_buffer_view(&pair->identity), identity))
            continue;
        TAILQ_REMOVE(&proxy->pairs, pair, by_use);
        TAILQ_INSERT_TAIL(&proxy->pairs, pair, by_use);
        return pair;
    }
    return new_pair(proxy, identity);
}

/* ---- messages ---- */

static kvc_status pass_request(struct kvc_proxy *proxy, struct kvc_bytes identity,
                               struct kvc_frames *frames, struct kvc_error *err)
{
    struct pair *pair = pair_of(proxy, identity);
    if (pair == NULL) {
        kvc_frames_clear(frames);
        return kvc_fail(err, KVC_ESYSTEM, "cannot connect client %lld to %s: %s",
                        (long long)proxy->next_number, proxy->server_url,
                        zmq_strerror(zmq_errno()));
    }
    proxy->show(proxy->user, pair->number, false, frames, kvc_now_ns());
    kvc_socket_send(pair->dealer, (struct kvc_bytes){0}, frames);
    return KVC_OK;
}

/* Takes a request and passes it on. */
static kvc_status relay_request(struct kvc_proxy *proxy, int64_t timeout_ms, struct kvc_error *err)
{
    struct kvc_buffer identity = {0};
    struct kvc_frames frames = {0};
    kvc_status status = kvc_server_receive(proxy->front, timeout_ms, &identity, &frames, err);
    if (status == KVC_OK)
        status = pass_request(proxy, kvc_buffer_view(&identity), &frames, err);
    kvc_buffer_clear(&identity);
    return status;
}

/* Passes on the replies that have come; returns whether there were any. */
static bool relay_replies(struct kvc_proxy *proxy)
{
    bool any = false;
    struct pair *pair;
    TAILQ_FOREACH(pair, &proxy->pairs, by_use)
    {
        struct kvc_frames frames = {0};
        while (kvc_socket_receive(pair->dealer, NULL, &frames)) {
            any = true;
            proxy->show(proxy->user, pair->number, true, &frames, kvc_now_ns());
            kvc_server_send(proxy->front, kvc_buffer_view(&pair->identity), &frames, NULL);
        }
    }
    return any;
}

/* A descriptor of libzmq tells of changes only, and sending takes notice of them as well: nothing may be
 * waited for before a look at all sockets has found nothing. */
kvc_status kvc_proxy_serve(struct kvc_proxy *proxy, int64_t timeout_ms, struct kvc_error *err)
{
    bool any = false;
    if (kvc_link_stopped())
        return kvc_fail(err, KVC_EINTERRUPTED, "asked to stop");
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        kvc_status status;
        bool moved = relay_replies(proxy);
        while ((status = relay_request(proxy, 0, err)) == KVC_OK)
            moved = true;
        if (status == KVC_ESYSTEM)
            return status;
        any |= moved;
        if (!moved)
            break;
    }
    if (any)
        return KVC_OK;
    const kvc_status status = relay_request(proxy, timeout_ms, err);
    return status == KVC_EINTERRUPTED && !kvc_link_stopped() ? KVC_OK : status;
}

/* ---- open and close ---- */

/* Whether somebody answers at the URL, and if not, why. */
static kvc_status check_server(const char *url, int64_t timeout_ms, struct kvc_error *err)
{
    struct kvc_client *client = NULL;
    KVC_GUARD(kvc_client_open(url, timeout_ms, &client, err));
    kvc_client_close(client);
    return KVC_OK;
}

static kvc_status open_all(struct kvc_proxy *proxy, const char *listen_url, struct kvc_error *err)
{
    KVC_GUARD(kvc_server_open(listen_url, &proxy->front, err));
    proxy->context = zmq_ctx_new();
    proxy->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (proxy->context == NULL || proxy->wake_fd < 0)
        return kvc_fail_errno(err, "cannot open a proxy");
    kvc_server_set_wake_fd(proxy->front, proxy->wake_fd);
    return KVC_OK;
}

kvc_status kvc_proxy_open(const char *listen_url, const char *server_url,
                          int64_t connect_timeout_ms, kvc_proxy_func *show, void *user,
                          struct kvc_proxy **proxy, struct kvc_error *err)
{
    *proxy = NULL;
    KVC_GUARD(check_server(server_url, connect_timeout_ms, err));
    struct kvc_proxy *opened = kvc_alloc_zero(1, sizeof(*opened));
    TAILQ_INIT(&opened->pairs);
    opened->wake_fd = -1;
    opened->server_url = kvc_strdup(server_url);
    opened->show = show;
    opened->user = user;
    const kvc_status status = open_all(opened, listen_url, err);
    if (status == KVC_OK)
        *proxy = opened;
    else
        kvc_proxy_close(opened);
    return status;
}

void kvc_proxy_close(struct kvc_proxy *proxy)
{
    if (proxy == NULL)
        return;
    while (!TAILQ_EMPTY(&proxy->pairs))
        close_pair(proxy, TAILQ_FIRST(&proxy->pairs));
    while (proxy->context != NULL && zmq_ctx_term(proxy->context) != 0 && zmq_errno() == EINTR) {
    }
    kvc_server_close(proxy->front);
    if (proxy->wake_fd >= 0)
        close(proxy->wake_fd);
    free(proxy->server_url);
    free(proxy);
}

const char *kvc_proxy_url(const struct kvc_proxy *proxy)
{
    return kvc_server_url(proxy->front);
}
