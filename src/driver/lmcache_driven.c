#include "src/driver/paths.h"

#include <string.h>

#include "src/wire/handle.h"

/* The server waits for a GPU's event before it copies. On CPU there is none, and this is what the
 * reference client sends. */
#define CPU_EVENT_HANDLE "stub_ipc_handle"

static void describe_tensor(struct kvc_arena *arena, const struct kvc_paged *paged,
                            const struct kvc_tensor *tensor, struct kvc_tensor_handle *handle)
{
    const struct kvc_group *group = &paged->geometry.groups[tensor->group];
    int64_t *shape = kvc_arena_alloc_array(arena, 5, sizeof(*shape));
    int64_t *stride = kvc_arena_alloc_array(arena, 5, sizeof(*stride));
    const size_t rank = kvc_group_tensor_shape(group, shape, stride);
    *handle = (struct kvc_tensor_handle){
        .shm_name = kvc_str_of(tensor->segment.name),
        .nbytes = tensor->storage_offset + tensor->bytes,
        .dtype = kvc_str_of(group->dtype->name),
        .shape = {shape, rank},
        .stride = {stride, rank},
        .storage_offset = tensor->storage_offset / (int64_t)group->dtype->size,
        .device_uuid = KVC_STR("cpu"),
    };
}

/* Where torch would count the servers that have the memory open. There is no such segment: a server that
 * lets go of the memory passes over that, as it does when the worker is gone. */
#define NO_COUNTER "/kvconform_counts_nobody"

/* Turns a raw handle into torch's. */
static kvc_status describe_for_torch(struct kvc_arena *arena, const struct kvc_worker *worker,
                                     struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    uint8_t *bytes = kvc_arena_alloc(arena, KVC_TORCH_HANDLE_SIZE);
    struct kvc_cu_ipc_event *event = kvc_arena_alloc(arena, sizeof(*event));
    KVC_GUARD(kvc_cuda_cache_ready(worker->on_gpu, event, err));
    kvc_torch_handle_write(handle->ipc_handle.data, bytes);
    handle->kind = KVC_HANDLE_CUDA_TORCH;
    handle->ipc_handle = (struct kvc_bytes){bytes, KVC_TORCH_HANDLE_SIZE};
    handle->torch = (struct kvc_torch_share){
        .ref_counter = {(const uint8_t *)NO_COUNTER, sizeof(NO_COUNTER) - 1},
        .ready_event = {event->bytes, sizeof(event->bytes)},
        .has_event = true,
    };
    return KVC_OK;
}

/* Makes the allocation the storage: the tensor lies as far in it as it lay in its allocation. */
static void widen_storage(struct kvc_tensor_handle *handle, const struct kvc_dtype *dtype)
{
    handle->nbytes += handle->alloc_offset;
    handle->storage_offset += handle->alloc_offset / (int64_t)dtype->size;
    handle->alloc_offset = 0;
}

/* The same tensor where it lies on a GPU. */
static kvc_status describe_on_gpu(struct kvc_arena *arena, const struct kvc_worker *worker,
                                  size_t index, struct kvc_tensor_handle *handle,
                                  struct kvc_error *err)
{
    const enum kvc_gpu_handle form = worker->options.gpu_handle;
    const struct kvc_tensor *tensor = &worker->paged.tensors[index];
    struct kvc_cu_ipc_memory *memory = kvc_arena_alloc(arena, sizeof(*memory));
    struct kvc_device_text *uuid = kvc_arena_alloc(arena, sizeof(*uuid));
    KVC_GUARD(kvc_cuda_uuid(uuid, err));
    KVC_GUARD(kvc_cuda_share(worker->on_gpu->tensors[index], memory, &handle->alloc_offset, err));
    handle->kind = KVC_HANDLE_CUDA;
    handle->ipc_handle = (struct kvc_bytes){memory->bytes, sizeof(memory->bytes)};
    handle->nbytes = tensor->bytes;
    handle->device_uuid = kvc_str_of(uuid->text);
    if (form == KVC_GPU_TORCH_WHOLE)
        widen_storage(handle, worker->paged.geometry.groups[tensor->group].dtype);
    return form == KVC_GPU_RAW ? KVC_OK : describe_for_torch(arena, worker, handle, err);
}

static kvc_status describe_tensors(struct kvc_arena *arena, const struct kvc_worker *worker,
                                   struct kvc_tensor_handles *handles, struct kvc_error *err)
{
    const struct kvc_paged *paged = &worker->paged;
    struct kvc_tensor_handle *items =
        kvc_arena_alloc_array(arena, paged->tensor_count, sizeof(*items));
    *handles = (struct kvc_tensor_handles){items, paged->tensor_count};
    for (size_t i = 0; i < paged->tensor_count; i++) {
        describe_tensor(arena, paged, &paged->tensors[i], &items[i]);
        if (worker->on_gpu != NULL)
            KVC_GUARD(describe_on_gpu(arena, worker, i, &items[i], err));
    }
    return KVC_OK;
}

/* Layers are counted through all groups. */
static struct kvc_engine_group_infos describe_groups(struct kvc_arena *arena,
                                                     const struct kvc_geometry *geometry)
{
    struct kvc_engine_group_info *infos =
        kvc_arena_alloc_array(arena, geometry->group_count, sizeof(*infos));
    int64_t next_layer = 0;
    for (size_t g = 0; g < geometry->group_count; g++) {
        const struct kvc_group *group = &geometry->groups[g];
        const size_t count = (size_t)group->num_layers;
        int64_t *layers = kvc_arena_alloc_array(arena, count, sizeof(*layers));
        for (size_t i = 0; i < count; i++)
            layers[i] = next_layer++;
        infos[g] = (struct kvc_engine_group_info){
            .engine_group_id = (int64_t)g,
            .layer_indices = {layers, count},
            .tokens_per_block = group->block_size,
            .sw_size_tokens = -1,
        };
    }
    return (struct kvc_engine_group_infos){infos, geometry->group_count};
}

