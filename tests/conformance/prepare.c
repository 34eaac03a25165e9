/* PREPARE_STORE and COMMIT_STORE over shared memory: what becomes a hit, when, and whose doing it
 * is. What the slots themselves must be is in slots.c, which chunks get one in chunk_indices.c. */
#include "tests/conformance/transfer_fixture.h"

/* ---- visibility ---- */

static void invisible_before_commit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_slots(ctx, worker, &key, 2), 0);
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(invisible_before_commit, .id = "prepare/invisible-before-commit",
          .clause = "Chunks that PREPARE_STORE reserved are no hit before COMMIT_STORE.",
          .source = "protocol 4.10, B32", .exchange = "PREPARE_STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = invisible_before_commit);

static void visible_after_commit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_expect_true(ctx, "the answer of COMMIT_STORE",
                    kvc_store(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3)));
    kvc_expect_hits(ctx, worker, &key, 3);
}

KVC_CHECK(visible_after_commit, .id = "prepare/visible-after-commit",
          .clause = "Chunks are a hit as soon as COMMIT_STORE has answered true.",
          .source = "protocol 4.10, 4.11", .exchange = "PREPARE_STORE, COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ENGINE_DRIVEN, .run = visible_after_commit);

static void readable_by_another_client(struct kvc_ctx *ctx)
{
    struct kvc_worker *writer = kvc_default_worker(ctx);
    struct kvc_worker *reader = kvc_sibling_worker(ctx, writer);
    const struct kvc_key key = kvc_key_for(ctx, writer, kvc_fresh_chunks(ctx, 2));
    kvc_store_slots(ctx, writer, &key, 0);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_expect_slots_stamped(ctx, reader, &again, kvc_open_slots(ctx, reader, &again), 0);
    kvc_commit_retrieve(ctx, reader, &again);
}

KVC_CHECK(
    readable_by_another_client, .id = "prepare/readable-by-another-client",
    .clause = "What one worker wrote into slots and committed is what another worker finds there.",
    .source = "protocol 4.12, 5",
    .exchange = "PREPARE_STORE, COMMIT_STORE; from another instance: LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = readable_by_another_client);

/* ---- what a commit belongs to ---- */

static void commit_without_prepare(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_expect_false(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &key));
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(commit_without_prepare, .id = "prepare/commit-without-prepare",
          .clause = "COMMIT_STORE of chunks that were not prepared answers false and makes no hit.",
          .source = "protocol 4.10", .exchange = "COMMIT_STORE, LOOKUP", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .run = commit_without_prepare);

static void commit_twice(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_slots(ctx, worker, &key, 0);
    kvc_expect_false(ctx, "the answer of the second COMMIT_STORE",
                     kvc_commit_store(ctx, worker, &key));
    kvc_expect_hits(ctx, worker, &key, 2);
}

KVC_CHECK(commit_twice, .id = "prepare/commit-twice",
          .clause = "A second COMMIT_STORE answers false and leaves the chunks a hit.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE, COMMIT_STORE, COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL, .run = commit_twice);

static void all_cached(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_slots(ctx, worker, &key, 0);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_prepare_slots(ctx, worker, &again, 0);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE after an empty PREPARE_STORE",
                     kvc_commit_store(ctx, worker, &again));
}

KVC_CHECK(all_cached, .id = "prepare/all-cached",
          .clause = "PREPARE_STORE of chunks that are all cached gives no slot, and there is then "
                    "nothing to commit.",
          .source = "protocol 4.10", .exchange = "PREPARE_STORE, COMMIT_STORE, twice",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = all_cached);

static void commit_by_another_instance(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 1);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE to an instance that prepared nothing",
                     kvc_commit_store(ctx, other, &key));
    kvc_expect_hits(ctx, worker, &key, 0);
    kvc_stamp_slots(ctx, worker, &key, context, 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE to the instance that prepared",
                    kvc_commit_store(ctx, worker, &key));
}

