/* Sessions: what a request id means, and what END_SESSION ends. */
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

static void answers_end_of_unknown(struct kvc_ctx *ctx)
{
    const struct kvc_request request = {.op = KVC_OP_END_SESSION,
                                        .request_id = kvc_fresh_name(ctx, "request")};
    kvc_call(ctx, kvc_ctx_rpc(ctx), &request);
}
KVC_CHECK(answers_end_of_unknown, .id = "session/end-unknown",
          .clause = "END_SESSION of a request that was never made is answered.",
          .source = "protocol 4.9", .exchange = "END_SESSION", .level = KVC_LEVEL_SHOULD,
          .run = answers_end_of_unknown);

static void answers_second_end(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_lookup(ctx, worker, &key);
    kvc_end_session(ctx, worker, &key);
    kvc_end_session(ctx, worker, &key);
}
KVC_CHECK(answers_second_end, .id = "session/end-twice",
          .clause = "END_SESSION is answered also when the session has ended.",
          .source = "protocol 4.9, N17", .exchange = "REGISTER, LOOKUP, QUERY, END_SESSION x 2",
          .level = KVC_LEVEL_SHOULD, .run = answers_second_end);

static const char *const session_uses[] = {"looked-up", "stored", NULL};

static void answers_end_after_leaving(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    if (kvc_ctx_variant_is(ctx, "looked-up"))
        kvc_lookup(ctx, worker, &key);
    else
        kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    kvc_end_session(ctx, worker, &key);
}
KVC_CHECK(answers_end_after_leaving, .id = "session/end-after-leaving",
          .clause = "END_SESSION is answered also when the last instance of the model has left.",
          .source = "protocol 4.4, 4.9, 11.3",
          .exchange = "REGISTER, (LOOKUP, QUERY) | store, UNREGISTER, END_SESSION",
          .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .variants = session_uses,
          .run = answers_end_after_leaving);

