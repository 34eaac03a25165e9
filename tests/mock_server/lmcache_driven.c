#include "tests/mock_server/block_copy.h"
#include "tests/mock_server/handlers.h"
#include "tests/mock_server/slot_guard.h"
#include "tests/mock_server/window.h"

/* What a CPU server sends back for an event. */
#define STUB_EVENT "stub_ipc_handle"

static enum mock_answer answer(struct mock_call *call, bool success)
{
    call->reply->transfer = (struct kvc_transfer_result){
        .event_handle = {(const uint8_t *)STUB_EVENT, sizeof(STUB_EVENT) - 1},
        .success = success,
    };
    return MOCK_REPLY;
}

static enum mock_answer answer_unknown(struct mock_call *call)
{
    const struct mock *mock = call->mock;
    if (mock_has(mock, MOCK_DEFECT_UNKNOWN_INSTANCE_STORED))
        return answer(call, true);
    if (!mock_speaks(mock, KVC_FEATURE_STORE_UNKNOWN_ANSWERED))
        return mock_refuse(call, "instance %lld is not registered",
                           (long long)call->request->instance_id);
    call->reply->transfer = (struct kvc_transfer_result){.success = false};
    return MOCK_REPLY;
}

/* Always, but with a defect: then not when a segment's name is gone, though the memory is mapped. */
static bool memory_is_there(const struct mock_call *call, const struct mock_instance *instance)
{
    for (size_t i = 0;
         mock_has(call->mock, MOCK_DEFECT_SEGMENTS_BY_NAME) && i < instance->layer_count; i++) {
        struct kvc_segment again;
        if (kvc_segment_open(instance->layers[i].segment.name, 1, &again, NULL) != KVC_OK) {
            mock_refuse(call, "a segment of instance %lld is gone", (long long)instance->id);
            return false;
        }
        kvc_segment_close(&again);
    }
    return true;
}

/* ---- block ids ---- */

enum ids_state { IDS_GOOD, IDS_BAD, IDS_REFUSED };

/* Makes good what a defect overlooks; the result is what the transfer uses. */
static struct kvc_ints mended(struct mock_call *call, const struct mock_kernel_group *group,
                              struct kvc_ints ids, size_t needed)
{
    const bool pad = mock_has(call->mock, MOCK_DEFECT_FEW_BLOCKS_PADDED);
    const bool clamp = mock_has(call->mock, MOCK_DEFECT_BAD_BLOCK_CLAMPED);
    if ((!pad && !clamp) || ids.count == 0)
        return ids;
    const size_t count = pad && ids.count < needed ? needed : ids.count;
    int64_t *items = kvc_arena_alloc_array(call->arena, count, sizeof(*items));
    for (size_t i = 0; i < count; i++) {
        items[i] = ids.items[i < ids.count ? i : ids.count - 1];
        if (clamp && (items[i] < 0 || items[i] >= group->shape.num_blocks))
            items[i] = group->shape.num_blocks - 1;
    }
    return (struct kvc_ints){items, count};
}

static enum ids_state check_ids(struct mock_call *call, const struct mock_kernel_group *group,
                                struct kvc_ints ids, size_t needed)
{
    if (ids.count > needed) {
        mock_refuse(call, "%zu block ids where the window has %zu blocks", ids.count, needed);
        return IDS_REFUSED;
    }
    if (ids.count < needed)
        return IDS_BAD;
    for (size_t i = 0; i < ids.count; i++) {
        if (ids.items[i] < 0 || ids.items[i] >= group->shape.num_blocks)
            return IDS_BAD;
    }
    return IDS_GOOD;
}

/* Reads the call's block ids, one list a kernel group, into lists (room for KVC_MAX_GROUPS). */
static enum ids_state read_ids(struct mock_call *call, const struct mock_instance *instance,
                               int64_t chunks, struct kvc_ints lists[KVC_MAX_GROUPS])
{
    const struct kvc_int_lists *given = &call->request->block_ids;
    enum ids_state state = IDS_GOOD;
    if (given->count != instance->group_count) {
        mock_refuse(call, "%zu lists of block ids for %zu kernel groups", given->count,
                    instance->group_count);
        return IDS_REFUSED;
    }
    for (size_t i = 0; i < instance->group_count && state != IDS_REFUSED; i++) {
        const struct mock_kernel_group *group = &instance->groups[i];
        const size_t needed = (size_t)(chunks * group->blocks_per_chunk);
        lists[i] = mended(call, group, given->items[i], needed);
        const enum ids_state found = check_ids(call, group, lists[i], needed);
        state = found > state ? found : state;
    }
    return state;
}

static bool is_null_chunk(const struct mock_instance *instance, const struct kvc_ints *lists,
                          int64_t chunk)
{
    for (size_t g = 0; g < instance->group_count; g++) {
        const int64_t per_chunk = instance->groups[g].blocks_per_chunk;
        for (int64_t i = 0; i < per_chunk; i++) {
            if (lists[g].items[chunk * per_chunk + i] != 0)
                return false;
        }
    }
    return true;
}

/* ---- STORE ---- */

/* Whether the window's i-th chunk is to be stored: not cached yet, and not made of null blocks. */
static bool is_wanted(const struct mock_window *window, const struct mock_instance *instance,
                      const struct kvc_ints *lists, int64_t i)
{
    const struct mock *mock = window->mock;
    const bool knows_null_block =
        mock_speaks(mock, KVC_FEATURE_NULL_BLOCK) && !mock_has(mock, MOCK_DEFECT_NULL_BLOCK_STORED);
    return mock_window_object(window, i) == NULL &&
           !(knows_null_block && is_null_chunk(instance, lists, i));
}

