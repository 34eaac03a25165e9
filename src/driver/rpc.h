/* Calls: a typed request out, a typed reply back, in the server's dialect. For drivers and checks. */
#ifndef KVC_DRIVER_RPC_H
#define KVC_DRIVER_RPC_H

#include "src/link/client.h"
#include "src/wire/message.h"

/* Sizes that follow from a server's chunk size must not overflow, nor fill the memory. */
enum { KVC_MAX_CHUNK_TOKENS = 1 << 20 };

/* A connection and how to speak on it. Views: the creator keeps client and dialect alive. */
struct kvc_rpc {
    struct kvc_client *client;
    const struct kvc_dialect *dialect;
    int64_t timeout_ms; /* for each call */
};

/* Sends without waiting. */
kvc_status kvc_rpc_send(const struct kvc_rpc *rpc, const struct kvc_request *request, uint64_t *uid,
                        struct kvc_error *err);
/* Waits for the reply to uid and decodes it. Checks that the op frame is the one that was sent.
 * KVC_ETIMEOUT: the server did not answer within timeout_ms (0: not at all). The caller clears
 * *reply with kvc_reply_clear whatever is returned. */
kvc_status kvc_rpc_receive(const struct kvc_rpc *rpc, uint64_t uid, enum kvc_op op,
                           int64_t timeout_ms, struct kvc_reply *reply, struct kvc_error *err);
/* Both. err->where names the operation. */
kvc_status kvc_rpc_call(const struct kvc_rpc *rpc, const struct kvc_request *request,
                        struct kvc_reply *reply, struct kvc_error *err);

/* The calls whose reply is void, a number or a bool, without a kvc_reply to clear. KVC_EFORMAT when
 * the reply is void where a number must come, or the reverse. */
kvc_status kvc_rpc_call_void(const struct kvc_rpc *rpc, const struct kvc_request *request,
                             struct kvc_error *err);
kvc_status kvc_rpc_call_count(const struct kvc_rpc *rpc, const struct kvc_request *request,
                              int64_t *count, struct kvc_error *err);
kvc_status kvc_rpc_call_bool(const struct kvc_rpc *rpc, const struct kvc_request *request, bool *ok,
                             struct kvc_error *err);

/* LOOKUP, then QUERY_PREFETCH_STATUS until it gives a number or timeout_ms has passed. *chunks is
 * the number of leading chunks ready, never more than there are tokens; each is then read-locked.
 * tp_size as the reference client: 1. */
kvc_status kvc_rpc_lookup(const struct kvc_rpc *rpc, const struct kvc_key *key, int64_t tp_size,
                          int64_t *chunks, struct kvc_error *err);
kvc_status kvc_rpc_free_locks(const struct kvc_rpc *rpc, const struct kvc_key *key, int64_t tp_size,
                              struct kvc_error *err);
kvc_status kvc_rpc_end_session(const struct kvc_rpc *rpc, struct kvc_str request_id,
                               struct kvc_error *err);
kvc_status kvc_rpc_noop(const struct kvc_rpc *rpc, struct kvc_error *err);
/* KVC_EFORMAT for a chunk of more tokens than KVC_MAX_CHUNK_TOKENS, or of none. */
kvc_status kvc_rpc_chunk_size(const struct kvc_rpc *rpc, int64_t *chunk_size,
                              struct kvc_error *err);
kvc_status kvc_rpc_check_chunk_size(int64_t chunk_size, struct kvc_error *err);
kvc_status kvc_rpc_clear(const struct kvc_rpc *rpc, bool force, struct kvc_error *err);

#endif
