#include "src/link/http.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "src/link/socket.h"

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void start_library(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
    struct kvc_buffer *body = user;
    const size_t bytes = size * count;
    if (bytes > KVC_HTTP_MAX_BODY - body->size)
        return 0; /* ends the transfer with CURLE_WRITE_ERROR */
    kvc_buffer_append(body, data, bytes);
    return bytes;
}

static int stop_on_signal(void *user, curl_off_t total_down, curl_off_t down, curl_off_t total_up,
                          curl_off_t up)
{
    (void)user, (void)total_down, (void)down, (void)total_up, (void)up;
    return kvc_link_stopped() ? 1 : 0;
}

struct exchange {
    CURL *curl;
    struct curl_slist *headers;
    char *url;
    char problem[CURL_ERROR_SIZE]; /* libcurl's own words */
};

static void set_options(struct exchange *exchange, int64_t timeout_ms, struct kvc_buffer *out)
{
    CURL *curl = exchange->curl;
    curl_easy_setopt(curl, CURLOPT_URL, exchange->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ms > 0 ? timeout_ms : 1));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, exchange->problem);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, stop_on_signal);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exchange->headers);
}

static void set_method(struct exchange *exchange, const char *method, const char *body)
{
    if (body != NULL || strcmp(method, "POST") == 0) {
        const char *sent = body == NULL ? "" : body;
        curl_easy_setopt(exchange->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(sent));
        curl_easy_setopt(exchange->curl, CURLOPT_POSTFIELDS, sent);
    }
    curl_easy_setopt(exchange->curl, CURLOPT_CUSTOMREQUEST, method);
}

static kvc_status status_of(CURL *curl, CURLcode code)
{
    static const struct {
        CURLcode code;
        kvc_status status;
    } known[] = {
        {CURLE_COULDNT_CONNECT, KVC_ECONNECT},         {CURLE_COULDNT_RESOLVE_HOST, KVC_ECONNECT},
        {CURLE_OPERATION_TIMEDOUT, KVC_ETIMEOUT},      {CURLE_URL_MALFORMAT, KVC_EUSAGE},
        {CURLE_ABORTED_BY_CALLBACK, KVC_EINTERRUPTED},
    };
    curl_off_t connected = 0;
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected);
    if (code == CURLE_OPERATION_TIMEDOUT && connected == 0)
        return KVC_ECONNECT; /* the limit passed before there was a connection */
    for (size_t i = 0; i < KVC_COUNT_OF(known); i++) {
        if (known[i].code == code)
            return known[i].status;
    }
    return KVC_EFORMAT;
}

static kvc_status describe_failure(const struct exchange *exchange, CURLcode code,
                                   const char *method, struct kvc_error *err)
{
    if (code == CURLE_WRITE_ERROR)
        return kvc_fail(err, KVC_EFORMAT, "%s %s: the body is larger than %d MiB", method,
                        exchange->url, KVC_HTTP_MAX_BODY >> 20);
    return kvc_fail(err, status_of(exchange->curl, code), "%s %s: %s", method, exchange->url,
                    exchange->problem[0] != '\0' ? exchange->problem : curl_easy_strerror(code));
}

static void take_head(CURL *curl, struct kvc_http_response *response)
{
    const char *type = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response->status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    snprintf(response->content_type, sizeof(response->content_type), "%s",
             type == NULL ? "" : type);
}

/* As libcurl reads it: a host, and a port that is a number. */
static bool can_be_parsed(const char *url)
{
    CURLU *parts = curl_url();
    const bool parsed = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK;
    curl_url_cleanup(parts);
    return parsed;
}

kvc_status kvc_http_check_url(const char *base_url, struct kvc_error *err)
{
    if (strncasecmp(base_url, "https://", 8) == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "TLS is not spoken: give an http:// address, such as that of a proxy "
                        "which speaks TLS with the server");
    bool good = strncmp(base_url, "http://", 7) == 0 && base_url[7] != '\0';
    for (const char *c = base_url; good && *c != '\0'; c++)
        good = *c > ' ' && *c < 0x7f;
    if (good && can_be_parsed(base_url))
        return KVC_OK;
    struct kvc_buffer shown = {0};
    kvc_text_escape((struct kvc_str){base_url, strnlen(base_url, 120)}, &shown);
    kvc_fail(err, KVC_EUSAGE, "\"%s\" is no HTTP address", kvc_buffer_text(&shown));
    kvc_error_set_expected(err, "http://HOST:PORT");
    kvc_buffer_clear(&shown);
    return KVC_EUSAGE;
}

static kvc_status open_exchange(struct exchange *exchange, const char *base_url, const char *path,
                                struct kvc_error *err)
{
    pthread_once(&library_once, start_library);
    *exchange = (struct exchange){.curl = curl_easy_init()};
    if (exchange->curl == NULL)
        return kvc_fail(err, KVC_ESYSTEM, "libcurl does not start");
    size_t kept = strlen(base_url);
    if (base_url[kept - 1] == '/')
        kept--;
    exchange->url = kvc_format("%.*s%s", (int)kept, base_url, path);
    exchange->headers = curl_slist_append(NULL, "Content-Type: application/json");
    exchange->headers = curl_slist_append(exchange->headers, "Expect:");
    return KVC_OK;
}

static void close_exchange(struct exchange *exchange)
{
    curl_easy_cleanup(exchange->curl);
    curl_slist_free_all(exchange->headers);
    free(exchange->url);
}

kvc_status kvc_http_request(const char *method, const char *base_url, const char *path,
                            const char *body, int64_t timeout_ms,
                            struct kvc_http_response *response, struct kvc_error *err)
{
    *response = (struct kvc_http_response){0};
    struct exchange exchange;
    KVC_GUARD(kvc_http_check_url(base_url, err));
    KVC_GUARD(open_exchange(&exchange, base_url, path, err));
    set_options(&exchange, timeout_ms, &response->body);
    set_method(&exchange, method, body);

    kvc_status status = KVC_OK;
    const CURLcode code = curl_easy_perform(exchange.curl);
    if (code == CURLE_OK)
        take_head(exchange.curl, response);
    else
        status = describe_failure(&exchange, code, method, err);
    if (status != KVC_OK)
        kvc_http_response_clear(response);
    close_exchange(&exchange);
    return status;
}

void kvc_http_response_clear(struct kvc_http_response *response)
{
    kvc_buffer_clear(&response->body);
    *response = (struct kvc_http_response){0};
}
