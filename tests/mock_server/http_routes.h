/* What the HTTP routes answer (protocol.md 8). For http.c, which speaks HTTP, and the route files. */
#ifndef KVC_TESTS_MOCK_SERVER_HTTP_ROUTES_H
#define KVC_TESTS_MOCK_SERVER_HTTP_ROUTES_H

#include <jansson.h>

#include "tests/mock_server/state.h"

struct mock_http_request {
    const char *method;
    const char *path;
    struct kvc_bytes body;
    /* The value of a query parameter; NULL: not given. */
    const char *(*query)(const struct mock_http_request *request, const char *name);
    void *connection;
};

struct mock_http_reply {
    unsigned status;
    json_t *body; /* owned */
};

/* Answers any request, also one for a path that there is not. */
void mock_http_route(struct mock *mock, const struct mock_http_request *request,
                     struct mock_http_reply *reply);

/* status, with {"detail": text} as body. */
void mock_http_detail(struct mock_http_reply *reply, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* http_status.c: GET /status and GET /config */
json_t *mock_http_status(struct mock *mock);
json_t *mock_http_config(const struct mock *mock);

/* http_checksums.c: POST /cache/checksums, and its older form, GET /kvcache/check */
void mock_http_checksums(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply);
void mock_http_kvcache_check(struct mock *mock, const struct mock_http_request *request,
                             struct mock_http_reply *reply);

/* http_quota.c: quotas by salt (protocol.md 8.4). They are kept and shown; nothing is evicted by them. */
void mock_http_quotas(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply);
void mock_http_quota_get(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply);
void mock_http_quota_put(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply);
void mock_http_quota_delete(struct mock *mock, const struct mock_http_request *request,
                            struct mock_http_reply *reply);

#endif
