/* Messages that are requests in form, with payloads that no worker would send. */
#include <string.h>

#include "src/base/clock.h"
#include "src/wire/pack.h"
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/robust_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* ---- every operation ---- */

static void survives_every_number(struct kvc_ctx *ctx)
{
    enum { BEYOND_THE_LAST = 70 };
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    for (int number = 0; number < BEYOND_THE_LAST; number++) {
        struct kvc_frames body = {0};
        struct kvc_buffer op = {0};
        kvc_msgpack_write_int(&op, number);
        kvc_frames_append_buffer(&body, &op);
        kvc_send_body(ctx, kvc_ctx_rpc(ctx), &body);
        kvc_ctx_note(ctx, "operation %d, without a payload, was the last that was sent", number);
        kvc_expect_served(ctx, bystander, "NOOP of another client after each operation number");
    }
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_every_number, .id = "robust/every-operation-number",
          .clause =
              "No operation number, known, retired, disabled or free, keeps others from being "
              "served when it comes without a payload.",
          .source = "protocol 1.4, 11.1, 11.2, B01, B09",
          .exchange = "(operation N without a payload; NOOP of another client) x 70",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .run = survives_every_number);

static const char *const garbage_names[] = {
    "nil",       "empty-frame", "reserved-byte", "truncated", "map",
    "list",      "text",        "not-a-number",  "lowest",    "highest",
    "bad-utf-8", "long-array",  "long-map",      "long-text", "long-bytes",
    "long-ext",  "other-ext",   "deep-nesting",  NULL};
static const struct kvc_str garbage_bytes[] = {
    KVC_TABLE_BYTES("\xc0"),
    KVC_TABLE_BYTES(""),
    KVC_TABLE_BYTES("\xc1"),
    KVC_TABLE_BYTES("\xa5xy"),
    KVC_TABLE_BYTES("\x81\xa1x\x01"),
    KVC_TABLE_BYTES("\x92\x01\xa1x"),
    KVC_TABLE_BYTES("\xa3two"),
    KVC_TABLE_BYTES("\xcb\x7f\xf8\0\0\0\0\0\0"),
    KVC_TABLE_BYTES("\xd3\x80\0\0\0\0\0\0\0"),
    KVC_TABLE_BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    KVC_TABLE_BYTES("\xa2\xff\xfe"),
    KVC_TABLE_BYTES("\xdd\xff\xff\xff\xff\x01"),
    KVC_TABLE_BYTES("\xdf\xff\xff\xff\xff\xa1x"),
    KVC_TABLE_BYTES("\xdb\xff\xff\xff\xffx"),
    KVC_TABLE_BYTES("\xc6\xff\xff\xff\xffx"),
    KVC_TABLE_BYTES("\xc9\xff\xff\xff\xff\x01x"),
    KVC_TABLE_BYTES("\x91\xd5\x02xy"),
};

static void append_garbage(struct kvc_ctx *ctx, struct kvc_frames *body)
{
    const struct kvc_str bytes =
        garbage_bytes[kvc_ctx_variant_is(ctx, "deep-nesting") ? 0 : kvc_variant_index(ctx)];
    if (kvc_ctx_variant_is(ctx, "deep-nesting"))
        kvc_append_nested_arrays(body);
    else
        kvc_frames_append_copy(body, bytes.data, bytes.size);
}

/* Payloads of an operation whose own are not known here. */
enum { USUAL_PAYLOADS = 4 };

