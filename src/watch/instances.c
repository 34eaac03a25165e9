/* Registrations. */
#include <stdlib.h>
#include <string.h>

#include "src/watch/state.h"

struct watch_instance *watch_instance_find(struct kvc_watch *watch, enum watch_mode mode,
                                           int64_t id)
{
    struct watch_instance *instance;
    LIST_FOREACH(instance, &watch->instances, in_list)
    {
        if (instance->mode == mode && instance->id == id)
            return instance;
    }
    return NULL;
}

struct watch_instance *watch_instance_of(struct kvc_watch *watch, enum watch_mode mode,
                                         const struct kvc_request *request)
{
    struct watch_instance *instance = watch_instance_find(watch, mode, request->instance_id);
    if (instance == NULL)
        watch_found(watch, KVC_RULE_NOT_REGISTERED, "instance %lld",
                    (long long)request->instance_id);
    return instance;
}

bool watch_model_is_served(struct kvc_watch *watch, struct kvc_str model, int64_t world_size)
{
    const struct watch_instance *instance;
    LIST_FOREACH(instance, &watch->instances, in_list)
    {
        if (instance->world_size == world_size && kvc_str_equal(instance->model, model))
            return true;
    }
    return false;
}

void watch_instance_free(struct watch_instance *instance)
{
    LIST_REMOVE(instance, in_list);
    watch_free(instance->model);
    free(instance);
}

/* ---- registering ---- */

static void digest_arguments(const struct kvc_frames *frames, uint8_t digest[KVC_BLAKE3_SIZE])
{
    struct kvc_buffer all = {0};
    for (size_t i = 2; i < frames->count; i++) {
        const struct kvc_bytes frame = kvc_frames_view(frames, i);
        kvc_buffer_append(&all, &frame.size, sizeof(frame.size));
        kvc_buffer_append(&all, frame.data, frame.size);
    }
    kvc_blake3(all.data, all.size, digest);
    kvc_buffer_clear(&all);
}

/* A new instance in the place of an old one with the same id; NULL: it is that one, once more. */
static struct watch_instance *enroll(struct kvc_watch *watch, enum watch_mode mode, int64_t id,
                                     struct kvc_str model, int64_t world_size)
{
    uint8_t arguments[KVC_BLAKE3_SIZE];
    digest_arguments(watch->current.frames, arguments);
    struct watch_instance *old = watch_instance_find(watch, mode, id);
    if (old != NULL && memcmp(old->arguments, arguments, sizeof(arguments)) == 0)
        return NULL;
    if (old != NULL) {
        watch_found(watch, KVC_RULE_REGISTERED_AGAIN, "instance %lld", (long long)id);
        watch_instance_free(old);
    }
    struct watch_instance *instance = kvc_alloc_zero(1, sizeof(*instance));
    instance->mode = mode;
    instance->id = id;
    instance->model = watch_copy(model);
    instance->world_size = world_size;
    memcpy(instance->arguments, arguments, sizeof(arguments));
    LIST_INSERT_HEAD(&watch->instances, instance, in_list);
    return instance;
}

void watch_on_register_mapped(struct kvc_watch *watch, const struct kvc_request *request)
{
    if (request->handles.count == 0)
        watch_found(watch, KVC_RULE_REGISTERED_NOTHING, "instance %lld has no tensor",
                    (long long)request->instance_id);
    struct watch_instance *instance =
        enroll(watch, WATCH_MAPPED, request->instance_id, request->model_name, request->world_size);
    if (instance != NULL)
        watch_groups_read(request, instance);
}

