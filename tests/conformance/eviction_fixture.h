/* A server whose pool a few chunks fill. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_EVICTION_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_EVICTION_FIXTURE_H

#include "tests/conformance/transfer_fixture.h"

enum { KVC_TINY_POOL_BYTES = 1 << 20 };

extern const struct kvc_target_setup kvc_tiny_pool;
/* The same, with leases that end soon. */
extern const struct kvc_target_setup kvc_tiny_pool_short_lease;

/* A worker eight of whose chunks fill that pool; the cache is emptied first. Checks that use it are
 * exclusive. */
struct kvc_worker *kvc_crowding_worker(struct kvc_ctx *ctx);
/* How many of its chunks the pool holds. */
int64_t kvc_pool_chunks(const struct kvc_worker *worker);

/* Stores fresh chunks, one after the other, until so many of them were found. A server may make room a
 * little after it was needed: what it does not take is made up for by another chunk. */
void kvc_crowd(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks);
/* Stores one fresh chunk, whatever is answered; whether it is then found. */
bool kvc_finds_room(struct kvc_ctx *ctx, struct kvc_worker *worker);
/* The same, asked again until two seconds after a lease could have ended: locks may be released a little after an answer. */
bool kvc_soon_finds_room(struct kvc_ctx *ctx, struct kvc_worker *worker);

/* Stores the key's chunks, stamped as request 0, two at a time, and waits until all are found. */
void kvc_store_in_pairs(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key);
/* The same with so many fresh chunks, again and again until all of them are found: a full pool may not take them
 * at once. Returns their key. */
struct kvc_key kvc_store_pressed(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t chunks);
/* Fills the pool with chunks stored in this way, and locks them all under the key returned, which has a
 * salt. A server that makes room ahead of need drops some of a full pool before they are locked: those
 * are stored again. */
struct kvc_key kvc_fill_with_locked(struct kvc_ctx *ctx, struct kvc_worker *worker);
/* Retrieves the chunks from `first` on, two at a time; each must succeed, and hold those stamps. */
void kvc_retrieve_in_pairs(struct kvc_ctx *ctx, struct kvc_worker *worker,
                           const struct kvc_key *key, int64_t first);

#endif
