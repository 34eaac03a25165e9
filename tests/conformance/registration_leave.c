/* Leaving: who may, what goes with an instance, and what stays. */
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

static void leave(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
}

static void answers_unknown_leave(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_request request = kvc_unregistration(options.mode, kvc_fresh_instance_id(ctx));
    kvc_call(ctx, kvc_ctx_rpc(ctx), &request);
}
KVC_CHECK(answers_unknown_leave, .id = "registration/leave-unknown",
          .clause = "Unregistering an instance that was never there is answered.",
          .source = "protocol 4.4", .exchange = "UNREGISTER", .level = KVC_LEVEL_SHOULD,
          .paths = KVC_PATHS_ALL, .run = answers_unknown_leave);

static void answers_second_leave(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_request request =
        kvc_unregistration(worker->options.mode, worker->options.instance_id);
    leave(ctx, worker);
    kvc_call(ctx, &worker->rpc, &request);
}
KVC_CHECK(answers_second_leave, .id = "registration/leave-twice",
          .clause = "Unregistering an instance twice is answered twice.", .source = "protocol 4.4",
          .exchange = "REGISTER, UNREGISTER x 2", .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL,
          .run = answers_second_leave);

static void keeps_model_for_sibling(struct kvc_ctx *ctx)
{
    struct kvc_worker *first = kvc_default_worker(ctx);
    struct kvc_worker *second = kvc_sibling_worker(ctx, first);
    const struct kvc_key key = kvc_key_for(ctx, first, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, first, &key, kvc_chunk_blocks(ctx, first, 2), 0);
    leave(ctx, first);
    kvc_retrieve_stamped(ctx, second, &key, kvc_chunk_blocks(ctx, second, 2), 0);
}
KVC_CHECK(keeps_model_for_sibling, .id = "registration/sibling-leaves",
          .clause = "When one of two instances of a model leaves, the other goes on finding and "
                    "reading what was stored.",
          .source = "protocol 4.4, B23",
          .exchange = "REGISTER x 2, store, UNREGISTER one, LOOKUP and retrieve by the other",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = keeps_model_for_sibling);

static void forgets_model_with_last(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    leave(ctx, worker);
    const struct kvc_key asked = kvc_key_renamed(ctx, &key);
    kvc_expect_int(ctx, "chunks found without an instance", kvc_lookup(ctx, worker, &asked), 0);
}
KVC_CHECK(forgets_model_with_last, .id = "registration/last-leaves",
          .clause = "Without an instance of the model LOOKUP finds nothing.",
          .source = "protocol 4.4, 4.6, B23",
          .exchange = "REGISTER, store, UNREGISTER, LOOKUP, QUERY", .level = KVC_LEVEL_OBSERVED,
          .paths = KVC_PATHS_ALL, .run = forgets_model_with_last);

static void keeps_chunks(struct kvc_ctx *ctx)
{
    struct kvc_worker *first = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, first, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, first, &key, kvc_chunk_blocks(ctx, first, 2), 0);
    leave(ctx, first);
    struct kvc_worker *later = kvc_sibling_worker(ctx, first);
    kvc_retrieve_stamped(ctx, later, &key, kvc_chunk_blocks(ctx, later, 2), 0);
}
KVC_CHECK(
    keeps_chunks, .id = "registration/chunks-stay",
    .clause = "Stored chunks outlive the last instance of their model and are found by the next.",
    .source = "protocol 4.4", .exchange = "REGISTER, store, UNREGISTER, REGISTER, LOOKUP, retrieve",
    .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .run = keeps_chunks);

enum { STORES = 4, STORES_AHEAD = 40, CHUNKS = 4 };

static void send_store(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                       const struct kvc_worker *worker, const struct kvc_key *key,
                       struct kvc_ints blocks)
{
    const struct kvc_request store = kvc_blocks_request(ctx, KVC_OP_STORE, worker, key, blocks);
    kvc_send(ctx, rpc, &store);
}

/* STOREs of all keys, and the instance's leaving, without waiting in between; then it comes back with
 * other memory. On the same connection the STOREs of another instance go ahead, which take longer than
 * that: so those of the instance wait when it leaves, and when it is back. */
