#include <string.h>

#include "src/base/clock.h"
#include "tests/mock_server/gpu.h"
#include "tests/mock_server/handlers.h"

enum { MOCK_MAX_WORLD = 255 };

/* A defect: what takes long, and how long. */
enum { MANY_LAYERS = 32, STALL_MS = 1500 };

/* An instance as it is remembered. */
struct number {
    int64_t mode, id;
};

static struct kvc_bytes number_of(const struct number *number)
{
    return (struct kvc_bytes){(const uint8_t *)number, sizeof(*number)};
}

/* A digest of the payload frames: equal arguments have equal ones. */
static void digest_arguments(const struct mock_call *call, uint8_t digest[KVC_BLAKE3_SIZE])
{
    struct kvc_buffer all = {0};
    for (size_t i = 2; i < call->frames->count; i++) {
        const struct kvc_bytes frame = kvc_frames_view(call->frames, i);
        kvc_buffer_append(&all, &frame.size, sizeof(frame.size));
        kvc_buffer_append(&all, frame.data, frame.size);
    }
    kvc_blake3(all.data, all.size, digest);
    kvc_buffer_clear(&all);
}

static void drop_chunks_of(struct mock *mock, const struct mock_instance *instance)
{
    const struct mock_model *model =
        mock_registry_model(&mock->registry, instance->model, instance->world_size);
    if (model == NULL || model->instances > 1)
        return;
    struct mock_object *object = TAILQ_FIRST(&mock->store.by_use);
    while (object != NULL) {
        struct mock_object *next = TAILQ_NEXT(object, by_use);
        if (object->ready && kvc_str_equal(object->key.model, instance->model))
            mock_store_remove(&mock->store, object);
        object = next;
    }
}

/* A defect: the locks of what the instance is reading go to nobody. */
static void orphan_locks(struct mock *mock, const struct mock_instance *instance)
{
    struct mock_transfer *transfer;
    LIST_FOREACH(transfer, &mock->transfers.list, in_list)
    {
        if (transfer->instance_id == instance->id)
            mock_holder_pass(&transfer->locks, &mock->orphans);
    }
}

void mock_leave(struct mock *mock, struct mock_instance *instance)
{
    if (mock_has(mock, MOCK_DEFECT_LEAVER_KEEPS_LOCKS))
        orphan_locks(mock, instance);
    if (mock_has(mock, MOCK_DEFECT_ID_NOT_REUSABLE))
        mock_memory_add(&mock->used_up, number_of(&(struct number){instance->mode, instance->id}));
    if (instance->mode == MOCK_ENGINE_DRIVEN)
        mock_transfers_leave(&mock->transfers, &mock->store, instance->id,
                             mock_has(mock, MOCK_DEFECT_UNREGISTER_PUBLISHES));
    mock_gpu_leave(mock, instance);
    if (mock_has(mock, MOCK_DEFECT_UNREGISTER_DROPS_CHUNKS))
        drop_chunks_of(mock, instance);
    mock_registry_remove(&mock->registry, instance,
                         mock_has(mock, MOCK_DEFECT_UNREGISTER_DROPS_MODEL),
                         mock_has(mock, MOCK_DEFECT_LEAVER_STAYS_LISTED));
}

/* Puts a new instance in the place of the old one of its id, if there is one. */
static void replace(struct mock *mock, struct mock_instance *old, struct mock_instance *instance)
{
    if (old != NULL)
        mock_leave(mock, old);
    instance->seen_ms = mock->now_ms;
    mock_registry_add(&mock->registry, instance);
}

/* Whether an instance that is already there was registered with the same arguments. */
static bool is_same(struct mock_call *call, struct mock_instance *old,
                    const uint8_t arguments[KVC_BLAKE3_SIZE])
{
    if (old == NULL)
        return false;
    old->seen_ms = call->mock->now_ms;
    return memcmp(old->arguments, arguments, KVC_BLAKE3_SIZE) == 0;
}

/* A defect: the same registration once more is not answered. */
static bool is_refused(const struct mock *mock, bool same)
{
    return same && mock_has(mock, MOCK_DEFECT_REPEAT_REFUSED);
}

/* A defect: any registration of an instance that is already there changes nothing. */
static bool is_ignored(const struct mock *mock, const struct mock_instance *old)
{
    return old != NULL && mock_has(mock, MOCK_DEFECT_REGISTER_AGAIN_IGNORED);
}

static bool check_world(struct mock_call *call, int64_t world_size)
{
    if ((world_size >= 1 && world_size <= MOCK_MAX_WORLD) ||
        mock_has(call->mock, MOCK_DEFECT_WORLD_UNCHECKED))
        return true;
    mock_refuse(call, "world_size is %lld, it must be 1 to %d", (long long)world_size,
                MOCK_MAX_WORLD);
    return false;
}

