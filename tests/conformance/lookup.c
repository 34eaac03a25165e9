/* What LOOKUP counts. */
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* A worker that has stored `chunks` chunks of fresh tokens. */
struct stored {
    struct kvc_worker *worker;
    struct kvc_key key; /* for all of them */
};

static struct stored store_chunks(struct kvc_ctx *ctx, int64_t chunks)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    return (struct stored){worker, key};
}

/* Tokens of one list, then of another. */
static struct kvc_ints join(struct kvc_ctx *ctx, struct kvc_ints head, struct kvc_ints tail)
{
    int64_t *tokens =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), head.count + tail.count, sizeof *tokens);
    for (size_t i = 0; i < head.count; i++)
        tokens[i] = head.items[i];
    for (size_t i = 0; i < tail.count; i++)
        tokens[head.count + i] = tail.items[i];
    return (struct kvc_ints){tokens, head.count + tail.count};
}

/* The tokens with another value in one place. */
static struct kvc_ints with_token(struct kvc_ctx *ctx, struct kvc_ints tokens, size_t place,
                                  int64_t value)
{
    const struct kvc_ints changed = {&value, 1};
    const struct kvc_ints head = join(ctx, kvc_ints_slice(tokens, 0, place), changed);
    return join(ctx, head, kvc_ints_slice(tokens, place + 1, tokens.count - place - 1));
}

static void misses(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_expect_hits(ctx, worker, &key, 0);
}
KVC_CHECK(misses, .id = "lookup/miss",
          .clause = "LOOKUP of tokens that nobody stored finds 0 chunks.", .source = "protocol 4.6",
          .exchange = "REGISTER, LOOKUP, QUERY", .level = KVC_LEVEL_MUST, .run = misses);

static void finds_stored(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    for (int64_t chunks = 1; chunks <= 4; chunks++) {
        const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
        kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
        kvc_expect_hits(ctx, worker, &key, chunks);
    }
}
KVC_CHECK(
    finds_stored, .id = "lookup/stored",
    .clause = "LOOKUP counts the chunks that were stored: chunks, not tokens, and all of them.",
    .source = "protocol 4.6", .exchange = "REGISTER, (store, LOOKUP, QUERY) x 4",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = finds_stored);

static void finds_one_workers(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key stored = kvc_key_chunks(worker, &key, 0, 2);
    kvc_store_stamped(ctx, worker, &stored, kvc_chunk_blocks(ctx, worker, 2), 0);
    struct kvc_request lookup = kvc_lookup_request(&key);
    lookup.key.worker_id = KVC_SOME_INT(0);
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = key.request_id};
    kvc_call(ctx, &worker->rpc, &lookup);
    kvc_expect_int(ctx, "chunks that LOOKUP finds of worker 0",
                   kvc_call(ctx, &worker->rpc, &query)->count, 2);
    kvc_expect_true(ctx, "success of the retrieve",
                    kvc_retrieve(ctx, worker, &stored, kvc_chunk_blocks(ctx, worker, 2), 0));
}
KVC_CHECK(finds_one_workers, .id = "lookup/named-worker",
          .clause = "A LOOKUP that names the only worker finds and locks what that worker stored.",
          .source = "protocol 4.6", .exchange = "REGISTER, store, LOOKUP, QUERY, retrieve",
          .level = KVC_LEVEL_OBSERVED, .run = finds_one_workers);

/* ---- the leading ones ---- */

static const char *const gaps[] = {"first-missing", "second-missing", "third-missing", NULL};

static void stops_at_gap(struct kvc_ctx *ctx)
{
    const int64_t missing = (int64_t)kvc_variant_index(ctx);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    for (int64_t chunk = 0; chunk < 4; chunk++) {
        const struct kvc_key window = kvc_key_chunks(worker, &key, chunk, 1);
        if (chunk != missing)
            kvc_expect_true(ctx, "success of the store",
                            kvc_store(ctx, worker, &window, kvc_chunk_blocks(ctx, worker, 1)));
    }
    kvc_expect_settled_hits(ctx, worker, &key, missing);
}
KVC_CHECK(
    stops_at_gap, .id = "lookup/gap",
    .clause = "LOOKUP counts only the leading chunks: the first that is missing ends the count.",
    .source = "protocol 4.6, B16, B61",
    .exchange = "REGISTER, store three of four chunks, LOOKUP, QUERY", .level = KVC_LEVEL_MUST,
    .paths = KVC_PATHS_ALL, .variants = gaps, .run = stops_at_gap);

