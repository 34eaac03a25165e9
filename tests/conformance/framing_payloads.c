/* What a server takes as a payload, and what it does with one that it cannot read: nothing. */
#include <stdio.h>
#include <string.h>

#include "src/wire/pack.h"
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* A body of one operation, to which payloads are added by hand. */
static struct kvc_frames body_of(struct kvc_ctx *ctx, enum kvc_op op)
{
    struct kvc_buffer frame = {0};
    kvc_msgpack_write_int(&frame, kvc_ctx_facts(ctx)->dialect->id[op]);
    struct kvc_frames body = {0};
    kvc_frames_append_buffer(&body, &frame);
    return body;
}

static void expect_answer(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_frames *body,
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

/* ---- how many payloads ---- */

static const char *const miscounted_names[] = {
    "noop-surplus",        "get-chunk-size-surplus", "ping-missing",
    "ping-surplus",        "query-missing",          "query-surplus",
    "wait-missing",        "wait-surplus",           "lookup-missing",
    "lookup-surplus",      "free-locks-missing",     "free-locks-surplus",
    "end-session-missing", "end-session-surplus",    "report-missing",
    "report-surplus",      "store-missing",          "store-surplus",
    "retrieve-missing",    "retrieve-surplus",       NULL};
static const struct {
    enum kvc_op op;
    int surplus; /* payloads more than there should be */
} miscounted[] = {
    {KVC_OP_NOOP, 1},
    {KVC_OP_GET_CHUNK_SIZE, 1},
    {KVC_OP_PING, -1},
    {KVC_OP_PING, 1},
    {KVC_OP_QUERY_PREFETCH_STATUS, -1},
    {KVC_OP_QUERY_PREFETCH_STATUS, 1},
    {KVC_OP_WAIT_PREFETCH_STATUS, -1},
    {KVC_OP_WAIT_PREFETCH_STATUS, 1},
    {KVC_OP_LOOKUP, -1},
    {KVC_OP_LOOKUP, 1},
    {KVC_OP_FREE_LOOKUP_LOCKS, -1},
    {KVC_OP_FREE_LOOKUP_LOCKS, 1},
    {KVC_OP_END_SESSION, -1},
    {KVC_OP_END_SESSION, 1},
    {KVC_OP_REPORT_BLOCK_ALLOCATION, -1},
    {KVC_OP_REPORT_BLOCK_ALLOCATION, 1},
    {KVC_OP_STORE, -1},
    {KVC_OP_STORE, 1},
    {KVC_OP_RETRIEVE, -1},
    {KVC_OP_RETRIEVE, 1},
};

/* Engine-driven, STORE and RETRIEVE are PREPARE_STORE and PREPARE_RETRIEVE. */
static enum kvc_op op_on_path(enum kvc_op op, enum kvc_path path)
{
    if (path == KVC_PATH_LMCACHE_DRIVEN)
        return op;
    return op == KVC_OP_STORE      ? KVC_OP_PREPARE_STORE
           : op == KVC_OP_RETRIEVE ? KVC_OP_PREPARE_RETRIEVE
                                   : op;
}

static struct kvc_request request_of(struct kvc_ctx *ctx, enum kvc_op op)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_request request = {
        .op = op_on_path(op, worker->path),
        .key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1)),
        .instance_id = worker->options.instance_id,
        .model_name = worker->options.model_name,
        .tp_size = 1,
        .block_ids = kvc_one_list(ctx, kvc_chunk_blocks(ctx, worker, 1)),
    };
    request.request_id = request.key.request_id;
    return request;
}

static void ignores_wrong_count(struct kvc_ctx *ctx)
{
    const size_t i = kvc_variant_index(ctx);
    const struct kvc_request request = request_of(ctx, miscounted[i].op);
    struct kvc_frames right = {0}, wrong = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "encoding",
                  kvc_request_encode(kvc_ctx_facts(ctx)->dialect, &request, &right, &err), &err);
    for (size_t frame = 0; frame < right.count - (miscounted[i].surplus < 0); frame++)
        kvc_frames_append_copy(&wrong, right.items[frame].data, right.items[frame].size);
    if (miscounted[i].surplus > 0)
        kvc_frames_append_copy(&wrong, "\xc0", 1);
    kvc_frames_clear(&right);
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &wrong,
                           "a request with a wrong number of payloads");
}
KVC_CHECK(
    ignores_wrong_count, .id = "framing/payload-count",
    .clause = "A request with too few or too many payloads is not answered, and the next one is.",
    .source = "protocol 1.3, B10-B13", .exchange = "REGISTER, the operation of the variant, NOOP",
    .level = KVC_LEVEL_SHOULD, .variants = miscounted_names, .run = ignores_wrong_count);

/* ---- what a payload may be ---- */

static const char *const bad_texts[] = {"empty",         "reserved-byte",   "truncated",
                                        "trailing-byte", "number-for-text", "bytes-for-text",
                                        "nil-for-text",  "deep-nesting",    NULL};
