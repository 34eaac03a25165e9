#include "src/driver/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/driver/paths.h"

enum {
    TP_SIZE = 1, /* what the reference client sends for one rank */
    VISIBLE_PAUSE_MS = 2,
    VISIBLE_LONGEST_PAUSE_MS = 50,
};

/* ---- calls with timing ---- */

kvc_status kvc_worker_call_frames(struct kvc_worker *worker, enum kvc_op op,
                                  struct kvc_frames *frames, struct kvc_reply *reply,
                                  struct kvc_error *err)
{
    *reply = (struct kvc_reply){0};
    uint64_t uid;
    kvc_status status = kvc_client_send(worker->rpc.client, frames, &uid, err);
    if (status != KVC_OK)
        return kvc_error_set_where(err, "%s", kvc_op_name(op)), status;
    const int64_t sent = kvc_now_ns();
    status = kvc_rpc_receive(&worker->rpc, uid, op, worker->rpc.timeout_ms, reply, err);
    worker->timing.wait_ns += kvc_now_ns() - sent;
    return status;
}

kvc_status kvc_worker_call(struct kvc_worker *worker, const struct kvc_request *request,
                           struct kvc_reply *reply, struct kvc_error *err)
{
    *reply = (struct kvc_reply){0};
    struct kvc_frames frames = {0};
    const int64_t started = kvc_now_ns();
    kvc_status status = kvc_request_encode(worker->rpc.dialect, request, &frames, err);
    worker->timing.encode_ns += kvc_now_ns() - started;
    if (status == KVC_OK)
        status = kvc_worker_call_frames(worker, request->op, &frames, reply, err);
    else
        kvc_error_prepend_where(err, "%s: ", kvc_op_name(request->op));
    kvc_frames_clear(&frames);
    return status;
}

kvc_status kvc_worker_call_bool(struct kvc_worker *worker, const struct kvc_request *request,
                                bool *ok, struct kvc_error *err)
{
    struct kvc_reply reply;
    const kvc_status status = kvc_worker_call(worker, request, &reply, err);
    *ok = status == KVC_OK && reply.ok;
    kvc_reply_clear(&reply);
    return status;
}

kvc_status kvc_worker_call_instance(struct kvc_worker *worker, enum kvc_op op,
                                    struct kvc_error *err)
{
    const struct kvc_request request = {.op = op, .instance_id = worker->options.instance_id};
    return kvc_rpc_call_void(&worker->rpc, &request, err);
}

/* ---- life ---- */

static void copy_options(struct kvc_worker *worker, const struct kvc_worker_options *options)
{
    worker->options = *options;
    char *name = kvc_alloc(options->model_name.size);
    if (options->model_name.size > 0)
        memcpy(name, options->model_name.data, options->model_name.size);
    worker->options.model_name.data = name;
    if (worker->options.world_size == 0)
        worker->options.world_size = 1;
    if (worker->options.num_kv_readers == 0)
        worker->options.num_kv_readers = 1;
}

static void free_worker(struct kvc_worker *worker)
{
    if (worker->pool_is_pinned)
        kvc_cuda_host_unregister(worker->pool.data);
    kvc_cuda_cache_close(worker->on_gpu);
    kvc_segment_close(&worker->pool);
    kvc_paged_close(&worker->paged);
    free((char *)(uintptr_t)worker->options.model_name.data);
    free(worker);
}

/* The path of a mode before the server has had its say. */
static void choose_path(struct kvc_worker *worker)
{
    const bool by_server = worker->options.mode == KVC_MODE_LMCACHE_DRIVEN;
    worker->path = by_server ? KVC_PATH_LMCACHE_DRIVEN : KVC_PATH_ENGINE_DRIVEN;
    worker->ops = by_server ? &kvc_lmcache_driven_ops : &kvc_engine_driven_ops;
    snprintf(worker->path_reason, sizeof(worker->path_reason), "%s",
             by_server ? "the server maps the worker's memory and copies for itself" : "");
}

static kvc_status open_cache(struct kvc_worker *worker, struct kvc_error *err)
{
    const struct kvc_worker_options *options = &worker->options;
    const bool on_gpu = options->device == &kvc_device_cuda;
    KVC_GUARD(kvc_paged_open(&options->geometry, worker->path == KVC_PATH_LMCACHE_DRIVEN && !on_gpu,
                             &worker->paged, err));
    return on_gpu ? kvc_cuda_cache_open(&worker->paged, options->placement, &worker->on_gpu, err)
                  : KVC_OK;
}

kvc_status kvc_worker_open(const struct kvc_rpc *rpc, const struct kvc_worker_options *options,
                           struct kvc_worker **worker, struct kvc_error *err)
{
    *worker = NULL;
    if (options->mode == KVC_MODE_AUTO)
        return kvc_fail(err, KVC_EUSAGE, "a worker needs a transfer mode that is chosen, not auto");
    struct kvc_worker *opened = kvc_alloc_zero(1, sizeof(*opened));
    opened->rpc = *rpc;
    copy_options(opened, options);
    choose_path(opened);
    kvc_status status = open_cache(opened, err);
    if (status == KVC_OK)
        status = opened->ops->enroll(opened, err);
    if (status == KVC_OK)
        *worker = opened;
    else
        kvc_worker_close(opened, NULL); /* the first error is the one that matters */
    return status;
}

kvc_status kvc_worker_unregister(struct kvc_worker *worker, struct kvc_error *err)
{
    if (!worker->registered)
        return KVC_OK;
    worker->registered = false;
    return worker->ops->withdraw(worker, err);
}