/* Reserves and fills the chunks that are wanted; those that do not fit are left out. The objects are
 * added to `objects`. False when the worker's memory is gone. */
static bool fill(struct mock_call *call, const struct mock_window *window,
                 const struct mock_instance *instance, const struct kvc_ints *lists,
                 struct mock_object **objects, size_t *count)
{
    struct mock *mock = call->mock;
    for (int64_t i = 0; i < window->count; i++) {
        if (!is_wanted(window, instance, lists, i))
            continue;
        const struct mock_object_key key =
            mock_window_key(window, window->first + i, window->worker);
        struct mock_object *object =
            mock_store_reserve(&mock->store, &key, &instance->layout, mock->now_ms);
        if (object == NULL && mock_has(mock, MOCK_DEFECT_FULL_STORE_FALSE))
            return false;
        if (object == NULL)
            continue;
        object->is_owned = true;
        objects[(*count)++] = object;
        if (!mock_gather(call, instance, lists, i, mock_object_data(&mock->store, object)))
            return false;
    }
    return true;
}

static enum mock_answer store(struct mock_call *call, const struct mock_window *window,
                              const struct mock_instance *instance, const struct kvc_ints *lists)
{
    struct mock *mock = call->mock;
    struct mock_object **objects = kvc_alloc_zero((size_t)window->count + 1, sizeof(objects[0]));
    size_t count = 0;
    const bool filled = fill(call, window, instance, lists, objects, &count);
    struct mock_transfer *transfer =
        mock_transfer_begin(&mock->transfers, MOCK_STORED, instance->id, &call->request->key,
                            objects, count, mock->now_ms + mock->options.store_delay_ms);
    if (!filled || mock_has(mock, MOCK_DEFECT_STORE_LOST))
        mock_transfer_drop(transfer, &mock->store);
    else if (mock->options.store_delay_ms == 0)
        mock_transfer_publish(transfer, &mock->store);
    if (count == 0 && mock_has(mock, MOCK_DEFECT_CACHED_STORE_FALSE))
        return answer(call, false);
    return answer(call, filled);
}

enum mock_answer mock_on_store(struct mock_call *call)
{
    struct mock *mock = call->mock;
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, call->request->instance_id);
    if (instance == NULL)
        return answer_unknown(call);
    mock_hear_of(mock, instance);
    if (!memory_is_there(call, instance))
        return MOCK_SILENCE;
    struct mock_window window;
    struct kvc_ints lists[KVC_MAX_GROUPS];
    if (!mock_window_read(call, &window))
        return MOCK_SILENCE;
    switch (read_ids(call, instance, window.count, lists)) {
    case IDS_GOOD:
        return store(call, &window, instance, lists);
    case IDS_BAD:
        if (mock_has(mock, MOCK_DEFECT_BAD_STORE_STAYS_RESERVED))
            mock_window_reserve_for_nobody(mock, &window, &instance->layout);
        return answer(call, false);
    case IDS_REFUSED:
        break;
    }
    return MOCK_SILENCE;
}

/* ---- RETRIEVE ---- */

/* Copies the window's chunks into the worker's blocks. False, and nothing was written, when one of them
 * cannot be read; false, too, when the worker's memory is gone. */
static bool retrieve(struct mock_call *call, const struct mock_window *window,
                     const struct mock_instance *instance, const struct kvc_ints *lists)
{
    struct mock *mock = call->mock;
    int64_t found = 0;
    while (found < window->count) {
        const struct mock_object *object = mock_window_readable(window, found);
        if (object == NULL || !mock_object_fits(mock, object, &instance->layout))
            break;
        found++;
    }
    const bool complete = found == window->count && found > 0;
    const bool success = complete || (found > 0 && found == window->count - 1 &&
                                      mock_has(mock, MOCK_DEFECT_MISS_IS_SUCCESS));
    if (!success && !mock_has(mock, MOCK_DEFECT_MISS_WRITES))
        return false;
    for (int64_t i = 0; i < found; i++) {
        struct mock_object *object = mock_window_object(window, i);
        mock_slot_verify(mock, object);
        mock_store_touch(&mock->store, object);
        if (!mock_scatter(call, instance, lists, i, mock_object_data(&mock->store, object)))
            return false;
    }
    return success;
}

enum mock_answer mock_on_retrieve(struct mock_call *call)
{
    struct mock *mock = call->mock;
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, call->request->instance_id);
    if (instance == NULL)
        return answer_unknown(call);
    mock_hear_of(mock, instance);
    if (!memory_is_there(call, instance))
        return MOCK_SILENCE;
    struct mock_window window;
    struct kvc_ints lists[KVC_MAX_GROUPS];
    if (!mock_window_read(call, &window))
        return MOCK_SILENCE;
    const enum ids_state state = read_ids(call, instance, window.count, lists);
    if (state == IDS_REFUSED)
        return MOCK_SILENCE;
    const bool success = state == IDS_GOOD && retrieve(call, &window, instance, lists);
    if (!mock_has(mock, success ? MOCK_DEFECT_RETRIEVE_KEEPS_LOCK
                                : MOCK_DEFECT_FAILED_RETRIEVE_KEEPS_LOCKS))
        mock_window_unlock(&window);
    return answer(call, success);
}