static void come_back_behind_stores(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                    const struct kvc_worker *other, const struct kvc_key *keys,
                                    struct kvc_ints blocks)
{
    const struct kvc_rpc *rpc = &worker->rpc;
    const struct kvc_request unregister =
        kvc_unregistration(worker->options.mode, worker->options.instance_id);
    const struct kvc_request registration = kvc_fresh_registration(ctx, &worker->options);
    for (int i = 0; i < STORES_AHEAD; i++) {
        const struct kvc_key key = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, CHUNKS));
        send_store(ctx, rpc, other, &key, blocks);
    }
    for (int i = 0; i < STORES; i++)
        send_store(ctx, rpc, worker, &keys[i], blocks);
    kvc_receive(ctx, rpc, kvc_send(ctx, rpc, &unregister), unregister.op);
    kvc_call(ctx, rpc, &registration);
}

/* The server may finish each store, or drop it. */
static void come_back_and_read(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, CHUNKS);
    struct kvc_key keys[STORES];
    for (int i = 0; i < STORES; i++)
        keys[i] = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_stamp(ctx, worker, &keys[0], blocks, 0); /* of any of them: tokens are no part of a stamp */
    come_back_behind_stores(ctx, worker, other, keys, blocks);
    const struct kvc_key fence = kvc_key_for(ctx, other, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, other, &fence, kvc_chunk_blocks(ctx, other, 1), 1);
    for (int i = 0; i < STORES; i++) {
        const int64_t found = kvc_peek(ctx, other, &keys[i]);
        KVC_EXPECT(ctx, found <= CHUNKS, "LOOKUP finds %lld chunks of %d", (long long)found,
                   CHUNKS);
        const struct kvc_key part = kvc_key_chunks(other, &keys[i], 0, found);
        if (found > 0)
            kvc_retrieve_stamped(ctx, other, &part, kvc_chunk_blocks(ctx, other, found), 0);
    }
}

/* On a busy machine the STOREs may be done before the instance is back. */
static void leaves_with_stores_under_way(struct kvc_ctx *ctx)
{
    enum { TRIES = 3 };
    for (int i = 0; i < TRIES; i++)
        come_back_and_read(ctx);
}
KVC_CHECK(
    leaves_with_stores_under_way, .id = "registration/leave-during-store",
    .clause =
        "An instance that leaves while its STOREs are under way is answered, can register again "
        "with other memory, and what is found of those stores is whole.",
    .source = "protocol 1.5, 4.4, N22",
    .exchange =
        "(REGISTER x 2, STORE x 44, UNREGISTER and REGISTER at once; STORE, LOOKUP, RETRIEVE of "
        "the other) x 3",
    .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .run = leaves_with_stores_under_way);

static void leaves_nothing(struct kvc_ctx *ctx)
{
    enum { ROUNDS = 10 };
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const char *list = options.mode == KVC_MODE_LMCACHE_DRIVEN ? "registered_gpu_ids"
                                                               : "registered_non_cuda_instance_ids";
    const int64_t before = kvc_status_count(ctx, list);
    for (int i = 0; i < ROUNDS; i++) {
        struct kvc_worker *worker = kvc_open_worker(ctx, &options);
        kvc_expect_int(ctx, list, kvc_status_count(ctx, list), before + 1);
        leave(ctx, worker);
    }
    kvc_expect_int(ctx, list, kvc_status_count(ctx, list), before);
}
KVC_CHECK(
    leaves_nothing, .id = "registration/leaves-nothing",
    .clause = "An instance that comes and goes ten times is listed while it is there, and not "
              "afterwards.",
    .source = "protocol 4.4, 8.1, B23", .exchange = "(REGISTER, GET /status, UNREGISTER) x 10",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
    .paths = KVC_PATHS_ALL, .run = leaves_nothing);

/* ---- operations of an instance that is not there ---- */

static const char *const engine_driven_op_names[] = {"prepare-store", "commit-store",
                                                     "prepare-retrieve", "commit-retrieve", NULL};
static const enum kvc_op engine_driven_ops[] = {KVC_OP_PREPARE_STORE, KVC_OP_COMMIT_STORE,
                                                KVC_OP_PREPARE_RETRIEVE, KVC_OP_COMMIT_RETRIEVE};
static const char *const lmcache_driven_op_names[] = {"store", "retrieve", NULL};
static const enum kvc_op lmcache_driven_ops[] = {KVC_OP_STORE, KVC_OP_RETRIEVE};

