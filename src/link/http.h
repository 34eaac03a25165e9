/* HTTP requests by libcurl. For checks, identify and the bench. */
#ifndef KVC_LINK_HTTP_H
#define KVC_LINK_HTTP_H

#include "src/base/bytes.h"

struct kvc_http_response {
    long status;            /* 200, 404, … */
    struct kvc_buffer body; /* at most KVC_HTTP_MAX_BODY bytes */
    char content_type[96];
};

enum { KVC_HTTP_MAX_BODY = 4 << 20 };

/* Whether it can be asked at all: http://HOST or http://HOST:PORT, and perhaps a path. KVC_EUSAGE. */
kvc_status kvc_http_check_url(const char *base_url, struct kvc_error *err);

/* One request. method "GET", "POST", "PUT" or "DELETE"; body may be NULL (none) and is sent as
 * application/json. base_url and path are joined ("http://h:1" + "/status"). Redirects are not
 * followed, proxies not used. KVC_ECONNECT, KVC_ETIMEOUT, KVC_EFORMAT (not HTTP, body too large),
 * KVC_EUSAGE (not an http URL). Any status code is KVC_OK. */
kvc_status kvc_http_request(const char *method, const char *base_url, const char *path,
                            const char *body, int64_t timeout_ms,
                            struct kvc_http_response *response, struct kvc_error *err);
void kvc_http_response_clear(struct kvc_http_response *response);

#endif
