/* Requests to the server's HTTP side. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_HTTP_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_HTTP_FIXTURE_H

#include <jansson.h>

#include "tests/conformance/fixture.h"

/* Lives as long as the check. */
struct kvc_http_answer {
    long status;
    const json_t *json; /* NULL: the body is no JSON */
};

/* body may be NULL. Ends the check when nothing comes back. */
struct kvc_http_answer kvc_http_ask(struct kvc_ctx *ctx, const char *method, const char *path,
                                    const char *body);
/* The same; the status must be that one, and the body JSON. */
const json_t *kvc_http_expect(struct kvc_ctx *ctx, const char *method, const char *path,
                              const char *body, long status);
/* The status must be one of 400 to 499. */
void kvc_http_expect_refused(struct kvc_ctx *ctx, const char *method, const char *path,
                             const char *body);
/* A member of an object that must be a text of that value. */
void kvc_http_expect_text(struct kvc_ctx *ctx, const json_t *object, const char *member,
                          const char *expected);

#endif