static const struct kvc_str bad_text_bytes[] = {
    KVC_TABLE_BYTES(""),        KVC_TABLE_BYTES("\xc1"), KVC_TABLE_BYTES("\xa5xy"),
    KVC_TABLE_BYTES("\xa1x\0"), KVC_TABLE_BYTES("\x05"), KVC_TABLE_BYTES("\xc4\x01x"),
    KVC_TABLE_BYTES("\xc0")};

static void ignores_bad_payload(struct kvc_ctx *ctx)
{
    const size_t i = kvc_variant_index(ctx);
    struct kvc_frames body = body_of(ctx, KVC_OP_QUERY_PREFETCH_STATUS);
    if (kvc_ctx_variant_is(ctx, "deep-nesting"))
        kvc_append_nested_arrays(&body);
    else
        kvc_frames_append_copy(&body, bad_text_bytes[i].data, bad_text_bytes[i].size);
    kvc_expect_silence_raw(ctx, kvc_ctx_rpc(ctx), &body, "a request whose payload is no text");
}
KVC_CHECK(
    ignores_bad_payload, .id = "framing/bad-payload",
    .clause = "A request whose payload does not read as its type is not answered, and the next "
              "one is.",
    .source = "protocol 1.3, 11.2, N28", .exchange = "QUERY_PREFETCH_STATUS with bad bytes, NOOP",
    .level = KVC_LEVEL_SHOULD, .variants = bad_texts, .run = ignores_bad_payload);

static const char *const integer_forms[] = {"float", "digits", "wide", NULL};

static void append_integer(struct kvc_ctx *ctx, struct kvc_frames *body, int64_t value)
{
    struct kvc_buffer payload = {0};
    if (kvc_ctx_variant_is(ctx, "float")) {
        kvc_msgpack_write_float(&payload, (double)value);
    } else if (kvc_ctx_variant_is(ctx, "digits")) {
        char digits[24];
        snprintf(digits, sizeof digits, "%lld", (long long)value);
        kvc_msgpack_write_str(&payload, kvc_str_of(digits));
    } else {
        kvc_buffer_append_byte(&payload, 0xd3); /* int64 */
        for (int shift = 56; shift >= 0; shift -= 8)
            kvc_buffer_append_byte(&payload, (uint8_t)(value >> shift));
    }
    kvc_frames_append_buffer(body, &payload);
}

static void reads_integer_forms(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_frames body =
        body_of(ctx, worker->path == KVC_PATH_LMCACHE_DRIVEN ? KVC_OP_UNREGISTER_KV_CACHE
                                                             : KVC_OP_UNREGISTER_ENGINE_DRIVEN);
    append_integer(ctx, &body, worker->options.instance_id);
    expect_answer(ctx, &worker->rpc, &body, "UNREGISTER");
}
KVC_CHECK(
    reads_integer_forms, .id = "framing/integer-forms",
    .clause = "A payload that is an integer may come as a whole float, as digits, or in any width.",
    .source = "protocol 1.3", .exchange = "REGISTER, UNREGISTER", .level = KVC_LEVEL_OBSERVED,
    .variants = integer_forms, .run = reads_integer_forms);

/* ---- the forms of a key ---- */

struct key_form {
    const char *left_out; /* a field */
    const char *as_text;  /* an integer field written as digits */
    bool reversed;
    bool unknown_added;
    bool as_array;
    bool float_tokens;
    bool bool_tokens;
};

static bool is(const char *name, const char *field)
{
    return field != NULL && strcmp(name, field) == 0;
}

static void write_text(struct kvc_buffer *out, const char *name, struct kvc_str value)
{
    kvc_msgpack_write_str(out, kvc_str_of(name));
    kvc_msgpack_write_str(out, value);
}

static void write_nil(struct kvc_buffer *out, const char *name)
{
    kvc_msgpack_write_str(out, kvc_str_of(name));
    kvc_msgpack_write_nil(out);
}

static void write_integer(struct kvc_buffer *out, const char *name, int64_t value, bool as_text)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    if (as_text) {
        write_text(out, name, kvc_str_of(digits));
        return;
    }
    kvc_msgpack_write_str(out, kvc_str_of(name));
    kvc_msgpack_write_int(out, value);
}

static void write_tokens(struct kvc_buffer *out, struct kvc_ints tokens,
                         const struct key_form *form)
{
    kvc_msgpack_write_str(out, KVC_STR("token_ids"));
    kvc_msgpack_write_array(out, (uint32_t)tokens.count);
    for (size_t i = 0; i < tokens.count; i++) {
        if (form->float_tokens)
            kvc_msgpack_write_float(out, (double)tokens.items[i]);
        else if (form->bool_tokens)
            kvc_msgpack_write_bool(out, tokens.items[i] % 2 != 0);
        else
            kvc_msgpack_write_int(out, tokens.items[i]);
    }
}

