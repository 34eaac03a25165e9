/* The URLs that link accepts, taken apart before libzmq sees them. For this folder only. */
#ifndef KVC_LINK_URL_H
#define KVC_LINK_URL_H

#include <stdbool.h>

#include "src/base/error.h"

enum kvc_url_use { KVC_URL_CONNECT, KVC_URL_BIND };

enum { KVC_URL_MAX_HOST = 255, KVC_URL_MAX_PATH = 107 /* what sockaddr_un holds */ };

struct kvc_url {
    bool is_ipc;
    bool is_ipv6;                    /* the host was written in brackets */
    char host[KVC_URL_MAX_HOST + 1]; /* tcp: without brackets */
    int port;                        /* tcp: 0 lets the system choose (bind only) */
    char path[KVC_URL_MAX_PATH + 1]; /* ipc */
};

/* Reads tcp://HOST:PORT or ipc://PATH. Binding also takes the host "*" and the port 0 or "*".
 * KVC_EUSAGE with one line that names the URL and what is accepted. */
kvc_status kvc_url_parse(const char *text, enum kvc_url_use use, struct kvc_url *url,
                         struct kvc_error *err);

/* Why nobody answers at a URL, as a plain connect finds out within about a second: "connection
 * refused", "no such host", "no such socket", … libzmq retries without telling. */
void kvc_url_explain_unreachable(const struct kvc_url *url, char *reason,
                                 unsigned long reason_size);

/* True when something accepts connections on an ipc path. */
bool kvc_url_ipc_is_alive(const char *path);

#endif
