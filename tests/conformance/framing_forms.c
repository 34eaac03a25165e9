/* The forms of payloads and answers beyond those of framing_payloads.c: structs inside payloads, flags,
 * operations that a server has switched off, and answers byte for byte. */
#include <string.h>

#include "src/wire/pack.h"
#include "tests/conformance/robust_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* The result of an operation as it came; fails when there is none, or it is not answered. */
static struct kvc_bytes raw_result(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                                   struct kvc_frames *body, const char *what)
{
    uint64_t uid = 0;
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, what, kvc_client_send(rpc->client, body, &uid, &err), &err);
    kvc_expect_ok(ctx, what, kvc_client_wait(rpc->client, uid, rpc->timeout_ms, &reply, &err),
                  &err);
    const bool has_result = reply.count == 3;
    const struct kvc_bytes result = has_result ? kvc_frames_view(&reply, 2) : (struct kvc_bytes){0};
    const struct kvc_str copy = kvc_arena_copy_str(
        kvc_ctx_arena(ctx), (struct kvc_str){(const char *)result.data, result.size});
    kvc_frames_clear(&reply);
    KVC_EXPECT(ctx, has_result, "%s is answered without a result", what);
    return (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
}

static void expect_answered(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body,
                            const char *what)
{
    uint64_t uid = 0;
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, what, kvc_client_send(rpc->client, body, &uid, &err), &err);
    kvc_expect_ok(ctx, what, kvc_client_wait(rpc->client, uid, rpc->timeout_ms, &reply, &err),
                  &err);
    kvc_frames_clear(&reply);
}

/* ---- operations that are not there ---- */

static void ignores_retired_number(struct kvc_ctx *ctx)
{
    struct kvc_frames body = {0};
    kvc_frames_append_copy(&body, "\x0b", 1);
    kvc_frames_append_copy(&body, "\xa1x", 2);
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &body, "operation 11, which is retired");
}
KVC_CHECK(ignores_retired_number, .id = "framing/retired-operation",
          .clause = "Operation 11, which the newest dialect has retired, is not answered.",
          .source = "protocol 1.2, 2, 10.28, N11, N31", .exchange = "operation 11, NOOP",
          .level = KVC_LEVEL_OBSERVED, .first = "0.5.6",
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .run = ignores_retired_number);

static const char *const switched_off[] = {"query-cache", "blend", NULL};

static void ignores_what_is_off(struct kvc_ctx *ctx)
{
    const struct kvc_dialect *dialect = kvc_ctx_facts(ctx)->dialect;
    enum kvc_op op = KVC_OP_UNREGISTER_Q_CACHE;
    if (kvc_ctx_variant_is(ctx, "blend"))
        op = dialect->id[KVC_OP_CB_UNREGISTER_ROPE] >= 0 ? KVC_OP_CB_UNREGISTER_ROPE
                                                         : KVC_OP_CB_UNREGISTER_KV_CACHE;
    if (dialect->id[op] < 0)
        kvc_ctx_skip(ctx, "the dialect has no such operation");
    struct kvc_frames body = kvc_body_of_op(ctx, op);
    kvc_frames_append_copy(&body, "\x01", 1); /* an instance id */
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &body, "an operation that is switched off");
}
KVC_CHECK(ignores_what_is_off, .id = "framing/switched-off",
          .clause = "An operation that the server knows and has switched off is not answered.",
          .source = "protocol 1.4, 2, 11.1, B09",
          .exchange = "UNREGISTER_Q_CACHE | CB_UNREGISTER_ROPE or CB_UNREGISTER_KV_CACHE, NOOP",
          .level = KVC_LEVEL_OBSERVED, .variants = switched_off, .run = ignores_what_is_off);

/* ---- inside payloads ---- */

static const char *const bad_block_lists[] = {"flat", "floats", "bools", "texts",
                                              "nil",  "map",    NULL};