KVC_CHECK(commit_by_another_instance, .id = "prepare/commit-by-another-instance",
          .clause = "COMMIT_STORE by another instance than the one that prepared answers false and "
                    "makes no hit.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE; from another instance: COMMIT_STORE; LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = commit_by_another_instance);

/* The key that is committed where `key` was prepared. */
static struct kvc_key other_key(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                const struct kvc_key *key)
{
    struct kvc_key other = *key;
    if (kvc_ctx_variant_is(ctx, "shorter-window"))
        return kvc_key_chunks(worker, key, 0, 1);
    if (kvc_ctx_variant_is(ctx, "later-window"))
        return kvc_key_chunks(worker, key, 1, 1);
    if (kvc_ctx_variant_is(ctx, "salt"))
        other.cache_salt = kvc_fresh_name(ctx, "salt");
    else if (kvc_ctx_variant_is(ctx, "model"))
        other.model_name = kvc_fresh_name(ctx, "model");
    else
        other.token_ids = kvc_fresh_chunks(ctx, 2);
    return other;
}

static void commit_of_another_key(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_key other = other_key(ctx, worker, &key);
    other.request_id = kvc_key_renamed(ctx, &key).request_id;
    kvc_prepare_slots(ctx, worker, &key, 2);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE for another key than the prepared one",
                     kvc_commit_store(ctx, worker, &other));
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(commit_of_another_key, .id = "prepare/commit-of-another-key",
          .clause = "COMMIT_STORE with another window, salt, model or tokens than were prepared "
                    "answers false and makes no hit.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE, COMMIT_STORE (another key), LOOKUP", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL,
          .variants = (const char *const[]){"shorter-window", "later-window", "salt", "model",
                                            "tokens", NULL},
          .run = commit_of_another_key);

static void commit_by_another_request(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key renamed = kvc_key_renamed(ctx, &key);
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_slots(ctx, worker, &key, 1), 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE with another request id",
                    kvc_commit_store(ctx, worker, &renamed));
    kvc_expect_hits(ctx, worker, &key, 1);
}

KVC_CHECK(
    commit_by_another_request, .id = "prepare/commit-by-another-request",
    .clause = "The request id does not matter for which PREPARE_STORE a COMMIT_STORE completes.",
    .source = "protocol 3.1, 4.10",
    .exchange = "PREPARE_STORE, COMMIT_STORE (another request id), LOOKUP",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_POOL, .run = commit_by_another_request);

