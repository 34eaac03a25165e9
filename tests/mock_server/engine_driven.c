#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/handlers.h"
#include "tests/mock_server/inline_transfer.h"
#include "tests/mock_server/slot_guard.h"
#include "tests/mock_server/window.h"

enum { LATE_MS = 500 }; /* a defect */

/* The instance that a call is for. NULL: the call is refused. */
static struct mock_instance *instance_of(struct mock_call *call)
{
    struct mock *mock = call->mock;
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_ENGINE_DRIVEN, call->request->instance_id);
    if (instance == NULL && mock_has(mock, MOCK_DEFECT_UNKNOWN_INSTANCE_PREPARED))
        instance = LIST_FIRST(&mock->registry.instances[MOCK_ENGINE_DRIVEN]);
    if (instance == NULL) {
        mock_refuse(call, "instance %lld is not registered", (long long)call->request->instance_id);
        return NULL;
    }
    mock_hear_of(mock, instance);
    return instance;
}

/* What this instance's chunks are. */
static const struct mock_chunk_layout *layout_of(const struct mock *mock,
                                                 const struct mock_instance *instance)
{
    const struct mock_model *model =
        mock_registry_model(&mock->registry, instance->model, instance->world_size);
    if (model != NULL && mock_has(mock, MOCK_DEFECT_GEOMETRY_OF_LAST))
        return &model->last_layout;
    return &instance->layout;
}

/* ---- slots ---- */

static struct kvc_slot slot_of(struct mock_call *call, const struct mock_object *object)
{
    const struct mock *mock = call->mock;
    const struct mock_part *part = &object->layout.parts[0];
    int64_t *shape = kvc_arena_alloc_array(call->arena, 4, sizeof(*shape));
    const size_t rank = mock_part_shape(part, shape);
    struct kvc_slot slot = {
        .offset = object->offset,
        .length = object->layout.bytes,
        .shape = {shape, rank},
        .dtype = kvc_str_of(part->dtype->name),
    };
    if (mock_has(mock, MOCK_DEFECT_SLOT_SHORT))
        slot.length -= part->hidden * (int64_t)part->dtype->size;
    if (mock_has(mock, MOCK_DEFECT_SLOT_SHAPE_WRONG) && rank == 4) {
        shape[0] = part->layers;
        shape[1] = part->kv;
    }
    if (mock_has(mock, MOCK_DEFECT_SLOT_DTYPE_WRONG)) {
        const struct kvc_str name = slot.dtype;
        char *text = kvc_arena_alloc(call->arena, name.size + sizeof("torch."));
        memcpy(text, "torch.", sizeof("torch."));
        memcpy(text + sizeof("torch.") - 1, name.data, name.size);
        slot.dtype = (struct kvc_str){text, name.size + sizeof("torch.") - 1};
    }
    return slot;
}

/* Slots in the order of the objects, with the chunk numbers, if any, beside them. */
static void tell_slots(struct mock_call *call, struct mock_object *const *objects,
                       const int64_t *chunk_indices, size_t count,
                       struct kvc_transfer_context *context)
{
    struct kvc_slot *slots = kvc_arena_alloc_array(call->arena, count, sizeof(*slots));
    for (size_t i = 0; i < count; i++)
        slots[i] = slot_of(call, objects[i]);
    context->has_slots = true;
    context->slots = (struct kvc_slots){slots, count};
    if (chunk_indices != NULL) {
        context->has_chunk_indices = true;
        context->chunk_indices = (struct kvc_ints){chunk_indices, count};
    }
}

/* An object that the instance is writing; NULL: there is none. */
static const struct mock_object *being_written(const struct mock *mock, int64_t instance_id)
{
    const struct mock_transfer *transfer;
    LIST_FOREACH(transfer, &mock->transfers.list, in_list)
    {
        if (transfer->kind == MOCK_PREPARED_STORE && transfer->object_count > 0 &&
            transfer->instance_id == instance_id)
            return transfer->objects[0];
    }
    return NULL;
}