static void finds_prefix_of_longer(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 2);
    const struct kvc_key key =
        kvc_key_for(ctx, stored.worker, join(ctx, stored.key.token_ids, kvc_fresh_chunks(ctx, 2)));
    kvc_expect_hits(ctx, stored.worker, &key, 2);
}
KVC_CHECK(finds_prefix_of_longer, .id = "lookup/longer-prompt",
          .clause = "LOOKUP of a longer prompt finds the chunks of its beginning.",
          .source = "protocol 4.6, 7.3", .exchange = "REGISTER, store 2 chunks, LOOKUP of 4, QUERY",
          .level = KVC_LEVEL_MUST, .run = finds_prefix_of_longer);

/* ---- where a chunk ends ---- */

static const char *const tail_sizes[] = {"minus-one", "exact", "plus-one", NULL};

static void drops_partial_tail(struct kvc_ctx *ctx)
{
    const int64_t tail = (int64_t)kvc_variant_index(ctx) - 1;
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    const struct stored stored = store_chunks(ctx, 4);
    for (int64_t k = 1; k <= 3; k++) {
        const int64_t count = k * chunk_size + tail;
        const struct kvc_key key =
            kvc_key_for(ctx, stored.worker, kvc_ints_slice(stored.key.token_ids, 0, (size_t)count));
        kvc_expect_hits(ctx, stored.worker, &key, count / chunk_size);
    }
}
KVC_CHECK(
    drops_partial_tail, .id = "lookup/partial-tail",
    .clause = "LOOKUP counts whole chunks: of one token less than k chunks it finds k - 1, of one "
              "more k.",
    .source = "protocol 4.6, B59, N13", .exchange = "REGISTER, store 4 chunks, (LOOKUP, QUERY) x 3",
    .level = KVC_LEVEL_MUST, .variants = tail_sizes, .run = drops_partial_tail);

static const char *const short_prompts[] = {"no-tokens", "one-token", "three-tokens", NULL};
static const int64_t short_counts[] = {0, 1, 3};

static void answers_short_prompt(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 1);
    const size_t count = (size_t)short_counts[kvc_variant_index(ctx)];
    const struct kvc_key key =
        kvc_key_for(ctx, stored.worker, kvc_ints_slice(stored.key.token_ids, 0, count));
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &key), 0);
    kvc_end_session(ctx, stored.worker, &key);
}
KVC_CHECK(answers_short_prompt, .id = "lookup/less-than-a-chunk",
          .clause = "LOOKUP of less than one chunk finds 0, and its session ends like any other.",
          .source = "protocol 4.6, B37", .exchange = "REGISTER, store, LOOKUP, QUERY, END_SESSION",
          .level = KVC_LEVEL_MUST, .variants = short_prompts, .run = answers_short_prompt);

/* ---- which tokens ---- */

static const char *const changed_places[] = {"first-token", "last-token-of-first-chunk",
                                             "first-token-of-second-chunk", "last-token", NULL};

static void sees_changed_token(struct kvc_ctx *ctx)
{
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    const int64_t places[] = {0, chunk_size - 1, chunk_size, 3 * chunk_size - 1};
    const int64_t place = places[kvc_variant_index(ctx)];
    const struct stored stored = store_chunks(ctx, 3);
    const struct kvc_ints tokens = stored.key.token_ids;
    const struct kvc_ints changed = with_token(ctx, tokens, (size_t)place, tokens.items[place] ^ 1);
    const struct kvc_key key = kvc_key_for(ctx, stored.worker, changed);
    kvc_expect_hits(ctx, stored.worker, &key, place / chunk_size);
}
KVC_CHECK(
    sees_changed_token, .id = "lookup/changed-token",
    .clause = "One other token, and LOOKUP finds only the chunks before the one that holds it.",
    .source = "protocol 7.1, 7.3", .exchange = "REGISTER, store 3 chunks, LOOKUP, QUERY",
    .level = KVC_LEVEL_MUST, .variants = changed_places, .run = sees_changed_token);

static void depends_on_what_came_before(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 2);
    const struct kvc_ints other = kvc_fresh_chunks(ctx, 1);
    const struct kvc_ints second = kvc_ints_slice(stored.key.token_ids, other.count, other.count);
    const struct kvc_key key = kvc_key_for(ctx, stored.worker, join(ctx, other, second));
    const struct kvc_key first_chunk = kvc_key_chunks(stored.worker, &key, 0, 1);
    kvc_expect_hits(ctx, stored.worker, &key, 0);
    kvc_store_stamped(ctx, stored.worker, &first_chunk, kvc_chunk_blocks(ctx, stored.worker, 1), 1);
    kvc_expect_hits(ctx, stored.worker, &key, 1);
}
KVC_CHECK(depends_on_what_came_before, .id = "lookup/same-tokens-behind-others",
          .clause = "A chunk is found only behind the tokens that it was stored behind: of [A, B] "
                    "stored and [C] stored, [C, B] has one chunk.",
          .source = "protocol 7.1, 7.3, B20",
          .exchange = "REGISTER, store [A, B], LOOKUP [C, B], store [C], LOOKUP [C, B]",
          .level = KVC_LEVEL_MUST, .run = depends_on_what_came_before);

