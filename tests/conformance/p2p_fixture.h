/* The P2P operations: by the hashes of chunks, they say where chunks lie. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_P2P_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_P2P_FIXTURE_H

#include "tests/conformance/transfer_fixture.h"

/* The keys by which other servers know the chunks of rank 0 of 1. */
struct kvc_object_keys kvc_object_keys(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                       const struct kvc_key *key);
/* The task of P2P_LOOKUP_AND_LOCK for objects that are made of one array. */
int64_t kvc_p2p_lock(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_object_keys keys,
                     struct kvc_ints shape, struct kvc_str dtype);
/* Its result, for which it waits; each then holds a lock. */
struct kvc_object_addresses kvc_p2p_addresses(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                                              int64_t task);
void kvc_p2p_unlock(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_object_keys keys);

#endif
