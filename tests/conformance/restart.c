/* The server ends and starts again under its clients. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/transfer_fixture.h"

/* A real server takes its time to start. */
enum { LIMIT_MS = 180000 };

#define RESTART_NEEDS KVC_NEED_RESTART
#define RESTART_FLAGS (KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE)

static const char *const ending_names[] = {"terminated", "interrupted", "killed", NULL};

static enum kvc_ending ending_of(struct kvc_ctx *ctx)
{
    return (enum kvc_ending)kvc_variant_index(ctx);
}

static void restart(struct kvc_ctx *ctx, enum kvc_ending ending)
{
    kvc_ctx_end_server(ctx, ending);
    kvc_ctx_start_server(ctx);
}

/* ---- instances ---- */

static void refuses_old_instance(struct kvc_ctx *ctx)
{
    struct kvc_worker *old = kvc_default_worker(ctx);
    const bool mapped = old->path == KVC_PATH_LMCACHE_DRIVEN;
    const struct kvc_key key = kvc_key_for(ctx, old, kvc_fresh_chunks(ctx, 1));
    const struct kvc_request store =
        kvc_blocks_request(ctx, mapped ? KVC_OP_STORE : KVC_OP_PREPARE_STORE, old, &key,
                           kvc_chunk_blocks(ctx, old, 1));
    restart(ctx, KVC_END_TERMINATE);
    const struct kvc_rpc *rpc = kvc_ctx_rpc(ctx);
    if (!mapped || !kvc_ctx_has(ctx, KVC_FEATURE_STORE_UNKNOWN_ANSWERED)) {
        kvc_expect_silence(ctx, rpc, &store, "an instance of the server before this one");
        return;
    }
    kvc_expect_false(ctx, "success of a STORE of an instance of the server before this one",
                     kvc_call(ctx, rpc, &store)->transfer.success);
}
KVC_CHECK(refuses_old_instance, .id = "restart/old-instance-refused",
          .clause =
              "A server that was started again refuses the stores of instances that registered "
              "before, as it refuses those of any unknown instance: a client can tell.",
          .source = "protocol 4.10, 4.13, B41",
          .exchange = "REGISTER; the server ends and starts; STORE or PREPARE_STORE",
          .level = KVC_LEVEL_MUST, .needs = RESTART_NEEDS, .flags = RESTART_FLAGS,
          .paths = KVC_PATHS_ALL, .limit_ms = LIMIT_MS, .run = refuses_old_instance);

static void takes_instance_back(struct kvc_ctx *ctx)
{
    struct kvc_worker *old = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, old, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, old, &key, kvc_chunk_blocks(ctx, old, 2), 0);
    restart(ctx, ending_of(ctx));
    struct kvc_worker *again = kvc_open_worker(ctx, &old->options);
    const struct kvc_key asked = kvc_key_renamed(ctx, &key);
    const int64_t found = kvc_peek(ctx, again, &asked); /* it may have kept them, or not */
    const struct kvc_key kept = kvc_key_chunks(again, &asked, 0, found);
    if (found > 0)
        kvc_retrieve_stamped(ctx, again, &kept, kvc_chunk_blocks(ctx, again, found), 0);
    const struct kvc_key fresh = kvc_key_for(ctx, again, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, again, &fresh, kvc_chunk_blocks(ctx, again, 2), 1);
    kvc_retrieve_stamped(ctx, again, &fresh, kvc_chunk_blocks(ctx, again, 2), 1);
}
KVC_CHECK(
    takes_instance_back, .id = "restart/register-again",
    .clause =
        "However a server ended, when it is back a worker registers under its old id, what it "
        "finds of before is right, and what it stores comes back.",
    .source = "protocol 4.2, 4.3, 5, B41, B45, N12",
    .exchange = "REGISTER, store; the server ends and starts; REGISTER, LOOKUP, store, LOOKUP, "
                "retrieve",
    .level = KVC_LEVEL_MUST, .needs = RESTART_NEEDS, .flags = RESTART_FLAGS, .paths = KVC_PATHS_ALL,
    .variants = ending_names, .limit_ms = LIMIT_MS, .run = takes_instance_back);

/* ---- the pool ---- */