static void append_block(struct kvc_ctx *ctx, struct kvc_buffer *out, int64_t block)
{
    if (kvc_ctx_variant_is(ctx, "floats"))
        kvc_msgpack_write_float(out, (double)block);
    else if (kvc_ctx_variant_is(ctx, "bools"))
        kvc_msgpack_write_bool(out, true);
    else if (kvc_ctx_variant_is(ctx, "texts"))
        kvc_msgpack_write_str(out, KVC_STR("1"));
    else
        kvc_msgpack_write_int(out, block);
}

/* The ids of one list, in the form of the variant. */
static struct kvc_bytes odd_block_lists(struct kvc_ctx *ctx, struct kvc_ints blocks)
{
    struct kvc_buffer out = {0};
    if (kvc_ctx_variant_is(ctx, "nil")) {
        kvc_msgpack_write_nil(&out);
    } else if (kvc_ctx_variant_is(ctx, "map")) {
        kvc_msgpack_write_map(&out, 0);
    } else {
        if (!kvc_ctx_variant_is(ctx, "flat"))
            kvc_msgpack_write_array(&out, 1);
        kvc_msgpack_write_array(&out, (uint32_t)blocks.count);
        for (size_t i = 0; i < blocks.count; i++)
            append_block(ctx, &out, blocks.items[i]);
    }
    const struct kvc_str copy =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), (struct kvc_str){(const char *)out.data, out.size});
    kvc_buffer_clear(&out);
    return (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
}

static void ignores_bad_block_list(struct kvc_ctx *ctx)
{
    enum { BLOCK_IDS = 3 }; /* behind operation, key and instance */
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    const struct kvc_request store = kvc_blocks_request(ctx, KVC_OP_STORE, worker, &key, blocks);
    struct kvc_frames right = kvc_body_of(ctx, &store);
    struct kvc_frames wrong = kvc_body_with(&right, BLOCK_IDS, odd_block_lists(ctx, blocks));
    kvc_frames_clear(&right);
    kvc_expect_silence_raw(ctx, &worker->rpc, &wrong, "block ids that are no lists of integers");
    kvc_expect_settled_hits(ctx, worker, &key, 0);
}
KVC_CHECK(
    ignores_bad_block_list, .id = "store/bad-block-lists",
    .clause =
        "STORE whose block ids are not one list of integers a group, such as the flat list of "
        "0.4.6, is not answered and stores nothing.",
    .source = "protocol 1.3, 3.5, 10.5, B07, B10", .exchange = "REGISTER, STORE, NOOP, LOOKUP",
    .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = bad_block_lists,
    .run = ignores_bad_block_list);

static const char *const timeout_forms[] = {"float", "integer", NULL};

static void reads_timeout(struct kvc_ctx *ctx)
{
    struct kvc_frames body = kvc_body_of_op(ctx, KVC_OP_WAIT_PREFETCH_STATUS);
    kvc_frames_append_copy(&body, "\xa7nothing", 8);
    if (kvc_ctx_variant_is(ctx, "float"))
        kvc_frames_append_copy(&body, "\xca\x3f\x00\x00\x00", 5); /* 0.5 in four bytes */
    else
        kvc_frames_append_copy(&body, "\x00", 1);
    kvc_expect_bytes(ctx, "the result of WAIT_PREFETCH_STATUS of an unknown request",
                     raw_result(ctx, kvc_ctx_rpc(ctx), &body, "WAIT_PREFETCH_STATUS"),
                     (struct kvc_bytes){(const uint8_t *)"\x00", 1});
}
KVC_CHECK(reads_timeout, .id = "framing/float-forms",
          .clause = "A payload that is a float may come in four bytes, or as an integer.",
          .source = "protocol 1.3, 3.5", .exchange = "WAIT_PREFETCH_STATUS",
          .level = KVC_LEVEL_OBSERVED, .variants = timeout_forms, .run = reads_timeout);

