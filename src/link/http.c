#include "src/link/http.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void set_options(CURL *curl, const char *method, const char *url, const char *body,
                        struct curl_slist *headers, int64_t timeout_ms, struct kvc_buffer *out)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(timeout_ms > 0 ? timeout_ms : 1));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, stop_on_signal);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (body != NULL || strcmp(method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body == NULL ? "" : body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)(body == NULL ? 0 : strlen(body)));
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
}

/* A time limit that passed before there was a connection means that nobody is there. */
static kvc_status status_of(CURL *curl, CURLcode code)
{
    static const struct {
        CURLcode code;
        kvc_status status;
    } known[] = {
        {CURLE_COULDNT_CONNECT, KVC_ECONNECT},    {CURLE_COULDNT_RESOLVE_HOST, KVC_ECONNECT},
        {CURLE_OPERATION_TIMEDOUT, KVC_ETIMEOUT}, {CURLE_URL_MALFORMAT, KVC_EUSAGE},
        {CURLE_UNSUPPORTED_PROTOCOL, KVC_EUSAGE}, {CURLE_ABORTED_BY_CALLBACK, KVC_EINTERRUPTED},
    };
    curl_off_t connected = 0;
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected);
    if (code == CURLE_OPERATION_TIMEDOUT && connected == 0)
        return KVC_ECONNECT;
    for (size_t i = 0; i < KVC_COUNT_OF(known); i++) {
        if (known[i].code == code)
            return known[i].status;
    }
    return KVC_EFORMAT;
}

static kvc_status describe_failure(CURL *curl, CURLcode code, const char *method, const char *url,
                                   struct kvc_error *err)
{
    if (code == CURLE_WRITE_ERROR)
        return kvc_fail(err, KVC_EFORMAT, "%s %s: the body is larger than %d MiB", method, url,
                        KVC_HTTP_MAX_BODY >> 20);
    return kvc_fail(err, status_of(curl, code), "%s %s: %s", method, url, curl_easy_strerror(code));
}

static void take_head(CURL *curl, struct kvc_http_response *response)
{
    const char *type = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response->status);
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    snprintf(response->content_type, sizeof(response->content_type), "%s",
             type == NULL ? "" : type);
}

kvc_status kvc_http_request(const char *method, const char *base_url, const char *path,
                            const char *body, int64_t timeout_ms,
                            struct kvc_http_response *response, struct kvc_error *err)
{
    *response = (struct kvc_http_response){0};
    if (strncmp(base_url, "http://", 7) != 0 || base_url[7] == '\0')
        return kvc_fail(err, KVC_EUSAGE,
                        "\"%.120s\" is no HTTP address: accepted is http://HOST:PORT", base_url);
    pthread_once(&library_once, start_library);
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        return kvc_fail(err, KVC_ESYSTEM, "libcurl does not start");

    const size_t base_size = strlen(base_url);
    const int kept = (int)(base_url[base_size - 1] == '/' ? base_size - 1 : base_size);
    char *url = kvc_format("%.*s%s", kept, base_url, path);
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    set_options(curl, method, url, body, headers, timeout_ms, &response->body);

    kvc_status status = KVC_OK;
    const CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK)
        take_head(curl, response);
    else
        status = describe_failure(curl, code, method, url, err);
    if (status != KVC_OK)
        kvc_http_response_clear(response);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    free(url);
    return status;
}

void kvc_http_response_clear(struct kvc_http_response *response)
{
    kvc_buffer_clear(&response->body);
    *response = (struct kvc_http_response){0};
}