void watch_on_register_engine_driven(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct kvc_engine_driven_register *payload = &request->engine_driven;
    if (payload->num_layers < 1 || payload->hidden_dim_size < 1)
        watch_found(watch, KVC_RULE_REGISTERED_NOTHING,
                    "instance %lld has %lld layers of %lld elements a token",
                    (long long)payload->instance_id, (long long)payload->num_layers,
                    (long long)payload->hidden_dim_size);
    struct watch_instance *instance = enroll(watch, WATCH_ENGINE_DRIVEN, payload->instance_id,
                                             payload->model_name, payload->world_size);
    if (instance == NULL)
        return;
    if (!payload->use_mla)
        instance->shape[instance->rank++] = 2;
    instance->shape[instance->rank++] = payload->num_layers;
    instance->shape[instance->rank++] =
        payload->num_physical_slots.present ? payload->num_physical_slots.value : watch->chunk_size;
    instance->shape[instance->rank++] = payload->hidden_dim_size;
}

static void confirm(struct kvc_watch *watch, enum watch_mode mode,
                    const struct watch_flight *flight, bool has_pool)
{
    struct watch_instance *instance = watch_instance_find(watch, mode, flight->instance_id);
    if (instance == NULL)
        return;
    instance->confirmed = true;
    instance->has_pool = has_pool;
}

void watch_registered_mapped(struct kvc_watch *watch, const struct watch_flight *flight,
                             const struct kvc_reply *reply)
{
    (void)reply;
    confirm(watch, WATCH_MAPPED, flight, false);
}

void watch_registered_engine_driven(struct kvc_watch *watch, const struct watch_flight *flight,
                                    const struct kvc_reply *reply)
{
    confirm(watch, WATCH_ENGINE_DRIVEN, flight,
            reply->pool.shm_name.size > 0 && reply->pool.pool_size > 0);
}

/* A registration that is not answered leaves the id unregistered (protocol.md 4.2). */
static void forget(struct kvc_watch *watch, enum watch_mode mode, const struct watch_flight *flight)
{
    struct watch_instance *instance = watch_instance_find(watch, mode, flight->instance_id);
    if (instance != NULL && !instance->confirmed)
        watch_instance_free(instance);
}

void watch_not_registered_mapped(struct kvc_watch *watch, const struct watch_flight *flight)
{
    forget(watch, WATCH_MAPPED, flight);
}

void watch_not_registered_engine_driven(struct kvc_watch *watch, const struct watch_flight *flight)
{
    forget(watch, WATCH_ENGINE_DRIVEN, flight);
}

/* ---- leaving ---- */

static void leave(struct kvc_watch *watch, enum watch_mode mode, const struct kvc_request *request)
{
    struct watch_instance *instance = watch_instance_of(watch, mode, request);
    if (instance == NULL)
        return;
    if (mode == WATCH_ENGINE_DRIVEN)
        watch_transfers_leave(watch, instance->id);
    watch_instance_free(instance);
}

void watch_on_unregister_mapped(struct kvc_watch *watch, const struct kvc_request *request)
{
    leave(watch, WATCH_MAPPED, request);
}

void watch_on_unregister_engine_driven(struct kvc_watch *watch, const struct kvc_request *request)
{
    leave(watch, WATCH_ENGINE_DRIVEN, request);
}

void kvc_watch_dropped(struct kvc_watch *watch, int64_t instance_id)
{
    for (int mode = 0; mode < WATCH_MODE_COUNT; mode++) {
        struct watch_instance *instance =
            watch_instance_find(watch, (enum watch_mode)mode, instance_id);
        if (instance == NULL)
            continue;
        watch_left(watch, KVC_RULE_FELL_SILENT, "instance %lld", (long long)instance_id);
        watch_transfers_leave(watch, instance_id);
        watch_instance_free(instance);
    }
}

void watch_on_ping(struct kvc_watch *watch, const struct kvc_request *request)
{
    const struct kvc_optional_int *id = &request->ping_instance;
    if (id->present && watch_instance_find(watch, WATCH_MAPPED, id->value) == NULL &&
        watch_instance_find(watch, WATCH_ENGINE_DRIVEN, id->value) == NULL)
        watch_found(watch, KVC_RULE_NOT_REGISTERED, "instance %lld", (long long)id->value);
}