static const char *const flag_forms[] = {"nil", "zero", "empty-text", "text", "float", NULL};
static const struct kvc_str flag_bytes[] = {KVC_TABLE_BYTES("\xc0"), KVC_TABLE_BYTES("\x00"),
                                            KVC_TABLE_BYTES("\xa0"),
                                            KVC_TABLE_BYTES("\xa5"
                                                            "false"),
                                            KVC_TABLE_BYTES("\xcb\x40\x0c\0\0\0\0\0\0")};
static const bool flag_values[] = {false, false, false, true, true};

static void reads_flag(struct kvc_ctx *ctx)
{
    const size_t i = kvc_variant_index(ctx);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), 1);
    struct kvc_frames body = kvc_body_of_op(ctx, KVC_OP_CLEAR);
    kvc_frames_append_copy(&body, flag_bytes[i].data, flag_bytes[i].size);
    expect_answered(ctx, &worker->rpc, &body, "CLEAR");
    kvc_expect_int(ctx, "a locked chunk outlives the CLEAR",
                   kvc_retrieve(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0),
                   !flag_values[i]);
}
KVC_CHECK(
    reads_flag, .id = "framing/flag-forms",
    .clause =
        "A payload that is a flag may be any value: nil, 0 and what is empty count as false, the "
        "text \"false\" as true.",
    .source = "protocol 1.3, 4.15", .exchange = "REGISTER, store, LOOKUP, CLEAR, retrieve",
    .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_CLEAR_FORCE,
    .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .variants = flag_forms, .run = reads_flag);

/* ---- answers, once ---- */

static void answers_transfers_once(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0); /* nothing is locked */
    for (int i = 0; i < 2; i++) /* one may be answered before what came with it */
        kvc_expect_served(ctx, &worker->rpc, "NOOP after the transfers");
    const struct kvc_client_counters counters = kvc_client_counters(worker->rpc.client);
    kvc_expect_int(ctx, "second answers to a request", (int64_t)counters.duplicate, 0);
    kvc_expect_int(ctx, "answers to no request", (int64_t)counters.unknown, 0);
}
KVC_CHECK(answers_transfers_once, .id = "framing/transfers-answered-once",
          .clause = "Every operation of a transfer is answered once, whether it succeeds or not, "
                    "and nothing comes that was not asked for.",
          .source = "protocol 1.1, 1.5, B04",
          .exchange = "REGISTER, store, LOOKUP, retrieve, retrieve, NOOP x 2",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = answers_transfers_once);

/* ---- answers byte for byte ---- */

static void expect_golden(struct kvc_ctx *ctx, const struct kvc_rpc *rpc,
                          const struct kvc_request *request, struct kvc_str golden)
{
    struct kvc_frames body = kvc_body_of(ctx, request);
    kvc_expect_bytes(ctx, "the bytes of the result",
                     raw_result(ctx, rpc, &body, kvc_op_name(request->op)),
                     (struct kvc_bytes){(const uint8_t *)golden.data, golden.size});
}

static void number_is_short(struct kvc_ctx *ctx)
{
    const struct kvc_request request = {.op = KVC_OP_GET_CHUNK_SIZE};
    struct kvc_buffer own = {0};
    kvc_msgpack_write_int(&own, kvc_ctx_facts(ctx)->chunk_size);
    const struct kvc_str golden =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), (struct kvc_str){(const char *)own.data, own.size});
    kvc_buffer_clear(&own);
    expect_golden(ctx, kvc_ctx_rpc(ctx), &request, golden);
}
KVC_CHECK(number_is_short, .id = "framing/shortest-numbers",
          .clause = "A number in an answer has its shortest form.",
          .source = "protocol 3, 4.15, N29", .exchange = "GET_CHUNK_SIZE",
          .level = KVC_LEVEL_OBSERVED, .run = number_is_short);

