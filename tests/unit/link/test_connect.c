#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/unit/link/peer.h"

/* A TCP port of this machine; listening or not. Returns the descriptor that holds it. */
static int hold_port(bool listening, char *url, size_t url_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    if (listening)
        cr_assert_eq(listen(fd, 8), 0);
    snprintf(url, url_size, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

static void expect_unreachable(const char *url, const char *reason, const char *other_reason)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_client *client = NULL;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_client_open(url, 150, &client, &err), KVC_ECONNECT);
    const int64_t took = kvc_now_ms() - started;
    cr_assert(took >= 150 && took < 3000, "%lld ms", (long long)took);
    cr_assert_null(client);
    cr_assert_not_null(strstr(err.what, url), "%s", err.what);
    cr_assert(strstr(err.what, reason) != NULL || strstr(err.what, other_reason) != NULL, "%s",
              err.what);
}

Test(connect, refused)
{
    char url[64];
    const int fd = hold_port(false, url, sizeof(url));
    expect_unreachable(url, "connection refused", "connection refused");
    close(fd);
}

Test(connect, no_such_host)
{
    expect_unreachable("tcp://no-such-host.invalid:1", "no such host", "cannot be resolved");
}

Test(connect, no_such_socket)
{
    expect_unreachable("ipc:///tmp/kvconform-no-such-socket", "no such socket", "no such socket");
}

Test(connect, a_peer_that_does_not_speak_zmq)
{
    char url[64];
    const int fd = hold_port(true, url, sizeof(url));
    expect_unreachable(url, "does not answer the ZMQ handshake", "handshake");
    close(fd);
}

static volatile int stop;

Test(connect, ends_at_once_when_asked_to_stop)
{
    char url[64];
    const int fd = hold_port(true, url, sizeof(url));
    struct kvc_client *client = NULL;
    stop = 1;
    kvc_link_set_stop_flag(&stop);
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_client_open(url, 20000, &client, NULL), KVC_EINTERRUPTED);
    cr_assert_lt(kvc_now_ms() - started, 1000);
    close(fd);
}

static void *close_client(void *client)
{
    kvc_client_close(client);
    return NULL;
}

/* libzmq reports a connection's end to its monitor, and waits for ever if that is gone. */
Test(connect, closing_while_the_server_goes_does_not_block_later_clients)
{
    for (size_t i = 0; i < 100; i++) {
        struct peer peer;
        pthread_t thread;
        peer_start(&peer, "tcp://127.0.0.1:0", peer_stay_silent, NULL);
        struct kvc_client *client = client_for(&peer);
        cr_assert_eq(pthread_create(&thread, NULL, close_client, client), 0);
        peer_stop(&peer);
        pthread_join(thread, NULL);
    }
}
