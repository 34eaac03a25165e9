/* Which dialect a server speaks and what it offers, found without changing its state and without
 * sending an operation that could hurt it (protocol.md 1.8). For run, bench and `identify`. */
#ifndef KVC_TARGET_IDENTIFY_H
#define KVC_TARGET_IDENTIFY_H

#include "src/wire/dialect.h"

struct kvc_identity {
    const struct kvc_dialect *dialect;
    char version[64];   /* what HTTP says; "" without HTTP */
    char how[200];      /* which answers decided, for a person */
    int64_t chunk_size; /* tokens */
};

/* Asks over ZMQ (int 21 without payload; then 32; then 11), and over HTTP if http_url is not NULL;
 * when both speak and differ, ZMQ decides and `how` says so. KVC_ECONNECT, KVC_ETIMEOUT (it is
 * reachable and answers none of the questions), KVC_EUNSUPPORTED (a release older than 0.5.0). */
kvc_status kvc_identify(const char *rpc_url, const char *http_url, int64_t connect_timeout_ms,
                        int64_t timeout_ms, struct kvc_identity *identity, struct kvc_error *err);

#endif
