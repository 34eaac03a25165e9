/* The usual steps of a worker, each of which ends the check when it does not come out. */
#include "tests/conformance/fixture.h"

/* A session that a check forgets would stay on the server for minutes. */
struct open_session {
    const struct kvc_rpc *rpc;
    struct kvc_str request_id;
};

/* Sent without waiting: releases before 0.5.6 do not answer it after the last UNREGISTER. */
static void end_open_session(void *arg)
{
    const struct open_session *session = arg;
    const struct kvc_request request = {.op = KVC_OP_END_SESSION,
                                        .request_id = session->request_id};
    uint64_t uid;
    kvc_rpc_send(session->rpc, &request, &uid, NULL);
}

static struct kvc_str fresh_request_id(struct kvc_ctx *ctx)
{
    struct open_session *session = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *session);
    *session = (struct open_session){kvc_ctx_rpc(ctx), kvc_fresh_name(ctx, "request")};
    kvc_ctx_defer(ctx, end_open_session, session);
    return session->request_id;
}

struct kvc_key kvc_key_for(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                           struct kvc_ints tokens)
{
    struct kvc_key key = kvc_worker_key(worker, tokens, 0, (int64_t)tokens.count,
                                        fresh_request_id(ctx), KVC_STR(""));
    key.worker_id = KVC_SOME_INT(worker->options.worker_id);
    return key;
}

struct kvc_key kvc_key_renamed(struct kvc_ctx *ctx, const struct kvc_key *key)
{
    struct kvc_key renamed = *key;
    renamed.request_id = fresh_request_id(ctx);
    return renamed;
}

struct kvc_key kvc_key_window(const struct kvc_key *key, int64_t start, int64_t end)
{
    struct kvc_key window = *key;
    window.start = start;
    window.end = end;
    return window;
}

int64_t kvc_lookup(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    int64_t chunks = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "LOOKUP", kvc_worker_lookup(worker, key, &chunks, &err), &err);
    return chunks;
}

int64_t kvc_peek(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    struct kvc_key peek = *key;
    peek.request_id = kvc_fresh_name(ctx, "peek");
    const int64_t chunks = kvc_lookup(ctx, worker, &peek);
    if (chunks > 0) {
        /* Only what was found: older releases free whatever the range covers, of anybody. */
        const struct kvc_key found = kvc_key_window(&peek, 0, chunks * worker->options.chunk_size);
        kvc_free_locks(ctx, worker, &found);
    }
    kvc_end_session(ctx, worker, &peek);
    return chunks;
}

void kvc_free_locks(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    struct kvc_key all_ranks = *key;
    all_ranks.worker_id = KVC_NIL_INT;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "FREE_LOOKUP_LOCKS", kvc_rpc_free_locks(&worker->rpc, &all_ranks, 1, &err),
                  &err);
}

void kvc_end_session(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "END_SESSION", kvc_worker_end_session(worker, key->request_id, &err), &err);
}

bool kvc_store(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
               struct kvc_ints blocks)
{
    struct kvc_store_result result = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "store", kvc_worker_store(worker, key, blocks, &result, &err), &err);
    return result.success;
}

bool kvc_retrieve(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                  struct kvc_ints blocks, int64_t skip_first_n_tokens)
{
    bool success = false;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "retrieve",
                  kvc_worker_retrieve(worker, key, blocks, skip_first_n_tokens, &success, &err),
                  &err);
    return success;
}

static struct kvc_stamp_source stamp_source(struct kvc_ctx *ctx, uint64_t request)
{
    return (struct kvc_stamp_source){.seed = kvc_ctx_seed(ctx), .request = request};
}

void kvc_push(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "copying the cache to the GPU", kvc_worker_push(worker, &err), &err);
}

void kvc_pull(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "copying the cache from the GPU", kvc_worker_pull(worker, &err), &err);
}

void kvc_stamp(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
               struct kvc_ints blocks, uint64_t request)
{
    kvc_stamp_blocks(&worker->paged, stamp_source(ctx, request), key->start, blocks.items,
                     blocks.count);
    kvc_push(ctx, worker);
}

static void expect_guards(struct kvc_ctx *ctx, const struct kvc_worker *worker)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "memory around the cache is untouched",
                  kvc_paged_check_guards(&worker->paged, &err), &err);
}

void kvc_expect_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints blocks, uint64_t request)
{
    /* Checks number their requests from 0; a wrong byte is looked for in these. */
    enum { OTHER_REQUESTS = 8 };
    struct kvc_stamp_source others[OTHER_REQUESTS];
    for (size_t i = 0; i < OTHER_REQUESTS; i++)
        others[i] = stamp_source(ctx, i);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_pull(ctx, worker);
    kvc_expect_ok(ctx, "the retrieved bytes are those that were stored",
                  kvc_stamp_check_blocks(&worker->paged, stamp_source(ctx, request), key->start,
                                         blocks.items, blocks.count, others, OTHER_REQUESTS, &err),
                  &err);
    expect_guards(ctx, worker);
}

static bool contains(struct kvc_ints ints, int64_t value)
{
    for (size_t i = 0; i < ints.count; i++) {
        if (ints.items[i] == value)
            return true;
    }
    return false;
}

void kvc_expect_untouched_except(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                 struct kvc_ints blocks)
{
    const int64_t num_blocks = worker->paged.geometry.groups[0].num_blocks;
    kvc_pull(ctx, worker);
    for (int64_t block = 0; block < num_blocks; block++) {
        if (contains(blocks, block))
            continue;
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_expect_ok(ctx, "blocks that must stay untouched are untouched",
                      kvc_paged_check_block_is(&worker->paged, block, KVC_POISON, &err), &err);
    }
    expect_guards(ctx, worker);
}

void kvc_store_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                       struct kvc_ints blocks, uint64_t request)
{
    kvc_stamp(ctx, worker, key, blocks, request);
    kvc_expect_true(ctx, "success of the store", kvc_store(ctx, worker, key, blocks));
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "LOOKUP sees what was stored",
                  kvc_worker_wait_visible(worker, key, key->end / worker->options.chunk_size,
                                          kvc_ctx_facts(ctx)->timeout_ms, &err),
                  &err);
}

/* Frees what LOOKUP locked outside the window, which RETRIEVE does not release. */
static void free_outside_window(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                const struct kvc_key *key, int64_t found_tokens)
{
    const struct kvc_key before = kvc_key_window(key, 0, key->start);
    const struct kvc_key behind = kvc_key_window(key, key->end, found_tokens);
    if (key->start > 0)
        kvc_free_locks(ctx, worker, &before);
    if (found_tokens > key->end)
        kvc_free_locks(ctx, worker, &behind);
}

void kvc_retrieve_stamped(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                          struct kvc_ints blocks, uint64_t request)
{
    for (size_t i = 0; i < blocks.count; i++)
        kvc_paged_fill_block(&worker->paged, blocks.items[i], KVC_POISON);
    kvc_push(ctx, worker);
    const int64_t chunk_size = worker->options.chunk_size;
    const int64_t chunks = kvc_lookup(ctx, worker, key);
    KVC_EXPECT(ctx, chunks >= key->end / chunk_size, "LOOKUP finds %lld chunks, %lld are stored",
               (long long)chunks, (long long)(key->end / chunk_size));
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, key, blocks, 0));
    kvc_expect_stamped(ctx, worker, key, blocks, request);
    free_outside_window(ctx, worker, key, chunks * chunk_size);
}