static void survives_garbage(struct kvc_ctx *ctx)
{
    const struct kvc_dialect *dialect = kvc_ctx_facts(ctx)->dialect;
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    for (int op = KVC_OP_NONE + 1; op < KVC_OP_COUNT; op++) {
        if (dialect->id[op] < 0)
            continue;
        const int known = kvc_request_payload_count(dialect, (enum kvc_op)op);
        struct kvc_frames body = kvc_body_of_op(ctx, (enum kvc_op)op);
        for (int i = 0; i < (known >= 0 ? known : USUAL_PAYLOADS); i++)
            append_garbage(ctx, &body);
        kvc_send_body(ctx, kvc_ctx_rpc(ctx), &body);
        kvc_ctx_note(ctx, "%s was the last that was sent", kvc_op_name((enum kvc_op)op));
        kvc_expect_served(ctx, bystander, "NOOP of another client after each operation");
    }
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(
    survives_garbage, .id = "robust/garbage-payloads",
    .clause =
        "Payloads that are of no use to an operation (of the wrong type, malformed, longer by "
        "their own account than the message) keep nobody else from being served.",
    .source = "protocol 1.3, 1.4, 11.2, B02, B06, B46, N28",
    .exchange = "(each operation with payloads of the variant; NOOP of another client)",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = garbage_names,
    .run = survives_garbage);

/* ---- cut short ---- */

/* Sends the body with one frame cut after each of its bytes. */
static void send_all_cuts(struct kvc_ctx *ctx, const struct kvc_frames *body, size_t frame,
                          size_t step)
{
    const struct kvc_bytes whole = kvc_frames_view(body, frame);
    for (size_t size = 0; size < whole.size; size += size < 512 ? 1 : step) {
        struct kvc_frames cut = kvc_body_with(body, frame, (struct kvc_bytes){whole.data, size});
        kvc_send_body(ctx, kvc_ctx_rpc(ctx), &cut);
    }
}

static void survives_cut_key(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_tokens(ctx, 3));
    const struct kvc_request lookup = kvc_lookup_request(&key);
    struct kvc_frames body = kvc_body_of(ctx, &lookup);
    send_all_cuts(ctx, &body, 1, 1);
    kvc_frames_clear(&body);
    kvc_expect_all_served(ctx, bystander);
    kvc_call(ctx, kvc_ctx_rpc(ctx), &lookup);
}
KVC_CHECK(survives_cut_key, .id = "robust/cut-key",
          .clause =
              "A key that ends after any of its bytes keeps nobody from being served, and the "
              "whole one is.",
          .source = "protocol 1.3, 11.2, N28",
          .exchange = "REGISTER, LOOKUP with a key cut after each byte, LOOKUP",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .run = survives_cut_key);

static void expect_round_trip(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
}

