#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/link/http.h"
#include "tests/unit/link/web.h"

/* One GET of /x; returns the status, and the error's text in err. */
static kvc_status get(struct web *web, struct kvc_http_response *response, struct kvc_error *err)
{
    const kvc_status status = kvc_http_request("GET", web->url, "/x", NULL, 2000, response, err);
    web_stop(web);
    return status;
}

Test(http, a_get_and_its_answer)
{
    struct web web = {0};
    web_start(&web, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n"
                    "\"0.5.1\"");
    struct kvc_http_response response;
    cr_assert_eq(get(&web, &response, NULL), KVC_OK);
    cr_assert_eq(response.status, 200);
    cr_assert_str_eq(kvc_buffer_text(&response.body), "\"0.5.1\"");
    cr_assert_str_eq(response.content_type, "application/json");
    cr_assert_eq(strncmp(web.request, "GET /x HTTP/1.1\r\n", 17), 0, "%s", web.request);
    kvc_http_response_clear(&response);
}

Test(http, a_post_sends_json_and_a_slash_is_not_doubled)
{
    struct web web = {0};
    web_start(&web, "HTTP/1.1 422 Unprocessable\r\nContent-Length: 0\r\n\r\n");
    strcat(web.url, "/");
    struct kvc_http_response response;
    cr_assert_eq(kvc_http_request("POST", web.url, "/cache/clear", "{\"force\":true}", 2000,
                                  &response, NULL),
                 KVC_OK);
    web_stop(&web);
    cr_assert_eq(response.status, 422, "any status is an answer");
    cr_assert_eq(strncmp(web.request, "POST /cache/clear HTTP/1.1\r\n", 28), 0, "%s", web.request);
    cr_assert_not_null(strstr(web.request, "Content-Type: application/json\r\n"));
    cr_assert_not_null(strstr(web.request, "\r\n\r\n{\"force\":true}"));
    kvc_http_response_clear(&response);
}

Test(http, put_and_delete_with_and_without_body)
{
    static const struct {
        const char *method, *body, *line;
    } requests[] = {{"PUT", "{}", "PUT /x HTTP/1.1\r\n"},
                    {"DELETE", NULL, "DELETE /x HTTP/1.1\r\n"},
                    {"DELETE", "{\"keys\":[]}", "DELETE /x HTTP/1.1\r\n"},
                    {"POST", NULL, "POST /x HTTP/1.1\r\n"}};
    for (size_t i = 0; i < KVC_COUNT_OF(requests); i++) {
        struct web web = {0};
        web_start(&web, "HTTP/1.1 204 No Content\r\n\r\n");
        struct kvc_http_response response;
        cr_assert_eq(kvc_http_request(requests[i].method, web.url, "/x", requests[i].body, 2000,
                                      &response, NULL),
                     KVC_OK);
        web_stop(&web);
        cr_assert_eq(strncmp(web.request, requests[i].line, strlen(requests[i].line)), 0);
        if (requests[i].body != NULL)
            cr_assert_not_null(strstr(web.request, requests[i].body));
        kvc_http_response_clear(&response);
    }
}

Test(http, redirects_are_not_followed)
{
    struct web web = {0};
    web_start(&web, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n"
                    "\r\n");
    struct kvc_http_response response;
    cr_assert_eq(get(&web, &response, NULL), KVC_OK);
    cr_assert_eq(response.status, 302);
    kvc_http_response_clear(&response);
}

Test(http, proxies_of_the_environment_are_not_used)
{
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    struct web web = {0};
    web_start(&web, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    struct kvc_http_response response;
    cr_assert_eq(get(&web, &response, NULL), KVC_OK);
    kvc_http_response_clear(&response);
}

Test(http, a_body_without_end_is_cut_off)
{
    struct web web = {.filler = KVC_HTTP_MAX_BODY + (1 << 20)};
    web_start(&web, "HTTP/1.1 200 OK\r\n\r\n");
    struct kvc_http_response response;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(get(&web, &response, &err), KVC_EFORMAT);
    char limit[32];
    snprintf(limit, sizeof(limit), "larger than %d MiB", KVC_HTTP_MAX_BODY >> 20);
    cr_assert_not_null(strstr(err.what, limit), "%s", err.what);
    cr_assert_null(response.body.data);
}

Test(http, a_peer_that_does_not_speak_http)
{
    struct web web = {0};
    web_start(&web, "\xff\x00\x7f what");
    struct kvc_http_response response;
    cr_assert_eq(get(&web, &response, NULL), KVC_EFORMAT);
    web = (struct web){0};
    web_start(&web, "");
    cr_assert_eq(get(&web, &response, NULL), KVC_EFORMAT);
}

Test(http, a_silent_peer_is_a_timeout)
{
    struct web web = {0};
    web_start(&web, NULL);
    struct kvc_http_response response;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_http_request("GET", web.url, "/x", NULL, 100, &response, NULL), KVC_ETIMEOUT);
    cr_assert_lt(kvc_now_ms() - started, 1000);
    web_stop(&web);
}

Test(http, nobody_there)
{
    struct kvc_http_response response;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_http_request("GET", "http://127.0.0.1:1", "/x", NULL, 2000, &response, &err),
                 KVC_ECONNECT);
    cr_assert_not_null(strstr(err.what, "http://127.0.0.1:1/x"), "%s", err.what);
}

Test(http, addresses_that_are_none)
{
    static const char *const urls[] = {"",
                                       "127.0.0.1:80",
                                       "https://localhost",
                                       "file:///etc/passwd",
                                       "http://",
                                       "http://[:80",
                                       "http://a b",
                                       "http://h:x",
                                       "http://h:65536",
                                       "http://:80"};
    for (size_t i = 0; i < KVC_COUNT_OF(urls); i++) {
        struct kvc_http_response response;
        cr_assert_eq(kvc_http_request("GET", urls[i], "/x", NULL, 500, &response, NULL), KVC_EUSAGE,
                     "%s", urls[i]);
    }
}

Test(http, an_address_with_control_characters_does_not_break_the_line)
{
    struct kvc_http_response response;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_http_request("GET", "http://a\nb\x1b", "/x", NULL, 500, &response, &err),
                 KVC_EUSAGE);
    cr_assert_null(strpbrk(err.what, "\n\x1b"));
    cr_assert_str_eq(err.expected, "http://HOST:PORT");
}