/* Whether so many places of the mapping, evenly spread over its first bytes, can be touched: asked of the
 * kernel, which answers in place of sending a signal. Pages that were never written are made thereby. */
static bool is_backed(struct kvc_ctx *ctx, const uint8_t *data, size_t size, size_t places)
{
    struct kvc_error err = KVC_ERROR_INIT;
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        kvc_fail_errno(&err, "cannot make a pipe");
        kvc_ctx_error(ctx, "looking at the pool", &err);
    }
    bool backed = true;
    for (size_t i = 0; i < places && backed; i++) {
        const size_t at = (size - 1) / (places - 1) * i;
        char byte;
        backed = write(pipe_fds[1], data + at, 1) == 1 && read(pipe_fds[0], &byte, 1) == 1;
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return backed;
}

enum { PLACES = 256, PAGE = 4096, WRITTEN = 8 << 20 };

static size_t written_of(const struct kvc_segment *pool)
{
    return pool->size < WRITTEN ? pool->size : WRITTEN;
}

/* A worker with a pool, of which all that is touched later has its memory now: what is not there then, the
 * server has taken away. That there is too little room for it is not the server's doing. */
static struct kvc_worker *worker_with_pool(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_segment *pool = &worker->pool;
    if (pool->size == 0 || !is_backed(ctx, pool->data, pool->size, PLACES) ||
        !is_backed(ctx, pool->data, written_of(pool), written_of(pool) / PAGE + 1)) {
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_fail(&err, KVC_ESYSTEM, "no room for the server's pool: %llu bytes free in /dev/shm",
                 (unsigned long long)kvc_segment_room());
        kvc_ctx_error(ctx, "a worker with a pool", &err);
    }
    return worker;
}

static void keeps_old_mapping_safe(struct kvc_ctx *ctx)
{
    struct kvc_worker *old = worker_with_pool(ctx);
    kvc_ctx_end_server(ctx, ending_of(ctx));
    kvc_expect_true(ctx,
                    "a client's mapping of the pool of a server that has ended is backed by memory",
                    is_backed(ctx, old->pool.data, old->pool.size, PLACES));
    kvc_ctx_start_server(ctx);
    struct kvc_worker_options options = old->options;
    options.instance_id = kvc_fresh_instance_id(ctx);
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    memset(old->pool.data, 0xff, written_of(&old->pool));
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}
KVC_CHECK(
    keeps_old_mapping_safe, .id = "restart/old-pool-is-harmless",
    .clause = "However a server ended, a client may touch the pool that it mapped before, and "
              "changes nothing of the next server's by it.",
    .source = "protocol 5, B65",
    .exchange = "REGISTER; the server ends and starts; REGISTER, store, writes to the old pool, "
                "LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .needs = RESTART_NEEDS | KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = RESTART_FLAGS, .variants = ending_names, .limit_ms = LIMIT_MS,
    .run = keeps_old_mapping_safe);

static bool segment_exists(const char *name)
{
    char path[128] = "/";
    strncat(path, name[0] == '/' ? name + 1 : name, sizeof path - 2);
    const int segment = shm_open(path, O_RDONLY, 0);
    if (segment >= 0)
        close(segment);
    return segment >= 0 || errno != ENOENT;
}

static const char *const orderly_endings[] = {"terminated", "interrupted", NULL};

static void removes_pool(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = worker_with_pool(ctx);
    kvc_expect_true(ctx, "the pool has its name while the server runs",
                    segment_exists(worker->pool_name));
    kvc_ctx_end_server(ctx, ending_of(ctx));
    kvc_expect_false(ctx, "the pool still has its name when the server has ended",
                     segment_exists(worker->pool_name));
}
KVC_CHECK(
    removes_pool, .id = "restart/pool-is-removed",
    .clause = "A server that is told to end removes its pool's name, so that the memory is freed.",
    .source = "protocol 5, B66, N07", .exchange = "REGISTER; the server ends; shm_open",
    .level = KVC_LEVEL_SHOULD, .needs = RESTART_NEEDS | KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .flags = RESTART_FLAGS, .variants = orderly_endings, .limit_ms = LIMIT_MS, .run = removes_pool);
