#include "src/engine/transfer.h"

#include <pthread.h>
#include <stdlib.h>

#include "src/engine/event.h"

static pthread_once_t library_once = PTHREAD_ONCE_INIT;

static void start_library(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

CURL *kvc_engine_transfer_new(const char *url, struct curl_slist *headers,
                              char problem[CURL_ERROR_SIZE])
{
    pthread_once(&library_once, start_library);
    CURL *curl = curl_easy_init();
    if (curl == NULL)
        kvc_out_of_memory(0);
    problem[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)KVC_ENGINE_CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "kvconform/" KVC_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    const char *authorities = getenv("SSL_CERT_FILE");
    if (authorities != NULL && authorities[0] != '\0')
        curl_easy_setopt(curl, CURLOPT_CAINFO, authorities);
    return curl;
}

struct curl_slist *kvc_engine_headers_new(const char *api_key)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    if (api_key != NULL && api_key[0] != '\0') {
        char *line = kvc_format("Authorization: Bearer %s", api_key);
        headers = curl_slist_append(headers, line);
        free(line);
    }
    return headers;
}

static const struct {
    CURLcode code;
    kvc_status status;
} failures[] = {
    {CURLE_COULDNT_CONNECT, KVC_ECONNECT},
    {CURLE_COULDNT_RESOLVE_HOST, KVC_ECONNECT},
    {CURLE_SSL_CONNECT_ERROR, KVC_ECONNECT},
    {CURLE_PEER_FAILED_VERIFICATION, KVC_ECONNECT},
    {CURLE_SSL_CACERT_BADFILE, KVC_EUSAGE},
    {CURLE_URL_MALFORMAT, KVC_EUSAGE},
    {CURLE_OPERATION_TIMEDOUT, KVC_ETIMEOUT},
    {CURLE_PARTIAL_FILE, KVC_ELOST},
    {CURLE_RECV_ERROR, KVC_ELOST},
    {CURLE_SEND_ERROR, KVC_ELOST},
    {CURLE_GOT_NOTHING, KVC_ELOST},
};

kvc_status kvc_engine_transfer_fail(CURL *curl, CURLcode code, const char *problem,
                                    struct kvc_error *err)
{
    kvc_status status = KVC_EFORMAT;
    for (size_t i = 0; i < KVC_COUNT_OF(failures); i++)
        if (failures[i].code == code)
            status = failures[i].status;
    curl_off_t connected = 0;
    curl_easy_getinfo(curl, CURLINFO_CONNECT_TIME_T, &connected);
    if (code == CURLE_OPERATION_TIMEDOUT && connected == 0)
        status = KVC_ECONNECT;
    return kvc_fail(err, status, "%s", problem[0] != '\0' ? problem : curl_easy_strerror(code));
}

kvc_status kvc_engine_refusal(CURL *curl, struct kvc_str body, struct kvc_error *err)
{
    long code = 0;
    const char *location = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &location);
    if (location != NULL)
        return kvc_fail(err, KVC_EREFUSED, "HTTP %ld: redirects are not followed (this one: %s)",
                        code, kvc_text_show(kvc_str_of(location)).text);
    struct kvc_buffer words = {0};
    kvc_engine_error_text(body, &words);
    kvc_fail(err, KVC_EREFUSED, "HTTP %ld%s%s", code, words.size > 0 ? ": " : "",
             kvc_buffer_text(&words));
    kvc_buffer_clear(&words);
    return KVC_EREFUSED;
}
