#include "src/link/bare.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <zmq.h>

struct kvc_bare {
    void *context;
    void *socket;
};

kvc_status kvc_bare_open(const char *url, int64_t timeout_ms, struct kvc_bare **bare,
                         struct kvc_error *err)
{
    const int limit = timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms, linger = 0;
    struct kvc_bare *made = kvc_alloc_zero(1, sizeof(*made));
    made->context = zmq_ctx_new();
    made->socket = made->context == NULL ? NULL : zmq_socket(made->context, ZMQ_DEALER);
    if (made->socket == NULL ||
        zmq_setsockopt(made->socket, ZMQ_LINGER, &linger, sizeof(linger)) != 0 ||
        zmq_setsockopt(made->socket, ZMQ_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
        zmq_setsockopt(made->socket, ZMQ_SNDTIMEO, &limit, sizeof(limit)) != 0 ||
        zmq_connect(made->socket, url) != 0) {
        const int code = zmq_errno();
        kvc_bare_close(made);
        return kvc_fail(err, KVC_ESYSTEM, "libzmq does not connect to %s: %s", url,
                        zmq_strerror(code));
    }
    *bare = made;
    return KVC_OK;
}

void kvc_bare_close(struct kvc_bare *bare)
{
    if (bare == NULL)
        return;
    if (bare->socket != NULL)
        zmq_close(bare->socket);
    if (bare->context != NULL)
        zmq_ctx_term(bare->context);
    free(bare);
}

static kvc_status failed(int code, struct kvc_error *err)
{
    if (code == EAGAIN)
        return kvc_fail(err, KVC_ETIMEOUT, "no answer to a call through bare libzmq");
    if (code == EINTR)
        return kvc_fail(err, KVC_EINTERRUPTED, "interrupted while waiting for the server");
    return kvc_fail(err, KVC_ESYSTEM, "libzmq: %s", zmq_strerror(code));
}

kvc_status kvc_bare_call(struct kvc_bare *bare, const struct kvc_frames *frames,
                         struct kvc_error *err)
{
    for (size_t i = 0; i < frames->count; i++)
        if (zmq_send(bare->socket, frames->items[i].data, frames->items[i].size,
                     i + 1 < frames->count ? ZMQ_SNDMORE : 0) < 0)
            return failed(zmq_errno(), err);
    int more = 1;
    while (more != 0) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        const int size = zmq_msg_recv(&message, bare->socket, 0);
        const int code = size < 0 ? zmq_errno() : 0;
        more = size < 0 ? 0 : zmq_msg_more(&message);
        zmq_msg_close(&message);
        if (code != 0)
            return failed(code, err);
    }
    return KVC_OK;
}

void kvc_bare_echo(int url_fd)
{
    char url[64];
    size_t size = sizeof(url);
    void *context = zmq_ctx_new();
    void *router = zmq_socket(context, ZMQ_ROUTER);
    if (router == NULL || zmq_bind(router, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, url, &size) != 0)
        return;
    dprintf(url_fd, "%s\n", url);
    close(url_fd);
    for (;;) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, router, 0) >= 0)
            zmq_msg_send(&message, router, zmq_msg_more(&message) ? ZMQ_SNDMORE : 0);
        zmq_msg_close(&message);
    }
}