/* The defects that only slots to write have. */
static void distort_slots(const struct mock *mock, const struct mock_instance *instance,
                          struct kvc_slot *slots, size_t count)
{
    const struct mock_object *other = being_written(mock, instance->id);
    if (mock_has(mock, MOCK_DEFECT_PENDING_SLOT_REUSED) && other != NULL && count > 0)
        slots[0].offset = other->offset;
    if (mock_has(mock, MOCK_DEFECT_SLOTS_OVERLAP) && count > 1)
        slots[1].offset = slots[0].offset + slots[0].length / 2;
    if (mock_has(mock, MOCK_DEFECT_SLOT_BEYOND_POOL) && count > 0)
        slots[count - 1].offset = mock->pool.size - slots[count - 1].length / 2;
    for (size_t i = 0; mock_has(mock, MOCK_DEFECT_SLOT_OFF_BY_PAGE) && i < count; i++)
        slots[i].offset += MOCK_POOL_ALIGN;
}

/* ---- PREPARE_STORE ---- */

/* The chunks that this preparation will write. */
struct missing {
    struct mock_object **objects; /* malloc: a transfer takes them over */
    int64_t *indices;             /* in the window; in the call's arena */
    size_t count;
};

/* Which chunks of the window are neither cached nor being written. */
static void find_missing(struct mock_call *call, const struct mock_window *window,
                         struct missing *missing)
{
    const struct mock *mock = call->mock;
    missing->indices = kvc_arena_alloc_array(call->arena, (size_t)window->count, sizeof(int64_t));
    missing->count = 0;
    for (int64_t i = 0; i < window->count; i++) {
        const struct mock_object *object = mock_window_object(window, i);
        if (object == NULL || (object->ready && mock_has(mock, MOCK_DEFECT_CACHED_OFFERED)) ||
            (!object->ready && mock_has(mock, MOCK_DEFECT_BUSY_OFFERED)))
            missing->indices[missing->count++] = i;
    }
}

/* Reserved a moment ago: no transfer has it yet. Always so but with the defects that offer an object a
 * second time. */
static bool is_new(const struct mock_object *object)
{
    return !object->ready && !object->is_owned;
}

/* Reserves all of them, or none: what does not fit is given back. */
static void reserve_missing(struct mock *mock, const struct mock_window *window,
                            const struct mock_chunk_layout *layout, struct missing *missing)
{
    size_t reserved = 0;
    missing->objects = kvc_alloc_zero(missing->count + 1, sizeof(missing->objects[0]));
    const bool all_or_none = !mock_has(mock, MOCK_DEFECT_FULL_POOL_SPLITS);
    if (!all_or_none ||
        mock_store_could_fit(&mock->store, layout, (int64_t)missing->count, mock->now_ms)) {
        for (; reserved < missing->count; reserved++) {
            const struct mock_object_key key =
                mock_window_key(window, window->first + missing->indices[reserved], window->worker);
            struct mock_object *object = mock_store_find(&mock->store, &key);
            if (object == NULL)
                object = mock_store_reserve(&mock->store, &key, layout, mock->now_ms);
            if (object == NULL)
                break;
            missing->objects[reserved] = object;
        }
    }
    if (reserved < missing->count && all_or_none) {
        for (; reserved > 0; reserved--) {
            if (is_new(missing->objects[reserved - 1]))
                mock_store_remove(&mock->store, missing->objects[reserved - 1]);
        }
    }
    missing->count = reserved;
}

/* The reply's slots, and the transfer that waits for its commit. */
static void begin_store(struct mock_call *call, const struct mock_instance *instance,
                        struct missing *missing)
{
    struct mock *mock = call->mock;
    struct kvc_transfer_context *context = &call->reply->context;
    tell_slots(call, missing->objects, missing->indices, missing->count, context);
    distort_slots(mock, instance, (struct kvc_slot *)context->slots.items, missing->count);
    for (size_t i = 0; mock_has(mock, MOCK_DEFECT_CHUNK_INDICES_WRONG) && i < missing->count; i++)
        missing->indices[i] = (int64_t)i;
    if (missing->count == 0) {
        free(missing->objects);
        return;
    }
    size_t owned = 0;
    for (size_t i = 0; i < missing->count; i++) {
        if (!is_new(missing->objects[i]))
            continue;
        missing->objects[i]->is_owned = true;
        missing->objects[owned++] = missing->objects[i];
    }
    mock_transfer_begin(&mock->transfers, MOCK_PREPARED_STORE, instance->id, &call->request->key,
                        missing->objects, owned, mock->now_ms + mock->options.write_ttl_ms);
}

