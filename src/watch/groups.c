/* Which lists of block ids an instance's transfers have, as its tensors say (protocol.md 6.1, 6.4), and
 * whether they are right. */
#include <string.h>

#include "src/watch/state.h"

/* What of a tensor matters for block ids. */
struct paging {
    int64_t blocks, slots;
};

/* The axes of blocks and slots; false for a layout that is read in another way. */
static bool read_paging(const struct kvc_tensor_handle *handle,
                        const struct kvc_layout_hints *hints, struct paging *paging)
{
    const int64_t *shape = handle->shape.items;
    const bool slots_first = kvc_str_is(hints->kv_layout, "NHD");
    if (handle->shape.count == 3) /* MLA */
        *paging = (struct paging){shape[0], shape[1]};
    else if (handle->shape.count == 4) /* fused */
        *paging = (struct paging){shape[0], shape[slots_first ? 1 : 2]};
    else if (handle->shape.count == 5 && (shape[0] == 2 || shape[1] == 2))
        *paging = (struct paging){shape[shape[0] == 2 ? 1 : 0], shape[slots_first ? 2 : 3]};
    else
        return false;
    return paging->blocks > 0 && paging->slots > 0;
}

/* The position of the engine group that a layer is in, or the number of groups. */
static size_t engine_group_of(const struct kvc_engine_group_infos *infos, int64_t layer)
{
    for (size_t i = 0; i < infos->count; i++) {
        const struct kvc_ints *layers = &infos->items[i].layer_indices;
        for (size_t j = 0; j < layers->count; j++) {
            if (layers->items[j] == layer)
                return i;
        }
    }
    return infos->count;
}

static bool same_tensor(const struct kvc_tensor_handle *a, const struct kvc_tensor_handle *b)
{
    return a->shape.count == b->shape.count && kvc_str_equal(a->dtype, b->dtype) &&
           memcmp(a->shape.items, b->shape.items, a->shape.count * sizeof(int64_t)) == 0;
}

/* The first layer of the group that a layer is in: itself, if it begins one. */
static size_t first_of_group(const struct kvc_request *request, size_t layer)
{
    const size_t engine_group = engine_group_of(&request->groups, (int64_t)layer);
    for (size_t i = 0; i < layer; i++) {
        if (engine_group_of(&request->groups, (int64_t)i) == engine_group &&
            same_tensor(&request->handles.items[i], &request->handles.items[layer]))
            return i;
    }
    return layer;
}

static bool add_group(const struct kvc_request *request, size_t layer,
                      struct watch_instance *instance)
{
    struct paging paging;
    const size_t engine_group = engine_group_of(&request->groups, (int64_t)layer);
    if (instance->group_count == WATCH_MAX_GROUPS ||
        !read_paging(&request->handles.items[layer], &request->layout_hints, &paging))
        return false;
    int64_t tokens = 0;
    if (engine_group < request->groups.count)
        tokens = request->groups.items[engine_group].tokens_per_block;
    instance->groups[instance->group_count++] =
        (struct watch_group){paging.blocks, tokens > 0 ? tokens : paging.slots};
    return true;
}

void watch_groups_read(const struct kvc_request *request, struct watch_instance *instance)
{
    static const char *const readable[] = {"vllm", "mock", "atom"};
    bool is_readable = false;
    for (size_t i = 0; i < KVC_COUNT_OF(readable); i++)
        is_readable |= kvc_str_is(request->engine_type, readable[i]);
    const struct kvc_engine_group_infos *infos = &request->groups;
    for (size_t i = 0; is_readable && i < request->handles.count; i++) {
        const bool is_left_out =
            infos->count > 0 && engine_group_of(infos, (int64_t)i) == infos->count;
        if (!is_left_out && first_of_group(request, i) == i)
            is_readable = add_group(request, i, instance);
    }
    if (!is_readable)
        instance->group_count = 0;
}

static void check_list(struct kvc_watch *watch, const struct kvc_ints *ids, size_t list,
                       const struct watch_group *group, int64_t tokens)
{
    const size_t needed = (size_t)(tokens / group->tokens_per_block);
    if (ids->count < needed)
        watch_found(watch, KVC_RULE_TOO_FEW_BLOCKS, "list %zu has %zu of %zu", list, ids->count,
                    needed);
    if (ids->count > needed)
        watch_found(watch, KVC_RULE_TOO_MANY_BLOCKS, "list %zu has %zu, the window %zu", list,
                    ids->count, needed);
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i] < 0 || ids->items[i] >= group->blocks)
            watch_found(watch, KVC_RULE_BLOCK_OUT_OF_RANGE, "list %zu, id %zu: %lld of %lld blocks",
                        list, i, (long long)ids->items[i], (long long)group->blocks);
    }
}

void watch_check_blocks(struct kvc_watch *watch, const struct kvc_request *request,
                        const struct watch_instance *instance)
{
    if (instance->group_count == 0)
        return;
    if (request->block_ids.count != instance->group_count) {
        watch_found(watch, KVC_RULE_BLOCK_LISTS, "%zu lists, the instance has %zu groups",
                    request->block_ids.count, instance->group_count);
        return;
    }
    for (size_t i = 0; i < instance->group_count; i++)
        check_list(watch, &request->block_ids.items[i], i, &instance->groups[i],
                   request->key.end - request->key.start);
}
