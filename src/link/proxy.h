/* A proxy between clients and a server that shows every message that passes. Each client gets a connection
 * of its own to the server, under the identity that it has chosen if it has, so that the server tells
 * clients apart as it would without the proxy; messages of one connection keep their order.
 * For `record`. One thread at a time. */
#ifndef KVC_LINK_PROXY_H
#define KVC_LINK_PROXY_H

#include "src/wire/frames.h"

struct kvc_proxy;

/* Called for each message before it goes on; client numbers connections from 0. The frames are the
 * proxy's. */
typedef void kvc_proxy_func(void *user, int64_t client, bool from_server,
                            const struct kvc_frames *frames, int64_t now_ns);

/* Listens on one URL for what is to go to another. KVC_EUSAGE for a URL that is none, KVC_ESYSTEM when the
 * address is taken, KVC_ECONNECT when nobody answers at server_url within connect_timeout_ms; a server
 * that goes away later and comes back is found again. *proxy is closed with kvc_proxy_close. */
kvc_status kvc_proxy_open(const char *listen_url, const char *server_url,
                          int64_t connect_timeout_ms, kvc_proxy_func *show, void *user,
                          struct kvc_proxy **proxy, struct kvc_error *err);
void kvc_proxy_close(struct kvc_proxy *proxy);
/* The URL that it listens on, with the real port. Owned by the proxy. */
const char *kvc_proxy_url(const struct kvc_proxy *proxy);

/* Lets pass what has come, waiting up to timeout_ms for it. KVC_ETIMEOUT when nothing came,
 * KVC_EINTERRUPTED when the flag of kvc_link_set_stop_flag is up. */
kvc_status kvc_proxy_serve(struct kvc_proxy *proxy, int64_t timeout_ms, struct kvc_error *err);

#endif
