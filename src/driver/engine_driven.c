#include "src/driver/paths.h"

#include <string.h>

/* The name is shown to people, and to shm_open. */
static bool is_printable(struct kvc_str name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < ' ' || name.data[i] == 0x7f)
            return false;
    return kvc_utf8_is_valid(name.data, name.size);
}

/* Remembers the pool as the server named it. A name that the field cannot hold is refused: a cut one
 * could be another segment's. */
static kvc_status take_pool_info(struct kvc_worker *worker, const struct kvc_pool_info *pool,
                                 struct kvc_error *err)
{
    const struct kvc_str name = pool->shm_name;
    if (!is_printable(name) || name.size >= sizeof(worker->pool_name)) {
        kvc_fail(err, KVC_EFORMAT, "the pool's name cannot be a segment's");
        kvc_error_set_where(err, "register_engine_driven: shm_name");
        return kvc_error_set_got(err, "%zu bytes", name.size), KVC_EFORMAT;
    }
    if (name.size > 0)
        memcpy(worker->pool_name, name.data, name.size);
    worker->pool_name[name.size] = '\0';
    worker->pool_size = pool->pool_size;
    worker->path = kvc_path_from_pool(name, pool->pool_size, worker->options.force_inline,
                                      worker->path_reason, sizeof(worker->path_reason));
    worker->ops = worker->path == KVC_PATH_ENGINE_DRIVEN ? &kvc_engine_driven_ops
                                                         : &kvc_engine_driven_inline_ops;
    return KVC_OK;
}

static kvc_status map_pool(struct kvc_worker *worker, struct kvc_error *err)
{
    if (worker->path != KVC_PATH_ENGINE_DRIVEN)
        return KVC_OK;
    const kvc_status status =
        kvc_segment_open(worker->pool_name, (size_t)worker->pool_size, &worker->pool, err);
    if (status != KVC_OK)
        kvc_error_set_where(err, "register_engine_driven: the pool that the server offers");
    else if (worker->on_gpu != NULL)
        worker->pool_is_pinned =
            kvc_cuda_host_register(worker->pool.data, (size_t)worker->pool_size);
    return status;
}

static void describe_registration(const struct kvc_worker *worker,
                                  struct kvc_engine_driven_register *out)
{
    const struct kvc_group *group = &worker->options.geometry.groups[0];
    *out = (struct kvc_engine_driven_register){
        .instance_id = worker->options.instance_id,
        .model_name = worker->options.model_name,
        .world_size = worker->options.world_size,
        .block_size = group->block_size,
        .num_layers = group->num_layers,
        .hidden_dim_size = kvc_group_hidden(group),
        .dtype_str = kvc_str_of(group->dtype->name),
        .use_mla = group->kv_size == 1,
    };
    if (kvc_dialect_has(worker->rpc.dialect, KVC_FEATURE_PHYSICAL_SLOTS))
        out->num_physical_slots = KVC_SOME_INT(worker->options.chunk_size);
}

kvc_status kvc_engine_driven_enroll(struct kvc_worker *worker, struct kvc_error *err)
{
    const struct kvc_worker_options *options = &worker->options;
    if (options->geometry.group_count != 1)
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "engine_driven carries one group of layers, the geometry has %zu",
                        options->geometry.group_count);
    if (options->chunk_size <= 0 ||
        options->chunk_size % options->geometry.groups[0].block_size != 0)
        return kvc_fail(err, KVC_EUSAGE, "a chunk of %lld tokens is not whole blocks of %lld",
                        (long long)options->chunk_size,
                        (long long)options->geometry.groups[0].block_size);

    struct kvc_request request = {.op = KVC_OP_REGISTER_ENGINE_DRIVEN};
    describe_registration(worker, &request.engine_driven);
    struct kvc_reply reply;
    kvc_status status = kvc_worker_call(worker, &request, &reply, err);
    if (status == KVC_OK) {
        worker->registered = true;
        status = take_pool_info(worker, &reply.pool, err);
    }
    if (status == KVC_OK)
        status = map_pool(worker, err);
    kvc_reply_clear(&reply);
    return status;
}

