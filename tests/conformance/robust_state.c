/* What misuse leaves behind, and what the server says of itself after it. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/http_fixture.h"
#include "tests/conformance/robust_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* ---- refusals ---- */

/* Requests that are refused, each for another reason, all under one request id. The last one is
 * answered: the server is done with all of them then, for it serves a client's transfers in order. */
static void send_refused(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    const bool mapped = worker->path == KVC_PATH_LMCACHE_DRIVEN;
    const enum kvc_op store = mapped ? KVC_OP_STORE : KVC_OP_PREPARE_STORE;
    const enum kvc_op retrieve = mapped ? KVC_OP_RETRIEVE : KVC_OP_PREPARE_RETRIEVE;
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    const int64_t no_block = worker->options.geometry.groups[0].num_blocks;
    int64_t *bad_blocks = kvc_arena_alloc_array(kvc_ctx_arena(ctx), blocks.count, sizeof no_block);
    for (size_t i = 0; i < blocks.count; i++)
        bad_blocks[i] = no_block;
    struct kvc_request requests[] = {
        kvc_blocks_request(ctx, store, worker, key, blocks), /* of nobody */
        kvc_blocks_request(ctx, store, worker, key, blocks), /* not whole chunks */
        kvc_blocks_request(ctx, store, worker, key, blocks), /* of no rank */
        kvc_blocks_request(ctx, retrieve, worker, key, kvc_ints_slice(blocks, 0, 1)),
    };
    requests[0].instance_id = kvc_fresh_instance_id(ctx);
    requests[1].key.end -= 1;
    requests[2].key.worker_id = KVC_NIL_INT;
    for (size_t i = 0; i < KVC_COUNT_OF(requests); i++)
        kvc_send(ctx, &worker->rpc, &requests[i]);
    const struct kvc_request last =
        mapped ? kvc_blocks_request(ctx, store, worker, key,
                                    (struct kvc_ints){bad_blocks, blocks.count})
               : kvc_transfer_request(KVC_OP_COMMIT_STORE, worker, key); /* not prepared */
    kvc_send(ctx, &worker->rpc, &last);
    const struct kvc_request miss = kvc_blocks_request(ctx, retrieve, worker, key, blocks);
    kvc_call(ctx, &worker->rpc, &miss);
}

#define L1 "storage_manager.l1_manager."

static void refusals_leave_nothing(struct kvc_ctx *ctx)
{
    enum { ROUNDS = 20 };
    static const char *const counters[] = {"active_sessions", L1 "total_object_count",
                                           L1 "read_locked_count", L1 "write_locked_count"};
    int64_t before[KVC_COUNT_OF(counters)];
    struct kvc_worker *worker = kvc_default_worker(ctx);
    for (size_t i = 0; i < KVC_COUNT_OF(counters); i++)
        before[i] = kvc_status_count(ctx, counters[i]);
    for (int round = 0; round < ROUNDS; round++) {
        const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
        send_refused(ctx, worker, &key);
        kvc_end_session(ctx, worker, &key);
    }
    for (size_t i = 0; i < KVC_COUNT_OF(counters); i++)
        kvc_expect_status_count(ctx, counters[i], before[i]);
}
KVC_CHECK(
    refusals_leave_nothing, .id = "robust/refusals-leave-nothing",
    .clause = "A hundred requests that are refused leave no chunk, no lock and no session behind.",
    .source = "protocol 1.4, 8.1, B02, B33",
    .exchange = "REGISTER, GET /status, (refused requests, END_SESSION) x 20, GET /status",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_ROBUST_FLAGS,
    .paths = KVC_PATHS_ALL, .run = refusals_leave_nothing);

/* ---- a dead server that calls itself healthy ---- */

static const char *const killers[] = {"unknown-operation", "uid-only", NULL};

static void tells_its_health(struct kvc_ctx *ctx)
{
    struct kvc_frames message = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_frames_append_copy(&message, "\x07", 1);
    if (kvc_ctx_variant_is(ctx, "unknown-operation"))
        kvc_frames_append_copy(&message, "\xcd\x03\xe7", 3);
    kvc_expect_ok(ctx, "sending", kvc_client_send_raw(kvc_ctx_rpc(ctx)->client, &message, &err),
                  &err);
    if (kvc_rpc_noop(kvc_ctx_rpc_new(ctx), &err) == KVC_OK)
        return;
    const long status = kvc_http_ask(ctx, "GET", "/healthcheck", NULL).status;
    KVC_EXPECT(ctx, status != 200,
               "GET /healthcheck says 200, and no client is answered over ZMQ any more");
}
KVC_CHECK(tells_its_health, .id = "robust/health-is-told",
          .clause =
              "A server that answers nothing over ZMQ any more does not say over HTTP that it is "
              "healthy.",
          .source = "protocol 8.1, 11.1, 11.5, B01",
          .exchange = "a message that ends some servers; NOOP of a new client; GET /healthcheck",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP, .flags = KVC_ROBUST_FLAGS,
          .variants = killers, .run = tells_its_health);

/* ---- memory that is no longer there ---- */

/* Cuts a layer's segment to nothing: who touches its pages now gets a bus error. */
static void cut_segment(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    const struct kvc_tensor *last = &worker->paged.tensors[worker->paged.tensor_count - 1];
    struct kvc_error err = KVC_ERROR_INIT;
    const int segment = shm_open(last->segment.name, O_RDWR, 0);
    if (segment < 0 || ftruncate(segment, 0) != 0) {
        kvc_fail_errno(&err, "cannot cut a segment of ours short");
        kvc_ctx_error(ctx, "preparing the check", &err);
    }
    close(segment);
}

static const char *const segment_uses[] = {"store", "retrieve", NULL};

static void survives_cut_segment(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    enum kvc_op op = KVC_OP_STORE;
    if (kvc_ctx_variant_is(ctx, "retrieve")) {
        op = KVC_OP_RETRIEVE;
        kvc_store_stamped(ctx, other, &key, kvc_chunk_blocks(ctx, other, 1), 0);
        kvc_lookup(ctx, other, &key);
    }
    cut_segment(ctx, worker);
    const struct kvc_request request =
        kvc_blocks_request(ctx, op, worker, &key, kvc_chunk_blocks(ctx, worker, 1));
    kvc_expect_false(ctx, "success with memory that is not there",
                     kvc_succeeds(ctx, worker, &request));
    kvc_expect_all_served(ctx, bystander);
    const struct kvc_key fresh = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, other, &fresh, kvc_chunk_blocks(ctx, other, 1), 1);
    kvc_retrieve_stamped(ctx, other, &fresh, kvc_chunk_blocks(ctx, other, 1), 1);
}
KVC_CHECK(
    survives_cut_segment, .id = "robust/cut-segment",
    .clause = "A worker whose shared memory became shorter after its registration harms its own "
              "transfers only.",
    .source = "protocol 3.6, B65, N07, N23",
    .exchange = "REGISTER x 2, ftruncate, STORE | RETRIEVE; NOOP, store and retrieve by others",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .variants = segment_uses, .run = survives_cut_segment);