static void miss_is_golden(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_request read = kvc_transfer_request(KVC_OP_PREPARE_RETRIEVE, worker, &key);
    expect_golden(ctx, &worker->rpc, &read,
                  KVC_STR("\x83\xa7success\xc2\xa4"
                          "data\xc4\x00\xa7"
                          "context\x80"));
}
KVC_CHECK(
    miss_is_golden, .id = "framing/bytes-of-a-miss",
    .clause =
        "The answer of PREPARE_RETRIEVE to a miss is a map of success, data and context, in that "
        "order, with nothing left out.",
    .source = "protocol 3, 3.3, N29", .exchange = "REGISTER, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ENGINE_DRIVEN, .run = miss_is_golden);

static void no_slots_is_golden(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_request prepare = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, &key);
    if (worker->path == KVC_PATH_ENGINE_DRIVEN_INLINE) {
        expect_golden(ctx, &worker->rpc, &prepare,
                      KVC_STR("\x81\xa7"
                              "context\x80"));
        return;
    }
    kvc_store_slots(ctx, worker, &key, 0);
    expect_golden(ctx, &worker->rpc, &prepare,
                  KVC_STR("\x81\xa7"
                          "context\x82\xa5slots\x90\xad"
                          "chunk_indices\x90"));
}
KVC_CHECK(
    no_slots_is_golden, .id = "framing/bytes-without-slots",
    .clause =
        "The answer of PREPARE_STORE without slots is a context of two empty lists where there is a "
        "pool, and an empty one where there is none.",
    .source = "protocol 3, 3.3, 4.11", .exchange = "REGISTER, store, PREPARE_STORE",
    .level = KVC_LEVEL_OBSERVED, .paths = KVC_PATHS_ENGINE_DRIVEN, .run = no_slots_is_golden);

static const char *const transfer_results[] = {"true", "false", NULL};

static void transfer_is_golden(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const bool stores = kvc_ctx_variant_is(ctx, "true");
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_request request =
        kvc_blocks_request(ctx, stores ? KVC_OP_STORE : KVC_OP_RETRIEVE, worker, &key,
                           kvc_chunk_blocks(ctx, worker, 1));
    expect_golden(ctx, &worker->rpc, &request,
                  stores ? KVC_STR("\x92\xc4\x0fstub_ipc_handle\xc3")
                         : KVC_STR("\x92\xc4\x0fstub_ipc_handle\xc2"));
}
KVC_CHECK(
    transfer_is_golden, .id = "framing/bytes-of-a-transfer",
    .clause =
        "The answer of STORE and RETRIEVE is a list of an event handle, which on CPU is a stand-in, "
        "and a flag.",
    .source = "protocol 3.4, 3.7", .exchange = "REGISTER, STORE | RETRIEVE of nothing",
    .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .variants = transfer_results, .run = transfer_is_golden);

/* ---- order ---- */

static void keeps_order_of_transfers(struct kvc_ctx *ctx)
{
    enum { ROUNDS = 16 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    uint64_t prepared[ROUNDS], committed[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
        const struct kvc_request prepare = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, &key);
        const struct kvc_request commit = kvc_transfer_request(KVC_OP_COMMIT_STORE, worker, &key);
        prepared[i] = kvc_send(ctx, &worker->rpc, &prepare);
        committed[i] = kvc_send(ctx, &worker->rpc, &commit);
    }
    for (int i = 0; i < ROUNDS; i++) {
        kvc_receive(ctx, &worker->rpc, prepared[i], KVC_OP_PREPARE_STORE);
        kvc_expect_true(ctx, "the answer of a COMMIT_STORE sent right behind its PREPARE_STORE",
                        kvc_receive(ctx, &worker->rpc, committed[i], KVC_OP_COMMIT_STORE)->ok);
    }
}
KVC_CHECK(keeps_order_of_transfers, .id = "prepare/order-of-one-client",
          .clause = "Transfers of one client are carried out in the order in which it sent them.",
          .source = "protocol 1.5, 1.6",
          .exchange = "(PREPARE_STORE, COMMIT_STORE) x 16 without waiting",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = keeps_order_of_transfers);