static void survives_cut_handles(struct kvc_ctx *ctx)
{
    enum { HANDLES = 2 }; /* their frame in the body: behind operation and instance id */
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_request registration = kvc_fresh_registration(ctx, &options);
    struct kvc_frames body = kvc_body_of(ctx, &registration);
    send_all_cuts(ctx, &body, HANDLES, 1);
    kvc_frames_clear(&body);
    kvc_expect_all_served(ctx, bystander);
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(
    survives_cut_handles, .id = "robust/cut-handles",
    .clause = "A registration whose tensor handles end after any of their bytes registers nothing, "
              "and keeps nobody from being served.",
    .source = "protocol 3.6, 11.2, N28",
    .exchange = "REGISTER_KV_CACHE with handles cut after each byte, REGISTER, store, retrieve",
    .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
    .run = survives_cut_handles);

/* ---- changed at random ---- */

static const char *const changed_names[] = {"lookup",   "free-locks", "store", "retrieve",
                                            "register", "report",     NULL};

/* A request whose payloads are msgpack alone: no pickles are changed. */
static struct kvc_request request_to_change(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    const bool mapped = worker->path == KVC_PATH_LMCACHE_DRIVEN;
    const enum kvc_op ops[] = {KVC_OP_LOOKUP,
                               KVC_OP_FREE_LOOKUP_LOCKS,
                               mapped ? KVC_OP_STORE : KVC_OP_PREPARE_STORE,
                               mapped ? KVC_OP_RETRIEVE : KVC_OP_PREPARE_RETRIEVE,
                               KVC_OP_REGISTER_ENGINE_DRIVEN,
                               KVC_OP_REPORT_BLOCK_ALLOCATION};
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_request request = kvc_blocks_request(ctx, ops[kvc_variant_index(ctx)], worker, &key,
                                                    kvc_chunk_blocks(ctx, worker, 1));
    struct kvc_worker_options options = worker->options;
    options.mode = KVC_MODE_ENGINE_DRIVEN;
    if (request.op == KVC_OP_REGISTER_ENGINE_DRIVEN)
        return kvc_registration(ctx, &options, NULL);
    request.tp_size = 1;
    request.model_name = worker->options.model_name;
    return request;
}

/* The fields are at the front of a payload, the tokens or ids behind them: half of the changes are to
 * the first 64 bytes. */
static size_t place_to_change(struct kvc_random *random, size_t size)
{
    const size_t front = size < 64 ? size : 64;
    return kvc_random_below(random, kvc_random_below(random, 2) == 0 ? front : size);
}

static void survives_changed_bits(struct kvc_ctx *ctx)
{
    enum { MESSAGES = 150 };
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_request request = request_to_change(ctx, worker);
    struct kvc_random *random = kvc_ctx_random(ctx);
    struct kvc_frames body = kvc_body_of(ctx, &request);
    for (int i = 0; i < MESSAGES; i++) {
        const size_t frame = 1 + kvc_random_below(random, body.count - 1);
        const struct kvc_bytes bytes = kvc_frames_view(&body, frame);
        uint8_t *changed = kvc_arena_alloc(kvc_ctx_arena(ctx), bytes.size + 1);
        memcpy(changed, bytes.data, bytes.size);
        if (bytes.size > 0)
            changed[place_to_change(random, bytes.size)] ^=
                (uint8_t)(1u << kvc_random_below(random, 8));
        struct kvc_frames message =
            kvc_body_with(&body, frame, (struct kvc_bytes){changed, bytes.size});
        kvc_send_body(ctx, kvc_ctx_rpc(ctx), &message);
    }
    kvc_frames_clear(&body);
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_changed_bits, .id = "robust/changed-bits",
          .clause = "Requests with one bit changed anywhere keep nobody else from being served.",
          .source = "protocol 1.3, 11.2, N23, N28",
          .exchange = "REGISTER, 150 requests of the variant with a bit changed, NOOP and PING of "
                      "others",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = changed_names,
          .run = survives_changed_bits);

/* ---- large ---- */

enum { HUGE_BYTES = 64 << 20 };

static const char *const oversized_names[] = {"uid", "request-id", "key", "data", NULL};

/* A msgpack text or byte string of 64 MiB. */
static struct kvc_buffer huge_value(uint8_t type)
{
    struct kvc_buffer value = {0};
    kvc_buffer_reserve(&value, HUGE_BYTES + 5);
    kvc_buffer_append_byte(&value, type);
    for (int shift = 24; shift >= 0; shift -= 8)
        kvc_buffer_append_byte(&value, (uint8_t)((uint32_t)HUGE_BYTES >> shift));
    memset(value.data + value.size, 'x', HUGE_BYTES);
    value.size += HUGE_BYTES;
    return value;
}

static void send_oversized(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    struct kvc_buffer value = huge_value(kvc_ctx_variant_is(ctx, "request-id") ? 0xdb : 0xc6);
    if (kvc_ctx_variant_is(ctx, "uid")) {
        struct kvc_frames message = {0}, noop = kvc_body_of_op(ctx, KVC_OP_NOOP);
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_frames_append_buffer(&message, &value);
        kvc_frames_append_copy(&message, noop.items[0].data, noop.items[0].size);
        kvc_frames_clear(&noop);
        kvc_expect_ok(ctx, "sending", kvc_client_send_raw(worker->rpc.client, &message, &err),
                      &err);
        return;
    }
    struct kvc_frames body;
    if (kvc_ctx_variant_is(ctx, "data")) {
        const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
        const struct kvc_request commit = kvc_transfer_request(KVC_OP_COMMIT_STORE, worker, &key);
        struct kvc_frames whole = kvc_body_of(ctx, &commit);
        body = kvc_body_with(&whole, whole.count - 1, kvc_buffer_view(&value));
        kvc_frames_clear(&whole);
        kvc_buffer_clear(&value);
    } else {
        const bool key = kvc_ctx_variant_is(ctx, "key");
        body = kvc_body_of_op(ctx, key ? KVC_OP_LOOKUP : KVC_OP_QUERY_PREFETCH_STATUS);
        kvc_frames_append_buffer(&body, &value);
        if (key)
            kvc_frames_append_copy(&body, "\x01", 1);
    }
    kvc_send_body(ctx, &worker->rpc, &body);
}

static void survives_oversized(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    send_oversized(ctx, worker);
    kvc_expect_all_served(ctx, bystander);
    expect_round_trip(ctx, kvc_sibling_worker(ctx, worker));
}
KVC_CHECK(survives_oversized, .id = "robust/oversized",
          .clause = "A frame of 64 MiB where a few bytes are due keeps nobody from being served.",
          .source = "protocol 1.1, 11.2, N28",
          .exchange =
              "REGISTER, one message with a frame of 64 MiB, NOOP and PING of others, store, "
              "retrieve",
          .level = KVC_LEVEL_SHOULD, .flags = KVC_ROBUST_FLAGS, .variants = oversized_names,
          .run = survives_oversized);

static const char *const frame_counts[] = {"300", "10000", NULL};

static void survives_many_frames(struct kvc_ctx *ctx)
{
    const struct kvc_rpc *bystander = kvc_bystander(ctx);
    const int count = kvc_ctx_variant_is(ctx, "300") ? 300 : 10000;
    struct kvc_frames body = kvc_body_of_op(ctx, KVC_OP_NOOP);
    for (int i = 0; i < count; i++)
        kvc_frames_append_copy(&body, "\xc0", 1);
    kvc_send_body(ctx, kvc_ctx_rpc(ctx), &body);
    kvc_expect_all_served(ctx, bystander);
}
KVC_CHECK(survives_many_frames, .id = "robust/many-frames",
          .clause = "A message of many frames more than any operation has keeps nobody from being "
                    "served.",
          .source = "protocol 1.3, 11.2",
          .exchange = "NOOP with N payloads; NOOP and PING of others", .level = KVC_LEVEL_SHOULD,
          .flags = KVC_ROBUST_FLAGS, .variants = frame_counts, .run = survives_many_frames);