/* A worker that is not there cannot have another worker's memory or reservations used for it. */
static void expect_engine_driven_refusal(struct kvc_ctx *ctx, struct kvc_worker *neighbour,
                                         int64_t absent_id)
{
    const struct kvc_key key = kvc_key_for(ctx, neighbour, kvc_fresh_chunks(ctx, 1));
    struct kvc_request request =
        kvc_transfer_request(engine_driven_ops[kvc_variant_index(ctx)], neighbour, &key);
    request.instance_id = absent_id;
    kvc_expect_silence(ctx, &neighbour->rpc, &request, "an instance that is not registered");
}

static void refuses_unknown_engine_driven(struct kvc_ctx *ctx)
{
    expect_engine_driven_refusal(ctx, kvc_default_worker(ctx), kvc_fresh_instance_id(ctx));
}
KVC_CHECK(refuses_unknown_engine_driven, .id = "registration/unknown-engine-driven",
          .clause = "An engine-driven operation of an instance that was never registered is not "
                    "answered, also where others of its model are.",
          .source = "protocol 4.10-4.12, B02, B21",
          .exchange = "REGISTER, the operation of the variant of another instance, NOOP",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_ENGINE_DRIVEN,
          .variants = engine_driven_op_names, .run = refuses_unknown_engine_driven);

static void refuses_gone_engine_driven(struct kvc_ctx *ctx)
{
    struct kvc_worker *gone = kvc_default_worker(ctx);
    struct kvc_worker *neighbour = kvc_sibling_worker(ctx, gone);
    leave(ctx, gone);
    expect_engine_driven_refusal(ctx, neighbour, gone->options.instance_id);
}
KVC_CHECK(refuses_gone_engine_driven, .id = "registration/gone-engine-driven",
          .clause = "An engine-driven operation of an instance that has left is not answered.",
          .source = "protocol 4.4, 4.10-4.12, B42",
          .exchange = "REGISTER x 2, UNREGISTER one, the operation of the variant, NOOP",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_ENGINE_DRIVEN,
          .variants = engine_driven_op_names, .run = refuses_gone_engine_driven);

/* Silence up to 0.5.4, [empty, false] from 0.5.5: never true, and nothing is stored. */
static void expect_lmcache_driven_refusal(struct kvc_ctx *ctx, struct kvc_worker *neighbour,
                                          int64_t absent_id)
{
    const struct kvc_key key = kvc_key_for(ctx, neighbour, kvc_fresh_chunks(ctx, 1));
    struct kvc_request request =
        kvc_blocks_request(ctx, lmcache_driven_ops[kvc_variant_index(ctx)], neighbour, &key,
                           kvc_chunk_blocks(ctx, neighbour, 1));
    request.instance_id = absent_id;
    if (!kvc_ctx_has(ctx, KVC_FEATURE_STORE_UNKNOWN_ANSWERED)) {
        kvc_expect_silence(ctx, &neighbour->rpc, &request, "an instance that is not registered");
        return;
    }
    const struct kvc_reply *reply = kvc_call(ctx, &neighbour->rpc, &request);
    kvc_expect_false(ctx, "success of an instance that is not registered", reply->transfer.success);
}

static void refuses_unknown_lmcache_driven(struct kvc_ctx *ctx)
{
    expect_lmcache_driven_refusal(ctx, kvc_default_worker(ctx), kvc_fresh_instance_id(ctx));
}
KVC_CHECK(refuses_unknown_lmcache_driven, .id = "registration/unknown-lmcache-driven",
          .clause =
              "STORE and RETRIEVE of an instance that was never registered are refused as the "
              "dialect does it: without an answer, or with false.",
          .source = "protocol 4.13, B02, B21",
          .exchange = "REGISTER, the operation of the variant of another instance, NOOP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = lmcache_driven_op_names, .run = refuses_unknown_lmcache_driven);

static void refuses_gone_lmcache_driven(struct kvc_ctx *ctx)
{
    struct kvc_worker *gone = kvc_default_worker(ctx);
    struct kvc_worker *neighbour = kvc_sibling_worker(ctx, gone);
    leave(ctx, gone);
    expect_lmcache_driven_refusal(ctx, neighbour, gone->options.instance_id);
}
KVC_CHECK(refuses_gone_lmcache_driven, .id = "registration/gone-lmcache-driven",
          .clause =
              "STORE and RETRIEVE of an instance that has left are refused as the dialect does "
              "it: without an answer, or with false.",
          .source = "protocol 4.4, 4.13, B42",
          .exchange = "REGISTER x 2, UNREGISTER one, the operation of the variant, NOOP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_LMCACHE_DRIVEN,
          .variants = lmcache_driven_op_names, .run = refuses_gone_lmcache_driven);
