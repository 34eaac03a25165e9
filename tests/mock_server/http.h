/* The HTTP side of the mock, on libmicrohttpd without threads of its own: the mock's loop waits for its
 * descriptor too. For mock.c. */
#ifndef KVC_TESTS_MOCK_SERVER_HTTP_H
#define KVC_TESTS_MOCK_SERVER_HTTP_H

#include "tests/mock_server/state.h"

struct mock_http;

/* Listens on address ("HOST:PORT", port 0 takes a free one). KVC_EUSAGE for an address that is none,
 * KVC_ESYSTEM when it is taken. */
kvc_status mock_http_open(const char *address, struct mock *mock, struct mock_http **http,
                          struct kvc_error *err);
void mock_http_close(struct mock_http *http);
/* "http://HOST:PORT" with the real port. */
const char *mock_http_url(const struct mock_http *http);
/* Becomes readable when there is something to serve. */
int mock_http_fd(const struct mock_http *http);
/* Serves what there is; never waits. */
void mock_http_serve(struct mock_http *http);
/* Milliseconds after which it wants to be served again by itself; INT64_MAX: not at all. */
int64_t mock_http_wait_ms(const struct mock_http *http);

#endif