kvc_status kvc_engine_driven_withdraw(struct kvc_worker *worker, struct kvc_error *err)
{
    return kvc_worker_call_instance(worker, KVC_OP_UNREGISTER_ENGINE_DRIVEN, err);
}

/* Fills the slots, then commits. No slots: everything is cached, or the server has no room; both
 * mean that there is nothing to write and nothing to commit. */
static kvc_status fill_slots(struct kvc_worker *worker, const struct kvc_key *key,
                             const struct kvc_window *window,
                             const struct kvc_transfer_context *context,
                             struct kvc_store_result *result, struct kvc_error *err)
{
    result->success = true;
    if (context->slots.count == 0)
        return KVC_OK;
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < context->slots.count && status == KVC_OK; i++)
        status = kvc_window_gather(worker, window, context->chunk_indices.items[i],
                                   worker->pool.data + context->slots.items[i].offset, err);
    KVC_GUARD(kvc_window_finish(worker, status, err));
    result->chunks_written = (int64_t)context->slots.count;
    const struct kvc_request commit = {
        .op = KVC_OP_COMMIT_STORE, .key = *key, .instance_id = worker->options.instance_id};
    return kvc_worker_call_bool(worker, &commit, &result->success, err);
}

static kvc_status store(struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints block_ids, struct kvc_store_result *result,
                        struct kvc_error *err)
{
    struct kvc_window window;
    KVC_GUARD(kvc_window_open(worker, key, block_ids, &window, err));
    result->chunks_asked = window.chunks;
    const struct kvc_request prepare = {
        .op = KVC_OP_PREPARE_STORE, .key = *key, .instance_id = worker->options.instance_id};
    struct kvc_reply reply;
    kvc_status status = kvc_worker_call(worker, &prepare, &reply, err);
    if (status == KVC_OK)
        status =
            kvc_slots_check_context(prepare.op, &reply.context, &window, worker->pool_size, err);
    if (status == KVC_OK)
        status = fill_slots(worker, key, &window, &reply.context, result, err);
    kvc_reply_clear(&reply);
    kvc_window_close(&window);
    return status;
}

static kvc_status empty_slots(struct kvc_worker *worker, const struct kvc_key *key,
                              const struct kvc_window *window, struct kvc_slots slots,
                              int64_t skip_first_n_tokens, bool *success, struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < slots.count && status == KVC_OK; i++)
        status = kvc_window_scatter(worker, window, (int64_t)i, skip_first_n_tokens,
                                    worker->pool.data + slots.items[i].offset, err);
    KVC_GUARD(kvc_window_finish(worker, status, err));
    const struct kvc_request commit = {
        .op = KVC_OP_COMMIT_RETRIEVE, .key = *key, .instance_id = worker->options.instance_id};
    return kvc_worker_call_bool(worker, &commit, success, err);
}

static kvc_status retrieve(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, int64_t skip_first_n_tokens, bool *success,
                           struct kvc_error *err)
{
    struct kvc_window window;
    KVC_GUARD(kvc_window_open(worker, key, block_ids, &window, err));
    const struct kvc_request prepare = {
        .op = KVC_OP_PREPARE_RETRIEVE, .key = *key, .instance_id = worker->options.instance_id};
    struct kvc_reply reply;
    kvc_status status = kvc_worker_call(worker, &prepare, &reply, err);
    const bool hit = status == KVC_OK && reply.retrieve.success;
    if (hit)
        status = kvc_slots_check_context(prepare.op, &reply.retrieve.context, &window,
                                         worker->pool_size, err);
    if (hit && status == KVC_OK)
        status = empty_slots(worker, key, &window, reply.retrieve.context.slots,
                             skip_first_n_tokens, success, err);
    kvc_reply_clear(&reply);
    kvc_window_close(&window);
    return status;
}

const struct kvc_worker_ops kvc_engine_driven_ops = {
    .name = "engine_driven",
    .enroll = kvc_engine_driven_enroll,
    .store = store,
    .retrieve = retrieve,
    .withdraw = kvc_engine_driven_withdraw,
};
