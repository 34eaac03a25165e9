/* libzmq and nothing else: the least that a call can cost, for `bench call` to measure against. */
#ifndef KVC_LINK_BARE_H
#define KVC_LINK_BARE_H

#include "src/wire/frames.h"

struct kvc_bare;

/* A DEALER connected to url. KVC_ESYSTEM. Calls give up after timeout_ms. */
kvc_status kvc_bare_open(const char *url, int64_t timeout_ms, struct kvc_bare **bare,
                         struct kvc_error *err);
void kvc_bare_close(struct kvc_bare *bare);

/* Sends frames, which stay the caller's, and waits for a message, whatever is in it. KVC_ETIMEOUT,
 * KVC_EINTERRUPTED on a signal. */
kvc_status kvc_bare_call(struct kvc_bare *bare, const struct kvc_frames *frames,
                         struct kvc_error *err);

/* A ROUTER on a free port of 127.0.0.1 that sends every message back: writes its URL to url_fd, closes
 * that, and goes on until the process is ended. Returns only when it cannot start. */
void kvc_bare_echo(int url_fd);

#endif
