#include "src/wire/pickle.h"

bool kvc_pickle_is_global(const struct kvc_pickle *node, const char *module, const char *name)
{
    return node->kind == KVC_PICKLE_GLOBAL && kvc_str_is(node->global.module, module) &&
           kvc_str_is(node->global.name, name);
}

const struct kvc_pickle *kvc_pickle_call_args(const struct kvc_pickle *node, const char *module,
                                              const char *name)
{
    if (node->kind != KVC_PICKLE_CALL || !kvc_pickle_is_global(node->list.items[0], module, name))
        return NULL;
    return node->list.items[1];
}

const struct kvc_pickle *kvc_pickle_dict_get(const struct kvc_pickle *dict, const char *key)
{
    for (size_t i = dict->list.count; i >= 2; i -= 2) {
        const struct kvc_pickle *name = dict->list.items[i - 2];
        if (name->kind == KVC_PICKLE_STR && kvc_str_is(name->text, key))
            return dict->list.items[i - 1];
    }
    return NULL;
}

bool kvc_pickle_read_ints(const struct kvc_pickle *node, struct kvc_arena *arena,
                          struct kvc_ints *ints)
{
    if (node->kind != KVC_PICKLE_TUPLE && node->kind != KVC_PICKLE_LIST)
        return false;
    int64_t *items = kvc_arena_alloc_array(arena, node->list.count, sizeof(*items));
    for (size_t i = 0; i < node->list.count; i++) {
        if (node->list.items[i]->kind != KVC_PICKLE_INT)
            return false;
        items[i] = node->list.items[i]->integer;
    }
    *ints = (struct kvc_ints){items, node->list.count};
    return true;
}
