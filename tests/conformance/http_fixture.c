#include "tests/conformance/http_fixture.h"

#include "src/link/http.h"

static void release(void *json)
{
    json_decref(json);
}

struct kvc_http_answer kvc_http_ask(struct kvc_ctx *ctx, const char *method, const char *path,
                                    const char *body)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    struct kvc_http_response response = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(
        ctx, path,
        kvc_http_request(method, facts->http_url, path, body, facts->timeout_ms, &response, &err),
        &err);
    json_t *json = json_loadb((const char *)response.body.data, response.body.size,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const struct kvc_http_answer answer = {response.status, json};
    kvc_http_response_clear(&response);
    if (json != NULL)
        kvc_ctx_defer(ctx, release, json);
    return answer;
}

const json_t *kvc_http_expect(struct kvc_ctx *ctx, const char *method, const char *path,
                              const char *body, long status)
{
    const struct kvc_http_answer answer = kvc_http_ask(ctx, method, path, body);
    KVC_EXPECT(ctx, answer.status == status, "%s %s is answered with status %ld, not %ld", method,
               path, answer.status, status);
    KVC_EXPECT(ctx, answer.json != NULL, "the answer to %s %s is no JSON", method, path);
    return answer.json;
}

void kvc_http_expect_refused(struct kvc_ctx *ctx, const char *method, const char *path,
                             const char *body)
{
    const long status = kvc_http_ask(ctx, method, path, body).status;
    KVC_EXPECT(ctx, status >= 400 && status <= 499,
               "%s %s, which the client got wrong, is answered with status %ld, not 4xx", method,
               path, status);
}

void kvc_http_expect_text(struct kvc_ctx *ctx, const json_t *object, const char *member,
                          const char *expected)
{
    const char *text = json_string_value(json_object_get(object, member));
    KVC_EXPECT(ctx, text != NULL, "the answer has no text '%s'", member);
    kvc_expect_str(ctx, member, kvc_str_of(text), expected);
}
