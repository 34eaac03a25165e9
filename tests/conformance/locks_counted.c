/* The read locks of a lookup, as GET /status counts them: the number of chunks that are locked. Each
 * check has the server for itself. */
#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

static const char locked_chunks[] = "storage_manager.l1_manager.read_locked_count";

struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
    int64_t locked_before; /* on the whole server */
};

static struct stored store_chunks(struct kvc_ctx *ctx, int64_t chunks)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    return (struct stored){worker, kvc_key_renamed(ctx, &key),
                           kvc_status_count(ctx, locked_chunks)};
}

static void expect_locked_chunks(struct kvc_ctx *ctx, const struct stored *stored, int64_t chunks)
{
    kvc_expect_status_count(ctx, locked_chunks, stored->locked_before + chunks);
}

static void locks_hits(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 3);
    expect_locked_chunks(ctx, &stored, 3);
    kvc_free_locks(ctx, stored.worker, &stored.key);
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(locks_hits, .id = "locks/counted",
          .clause = "A lookup locks each chunk that it finds, and freeing unlocks them.",
          .source = "protocol 4.6, 4.8, 8.1",
          .exchange = "REGISTER, store, LOOKUP, GET /status, FREE, GET /status",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .run = locks_hits);

static void retrieve_releases(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 3);
    kvc_expect_true(
        ctx, "success of the retrieve",
        kvc_retrieve(ctx, stored.worker, &stored.key, kvc_chunk_blocks(ctx, stored.worker, 3), 0));
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(retrieve_releases, .id = "locks/retrieve-releases",
          .clause = "What was retrieved is no longer locked.",
          .source = "protocol 4.12, 4.14, 8.1, B26",
          .exchange = "REGISTER, store, LOOKUP, retrieve, GET /status", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE, .paths = KVC_PATHS_ALL,
          .run = retrieve_releases);

static void holds_while_reading(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 3);
    kvc_expect_true(ctx, "success of PREPARE_RETRIEVE",
                    kvc_prepare_retrieve(ctx, stored.worker, &stored.key)->success);
    expect_locked_chunks(ctx, &stored, 3);
    kvc_commit_retrieve(ctx, stored.worker, &stored.key);
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(
    holds_while_reading, .id = "locks/held-while-reading",
    .clause = "Chunks whose slots are being read stay locked until COMMIT_RETRIEVE.",
    .source = "protocol 4.12, 8.1",
    .exchange =
        "REGISTER, store, LOOKUP, PREPARE_RETRIEVE, GET /status, COMMIT_RETRIEVE, GET /status",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_STATUS | KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = KVC_FLAG_EXCLUSIVE, .run = holds_while_reading);

static void leaving_releases(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 3);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 3);
    kvc_expect_true(ctx, "success of PREPARE_RETRIEVE",
                    kvc_prepare_retrieve(ctx, stored.worker, &stored.key)->success);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(stored.worker, &err), &err);
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(leaving_releases, .id = "locks/leaving-releases",
          .clause = "What an instance was reading when it left is no longer locked.",
          .source = "protocol 4.4, 8.1",
          .exchange = "REGISTER, store, LOOKUP, PREPARE_RETRIEVE, UNREGISTER, GET /status",
          .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_STATUS | KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
          .flags = KVC_FLAG_EXCLUSIVE, .run = leaving_releases);

static void leaves_none_behind(struct kvc_ctx *ctx)
{
    enum { LOOKUPS = 20 };
    const struct stored stored = store_chunks(ctx, 3);
    for (int i = 0; i < LOOKUPS; i++) {
        const struct kvc_key key = kvc_key_renamed(ctx, &stored.key);
        kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &key), 3);
        kvc_end_session(ctx, stored.worker, &key);
    }
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(leaves_none_behind, .id = "locks/none-left",
          .clause = "Requests that look up, retrieve nothing and end leave no chunk locked.",
          .source = "protocol 4.9, 8.1, B30",
          .exchange = "REGISTER, store, (LOOKUP, QUERY, END_SESSION) x 20, GET /status",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .run = leaves_none_behind);

/* ---- chunks that LOOKUP sees and does not count ---- */

static void locks_nothing_behind_gap(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 2);
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    struct kvc_key longer = kvc_key_for(ctx, stored.worker, kvc_fresh_chunks(ctx, 4));
    int64_t *tokens =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), longer.token_ids.count, sizeof *tokens);
    for (int64_t i = 0; i < 4 * chunk_size; i++)
        tokens[i] = i < 2 * chunk_size ? stored.key.token_ids.items[i] : longer.token_ids.items[i];
    longer.token_ids.items = tokens;
    const struct kvc_key last = kvc_key_chunks(stored.worker, &longer, 3, 1);
    kvc_expect_true(ctx, "success of the store behind a gap",
                    kvc_store(ctx, stored.worker, &last, kvc_chunk_blocks(ctx, stored.worker, 1)));
    kvc_expect_settled_hits(ctx, stored.worker, &longer, 2);
    expect_locked_chunks(ctx, &stored, 0);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &longer), 2);
    expect_locked_chunks(ctx, &stored, 2);
    kvc_free_locks(ctx, stored.worker, &longer);
}
KVC_CHECK(locks_nothing_behind_gap, .id = "locks/none-behind-gap",
          .clause = "A lookup locks no chunk behind the first missing one.",
          .source = "protocol 4.6, 8.1",
          .exchange = "REGISTER, store all but the third of 4 chunks, LOOKUP, GET /status",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .run = locks_nothing_behind_gap);

static void store_rank(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                       int64_t chunks)
{
    const struct kvc_key part = kvc_key_chunks(worker, key, 0, chunks);
    kvc_expect_true(ctx, "success of a rank's store",
                    kvc_store(ctx, worker, &part, kvc_chunk_blocks(ctx, worker, chunks)));
}

static void locks_nothing_of_incomplete_chunk(struct kvc_ctx *ctx)
{
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    struct kvc_worker *rank_0 = kvc_rank_of_two(ctx, model, 0),
                      *rank_1 = kvc_rank_of_two(ctx, model, 1);
    const struct kvc_key key = kvc_key_for(ctx, rank_0, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key fence = kvc_key_for(ctx, rank_0, kvc_fresh_chunks(ctx, 1));
    store_rank(ctx, rank_0, &key, 2);
    store_rank(ctx, rank_1, &key, 1);
    store_rank(ctx, rank_0, &fence, 1);
    store_rank(ctx, rank_1, &fence, 1);
    kvc_expect_visible(ctx, rank_0, &fence, 1);
    const struct stored stored = {rank_0, key, kvc_status_count(ctx, locked_chunks)};
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, rank_0, &key), 1);
    expect_locked_chunks(ctx, &stored, 2); /* the first chunk of both ranks */
    const struct kvc_key found = kvc_key_chunks(rank_0, &key, 0, 1);
    kvc_free_locks(ctx, rank_0, &found);
    expect_locked_chunks(ctx, &stored, 0);
}
KVC_CHECK(
    locks_nothing_of_incomplete_chunk, .id = "locks/none-of-incomplete-chunk",
    .clause = "A lookup locks no rank's part of a chunk that another rank lacks.",
    .source = "protocol 4.6, 8.1, B28",
    .exchange =
        "REGISTER x 2, store 2 chunks by one rank and 1 by the other, LOOKUP, GET /status, FREE, GET /status",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
    .paths = KVC_PATHS_ALL, .run = locks_nothing_of_incomplete_chunk);