/* Defects: ids that a server should take. */
static bool check_id(struct mock_call *call, enum mock_mode mode, int64_t id)
{
    const struct mock *mock = call->mock;
    const bool is_wide = id < 0 || id > UINT32_MAX;
    if (!(is_wide && mock_has(mock, MOCK_DEFECT_WIDE_IDS_REFUSED)) &&
        !mock_memory_has(&mock->used_up, number_of(&(struct number){mode, id})))
        return true;
    mock_refuse(call, "instance %lld cannot be registered", (long long)id);
    return false;
}

/* ---- engine-driven ---- */

static void tell_pool(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    struct kvc_pool_info *info = &call->reply->pool;
    if (mock->pool.shared || mock_has(mock, MOCK_DEFECT_NO_POOL_SIZED))
        info->pool_size = mock->pool.size;
    if (!mock->pool.shared)
        return;
    info->shm_name = kvc_str_of(mock->pool.segment.name + 1);
    if (mock_has(mock, MOCK_DEFECT_POOL_NAME_WRONG))
        info->shm_name.size--;
    if (mock_has(mock, MOCK_DEFECT_POOL_SIZE_WRONG))
        info->pool_size += 1 << 20;
}

static struct kvc_optional_int physical_slots(const struct mock *mock,
                                              const struct kvc_engine_driven_register *payload)
{
    return mock_has(mock, MOCK_DEFECT_PHYSICAL_SLOTS_IGNORED) ? KVC_NIL_INT
                                                              : payload->num_physical_slots;
}

static struct mock_instance *new_engine_driven(const struct mock *mock,
                                               const struct kvc_engine_driven_register *payload,
                                               const struct kvc_dtype *dtype)
{
    struct mock_instance *instance = mock_instance_new(MOCK_ENGINE_DRIVEN, payload->instance_id,
                                                       payload->model_name, payload->world_size);
    const struct kvc_optional_int slots = physical_slots(mock, payload);
    instance->block_size = payload->block_size;
    instance->use_mla = payload->use_mla;
    instance->layout.part_count = 1;
    instance->layout.parts[0] = (struct mock_part){
        .kv = payload->use_mla ? 1 : 2,
        .layers = payload->num_layers,
        .tokens = slots.present ? slots.value : mock->options.chunk_size,
        .hidden = payload->hidden_dim_size,
        .dtype = dtype,
        .flat = payload->use_mla,
    };
    mock_chunk_layout_seal(&instance->layout);
    if (mock_has(mock, MOCK_DEFECT_DTYPE_WIDTH_WRONG) && dtype->size == 1)
        instance->layout.bytes *= 2;
    return instance;
}

enum mock_answer mock_on_register_engine_driven(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct kvc_engine_driven_register *payload = &call->request->engine_driven;
    const struct kvc_dtype *dtype = kvc_dtype_find(payload->dtype_str);
    if (dtype == NULL && mock_has(mock, MOCK_DEFECT_DTYPE_UNCHECKED))
        dtype = kvc_dtype_find(KVC_STR("float16"));
    if (dtype == NULL)
        return mock_refuse(call, "unknown dtype " KVC_STR_FMT, KVC_STR_ARG(payload->dtype_str));
    if (!check_world(call, payload->world_size) ||
        !check_id(call, MOCK_ENGINE_DRIVEN, payload->instance_id))
        return MOCK_SILENCE;
    const struct kvc_optional_int slots = physical_slots(mock, payload);
    if (slots.present && slots.value < 1)
        return mock_refuse(call, "num_physical_slots is below 1");

    uint8_t arguments[KVC_BLAKE3_SIZE];
    digest_arguments(call, arguments);
    struct mock_instance *old =
        mock_registry_find(&mock->registry, MOCK_ENGINE_DRIVEN, payload->instance_id);
    const bool same = is_same(call, old, arguments);
    if (is_refused(mock, same))
        return mock_refuse(call, "instance %lld is registered", (long long)payload->instance_id);
    if (!same && !is_ignored(mock, old)) {
        struct mock_instance *instance = new_engine_driven(mock, payload, dtype);
        memcpy(instance->arguments, arguments, sizeof(arguments));
        replace(mock, old, instance);
    }
    tell_pool(call);
    return MOCK_REPLY;
}

/* ---- lmcache-driven ---- */

static bool knows_layout(struct kvc_str layout)
{
    return layout.size == 0 || kvc_str_is(layout, "NHD") || kvc_str_is(layout, "HND");
}

