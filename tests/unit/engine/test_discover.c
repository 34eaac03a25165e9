/* Tokens per GB: 2^30 // (cache_size_per_token * world_size), worked out in Python. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/discover.h"
#include "tests/unit/link/web.h"

static char answer[4096];

static void start(struct web *web, const char *status, const char *body)
{
    snprintf(answer, sizeof(answer),
             "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             status, strlen(body), body);
    web_start(web, answer);
}

Test(discover, the_first_model_with_the_key)
{
    struct web web = {0};
    char *model = NULL;
    start(&web, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"org/m\"},{\"id\":\"b\"}]}");
    cr_assert_eq(kvc_engine_find_model(web.url, "sk-1", 2000, &model, NULL), KVC_OK);
    web_stop(&web);
    cr_assert_str_eq(model, "org/m");
    cr_assert_eq(strncmp(web.request, "GET /models HTTP/1.1\r\n", 22), 0, "%s", web.request);
    cr_assert_not_null(strstr(web.request, "\r\nAuthorization: Bearer sk-1\r\n"));
    free(model);
}

Test(discover, no_model)
{
    static const struct {
        const char *status, *body;
        kvc_status expected;
        const char *words;
    } cases[] = {
        {"200 OK", "{\"data\":[]}", KVC_EFORMAT, "lists no model"},
        {"200 OK", "{\"data\":[{\"id\":7}]}", KVC_EFORMAT, "lists no model"},
        {"200 OK", "[]", KVC_EFORMAT, "no JSON object"},
        {"401 Unauthorized", "{\"error\":\"Unauthorized\"}", KVC_EREFUSED,
         "HTTP 401: Unauthorized"},
        {"302 Found\r\nLocation: http://elsewhere/", "", KVC_EREFUSED,
         "redirects are not followed"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct web web = {0};
        char *model = NULL;
        struct kvc_error err = KVC_ERROR_INIT;
        start(&web, cases[i].status, cases[i].body);
        cr_assert_eq(kvc_engine_find_model(web.url, NULL, 2000, &model, &err), cases[i].expected,
                     "case %zu: %s", i, err.what);
        web_stop(&web);
        cr_assert_not_null(strstr(err.what, cases[i].words), "case %zu: %s", i, err.what);
        cr_assert_null(model);
    }
}

Test(discover, nobody_there)
{
    char *model = NULL;
    cr_assert_eq(kvc_engine_find_model("http://127.0.0.1:1", NULL, 2000, &model, NULL),
                 KVC_ECONNECT);
}

#define INSTANCE(model, size, ranks)                                                               \
    "{\"model_name\":\"" model "\",\"world_size\":" ranks                                          \
    ",\"kv_cache_layout\":{\"cache_size_per_token\":" size "}}"

static kvc_status find(const char *body, int64_t *tokens, struct kvc_error *err)
{
    struct web web = {0};
    start(&web, "200 OK", body);
    const kvc_status status = kvc_engine_find_tokens_per_gb(web.url, "m", 2000, tokens, err);
    web_stop(&web);
    return status;
}

Test(discover, tokens_per_gb)
{
    int64_t tokens = 0;
    const char *one = "{\"cache_context_meta\":{\"0\":" INSTANCE("m", "163840", "1") "}}";
    cr_assert_eq(find(one, &tokens, NULL), KVC_OK);
    cr_assert_eq(tokens, 6553);
    const char *ranks = "{\"cache_context_meta\":{\"0\":" INSTANCE(
        "x", "7", "1") ",\"1\":" INSTANCE("m", "81920", "2") "}}";
    cr_assert_eq(find(ranks, &tokens, NULL), KVC_OK);
    cr_assert_eq(tokens, 6553);
    const char *blend = "{\"cache_context_meta\":{},\"cb_gpu_context_meta\":{\"0\":" INSTANCE(
        "m", "1000", "1") "}}";
    cr_assert_eq(find(blend, &tokens, NULL), KVC_OK);
    cr_assert_eq(tokens, 1073741);
}

Test(discover, no_tokens_per_gb)
{
    static const struct {
        const char *body, *words;
    } cases[] = {
        {"{}", "no engine is registered"},
        {"{\"cache_context_meta\":{\"0\":" INSTANCE("x", "7", "1") "}}",
         "knows no model 'm', only x"},
        {"{\"cache_context_meta\":{\"0\":" INSTANCE("m", "0", "1") "}}", "no usable"},
        {"{\"cache_context_meta\":{\"0\":" INSTANCE("m", "7", "0") "}}", "no usable"},
        {"{\"cache_context_meta\":{\"0\":" INSTANCE("m", "\"7\"", "1") "}}", "no usable"},
        {"{\"cache_context_meta\":{\"0\":" INSTANCE("m", "2000000000", "2000000000") "}}",
         "no usable"},
        {"{\"cache_context_meta\":{\"0\":{\"model_name\":\"m\"}}}", "no usable"},
        {"{\"cache_context_meta\":[7]}", "no engine is registered"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        int64_t tokens = -7;
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_neq(find(cases[i].body, &tokens, &err), KVC_OK, "case %zu", i);
        cr_assert_not_null(strstr(err.what, cases[i].words), "case %zu: %s", i, err.what);
        cr_assert_eq(tokens, -7);
    }
}
