/* A server for driver tests: it answers every operation from a few fields that a test sets, right or
 * wrong, and remembers what it was asked. */
#ifndef KVC_TESTS_UNIT_DRIVER_FAKE_SERVER_H
#define KVC_TESTS_UNIT_DRIVER_FAKE_SERVER_H

#include "src/driver/worker.h"
#include "src/kv/stamp.h"
#include "tests/unit/link/peer.h"

enum { FAKE_CHUNK = 32 };

struct fake_server {
    struct peer peer;
    const struct kvc_dialect *dialect;
    struct kvc_pool_info pool;                    /* REGISTER_ENGINE_DRIVEN */
    struct kvc_transfer_context store_context;    /* PREPARE_STORE */
    struct kvc_prepare_retrieve_result retrieved; /* PREPARE_RETRIEVE */
    bool ok;                                      /* COMMIT_*, STORE, RETRIEVE */
    int64_t found[8];                             /* results of lookups; the last one repeats */
    size_t found_count;
    int64_t loading; /* how many queries are void before the result */
    bool silent[KVC_OP_COUNT];
    int asked[KVC_OP_COUNT];              /* how often each operation came */
    struct kvc_frames last[KVC_OP_COUNT]; /* the last request of each operation */
};

/* Serves the dialect of a release. Zero fields first, or set them after; not while a call runs. */
void fake_start(struct fake_server *fake, const char *release);
void fake_stop(struct fake_server *fake);

/* A connection to it with a short limit. */
struct kvc_rpc fake_rpc(struct fake_server *fake);

/* Decodes the last request of an operation. Views live until fake_stop. */
struct kvc_request fake_last(struct fake_server *fake, enum kvc_op op);

/* A worker of 2 layers, 8 blocks of 16 tokens, 2 heads x 8, float16, NHD, chunks of 32 tokens. */
struct kvc_worker_options small_worker(enum kvc_transfer_mode mode);
struct kvc_worker *open_small(struct fake_server *fake, struct kvc_rpc *rpc,
                              const struct kvc_worker_options *options);

/* Bytes and shape of one chunk of that worker. */
enum { SMALL_CHUNK_BYTES = 2 * 2 * FAKE_CHUNK * 16 * 2 };
extern const int64_t small_shape[4];
/* Its key for two chunks, and four blocks for them, neither contiguous nor ascending. */
extern const int64_t small_blocks[4];
struct kvc_key small_key(const struct kvc_worker *worker);
/* A right slot for one of its chunks. */
struct kvc_slot small_slot(int64_t offset);
/* Creates a pool of four chunks in real shared memory and offers it; close it with
 * kvc_segment_close. */
void fake_offer_pool(struct fake_server *fake, struct kvc_segment *pool);

/* What the tests stamp data with. */
extern const struct kvc_stamp_source small_source;
/* A chunk holds the stamps of the tokens from first_token on. */
void expect_stamped_chunk(const struct kvc_worker *worker, int64_t first_token,
                          const uint8_t *chunk);

#endif