static void keeps_chunks(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_end_session(ctx, worker, &key);
    const struct kvc_key later = kvc_key_renamed(ctx, &key);
    kvc_retrieve_stamped(ctx, worker, &later, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(keeps_chunks, .id = "session/chunks-stay",
          .clause = "What a session stored stays when the session ends.", .source = "protocol 4.9",
          .exchange = "REGISTER, store, END_SESSION, LOOKUP, retrieve", .level = KVC_LEVEL_MUST,
          .paths = KVC_PATHS_ALL, .run = keeps_chunks);

static void end_right_behind_store(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_stamp(ctx, worker, &key, blocks, 0);
    const struct kvc_request store = kvc_blocks_request(ctx, KVC_OP_STORE, worker, &key, blocks);
    const struct kvc_request end = {.op = KVC_OP_END_SESSION, .request_id = key.request_id};
    const uint64_t stored = kvc_send(ctx, &worker->rpc, &store);
    const uint64_t ended = kvc_send(ctx, &worker->rpc, &end);
    kvc_expect_true(ctx, "success of STORE",
                    kvc_receive(ctx, &worker->rpc, stored, KVC_OP_STORE)->transfer.success);
    kvc_receive(ctx, &worker->rpc, ended, KVC_OP_END_SESSION);
    kvc_expect_visible(ctx, worker, &key, 2);
    const struct kvc_key later = kvc_key_renamed(ctx, &key);
    kvc_retrieve_stamped(ctx, worker, &later, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(end_right_behind_store, .id = "session/end-right-behind-store",
          .clause = "END_SESSION sent right behind the last STORE takes nothing from it.",
          .source = "protocol 1.5, 4.9, B37",
          .exchange = "REGISTER, STORE and END_SESSION at once, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .run = end_right_behind_store);

/* ---- one request id ---- */

/* Stores tokens, and other tokens with the same request id; each must be found with its own bytes. */
static void expect_both(struct kvc_ctx *ctx, bool ends_between)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key first = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_key second = first;
    second.token_ids = kvc_fresh_chunks(ctx, 2);
    kvc_store_stamped(ctx, worker, &first, kvc_chunk_blocks(ctx, worker, 2), 0);
    if (ends_between)
        kvc_end_session(ctx, worker, &first);
    kvc_store_stamped(ctx, worker, &second, kvc_chunk_blocks(ctx, worker, 2), 1);
    const struct kvc_key read_first = kvc_key_renamed(ctx, &first);
    const struct kvc_key read_second = kvc_key_renamed(ctx, &second);
    kvc_retrieve_stamped(ctx, worker, &read_first, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &read_second, kvc_chunk_blocks(ctx, worker, 2), 1);
}

static void id_used_again_after_end(struct kvc_ctx *ctx)
{
    expect_both(ctx, true);
}
KVC_CHECK(
    id_used_again_after_end, .id = "session/id-reused-after-end",
    .clause = "After END_SESSION a request id may be used again for other tokens.",
    .source = "protocol 4.9",
    .exchange = "REGISTER, store, END_SESSION, store of other tokens, LOOKUP and retrieve of both",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = id_used_again_after_end);

static void id_used_again(struct kvc_ctx *ctx)
{
    expect_both(ctx, false);
}
KVC_CHECK(id_used_again, .id = "session/id-reused",
          .clause =
              "A request id that is used again for other tokens without END_SESSION stands for the "
              "new tokens: nothing is stored or read as the old ones.",
          .source = "protocol 4.9, 11.3",
          .exchange = "REGISTER, store, store of other tokens, LOOKUP and retrieve of both",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = id_used_again);

static void extends_sequence(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 4);
    struct kvc_key head = kvc_key_chunks(worker, &whole, 0, 2);
    head.token_ids = kvc_ints_slice(whole.token_ids, 0, whole.token_ids.count / 2);
    const struct kvc_key tail = kvc_key_chunks(worker, &whole, 2, 2);
    kvc_store_stamped(ctx, worker, &head, kvc_blocks_of_chunks(worker, blocks, 0, 2), 0);
    kvc_store_stamped(ctx, worker, &tail, kvc_blocks_of_chunks(worker, blocks, 2, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &whole, kvc_chunk_blocks(ctx, worker, 4), 0);
}
KVC_CHECK(extends_sequence, .id = "session/sequence-grows",
          .clause = "A request may store its tokens in parts while its sequence grows.",
          .source = "protocol 4.9, B61",
          .exchange = "REGISTER, store 2 chunks, store 2 more, LOOKUP, retrieve 4",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = extends_sequence);

static const char *const odd_ids[] = {"empty", "4-kib", "other-scripts", "separators", NULL};

static struct kvc_str odd_id(struct kvc_ctx *ctx)
{
    const struct kvc_str fresh = kvc_fresh_name(ctx, "request");
    struct kvc_buffer id = {0};
    if (kvc_ctx_variant_is(ctx, "4-kib")) {
        while (id.size < 4096)
            kvc_buffer_append(&id, fresh.data, fresh.size);
    } else if (kvc_ctx_variant_is(ctx, "other-scripts")) {
        kvc_buffer_printf(&id, "请求-запрос-🗝-" KVC_STR_FMT, KVC_STR_ARG(fresh));
    } else if (kvc_ctx_variant_is(ctx, "separators")) {
        kvc_buffer_printf(&id, "a@b/c\\d e:%%\n" KVC_STR_FMT, KVC_STR_ARG(fresh));
    }
    const struct kvc_str copy =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&id)));
    kvc_buffer_clear(&id);
    return copy;
}

static void takes_odd_id(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    key.request_id = odd_id(ctx);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_end_session(ctx, worker, &key);
}
KVC_CHECK(takes_odd_id, .id = "session/odd-ids", .clause = "A request id may be any text.",
          .source = "protocol 4.9", .exchange = "REGISTER, store, LOOKUP, retrieve, END_SESSION",
          .level = KVC_LEVEL_SHOULD, .variants = odd_ids, .run = takes_odd_id);

/* ---- counted ---- */

static const char *const counted_uses[] = {"looked-up", "less-than-a-chunk", "stored", NULL};

static void forgets_session(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t before = kvc_status_count(ctx, "active_sessions");
    const int64_t count =
        kvc_ctx_variant_is(ctx, "less-than-a-chunk") ? 3 : kvc_ctx_facts(ctx)->chunk_size;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_tokens(ctx, count));
    if (kvc_ctx_variant_is(ctx, "stored"))
        kvc_expect_true(ctx, "success of the store",
                        kvc_store(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1)));
    else
        kvc_lookup(ctx, worker, &key);
    kvc_end_session(ctx, worker, &key);
    kvc_expect_status_count(ctx, "active_sessions", before);
}
KVC_CHECK(forgets_session, .id = "session/none-left",
          .clause = "An ended session is no longer counted as active.",
          .source = "protocol 4.9, 8.1, B37",
          .exchange = "REGISTER, LOOKUP | store, END_SESSION, GET /status",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .variants = counted_uses, .run = forgets_session);