/* A defect: slots for chunks that hold nothing. */
static void tell_shapeless(struct mock_call *call, const struct mock_window *window,
                           const struct mock_chunk_layout *layout)
{
    const size_t count = (size_t)window->count;
    struct mock_object *nothing = kvc_arena_alloc(call->arena, sizeof(*nothing));
    *nothing = (struct mock_object){.layout = *layout};
    struct mock_object **objects =
        kvc_arena_alloc_array(call->arena, count, sizeof(struct mock_object *));
    int64_t *indices = kvc_arena_alloc_array(call->arena, count, sizeof(*indices));
    for (size_t i = 0; i < count; i++) {
        objects[i] = nothing;
        indices[i] = (int64_t)i;
    }
    tell_slots(call, objects, indices, count, &call->reply->context);
}

enum mock_answer mock_on_prepare_store(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct mock_instance *instance = instance_of(call);
    if (instance == NULL)
        return MOCK_SILENCE;
    if (!mock->pool.shared) {
        call->reply->context.has_slots = mock_has(mock, MOCK_DEFECT_INLINE_EMPTY_SLOTS);
        return MOCK_REPLY;
    }
    struct mock_window window;
    if (!mock_window_read(call, &window))
        return MOCK_SILENCE;
    if (window.count == 0 && mock_has(mock, MOCK_DEFECT_EMPTY_WINDOW_SILENT))
        return mock_refuse(call, "the window is empty");
    const struct mock_chunk_layout *layout = layout_of(mock, instance);
    if (layout->bytes == 0 && mock_has(mock, MOCK_DEFECT_SHAPELESS_SLOTS)) {
        tell_shapeless(call, &window, layout);
        return MOCK_REPLY;
    }
    if (layout->bytes == 0)
        return mock_refuse(call, "chunks of instance %lld hold nothing", (long long)instance->id);
    struct missing missing = {0};
    find_missing(call, &window, &missing);
    reserve_missing(mock, &window, layout, &missing);
    begin_store(call, instance, &missing);
    return MOCK_REPLY;
}

/* ---- COMMIT_STORE ---- */

static enum mock_answer commit_prepared(struct mock_call *call,
                                        const struct mock_instance *instance)
{
    struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    struct mock_transfer *transfer =
        mock_transfer_find(&mock->transfers, MOCK_PREPARED_STORE, instance->id, key);
    if (transfer != NULL && mock_has(mock, MOCK_DEFECT_COMMIT_NEEDS_REQUEST_ID) &&
        !mock_transfer_is_of(transfer, key->request_id))
        transfer = NULL;
    if (transfer == NULL) {
        call->reply->ok = mock_has(mock, MOCK_DEFECT_COMMIT_UNPREPARED_TRUE);
        return MOCK_REPLY;
    }
    call->reply->ok = true;
    for (size_t i = 0; i < transfer->object_count; i++)
        mock_slot_check_written(call, transfer->objects[i]);
    if (mock_has(mock, MOCK_DEFECT_COMMIT_VISIBLE_LATE))
        mock_transfer_put_off(transfer, mock->now_ms + LATE_MS);
    else if (!mock_has(mock, MOCK_DEFECT_COMMIT_TWICE_TRUE))
        mock_transfer_publish(transfer, &mock->store);
    else
        mock_transfer_publish_and_keep(transfer, &mock->store);
    return MOCK_REPLY;
}

enum mock_answer mock_on_commit_store(struct mock_call *call)
{
    const struct mock_instance *instance = instance_of(call);
    struct mock_window window;
    if (instance == NULL || !mock_window_read(call, &window))
        return MOCK_SILENCE;
    if (call->mock->pool.shared && call->request->data.size == 0)
        return commit_prepared(call, instance);
    if (call->mock->pool.shared && mock_has(call->mock, MOCK_DEFECT_INLINE_REFUSED))
        return mock_refuse(call, "there is a pool");
    return mock_commit_inline(call, &window, instance);
}

/* ---- PREPARE_RETRIEVE ---- */

