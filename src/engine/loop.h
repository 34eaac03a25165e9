/* libcurl's multi interface on epoll: a step costs what has news, not what is in flight. For client.c. */
#ifndef KVC_ENGINE_LOOP_H
#define KVC_ENGINE_LOOP_H

#include <curl/curl.h>

#include "src/base/bytes.h"

struct kvc_engine_loop {
    CURLM *multi;
    int epoll;
    int64_t timer_ns; /* when libcurl wants to be called at the latest; -1: it does not */
};

/* The loop stays where it is until it is closed. KVC_ESYSTEM. */
kvc_status kvc_engine_loop_open(struct kvc_engine_loop *loop, struct kvc_error *err);
/* Waits for news until deadline_ns (kvc_now_ns; never later, up to a millisecond earlier) and moves the
 * transfers on. A signal ends the wait early. KVC_ESYSTEM. */
kvc_status kvc_engine_loop_step(struct kvc_engine_loop *loop, int64_t deadline_ns,
                                struct kvc_error *err);
/* To be called when no transfer is left in it. */
void kvc_engine_loop_close(struct kvc_engine_loop *loop);

#endif
