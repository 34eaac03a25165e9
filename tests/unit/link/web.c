#include "tests/unit/link/web.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/base/clock.h"

static void *serve_once(void *user)
{
    struct web *web = user;
    const int fd = accept(web->listener, NULL, NULL);
    size_t used = 0;
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    while (used < sizeof(web->request) - 1 && poll(&readable, 1, used == 0 ? 2000 : 30) > 0) {
        const ssize_t got = read(fd, web->request + used, sizeof(web->request) - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    if (web->answer != NULL) {
        char *filler = calloc(1, web->filler + 1);
        send(fd, web->answer, strlen(web->answer), MSG_NOSIGNAL);
        for (size_t sent = 0; sent < web->filler;) {
            const ssize_t now = send(fd, filler, web->filler - sent, MSG_NOSIGNAL);
            if (now <= 0)
                break;
            sent += (size_t)now;
        }
        free(filler);
    } else {
        kvc_sleep_ms(500);
    }
    close(fd);
    return NULL;
}

void web_start(struct web *web, const char *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    web->answer = answer;
    web->listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(web->listener, (struct sockaddr *)&address, size), 0);
    cr_assert_eq(getsockname(web->listener, (struct sockaddr *)&address, &size), 0);
    cr_assert_eq(listen(web->listener, 1), 0);
    snprintf(web->url, sizeof(web->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    cr_assert_eq(pthread_create(&web->thread, NULL, serve_once, web), 0);
}

void web_stop(struct web *web)
{
    pthread_join(web->thread, NULL);
    close(web->listener);
}