kvc_status kvc_worker_registration(const struct kvc_worker *worker, struct kvc_arena *arena,
                                   struct kvc_request *request, struct kvc_error *err)
{
    const struct kvc_worker_options *options = &worker->options;
    *request = (struct kvc_request){
        .op = KVC_OP_REGISTER_KV_CACHE,
        .instance_id = options->instance_id,
        .model_name = options->model_name,
        .world_size = options->world_size,
        .engine_type = KVC_STR("vllm"),
        .layout_hints = {.kv_layout =
                             kvc_str_of(kvc_layout_hint(options->geometry.groups[0].layout))},
    };
    if (!options->keep_groups_empty)
        request->groups = describe_groups(arena, &options->geometry);
    return describe_tensors(arena, worker, &request->handles, err);
}

static kvc_status enroll(struct kvc_worker *worker, struct kvc_error *err)
{
    struct kvc_arena arena = {0};
    struct kvc_request request;
    struct kvc_reply reply = {0};
    kvc_status status = kvc_worker_registration(worker, &arena, &request, err);
    if (status == KVC_OK)
        status = kvc_worker_call(worker, &request, &reply, err);
    worker->registered = status == KVC_OK;
    kvc_reply_clear(&reply);
    kvc_arena_clear(&arena);
    return status;
}

/* Waits for the server's copy: for its event on a GPU. */
static kvc_status await_server(const struct kvc_worker *worker, struct kvc_bytes event,
                               struct kvc_error *err)
{
    struct kvc_cu_ipc_event handle;
    if (event.size != sizeof(handle)) {
        kvc_fail(err, KVC_EFORMAT, "the reply names no event to wait for");
        kvc_error_set_expected(err, "a handle of %zu bytes", sizeof(handle));
        return kvc_error_set_got(err, "%zu", event.size), KVC_EFORMAT;
    }
    struct kvc_error reason = KVC_ERROR_INIT;
    memcpy(&handle, event.data, sizeof(handle));
    if (kvc_cuda_queue_after(worker->on_gpu->queue, &handle, &reason) != KVC_OK)
        return kvc_fail(err, KVC_EFORMAT, "the event that the reply names cannot be opened: %s",
                        reason.what);
    return kvc_cuda_queue_wait(worker->on_gpu->queue, err);
}

/* The call, between an event of this worker's and one of the server's. */
static kvc_status call_on_gpu(struct kvc_worker *worker, struct kvc_request *request,
                              struct kvc_reply *reply, struct kvc_error *err)
{
    struct kvc_cu_event *event;
    struct kvc_cu_ipc_event handle;
    KVC_GUARD(kvc_cuda_queue_event(worker->on_gpu->queue, &event, &handle, err));
    request->event_handle = (struct kvc_bytes){handle.bytes, sizeof(handle.bytes)};
    kvc_status status = kvc_worker_call(worker, request, reply, err);
    if (status == KVC_OK && reply->transfer.success)
        status = await_server(worker, reply->transfer.event_handle, err);
    kvc_cuda_event_close(event);
    return status;
}

/* STORE or RETRIEVE: the same block ids for every group. Whether they are right is for the server to
 * say. */
static kvc_status transfer(struct kvc_worker *worker, struct kvc_request *request,
                           struct kvc_ints block_ids, bool *success, struct kvc_error *err)
{
    struct kvc_ints lists[KVC_MAX_GROUPS];
    const size_t count = worker->options.geometry.group_count;
    for (size_t i = 0; i < count; i++)
        lists[i] = block_ids;
    request->instance_id = worker->options.instance_id;
    request->block_ids = (struct kvc_int_lists){lists, count};
    request->event_handle =
        (struct kvc_bytes){(const uint8_t *)CPU_EVENT_HANDLE, sizeof(CPU_EVENT_HANDLE) - 1};
    struct kvc_reply reply = {0};
    const kvc_status status = worker->on_gpu != NULL
                                  ? call_on_gpu(worker, request, &reply, err)
                                  : kvc_worker_call(worker, request, &reply, err);
    *success = status == KVC_OK && reply.transfer.success;
    kvc_reply_clear(&reply);
    return status;
}

static kvc_status store(struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints block_ids, struct kvc_store_result *result,
                        struct kvc_error *err)
{
    struct kvc_request request = {.op = KVC_OP_STORE, .key = *key};
    result->chunks_asked = (key->end - key->start) / worker->options.chunk_size;
    result->chunks_written = -1;
    return transfer(worker, &request, block_ids, &result->success, err);
}

static kvc_status retrieve(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, int64_t skip_first_n_tokens, bool *success,
                           struct kvc_error *err)
{
    struct kvc_request request = {
        .op = KVC_OP_RETRIEVE, .key = *key, .skip_first_n_tokens = skip_first_n_tokens};
    return transfer(worker, &request, block_ids, success, err);
}

static kvc_status withdraw(struct kvc_worker *worker, struct kvc_error *err)
{
    return kvc_worker_call_instance(worker, KVC_OP_UNREGISTER_KV_CACHE, err);
}

const struct kvc_worker_ops kvc_lmcache_driven_ops = {
    .name = "lmcache_driven",
    .enroll = enroll,
    .store = store,
    .retrieve = retrieve,
    .withdraw = withdraw,
};
