/* From messages to handlers and back. For the mock's loop. */
#ifndef KVC_TESTS_MOCK_SERVER_DISPATCH_H
#define KVC_TESTS_MOCK_SERVER_DISPATCH_H

#include "src/link/server.h"
#include "tests/mock_server/memory.h"
#include "tests/mock_server/state.h"

struct mock_late_reply;

struct mock_dispatch {
    struct kvc_server *server;
    struct mock_late_reply *late; /* replies that wait for their time, a defect */
    struct mock_memory uids;      /* of requests, a defect */
    struct mock_memory muted;     /* clients that are not answered, a defect */
};

/* Waits up to timeout_ms for messages, takes up all that have arrived, and answers them: what servers
 * do on their main loop first, then transfers, then the rest, so that pipelined requests of different
 * classes are answered out of order (protocol.md 1.5). KVC_ETIMEOUT, KVC_EINTERRUPTED: none came. */
kvc_status mock_dispatch_serve(struct mock_dispatch *dispatch, struct mock *mock,
                               int64_t timeout_ms, struct kvc_error *err);
/* Sends the late replies whose time has come; returns when the next one is due, INT64_MAX: never. */
int64_t mock_dispatch_late(struct mock_dispatch *dispatch, int64_t now_ms);
void mock_dispatch_clear(struct mock_dispatch *dispatch);

#endif