static const char *const edge_tokens[] = {"all-zero", "all-two-32-minus-1", NULL};

static void takes_edge_tokens(struct kvc_ctx *ctx)
{
    const int64_t value = kvc_ctx_variant_is(ctx, "all-zero") ? 0 : UINT32_MAX;
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const size_t count = 2 * (size_t)kvc_ctx_facts(ctx)->chunk_size;
    int64_t *tokens = kvc_arena_alloc_array(kvc_ctx_arena(ctx), count, sizeof *tokens);
    for (size_t i = 0; i < count; i++)
        tokens[i] = value;
    const struct kvc_key key = kvc_key_for(ctx, worker, (struct kvc_ints){tokens, count});
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(takes_edge_tokens, .id = "lookup/edge-tokens",
          .clause = "Tokens may be any number of 32 bits, also all the same.",
          .source = "protocol 3.1, 7.2", .exchange = "REGISTER, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .variants = edge_tokens, .run = takes_edge_tokens);

static const char *const bad_tokens[] = {"minus-one", "two-32", NULL};
static const int64_t bad_token_values[] = {-1, 1ll << 32};

static void refuses_bad_token(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_ints chunk = kvc_fresh_chunks(ctx, 1);
    const struct kvc_ints tokens =
        with_token(ctx, chunk, chunk.count / 2, bad_token_values[kvc_variant_index(ctx)]);
    const struct kvc_key key = kvc_key_for(ctx, worker, tokens);
    const struct kvc_request request = kvc_lookup_request(&key);
    kvc_expect_silence(ctx, &worker->rpc, &request, "a token that does not fit 32 bits");
}
KVC_CHECK(refuses_bad_token, .id = "lookup/bad-token",
          .clause = "LOOKUP with a token that does not fit 32 bits is not answered.",
          .source = "protocol 3.1", .exchange = "REGISTER, LOOKUP, NOOP", .level = KVC_LEVEL_SHOULD,
          .variants = bad_tokens, .run = refuses_bad_token);

/* ---- the window of the key ---- */

static const char *const ends[] = {"zero",           "chunk-minus-one", "chunk",
                                   "chunk-plus-one", "two-chunks",      NULL};

static struct kvc_key key_with_end(struct kvc_ctx *ctx, const struct stored *stored)
{
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    const int64_t tokens[] = {0, chunk_size - 1, chunk_size, chunk_size + 1, 2 * chunk_size};
    return kvc_key_window(&stored->key, 0, tokens[kvc_variant_index(ctx)]);
}

static void stops_at_end(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    const struct kvc_key key = key_with_end(ctx, &stored);
    kvc_expect_hits(ctx, stored.worker, &key, key.end / kvc_ctx_facts(ctx)->chunk_size);
}
KVC_CHECK(stops_at_end, .id = "lookup/end",
          .clause = "LOOKUP looks no further than the key's end, rounded down to a chunk.",
          .source = "protocol 4.6, 10.27", .exchange = "REGISTER, store 3 chunks, LOOKUP, QUERY",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_LOOKUP_END, .variants = ends,
          .run = stops_at_end);

static void ignores_end(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    const struct kvc_key key = key_with_end(ctx, &stored);
    kvc_expect_hits(ctx, stored.worker, &key, 3);
}
KVC_CHECK(ignores_end, .id = "lookup/end-ignored",
          .clause = "LOOKUP looks for all tokens of the key, wherever its window ends.",
          .source = "protocol 4.6", .exchange = "REGISTER, store 3 chunks, LOOKUP, QUERY",
          .level = KVC_LEVEL_OBSERVED, .last = "0.5.5", .variants = ends, .run = ignores_end);

static void ignores_start(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    const struct kvc_key key = kvc_key_chunks(stored.worker, &stored.key, 1, 2);
    kvc_expect_hits(ctx, stored.worker, &key, 3);
}
KVC_CHECK(ignores_start, .id = "lookup/start-ignored",
          .clause = "LOOKUP counts from the first token, wherever the key's window starts.",
          .source = "protocol 4.6", .exchange = "REGISTER, store 3 chunks, LOOKUP, QUERY",
          .level = KVC_LEVEL_OBSERVED, .run = ignores_start);

static void claims_nothing_behind_tokens(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    struct kvc_key key = kvc_key_for(ctx, stored.worker,
                                     kvc_ints_slice(stored.key.token_ids, 0, (size_t)chunk_size));
    key.end = 3 * chunk_size;
    const struct kvc_request lookup = kvc_lookup_request(&key);
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = key.request_id};
    struct kvc_reply *reply;
    if (!kvc_try_call(ctx, &stored.worker->rpc, &lookup, &reply))
        return;
    const int64_t found = kvc_call(ctx, &stored.worker->rpc, &query)->count;
    KVC_EXPECT(ctx, found <= 1, "LOOKUP finds %lld chunks of a prompt of one chunk",
               (long long)found);
}
KVC_CHECK(claims_nothing_behind_tokens, .id = "lookup/end-behind-tokens",
          .clause =
              "LOOKUP with an end behind the tokens is refused, or finds no more than the tokens "
              "hold.",
          .source = "protocol 10.21",
          .exchange = "REGISTER, store 3 chunks, LOOKUP of 1 that ends at 3, QUERY",
          .level = KVC_LEVEL_MUST, .run = claims_nothing_behind_tokens);

/* ---- whose chunks ---- */

static void shares_with_sibling(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 2);
    struct kvc_worker *sibling = kvc_sibling_worker(ctx, stored.worker);
    kvc_retrieve_stamped(ctx, sibling, &stored.key, kvc_chunk_blocks(ctx, sibling, 2), 0);
}
KVC_CHECK(shares_with_sibling, .id = "lookup/stored-by-another",
          .clause = "What one instance stored another one of its model finds and reads.",
          .source = "protocol 1.6, 4.6",
          .exchange = "REGISTER x 2, store by one, LOOKUP and retrieve by the other",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = shares_with_sibling);

