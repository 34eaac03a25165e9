/* Addresses and keys as a user gives them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "src/engine/client.h"

static bool is_port(const char *text)
{
    return text[0] != '\0' && strspn(text, "0123456789") == strlen(text);
}

static bool is_printable(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    return true;
}

static bool has_scheme(const char *text)
{
    return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

static bool can_be_parsed(const char *url)
{
    char *query = NULL;
    CURLU *parts = curl_url();
    const bool parsed = parts != NULL && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                        curl_url_get(parts, CURLUPART_QUERY, &query, 0) == CURLUE_NO_QUERY;
    curl_free(query);
    curl_url_cleanup(parts);
    return parsed;
}

kvc_status kvc_engine_base_url(const char *text, bool with_v1, char **url, struct kvc_error *err)
{
    char *whole = is_port(text)      ? kvc_format("http://localhost:%s", text)
                  : has_scheme(text) ? kvc_strdup(text)
                                     : kvc_format("http://%s", text);
    size_t size = strlen(whole);
    while (size > 0 && whole[size - 1] == '/')
        whole[--size] = '\0';
    const bool ends_so = size >= 3 && strcmp(whole + size - 3, "/v1") == 0;
    *url = with_v1 && !ends_so ? kvc_format("%s/v1", whole) : kvc_strdup(whole);
    const bool is_good = text[0] != '\0' && is_printable(text) && can_be_parsed(whole) &&
                         (has_scheme(text) || strstr(text, "://") == NULL);
    free(whole);
    if (is_good)
        return KVC_OK;
    free(*url);
    *url = NULL;
    kvc_fail(err, KVC_EUSAGE, "\"%s\" is no HTTP address", kvc_text_show(kvc_str_of(text)).text);
    return kvc_error_set_expected(err, "http://HOST:PORT, https://HOST, HOST:PORT or PORT");
}

kvc_status kvc_engine_check_api_key(const char *api_key, struct kvc_error *err)
{
    if (api_key == NULL || is_printable(api_key))
        return KVC_OK;
    return kvc_fail(err, KVC_EUSAGE,
                    "OPENAI_API_KEY holds a space or a character that a header cannot carry");
}
