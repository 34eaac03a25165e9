/* What every transfer to an engine has: where it goes, who asks, and what libcurl's failures are called.
 * For this folder only. */
#ifndef KVC_ENGINE_TRANSFER_H
#define KVC_ENGINE_TRANSFER_H

#include <curl/curl.h>

#include "src/base/bytes.h"

enum { KVC_ENGINE_CONNECT_TIMEOUT_MS = 30000 };

/* A handle for url, HTTP/1.1 over TCP or TLS: no proxy, no redirect followed, certificates verified
 * (against SSL_CERT_FILE where that is set). problem takes libcurl's own words. Never NULL. */
CURL *kvc_engine_transfer_new(const char *url, struct curl_slist *headers,
                              char problem[CURL_ERROR_SIZE]);

/* "Authorization: Bearer KEY", if there is a key; the caller frees the list. */
struct curl_slist *kvc_engine_headers_new(const char *api_key);

/* Fills *err for a transfer that libcurl gave up: KVC_ECONNECT, KVC_ETIMEOUT, KVC_ELOST (the connection
 * ended halfway), KVC_EFORMAT (what came is not HTTP). */
kvc_status kvc_engine_transfer_fail(CURL *curl, CURLcode code, const char *problem,
                                    struct kvc_error *err);

/* Fills *err for an answer that is not 200: KVC_EREFUSED, with the status and what the body says. */
kvc_status kvc_engine_refusal(CURL *curl, struct kvc_str body, struct kvc_error *err);

#endif
