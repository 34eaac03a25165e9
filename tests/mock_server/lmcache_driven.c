#include "tests/mock_server/block_copy.h"
#include "tests/mock_server/gpu.h"
#include "tests/mock_server/handlers.h"
#include "tests/mock_server/late_copy.h"
#include "tests/mock_server/slot_guard.h"
#include "tests/mock_server/window.h"

/* What a CPU server sends back for an event. */
#define STUB_EVENT "stub_ipc_handle"

static enum mock_answer answer(struct mock_call *call, bool success)
{
    const struct mock_instance *instance =
        mock_registry_find(&call->mock->registry, MOCK_LMCACHE_DRIVEN, call->request->instance_id);
    const struct kvc_bytes stub = {(const uint8_t *)STUB_EVENT, sizeof(STUB_EVENT) - 1};
    call->reply->transfer = (struct kvc_transfer_result){
        .event_handle = instance != NULL && instance->on_gpu ? mock_gpu_event(call) : stub,
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

static bool segments_are_named(const struct mock_instance *instance)
{
    for (size_t i = 0; i < instance->layer_count; i++) {
        struct kvc_segment again;
        if (kvc_segment_open(instance->layers[i].segment.name, 1, &again, NULL) != KVC_OK)
            return false;
        kvc_segment_close(&again);
    }
    return true;
}

/* Always, but with a defect. */
static bool transfer_is_possible(struct mock_call *call, const struct mock_instance *instance)
{
    if (instance->on_gpu)
        return mock_gpu_await(call);
    const bool has_event = call->request->event_handle.size > 0 ||
                           !mock_has(call->mock, MOCK_DEFECT_EVENT_HANDLE_CHECKED);
    if (has_event &&
        (!mock_has(call->mock, MOCK_DEFECT_SEGMENTS_BY_NAME) || segments_are_named(instance)))
        return true;
    mock_refuse(call, "the event, or a segment of instance %lld, is gone", (long long)instance->id);
    return false;
}

/* ---- block ids ---- */

enum ids_state { IDS_GOOD, IDS_BAD, IDS_REFUSED };

/* Defects: as many ids as are needed. */
static struct kvc_ints resized(struct mock_call *call, struct kvc_ints ids, size_t needed)
{
    const bool pads =
        ids.count < needed && ids.count > 0 && mock_has(call->mock, MOCK_DEFECT_FEW_BLOCKS_PADDED);
    const bool cuts = ids.count > needed && mock_has(call->mock, MOCK_DEFECT_SURPLUS_IDS_IGNORED);
    if (cuts)
        return (struct kvc_ints){ids.items, needed};
    if (!pads)
        return ids;
    int64_t *items = kvc_arena_alloc_array(call->arena, needed, sizeof(*items));
    for (size_t i = 0; i < needed; i++)
        items[i] = ids.items[i < ids.count ? i : ids.count - 1];
    return (struct kvc_ints){items, needed};
}

/* A defect: every id once, then the last of them again. */
static struct kvc_ints as_set(struct mock_call *call, struct kvc_ints ids)
{
    int64_t *items = kvc_arena_alloc_array(call->arena, ids.count, sizeof(*items));
    size_t count = 0;
    for (size_t i = 0; i < ids.count; i++) {
        size_t earlier = 0;
        while (earlier < i && ids.items[earlier] != ids.items[i])
            earlier++;
        if (earlier == i)
            items[count++] = ids.items[i];
    }
    for (; count < ids.count; count++)
        items[count] = items[count - 1];
    return (struct kvc_ints){items, ids.count};
}

/* Defects: one id for another. */
static struct kvc_ints replaced(struct mock_call *call, const struct mock_kernel_group *group,
                                struct kvc_ints ids)
{
    const bool clamp = mock_has(call->mock, MOCK_DEFECT_BAD_BLOCK_CLAMPED);
    const bool from_one = mock_has(call->mock, MOCK_DEFECT_BLOCK_ZERO_IS_ONE);
    if (!clamp && !from_one)
        return ids;
    int64_t *items = kvc_arena_alloc_array(call->arena, ids.count, sizeof(*items));
    for (size_t i = 0; i < ids.count; i++) {
        items[i] = ids.items[i];
        if (clamp && (items[i] < 0 || items[i] >= group->shape.num_blocks))
            items[i] = group->shape.num_blocks - 1;
        if (from_one && items[i] == 0)
            items[i] = 1;
    }
    return (struct kvc_ints){items, ids.count};
}

/* The ids as given, or what a defect makes of them. */
static struct kvc_ints mended(struct mock_call *call, const struct mock_kernel_group *group,
                              struct kvc_ints ids, size_t needed)
{
    ids = resized(call, ids, needed);
    if (mock_has(call->mock, MOCK_DEFECT_BLOCK_IDS_AS_SET))
        ids = as_set(call, ids);
    return replaced(call, group, ids);
}

static enum ids_state check_ids(struct mock_call *call, const struct mock_kernel_group *group,
                                struct kvc_ints ids, size_t needed)
{
    if (ids.count > needed && !mock_has(call->mock, MOCK_DEFECT_SURPLUS_IDS_WRITTEN)) {
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
    const bool surplus = given->count > instance->group_count &&
                         mock_has(call->mock, MOCK_DEFECT_SURPLUS_GROUPS_IGNORED);
    if (given->count != instance->group_count && !surplus) {
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
    int64_t end = window->count;
    if (mock_has(mock, MOCK_DEFECT_STORES_SIXTEEN) && end > 16)
        end = 16;
    if (mock_has(mock, MOCK_DEFECT_BEHIND_GAP_LOST) && window->first > 0 &&
        mock_window_object(window, -1) == NULL)
        end = 0;
    for (int64_t i = 0; i < end; i++) {
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
    if (mock_has(mock, MOCK_DEFECT_STORE_REPLACES_STORE))
        mock_transfers_end_session(&mock->transfers, &mock->store, window->key->request_id, true);
    const bool filled = fill(call, window, instance, lists, objects, &count);
    struct mock_transfer *transfer =
        mock_transfer_begin(&mock->transfers, MOCK_STORED, instance->id, &call->request->key,
                            objects, count, mock->now_ms + mock->options.store_delay_ms);
    if (!filled || mock_has(mock, MOCK_DEFECT_STORE_LOST))
        mock_transfer_drop(transfer, &mock->store);
    else if (mock->options.store_delay_ms == 0)
        mock_transfer_publish(transfer, &mock->store);
    else if (mock_has(mock, MOCK_DEFECT_STORE_READS_LATE) ||
             mock_has(mock, MOCK_DEFECT_STORE_READS_SUCCESSOR))
        mock_late_copy_begin(window, instance, lists, transfer);
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
    if (!transfer_is_possible(call, instance))
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

/* A defect: a chunk into the last blocks that are named, however many there should be. */
static void scatter_at_end(struct mock_call *call, const struct mock_instance *instance,
                           const struct kvc_ints *lists, const uint8_t *data)
{
    struct kvc_ints last[KVC_MAX_GROUPS];
    for (size_t g = 0; g < instance->group_count; g++) {
        const size_t count = (size_t)instance->groups[g].blocks_per_chunk;
        last[g] = (struct kvc_ints){lists[g].items + lists[g].count - count, count};
    }
    mock_scatter(call, instance, last, 0, data);
}

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
    const bool success = mock_window_suffices(window, found);
    if (!success && !mock_has(mock, MOCK_DEFECT_MISS_WRITES))
        return false;
    for (int64_t i = 0; i < found; i++) {
        struct mock_object *object = mock_window_object(window, i);
        mock_slot_verify(mock, object);
        mock_store_touch(&mock->store, object);
        if (!mock_scatter(call, instance, lists, i, mock_object_data(&mock->store, object)))
            return false;
        if (i + 1 == window->count && mock_has(mock, MOCK_DEFECT_SURPLUS_IDS_WRITTEN))
            scatter_at_end(call, instance, lists, mock_object_data(&mock->store, object));
    }
    return success;
}

/* A defect: what was read is not wanted any more. */
static void drop_unlocked(struct mock *mock, const struct mock_window *window)
{
    for (int64_t i = 0; i < window->count; i++) {
        struct mock_object *object = mock_window_object(window, i);
        if (object != NULL && object->ready && mock_object_locks(object, mock->now_ms) == 0)
            mock_store_remove(&mock->store, object);
    }
}

enum mock_answer mock_on_retrieve(struct mock_call *call)
{
    struct mock *mock = call->mock;
    struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, call->request->instance_id);
    if (instance == NULL)
        return answer_unknown(call);
    mock_hear_of(mock, instance);
    if (!transfer_is_possible(call, instance))
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
    if (success && mock_has(mock, MOCK_DEFECT_RETRIEVE_DROPS))
        drop_unlocked(mock, &window);
    return answer(call, success);
}
