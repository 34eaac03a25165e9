/* What checks share: geometry, keys, tokens, blocks, workers, and calls that end the check when
 * they do not come out. For tests/conformance only. */
#ifndef KVC_TESTS_CONFORMANCE_FIXTURE_H
#define KVC_TESTS_CONFORMANCE_FIXTURE_H

#include "src/kv/digest.h"
#include "src/kv/stamp.h"
#include "src/run/check.h"

/* Bytes, NULs included, as an element of a table of struct kvc_str. */
#define KVC_TABLE_BYTES(literal)                                                                   \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* ---- fresh names and numbers: unlike any other check's ---- */

int64_t kvc_fresh_instance_id(struct kvc_ctx *ctx);
struct kvc_str kvc_fresh_name(struct kvc_ctx *ctx, const char *tag); /* models, requests, salts */
/* `count` tokens (each < 2^31). Two calls never share their first chunk. */
struct kvc_ints kvc_fresh_tokens(struct kvc_ctx *ctx, int64_t count);
/* The same for a number of full chunks of the server. */
struct kvc_ints kvc_fresh_chunks(struct kvc_ctx *ctx, int64_t chunks);
/* `count` different block ids below num_blocks, not contiguous, not ascending; with the first call
 * that has at least two, block 0's neighbour 1 and the last block are among them (block 0 is the
 * null block of newer servers, and gets a check of its own). */
struct kvc_ints kvc_fresh_blocks(struct kvc_ctx *ctx, int64_t num_blocks, int64_t count);
/* Block ids as STORE and RETRIEVE take them: one list a group, here of one group. */
struct kvc_int_lists kvc_one_list(struct kvc_ctx *ctx, struct kvc_ints blocks);
struct kvc_ints kvc_ints_slice(struct kvc_ints ints, size_t first, size_t count);

/* The position of this instance's variant in the check's .variants: an index into the values that
 * the check lists beside the names. */
size_t kvc_variant_index(struct kvc_ctx *ctx);

/* ---- workers ---- */

/* The geometry most checks use: 2 layers, 2 heads x 8 (MLA: 1 x 32), float16, 6 chunks' worth of
 * blocks and some more; layout and dtype from the check's axes where it has them, else NHD as HND
 * where the dialect has no layout hint on CPU (protocol.md 6.1). */
struct kvc_geometry kvc_small_geometry(struct kvc_ctx *ctx);

/* Options with that geometry, a fresh instance id and a fresh model, on the check's path. */
struct kvc_worker_options kvc_worker_defaults(struct kvc_ctx *ctx);
/* Opens a worker, or ends the check: "registration" is what failed. Closed when the check ends. */
struct kvc_worker *kvc_open_worker(struct kvc_ctx *ctx, const struct kvc_worker_options *options);
/* The same; NULL when the registration is not answered. */
struct kvc_worker *kvc_try_worker(struct kvc_ctx *ctx, const struct kvc_worker_options *options);
/* With the defaults. */
struct kvc_worker *kvc_default_worker(struct kvc_ctx *ctx);
/* Empties the server's memory; by force: also of what is locked. For checks that have the server for themselves. */
void kvc_clear(struct kvc_ctx *ctx, bool force);
/* A second worker of the same model and geometry as another, with its own instance id and its own
 * connection. */
struct kvc_worker *kvc_sibling_worker(struct kvc_ctx *ctx, const struct kvc_worker *worker);

/* One of the two ranks of a model, with its own instance id. */
struct kvc_worker *kvc_rank_of_two(struct kvc_ctx *ctx, struct kvc_str model, int64_t rank);

/* ---- the usual steps; each ends the check when it does not come out ---- */

/* A key for all of `tokens` with a fresh request id and no salt; its session is ended when the check
 * ends. */
struct kvc_key kvc_key_for(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                           struct kvc_ints tokens);
/* The same key with another request id, or window. */
struct kvc_key kvc_key_renamed(struct kvc_ctx *ctx, const struct kvc_key *key);
struct kvc_key kvc_key_window(const struct kvc_key *key, int64_t start, int64_t end);

/* Chunks that LOOKUP finds. Takes locks: free or retrieve them. */
int64_t kvc_lookup(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key);
/* Chunks that LOOKUP finds with a fresh request id; its locks are freed and its session ended. */
int64_t kvc_peek(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key);
void kvc_free_locks(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key);
void kvc_end_session(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key);

/* Stamps the blocks as the key's tokens, stores them, and waits until LOOKUP sees them all.
 * request numbers the stamp's source. */
void kvc_store_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                       struct kvc_ints blocks, uint64_t request);
/* LOOKUP (all chunks of the key's window from 0 must be there), RETRIEVE into the blocks, which are
 * poisoned first, and the check that each element and the guards are right. */
void kvc_retrieve_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                          struct kvc_ints blocks, uint64_t request);
/* The pieces of the two. */
bool kvc_store(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
               struct kvc_ints blocks);
bool kvc_retrieve(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                  struct kvc_ints blocks, int64_t skip_first_n_tokens);
void kvc_stamp(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
               struct kvc_ints blocks, uint64_t request);
void kvc_expect_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints blocks, uint64_t request);
/* Where the check's workers have their caches on a GPU: copies the cache to the GPU after it was written by
 * hand, and back before it is looked at by hand. What writes and looks here does it by itself. */
void kvc_push(struct kvc_ctx *ctx, struct kvc_worker *worker);
void kvc_pull(struct kvc_ctx *ctx, struct kvc_worker *worker);
/* The byte that destinations are filled with before a retrieve. */
enum { KVC_POISON = 0x5a };
/* Every block of the cache except these is still poison. */
void kvc_expect_untouched_except(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                 struct kvc_ints blocks);

/* ---- calls ---- */

/* LOOKUP as a worker sends it: of the chunks of all ranks. */
struct kvc_request kvc_lookup_request(const struct kvc_key *key);
/* Sends and expects an answer; the reply is freed when the check ends. */
struct kvc_reply *kvc_call(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                           const struct kvc_request *request);
/* NOOP is answered on this connection, whatever it says. what names it for a failure. */
void kvc_expect_served(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, const char *what);
/* Sends and expects no answer within the silence limit, and then that NOOP on the same connection
 * is answered. what says why silence is right. */
void kvc_expect_silence(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                        const struct kvc_request *request, const char *what);
/* The same for hand-made frames [op, payload…]; takes them over. */
void kvc_expect_silence_raw(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body,
                            const char *what);
/* Sends; true and *reply filled when answered, false on silence. */
bool kvc_try_call(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, const struct kvc_request *request,
                  struct kvc_reply **reply);

/* Appends a frame of 200,000 arrays inside each other. */
void kvc_append_nested_arrays(struct kvc_frames *frames);

/* ---- oracles ---- */

/* A number, or the length of a list, in GET /status by path
 * ("storage_manager.l1_manager.read_locked_count", "registered_gpu_ids"). */
int64_t kvc_status_count(struct kvc_ctx *ctx, const char *path);
/* Waits up to two seconds until that number is `expected`; ends the check if it is not. */
void kvc_expect_status_count(struct kvc_ctx *ctx, const char *path, int64_t expected);
/* POST /cache/checksums; the digests, one a chunk. */
struct kvc_strs kvc_http_checksums(struct kvc_ctx *ctx, int64_t instance_id, struct kvc_ints blocks,
                                   int64_t blocks_per_chunk);

#endif