static const char *const second_ranks[] = {"has-none", "has-one-of-three", "has-all", NULL};
static const int64_t second_rank_chunks[] = {0, 1, 3};

/* Waits until what both ranks stored before can be seen: stores of one connection become visible in
 * order. */
static void settle_ranks(struct kvc_ctx *ctx, struct kvc_worker *rank_0, struct kvc_worker *rank_1)
{
    const struct kvc_key fence = kvc_key_for(ctx, rank_0, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, rank_0, 1);
    kvc_expect_true(ctx, "success of rank 0's next store", kvc_store(ctx, rank_0, &fence, blocks));
    kvc_expect_true(ctx, "success of rank 1's next store", kvc_store(ctx, rank_1, &fence, blocks));
    kvc_expect_visible(ctx, rank_0, &fence, 1);
}

static void needs_all_ranks(struct kvc_ctx *ctx)
{
    const int64_t chunks = second_rank_chunks[kvc_variant_index(ctx)];
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    struct kvc_worker *rank_0 = kvc_rank_of_two(ctx, model, 0);
    struct kvc_worker *rank_1 = kvc_rank_of_two(ctx, model, 1);
    const struct kvc_key key = kvc_key_for(ctx, rank_0, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key part = kvc_key_chunks(rank_1, &key, 0, chunks);
    kvc_expect_true(ctx, "success of rank 0's store",
                    kvc_store(ctx, rank_0, &key, kvc_chunk_blocks(ctx, rank_0, 3)));
    if (chunks > 0)
        kvc_expect_true(ctx, "success of rank 1's store",
                        kvc_store(ctx, rank_1, &part, kvc_chunk_blocks(ctx, rank_1, chunks)));
    settle_ranks(ctx, rank_0, rank_1);
    kvc_expect_hits(ctx, rank_0, &key, chunks);
}
KVC_CHECK(needs_all_ranks, .id = "lookup/all-ranks",
          .clause = "Of a model on two ranks LOOKUP counts the chunks that both have stored.",
          .source = "protocol 4.6, B27", .exchange = "REGISTER x 2, store by each, LOOKUP, QUERY",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = second_ranks,
          .run = needs_all_ranks);

static void needs_readers(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 1);
    struct kvc_key key = kvc_key_renamed(ctx, &stored.key);
    key.num_kv_readers = 0;
    const struct kvc_request request = kvc_lookup_request(&key);
    kvc_expect_silence(ctx, &stored.worker->rpc, &request, "a lookup for no reader");
}
KVC_CHECK(needs_readers, .id = "lookup/no-readers",
          .clause = "LOOKUP for 0 readers is not answered.", .source = "protocol 4.6, 10.20",
          .exchange = "REGISTER, store, LOOKUP, NOOP", .level = KVC_LEVEL_OBSERVED,
          .features = KVC_FEATURE_KV_READERS, .run = needs_readers);
