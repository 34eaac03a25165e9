/* How the result of a LOOKUP is fetched: when, how often, by which operation. */
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
};

static struct stored store_two_chunks(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    return (struct stored){worker, kvc_key_renamed(ctx, &key)};
}

/* The check's variants name how the result is fetched. */
static const char *const fetch_names[] = {"query", "wait", NULL};
static const enum kvc_op fetch_ops[] = {KVC_OP_QUERY_PREFETCH_STATUS, KVC_OP_WAIT_PREFETCH_STATUS};

static struct kvc_request fetch_of(struct kvc_ctx *ctx, struct kvc_str request_id)
{
    return (struct kvc_request){
        .op = fetch_ops[kvc_variant_index(ctx)], .request_id = request_id, .timeout_seconds = 0.05};
}

static int64_t fetch(struct kvc_ctx *ctx, const struct kvc_rpc *rpc, struct kvc_str request_id)
{
    const struct kvc_request request = fetch_of(ctx, request_id);
    const struct kvc_reply *reply = kvc_call(ctx, rpc, &request);
    KVC_EXPECT(ctx, !reply->is_void, "the result of a lookup in memory is not ready");
    return reply->count;
}

/* Frees what `lookups` lookups of the two stored chunks have locked. */
static void free_all(struct kvc_ctx *ctx, const struct stored *stored, int lookups)
{
    for (int i = 0; i < lookups; i++)
        kvc_free_locks(ctx, stored->worker, &stored->key);
}

static void delivers_result_once(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_request lookup = kvc_lookup_request(&stored.key);
    kvc_call(ctx, &stored.worker->rpc, &lookup);
    kvc_expect_int(ctx, "first answer", fetch(ctx, &stored.worker->rpc, stored.key.request_id), 2);
    kvc_expect_int(ctx, "second answer", fetch(ctx, &stored.worker->rpc, stored.key.request_id), 0);
    free_all(ctx, &stored, 1);
}
KVC_CHECK(delivers_result_once, .id = "lookup/result-once",
          .clause =
              "The result of a lookup is there as soon as LOOKUP is answered, and is delivered "
              "once: the next question gets 0.",
          .source = "protocol 4.7, B39", .exchange = "REGISTER, store, LOOKUP, (QUERY | WAIT) x 2",
          .level = KVC_LEVEL_MUST, .variants = fetch_names, .run = delivers_result_once);

static void delivers_to_one_of_two(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_request lookup = kvc_lookup_request(&stored.key);
    const struct kvc_request question = fetch_of(ctx, stored.key.request_id);
    const struct kvc_rpc *one = &stored.worker->rpc, *other = kvc_ctx_rpc_new(ctx);
    kvc_call(ctx, one, &lookup);
    const uint64_t first = kvc_send(ctx, one, &question), second = kvc_send(ctx, other, &question);
    const int64_t answers[] = {kvc_receive(ctx, one, first, question.op)->count,
                               kvc_receive(ctx, other, second, question.op)->count};
    KVC_EXPECT(ctx, answers[0] + answers[1] == 2 && answers[0] * answers[1] == 0,
               "of two questions at once one must get 2 and the other 0; they get %lld and %lld",
               (long long)answers[0], (long long)answers[1]);
    free_all(ctx, &stored, 1);
}
KVC_CHECK(delivers_to_one_of_two, .id = "lookup/result-to-one",
          .clause = "Of two clients that ask for a result at the same time exactly one gets it.",
          .source = "protocol 4.7, B39",
          .exchange = "REGISTER, store, LOOKUP, (QUERY | WAIT) on two connections",
          .level = KVC_LEVEL_MUST, .variants = fetch_names, .run = delivers_to_one_of_two);

static void answers_unknown_request(struct kvc_ctx *ctx)
{
    kvc_expect_int(ctx, "result of a lookup that was never made",
                   fetch(ctx, kvc_ctx_rpc(ctx), kvc_fresh_name(ctx, "request")), 0);
}
KVC_CHECK(answers_unknown_request, .id = "lookup/unknown-request",
          .clause = "The result of a lookup that was never made is 0.", .source = "protocol 4.7",
          .exchange = "QUERY | WAIT", .level = KVC_LEVEL_MUST, .variants = fetch_names,
          .run = answers_unknown_request);

static void waits_no_longer_than_needed(struct kvc_ctx *ctx)
{
    enum { WAIT_SECONDS = 3 };
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_request lookup = kvc_lookup_request(&stored.key);
    const struct kvc_request wait = {.op = KVC_OP_WAIT_PREFETCH_STATUS,
                                     .request_id = stored.key.request_id,
                                     .timeout_seconds = WAIT_SECONDS};
    struct kvc_rpc impatient = stored.worker->rpc;
    impatient.timeout_ms = WAIT_SECONDS * 1000 / 2;
    kvc_call(ctx, &stored.worker->rpc, &lookup);
    kvc_expect_int(ctx, "result", kvc_call(ctx, &impatient, &wait)->count, 2);
    free_all(ctx, &stored, 1);
}
KVC_CHECK(
    waits_no_longer_than_needed, .id = "lookup/wait-returns-at-once",
    .clause = "WAIT_PREFETCH_STATUS answers when the result is there, not when its time is up.",
    .source = "protocol 4.7, B40", .exchange = "REGISTER, store, LOOKUP, WAIT for 3 s",
    .level = KVC_LEVEL_MUST, .flags = KVC_FLAG_EXCLUSIVE, .run = waits_no_longer_than_needed);

