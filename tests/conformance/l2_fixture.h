/* A server with files below its memory, named as LMCache's fs adapter names them. For tests/conformance
 * only. */
#ifndef KVC_TESTS_CONFORMANCE_L2_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_L2_FIXTURE_H

#include "tests/conformance/transfer_fixture.h"

extern const struct kvc_target_setup kvc_files_below;

/* What every check of the family declares: it empties the server's memory. */
#define KVC_L2_CHECK                                                                               \
    .needs = KVC_NEED_L2, .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE,                      \
    .setup = &kvc_files_below

/* A worker's chunks, with the key that they were stored under. */
struct kvc_stored {
    struct kvc_worker *worker;
    struct kvc_key key;
};

/* The file of a chunk of the key, in the arena; NULL: its name would be none of LMCache's. */
const char *kvc_l2_path(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                        const struct kvc_key *key, int64_t chunk);
bool kvc_l2_is_there(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                     const struct kvc_key *key, int64_t chunk);
/* Waits until all chunks of the key are below; ends the check when that takes longer than a call may. */
void kvc_l2_await(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key);
/* Fresh chunks, stamped as request 0, stored, and below. */
struct kvc_stored kvc_l2_store(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks);
/* Under a fresh request id: LOOKUP finds exactly so many leading chunks, which are retrieved and hold the
 * stamps of that request. */
void kvc_l2_expect(struct kvc_ctx *ctx, const struct kvc_stored *stored, int64_t chunks,
                   uint64_t request);
/* The same for however many it finds; returns how many. */
int64_t kvc_l2_expect_whole(struct kvc_ctx *ctx, const struct kvc_stored *stored, uint64_t request);

#endif