static void write_field(struct kvc_buffer *out, const char *name, const struct kvc_key *key,
                        const struct key_form *form)
{
    const bool as_text = is(name, form->as_text);
    if (is(name, "model_name"))
        write_text(out, name, key->model_name);
    else if (is(name, "request_id"))
        write_text(out, name, key->request_id);
    else if (is(name, "cache_salt"))
        write_text(out, name, key->cache_salt);
    else if (is(name, "token_ids"))
        write_tokens(out, key->token_ids, form);
    else if (is(name, "worker_id"))
        write_nil(out, name);
    else if (is(name, "world_size"))
        write_integer(out, name, key->world_size, as_text);
    else if (is(name, "start"))
        write_integer(out, name, key->start, as_text);
    else if (is(name, "end"))
        write_integer(out, name, key->end, as_text);
    else
        write_integer(out, name, key->num_kv_readers, as_text);
}

/* The key's map in the given form; num_kv_readers where the dialect has it. */
static void write_key(struct kvc_ctx *ctx, const struct kvc_key *key, const struct key_form *form,
                      struct kvc_buffer *out)
{
    static const char *const names[] = {"model_name", "world_size", "worker_id",
                                        "token_ids",  "start",      "end",
                                        "request_id", "cache_salt", "num_kv_readers"};
    const size_t count = KVC_COUNT_OF(names) - !kvc_ctx_has(ctx, KVC_FEATURE_KV_READERS);
    const size_t pairs = count - (form->left_out != NULL) + form->unknown_added;
    if (form->as_array)
        kvc_msgpack_write_array(out, (uint32_t)pairs * 2);
    else
        kvc_msgpack_write_map(out, (uint32_t)pairs);
    if (form->unknown_added)
        write_integer(out, "added_by_a_later_release", 1, false);
    for (size_t i = 0; i < count; i++) {
        const char *name = names[form->reversed ? count - 1 - i : i];
        if (!is(name, form->left_out))
            write_field(out, name, key, form);
    }
}

static struct kvc_frames lookup_in_form(struct kvc_ctx *ctx, const struct kvc_key *key,
                                        const struct key_form *form)
{
    struct kvc_buffer payload = {0};
    write_key(ctx, key, form, &payload);
    struct kvc_frames body = body_of(ctx, KVC_OP_LOOKUP);
    kvc_frames_append_buffer(&body, &payload);
    kvc_frames_append_copy(&body, "\x01", 1); /* tp_size */
    return body;
}

static const char *const good_key_forms[] = {"reversed", "unknown-field", "salt-left-out", NULL};
static const struct key_form good_keys[] = {
    {.reversed = true}, {.unknown_added = true}, {.left_out = "cache_salt"}};

static void reads_key_form(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_group *group = &worker->options.geometry.groups[0];
    kvc_store_stamped(ctx, worker, &key,
                      kvc_fresh_blocks(ctx, group->num_blocks, key.end / group->block_size), 0);
    const struct kvc_key asked = kvc_key_renamed(ctx, &key);
    struct kvc_frames body = lookup_in_form(ctx, &asked, &good_keys[kvc_variant_index(ctx)]);
    expect_answer(ctx, &worker->rpc, &body, "LOOKUP");
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = asked.request_id};
    kvc_expect_int(ctx, "chunks found by LOOKUP", kvc_call(ctx, &worker->rpc, &query)->count, 1);
    kvc_free_locks(ctx, worker, &asked);
}
KVC_CHECK(reads_key_form, .id = "framing/key-forms",
          .clause =
              "A key is read by its field names: in any order, with fields that the server does "
              "not know, and without those that have a default.",
          .source = "protocol 1.3, 3.1, N29", .exchange = "REGISTER, store, LOOKUP, QUERY",
          .level = KVC_LEVEL_MUST, .variants = good_key_forms, .run = reads_key_form);

static const char *const bad_key_forms[] = {"as-array",     "field-left-out", "text-for-number",
                                            "float-tokens", "bool-tokens",    NULL};
static const struct key_form bad_keys[] = {{.as_array = true},
                                           {.left_out = "token_ids"},
                                           {.as_text = "world_size"},
                                           {.float_tokens = true},
                                           {.bool_tokens = true}};

static void ignores_bad_key(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_frames body = lookup_in_form(ctx, &key, &bad_keys[kvc_variant_index(ctx)]);
    kvc_expect_silence_raw(ctx, &worker->rpc, &body, "a LOOKUP whose key does not read as one");
}
KVC_CHECK(ignores_bad_key, .id = "framing/bad-key",
          .clause =
              "A request whose key lacks a field or has one of another type is not answered, and "
              "the next one is.",
          .source = "protocol 1.3, 3.1", .exchange = "REGISTER, LOOKUP with a bad key, NOOP",
          .level = KVC_LEVEL_SHOULD, .variants = bad_key_forms, .run = ignores_bad_key);