static void shows_hits_without_taking(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_request lookup = kvc_lookup_request(&stored.key);
    const struct kvc_request peek = {.op = KVC_OP_QUERY_PREFETCH_LOOKUP_HITS,
                                     .request_id = stored.key.request_id};
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = stored.key.request_id};
    kvc_call(ctx, &stored.worker->rpc, &lookup);
    kvc_expect_int(ctx, "hits", kvc_call(ctx, &stored.worker->rpc, &peek)->count, 2);
    kvc_expect_int(ctx, "hits again", kvc_call(ctx, &stored.worker->rpc, &peek)->count, 2);
    kvc_expect_int(ctx, "result", kvc_call(ctx, &stored.worker->rpc, &query)->count, 2);
    free_all(ctx, &stored, 1);
}
KVC_CHECK(shows_hits_without_taking, .id = "lookup/hits",
          .clause = "QUERY_PREFETCH_LOOKUP_HITS shows a result and leaves it to be fetched.",
          .source = "protocol 4.7", .exchange = "REGISTER, store, LOOKUP, HITS x 2, QUERY",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_LOOKUP_HITS,
          .run = shows_hits_without_taking);

/* ---- one lookup after another ---- */

static void second_lookup_has_result(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two_chunks(ctx);
    kvc_expect_int(ctx, "result of the first lookup", kvc_lookup(ctx, stored.worker, &stored.key),
                   2);
    kvc_expect_int(ctx, "result of the second lookup", kvc_lookup(ctx, stored.worker, &stored.key),
                   2);
    free_all(ctx, &stored, 2);
}
KVC_CHECK(second_lookup_has_result, .id = "lookup/second-lookup",
          .clause = "A second lookup of the same request has a result of its own.",
          .source = "protocol 4.6, B39", .exchange = "REGISTER, store, (LOOKUP, QUERY) x 2",
          .level = KVC_LEVEL_MUST, .run = second_lookup_has_result);

static void replaces_unfetched_result(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_request lookup = kvc_lookup_request(&stored.key);
    struct kvc_key other = stored.key;
    other.token_ids = kvc_fresh_chunks(ctx, 2);
    kvc_call(ctx, &stored.worker->rpc, &lookup);
    kvc_expect_int(ctx, "result of a lookup of other tokens",
                   kvc_lookup(ctx, stored.worker, &other), 0);
    free_all(ctx, &stored, 1);
}
KVC_CHECK(
    replaces_unfetched_result, .id = "lookup/stale-result",
    .clause = "A result that nobody fetched is not taken for that of the request's next lookup.",
    .source = "protocol 4.6, B39",
    .exchange = "REGISTER, store, LOOKUP, LOOKUP of other tokens, QUERY", .level = KVC_LEVEL_MUST,
    .run = replaces_unfetched_result);

static void keeps_lookups_apart(struct kvc_ctx *ctx)
{
    enum { LOOKUPS = 12 };
    const struct stored stored = store_two_chunks(ctx);
    const struct kvc_rpc *rpc = &stored.worker->rpc;
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    struct kvc_key keys[LOOKUPS];
    uint64_t uids[LOOKUPS];
    for (int i = 0; i < LOOKUPS; i++) {
        const size_t tokens = (size_t)(i % 3 * chunk_size);
        keys[i] = kvc_key_for(ctx, stored.worker, kvc_ints_slice(stored.key.token_ids, 0, tokens));
        const struct kvc_request lookup = kvc_lookup_request(&keys[i]);
        uids[i] = kvc_send(ctx, rpc, &lookup);
    }
    for (int i = LOOKUPS - 1; i >= 0; i--)
        kvc_receive(ctx, rpc, uids[i], KVC_OP_LOOKUP);
    for (int i = 0; i < LOOKUPS; i++) {
        const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                          .request_id = keys[i].request_id};
        kvc_expect_int(ctx, "result of one of twelve lookups", kvc_call(ctx, rpc, &query)->count,
                       i % 3);
        kvc_free_locks(ctx, stored.worker, &keys[i]);
    }
}
KVC_CHECK(keeps_lookups_apart, .id = "lookup/many-at-once",
          .clause = "Of many lookups in flight each request gets its own result.",
          .source = "protocol 1.5, 4.6", .exchange = "REGISTER, store, LOOKUP x 12, QUERY x 12",
          .level = KVC_LEVEL_MUST, .run = keeps_lookups_apart);
