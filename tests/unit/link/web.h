/* A web server for tests that answers one request with bytes that a test gives it. */
#ifndef KVC_TESTS_UNIT_LINK_WEB_H
#define KVC_TESTS_UNIT_LINK_WEB_H

#include <pthread.h>
#include <stddef.h>

/* Takes one connection, reads what comes until there is nothing for a moment, sends its answer, and
 * closes. */
struct web {
    int listener;
    char url[64];
    const char *answer;
    size_t filler; /* bytes sent after the answer */
    char request[4096];
    pthread_t thread;
};

/* Listens on a free port. answer NULL: stays silent for a moment. */
void web_start(struct web *web, const char *answer);
/* Waits until the request was served. */
void web_stop(struct web *web);

#endif