/* All chunks of the window, if every one is there to be read. */
static struct mock_object **collect(struct mock_call *call, const struct mock_window *window,
                                    const struct mock_chunk_layout *layout, size_t *count)
{
    const struct mock *mock = call->mock;
    struct mock_object **objects =
        kvc_arena_alloc_array(call->arena, (size_t)window->count, sizeof(struct mock_object *));
    for (*count = 0; *count < (size_t)window->count; (*count)++) {
        objects[*count] = mock_window_readable(window, (int64_t)*count);
        if (objects[*count] == NULL || !mock_object_fits(mock, objects[*count], layout))
            break;
    }
    return mock_window_suffices(window, (int64_t)*count) ? objects : NULL;
}

static void reverse(struct mock_object **objects, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct mock_object *object = objects[i];
        objects[i] = objects[count - 1 - i];
        objects[count - 1 - i] = object;
    }
}

/* Until COMMIT_RETRIEVE the transfer holds one lock of each object, instead of whoever held it. */
static void begin_retrieve(struct mock_call *call, const struct mock_instance *instance,
                           struct mock_session *session, struct mock_object *const *objects,
                           size_t count)
{
    struct mock *mock = call->mock;
    const struct kvc_key *key = &call->request->key;
    struct mock_transfer *transfer =
        mock_transfer_find(&mock->transfers, MOCK_PREPARED_RETRIEVE, instance->id, key);
    if (transfer == NULL)
        transfer = mock_transfer_begin(&mock->transfers, MOCK_PREPARED_RETRIEVE, instance->id, key,
                                       NULL, 0, 0);
    transfer->end_ms = mock->now_ms + mock->options.read_ttl_ms;
    for (size_t i = 0; i < count; i++) {
        if (mock_object_lock_of(objects[i], &transfer->locks) == NULL)
            mock_object_pass_lock(objects[i], &session->locks, &transfer->locks);
    }
}

enum mock_answer mock_on_prepare_retrieve(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct mock_instance *instance = instance_of(call);
    struct mock_window window;
    if (instance == NULL || !mock_window_read(call, &window))
        return MOCK_SILENCE;
    if (mock_has(mock, MOCK_DEFECT_PREPARE_RETRIEVE_ONCE) &&
        mock_transfer_find(&mock->transfers, MOCK_PREPARED_RETRIEVE, instance->id,
                           &call->request->key) != NULL)
        return MOCK_REPLY;
    if (mock_has(mock, MOCK_DEFECT_SLOTS_FROM_FIRST))
        window.first = 0;
    size_t count = 0;
    struct mock_object **objects = collect(call, &window, layout_of(mock, instance), &count);
    if (objects == NULL) {
        if (!mock_has(mock, MOCK_DEFECT_FAILED_RETRIEVE_KEEPS_LOCKS))
            mock_window_unlock(&window);
        return MOCK_REPLY;
    }
    for (size_t i = 0; i < count; i++) {
        mock_slot_verify(mock, objects[i]);
        mock_store_touch(&mock->store, objects[i]);
    }
    if (mock_has(mock, MOCK_DEFECT_SLOTS_REVERSED))
        reverse(objects, count);
    if (!mock->pool.shared) {
        const enum mock_answer answer = mock_retrieve_inline(call, objects, count);
        if (!mock_has(mock, MOCK_DEFECT_RETRIEVE_KEEPS_LOCK))
            mock_window_unlock(&window);
        return answer;
    }
    call->reply->retrieve.success = true;
    tell_slots(call, objects, NULL, count, &call->reply->retrieve.context);
    begin_retrieve(call, instance, window.session, objects, count);
    return MOCK_REPLY;
}

enum mock_answer mock_on_commit_retrieve(struct mock_call *call)
{
    struct mock *mock = call->mock;
    const struct mock_instance *instance = instance_of(call);
    if (instance == NULL)
        return MOCK_SILENCE;
    call->reply->ok = true;
    struct mock_transfer *transfer = mock_transfer_find(&mock->transfers, MOCK_PREPARED_RETRIEVE,
                                                        instance->id, &call->request->key);
    if (transfer != NULL && !mock_has(mock, MOCK_DEFECT_RETRIEVE_KEEPS_LOCK)) {
        mock_transfer_drop(transfer, &mock->store);
    } else if (transfer == NULL && mock->pool.shared) {
        call->reply->ok = !mock_has(mock, MOCK_DEFECT_COMMIT_RETRIEVE_FALSE);
    }
    return MOCK_REPLY;
}