static void busy(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *other = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key same = kvc_key_renamed(ctx, &key);
    const struct kvc_transfer_context *context = kvc_prepare_slots(ctx, worker, &key, 2);
    kvc_prepare_slots(ctx, other, &same, 0);
    kvc_stamp_slots(ctx, worker, &key, context, 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE to the first",
                    kvc_commit_store(ctx, worker, &key));
    kvc_expect_slots_stamped(ctx, worker, &key, kvc_open_slots(ctx, worker, &key), 0);
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(busy, .id = "prepare/busy",
          .clause = "PREPARE_STORE gives no slot for chunks that another instance is writing.",
          .source = "protocol 4.10",
          .exchange = "PREPARE_STORE; from another instance: PREPARE_STORE; COMMIT_STORE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = busy);

static void prepare_again(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_transfer_context *first = kvc_prepare_slots(ctx, worker, &key, 2);
    kvc_stamp_slots(ctx, worker, &key, first, 0);
    kvc_stamp_slots(ctx, worker, &key, kvc_prepare_store(ctx, worker, &key), 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &key));
    kvc_expect_slots_stamped(ctx, worker, &key, kvc_open_slots(ctx, worker, &key), 0);
    kvc_commit_retrieve(ctx, worker, &key);
}

KVC_CHECK(
    prepare_again, .id = "prepare/again",
    .clause = "A second PREPARE_STORE of the same key does not take away what the first one gave.",
    .source = "protocol 4.10",
    .exchange = "PREPARE_STORE, PREPARE_STORE, COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = prepare_again);

static void commits_in_another_order(struct kvc_ctx *ctx)
{
    enum { REQUESTS = 3 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key keys[REQUESTS];
    for (uint64_t i = 0; i < REQUESTS; i++) {
        keys[i] = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
        kvc_stamp_slots(ctx, worker, &keys[i], kvc_prepare_slots(ctx, worker, &keys[i], 2), i);
    }
    for (size_t i = REQUESTS; i-- > 0;) {
        kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_commit_store(ctx, worker, &keys[i]));
        kvc_expect_hits(ctx, worker, &keys[i], 2);
        if (i > 0)
            kvc_expect_hits(ctx, worker, &keys[i - 1], 0);
    }
    for (uint64_t i = 0; i < REQUESTS; i++) {
        const struct kvc_slots *slots = kvc_open_slots(ctx, worker, &keys[i]);
        kvc_expect_slots_stamped(ctx, worker, &keys[i], slots, i);
        kvc_commit_retrieve(ctx, worker, &keys[i]);
    }
}

KVC_CHECK(commits_in_another_order, .id = "prepare/commits-in-another-order",
          .clause = "Several prepared keys of one instance may be committed in any order, and each "
                    "commit completes its own.",
          .source = "protocol 4.1, 4.10", .exchange = "PREPARE_STORE x3, COMMIT_STORE x3 backwards",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = commits_in_another_order);

/* ---- refused ---- */

/* PREPARE_STORE as it is, which a server may leave unanswered: no slot comes of it. */
static void expect_no_slots(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                            const struct kvc_key *key)
{
    const struct kvc_request request = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, key);
    struct kvc_reply *reply = NULL;
    if (kvc_try_call(ctx, &worker->rpc, &request, &reply))
        kvc_expect_int(ctx, "slots of PREPARE_STORE", (int64_t)reply->context.slots.count, 0);
}

static void unaligned_window(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const int64_t chunk_size = worker->options.chunk_size;
    struct kvc_key key = kvc_key_window(&whole, 0, 2 * chunk_size);
    if (kvc_ctx_variant_is(ctx, "start"))
        key.start = 1;
    else if (kvc_ctx_variant_is(ctx, "end"))
        key.end += worker->options.geometry.groups[0].block_size;
    else
        key = kvc_key_window(&whole, 1, 1 + chunk_size);
    expect_no_slots(ctx, worker, &key);
}

KVC_CHECK(unaligned_window, .id = "prepare/unaligned-window",
          .clause = "PREPARE_STORE gives no slot for a window that is not whole chunks.",
          .source = "protocol 4.10", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .variants = (const char *const[]){"start", "end", "both", NULL},
          .run = unaligned_window);

static void end_beyond_tokens(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key beyond = kvc_key_chunks(worker, &key, 0, 2);
    expect_no_slots(ctx, worker, &beyond);
}

KVC_CHECK(end_beyond_tokens, .id = "prepare/end-beyond-tokens",
          .clause = "PREPARE_STORE gives no slot for a window that ends behind the last token.",
          .source = "protocol 4.10, 10 row 21", .exchange = "PREPARE_STORE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL, .run = end_beyond_tokens);

static void empty_window(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const int64_t chunk_size = worker->options.chunk_size;
    struct kvc_key key = kvc_key_window(&whole, 0, 0);
    if (kvc_ctx_variant_is(ctx, "reversed"))
        key = kvc_key_window(&whole, 2 * chunk_size, chunk_size);
    kvc_prepare_slots(ctx, worker, &key, 0);
}

KVC_CHECK(
    empty_window, .id = "prepare/empty-window",
    .clause = "PREPARE_STORE of a window that is empty or reversed is answered without slots.",
    .source = "protocol 4.10", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_OBSERVED,
    .needs = KVC_NEED_POOL, .variants = (const char *const[]){"empty", "reversed", NULL},
    .run = empty_window);

static void negative_start(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunk_size = worker->options.chunk_size;
    const struct kvc_key whole = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key key = kvc_key_window(&whole, -chunk_size, chunk_size);
    expect_no_slots(ctx, worker, &key);
}

KVC_CHECK(negative_start, .id = "prepare/negative-start",
          .clause = "PREPARE_STORE gives no slot for a window that starts before token 0.",
          .source = "protocol 4.10", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_POOL, .run = negative_start);

static void nil_worker(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    key.worker_id = KVC_NIL_INT;
    expect_no_slots(ctx, worker, &key);
}

KVC_CHECK(nil_worker, .id = "prepare/nil-worker",
          .clause = "PREPARE_STORE gives no slot for a key that names no worker.",
          .source = "protocol 3.1, 4.10", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_POOL, .run = nil_worker);

/* ---- room ---- */

static const struct kvc_target_setup tiny_pool = {.name = "tiny-pool", .pool_bytes = 1 << 20};

/* Chunks of the check's geometry that the pool holds at most. */
static int64_t chunks_in_pool(const struct kvc_worker *worker)
{
    const struct kvc_worker_options *options = &worker->options;
    return worker->pool_size / kvc_geometry_chunk_bytes(&options->geometry, options->chunk_size);
}

static void batch_larger_than_the_pool(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunks = chunks_in_pool(worker) + 1;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_prepare_slots(ctx, worker, &key, 0);
    const struct kvc_key first = kvc_key_chunks(worker, &key, 0, 1);
    kvc_store_slots(ctx, worker, &first, 0);
    kvc_expect_hits(ctx, worker, &first, 1);
}

KVC_CHECK(
    batch_larger_than_the_pool, .id = "prepare/batch-larger-than-the-pool",
    .clause = "PREPARE_STORE of more than the pool can hold gives no slot and reserves nothing.",
    .source = "protocol 4.10", .exchange = "PREPARE_STORE; PREPARE_STORE of a part, COMMIT_STORE",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL, .flags = KVC_FLAG_DESTRUCTIVE,
    .setup = &tiny_pool, .run = batch_larger_than_the_pool);

static void no_write_lock_left(struct kvc_ctx *ctx)
{
    static const char *const count = "storage_manager.l1_manager.write_locked_count";
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t before = kvc_status_count(ctx, count);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key middle = kvc_key_chunks(worker, &key, 1, 1);
    kvc_store_slots(ctx, worker, &middle, 0);
    kvc_store_slots(ctx, worker, &key, 0);
    kvc_prepare_slots(ctx, worker, &key, 0);
    kvc_expect_status_count(ctx, count, before);
}

KVC_CHECK(
    no_write_lock_left, .id = "prepare/no-write-lock-left",
    .clause = "After all that was prepared is committed, no chunk is still locked for writing.",
    .source = "B33; /status counters", .exchange = "PREPARE_STORE, COMMIT_STORE; GET /status",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_POOL | KVC_NEED_STATUS,
    .flags = KVC_FLAG_EXCLUSIVE, .run = no_write_lock_left);