kvc_status kvc_worker_close(struct kvc_worker *worker, struct kvc_error *err)
{
    if (worker == NULL)
        return KVC_OK;
    const kvc_status status = kvc_worker_unregister(worker, err);
    free_worker(worker);
    return status;
}

kvc_status kvc_worker_push(struct kvc_worker *worker, struct kvc_error *err)
{
    return worker->on_gpu != NULL ? kvc_cuda_cache_push(worker->on_gpu, err) : KVC_OK;
}

kvc_status kvc_worker_pull(struct kvc_worker *worker, struct kvc_error *err)
{
    return worker->on_gpu != NULL ? kvc_cuda_cache_pull(worker->on_gpu, err) : KVC_OK;
}

void kvc_worker_map_ahead(const struct kvc_worker *worker)
{
    if (worker->pool.data != NULL)
        kvc_segment_map_ahead(&worker->pool);
}

/* ---- what a worker does ---- */

struct kvc_key kvc_worker_key(const struct kvc_worker *worker, struct kvc_ints tokens,
                              int64_t start, int64_t end, struct kvc_str request_id,
                              struct kvc_str salt)
{
    return (struct kvc_key){
        .model_name = worker->options.model_name,
        .world_size = worker->options.world_size,
        .worker_id = KVC_SOME_INT(worker->options.worker_id),
        .token_ids = tokens,
        .start = start,
        .end = end,
        .request_id = request_id,
        .cache_salt = salt,
        .num_kv_readers = worker->options.num_kv_readers,
    };
}

/* The key for one rank, or for all of them. */
static struct kvc_key key_for_rank(const struct kvc_worker *worker, const struct kvc_key *key)
{
    struct kvc_key copy = *key;
    copy.worker_id = KVC_SOME_INT(worker->options.worker_id);
    return copy;
}

static struct kvc_key key_for_all(const struct kvc_key *key)
{
    struct kvc_key copy = *key;
    copy.worker_id = KVC_NIL_INT;
    return copy;
}

kvc_status kvc_worker_lookup(struct kvc_worker *worker, const struct kvc_key *key, int64_t *chunks,
                             struct kvc_error *err)
{
    const struct kvc_key all = key_for_all(key);
    return kvc_rpc_lookup(&worker->rpc, &all, TP_SIZE, chunks, err);
}

kvc_status kvc_worker_store(struct kvc_worker *worker, const struct kvc_key *key,
                            struct kvc_ints block_ids, struct kvc_store_result *result,
                            struct kvc_error *err)
{
    *result = (struct kvc_store_result){0};
    worker->timing = (struct kvc_worker_timing){0};
    const struct kvc_key own = key_for_rank(worker, key);
    return worker->ops->store(worker, &own, block_ids, result, err);
}

kvc_status kvc_worker_retrieve(struct kvc_worker *worker, const struct kvc_key *key,
                               struct kvc_ints block_ids, int64_t skip_first_n_tokens,
                               bool *success, struct kvc_error *err)
{
    *success = false;
    worker->timing = (struct kvc_worker_timing){0};
    const struct kvc_key own = key_for_rank(worker, key);
    return worker->ops->retrieve(worker, &own, block_ids, skip_first_n_tokens, success, err);
}

kvc_status kvc_worker_end_session(struct kvc_worker *worker, struct kvc_str request_id,
                                  struct kvc_error *err)
{
    return kvc_rpc_end_session(&worker->rpc, request_id, err);
}

/* One lookup under its own request id that leaves neither locks nor a session behind. Locks are freed
 * for exactly the chunks that were found: older servers free whatever the window names. */
static kvc_status peek(struct kvc_worker *worker, const struct kvc_key *key,
                       struct kvc_str request_id, int64_t *chunks, struct kvc_error *err)
{
    struct kvc_key own = key_for_all(key);
    own.request_id = request_id;
    KVC_GUARD(kvc_rpc_lookup(&worker->rpc, &own, TP_SIZE, chunks, err));
    own.start = 0;
    own.end = *chunks * worker->options.chunk_size;
    if (*chunks > 0)
        KVC_GUARD(kvc_rpc_free_locks(&worker->rpc, &own, TP_SIZE, err));
    return kvc_rpc_end_session(&worker->rpc, request_id, err);
}

kvc_status kvc_worker_wait_visible(struct kvc_worker *worker, const struct kvc_key *key,
                                   int64_t chunks, int64_t timeout_ms, struct kvc_error *err)
{
    const int64_t deadline = kvc_now_ms() + timeout_ms;
    int64_t pause = VISIBLE_PAUSE_MS;
    for (unsigned attempt = 0;; attempt++) {
        char *request_id =
            kvc_format(KVC_STR_FMT "-visible-%u", KVC_STR_ARG(key->request_id), attempt);
        int64_t seen = 0;
        const kvc_status status = peek(worker, key, kvc_str_of(request_id), &seen, err);
        free(request_id);
        if (status != KVC_OK || seen >= chunks)
            return status;
        if (kvc_now_ms() >= deadline) {
            kvc_fail(err, KVC_ETIMEOUT, "what was stored is not visible after %lld ms",
                     (long long)timeout_ms);
            kvc_error_set_expected(err, "%lld chunks", (long long)chunks);
            return kvc_error_set_got(err, "%lld", (long long)seen), KVC_ETIMEOUT;
        }
        kvc_sleep_ms(pause);
        pause = 2 * pause < VISIBLE_LONGEST_PAUSE_MS ? 2 * pause : VISIBLE_LONGEST_PAUSE_MS;
    }
}
