/* TCP connections for the behaviours below ZMQ and beside it. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/meta/hostile/peer.h"

bool hostile_write(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool hostile_write_text(int fd, const char *text)
{
    return hostile_write(fd, text, strlen(text));
}

void hostile_write_filler(int fd, char filler, uint64_t bytes)
{
    static char block[64 << 10];
    memset(block, filler, sizeof(block));
    for (uint64_t sent = 0; bytes == 0 || sent < bytes; sent += sizeof(block))
        if (!hostile_write(fd, block, sizeof(block)))
            return;
}

void hostile_read_some(int fd)
{
    char block[4096];
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    while (poll(&readable, 1, 20) > 0 && read(fd, block, sizeof(block)) > 0) {
    }
}

void hostile_wait_gone(int fd)
{
    char block[4096];
    while (read(fd, block, sizeof(block)) > 0) {
    }
}

struct listener {
    int fd;
    void (*serve)(int fd);
};

struct connection {
    int fd;
    void (*serve)(int fd);
};

static void *serve_connection(void *arg)
{
    struct connection *connection = arg;
    connection->serve(connection->fd);
    close(connection->fd);
    free(connection);
    return NULL;
}

static void *accept_all(void *arg)
{
    const struct listener *listener = arg;
    for (;;) {
        pthread_t thread;
        const int fd = accept(listener->fd, NULL, NULL);
        if (fd < 0)
            continue;
        struct connection *connection = kvc_alloc(sizeof(*connection));
        *connection = (struct connection){fd, listener->serve};
        if (pthread_create(&thread, NULL, serve_connection, connection) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

void hostile_listen(void (*serve)(int fd), const char *scheme, char *url, size_t url_size)
{
    static struct listener listeners[2];
    static size_t count;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct listener *listener = &listeners[count++];
    pthread_t thread;
    *listener = (struct listener){socket(AF_INET, SOCK_STREAM, 0), serve};
    if (bind(listener->fd, (struct sockaddr *)&address, size) != 0 ||
        listen(listener->fd, 64) != 0 ||
        getsockname(listener->fd, (struct sockaddr *)&address, &size) != 0 ||
        pthread_create(&thread, NULL, accept_all, listener) != 0) {
        perror("hostile: cannot listen");
        exit(2);
    }
    pthread_detach(thread);
    snprintf(url, url_size, "%s://127.0.0.1:%d", scheme, ntohs(address.sin_port));
}