enum mock_answer mock_on_register_kv_cache(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct kvc_request *request = call->request;
    if (!kvc_str_is(request->engine_type, "vllm"))
        return mock_refuse(call, "no tensors of engine " KVC_STR_FMT " can be read on a cpu",
                           KVC_STR_ARG(request->engine_type));
    if (request->layout_hints.others.count > 0 && mock_has(mock, MOCK_DEFECT_HINTS_STRICT))
        return mock_refuse(call, "unknown layout hint");
    if (!knows_layout(request->layout_hints.kv_layout))
        return mock_refuse(call, "unknown kv_layout " KVC_STR_FMT,
                           KVC_STR_ARG(request->layout_hints.kv_layout));
    if (!check_world(call, request->world_size) ||
        !check_id(call, MOCK_LMCACHE_DRIVEN, request->instance_id))
        return MOCK_SILENCE;

    uint8_t arguments[KVC_BLAKE3_SIZE];
    digest_arguments(call, arguments);
    struct mock_instance *old =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, request->instance_id);
    const bool same = is_same(call, old, arguments);
    if (is_refused(mock, same))
        return mock_refuse(call, "instance %lld is registered", (long long)request->instance_id);
    if (is_ignored(mock, old))
        return MOCK_REPLY;
    if (!mock_gpu_may_map(mock, &request->handles))
        return mock_refuse(call, "that GPU memory was mapped before");

    /* Mapped again even if nothing changed: the name may stand for new memory. If that fails, the
     * client has removed the name after its first registration, and the old mapping is the right one. */
    struct mock_instance *instance = mock_instance_new(MOCK_LMCACHE_DRIVEN, request->instance_id,
                                                       request->model_name, request->world_size);
    memcpy(instance->arguments, arguments, sizeof(arguments));
    const struct mock_reading reading = {
        .layout_hint_ignored = mock_has(mock, MOCK_DEFECT_LAYOUT_HINT_IGNORED),
        .kv_first_always = mock_has(mock, MOCK_DEFECT_KV_FIRST_ALWAYS),
        .strides_ignored = mock_has(mock, MOCK_DEFECT_STRIDES_IGNORED),
        .length_unchecked = mock_has(mock, MOCK_DEFECT_LENGTH_UNCHECKED),
        .groups_ignored = mock_has(mock, MOCK_DEFECT_GROUPS_IGNORED),
        .alloc_offset_ignored = mock_has(mock, MOCK_DEFECT_ALLOC_OFFSET_IGNORED),
        .storage_offset_ignored = mock_has(mock, MOCK_DEFECT_STORAGE_OFFSET_IGNORED),
    };
    struct kvc_error err = KVC_ERROR_INIT;
    if (mock_gpu_await_owner(mock, &request->handles, &err) != KVC_OK ||
        mock_instance_map(instance, &request->handles, &request->layout_hints, &request->groups,
                          mock->options.chunk_size, reading, &err) != KVC_OK) {
        mock_instance_free(instance);
        return same ? MOCK_REPLY : mock_refuse(call, "%s", err.what);
    }
    replace(mock, old, instance);
    return MOCK_REPLY;
}

/* ---- leaving ---- */

static enum mock_answer unregister(struct mock_call *call, enum mock_mode mode)
{
    struct mock *mock = call->mock;
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, mode, call->request->instance_id);
    const enum mock_mode other_mode =
        mode == MOCK_ENGINE_DRIVEN ? MOCK_LMCACHE_DRIVEN : MOCK_ENGINE_DRIVEN;
    struct mock_instance *other =
        mock_registry_find(&mock->registry, other_mode, call->request->instance_id);
    if (other != NULL && mock_has(mock, MOCK_DEFECT_MODES_SHARE_IDS))
        mock_leave(mock, other);
    if (instance != NULL && instance->layer_count > MANY_LAYERS &&
        mock_has(mock, MOCK_DEFECT_UNMAPPING_STALLS))
        kvc_sleep_ms(STALL_MS);
    if (instance != NULL) {
        mock_leave(mock, instance);
        return MOCK_REPLY;
    }
    return mock_has(mock, MOCK_DEFECT_UNREGISTER_UNKNOWN_SILENT) ? MOCK_SILENCE : MOCK_REPLY;
}

enum mock_answer mock_on_unregister_engine_driven(struct mock_call *call)
{
    return unregister(call, MOCK_ENGINE_DRIVEN);
}

enum mock_answer mock_on_unregister_kv_cache(struct mock_call *call)
{
    return unregister(call, MOCK_LMCACHE_DRIVEN);
}
