#include "src/wire/unpickler.h"

#include <string.h>

kvc_status kvc_unpickler_fail(struct kvc_unpickler *unpickler, const char *what)
{
    kvc_fail(unpickler->err, KVC_EFORMAT, "the pickle does not read: %s", what);
    kvc_error_set_where(unpickler->err, " at pickle byte %zu", unpickler->position);
    return KVC_EFORMAT;
}

/* ---- stack and memo ---- */

void kvc_unpickler_push(struct kvc_unpickler_nodes *nodes, struct kvc_pickle *node)
{
    if (nodes->count == nodes->capacity) {
        nodes->capacity = nodes->capacity == 0 ? 64 : 2 * nodes->capacity;
        nodes->items = kvc_realloc(nodes->items, nodes->capacity * sizeof(struct kvc_pickle *));
    }
    nodes->items[nodes->count++] = node;
}

struct kvc_pickle *kvc_unpickler_push_new(struct kvc_unpickler *unpickler,
                                          enum kvc_pickle_kind kind)
{
    struct kvc_pickle *node = kvc_arena_alloc(unpickler->arena, sizeof(*node));
    node->kind = kind;
    kvc_unpickler_push(&unpickler->stack, node);
    return node;
}

kvc_status kvc_unpickler_need(struct kvc_unpickler *unpickler, size_t count)
{
    const struct kvc_unpickler_nodes *stack = &unpickler->stack;
    if (stack->count < count)
        return kvc_unpickler_fail(unpickler, "the stack is empty");
    for (size_t i = 1; i <= count; i++)
        if (stack->items[stack->count - i] == NULL)
            return kvc_unpickler_fail(unpickler, "a mark is where a value should be");
    return KVC_OK;
}

struct kvc_pickle *kvc_unpickler_top(struct kvc_unpickler *unpickler)
{
    return unpickler->stack.items[unpickler->stack.count - 1];
}

kvc_status kvc_unpickler_count_to_mark(struct kvc_unpickler *unpickler, size_t *count)
{
    const struct kvc_unpickler_nodes *stack = &unpickler->stack;
    for (*count = 0; *count < stack->count; (*count)++)
        if (stack->items[stack->count - 1 - *count] == NULL)
            return KVC_OK;
    return kvc_unpickler_fail(unpickler, "no mark on the stack");
}

void kvc_unpickler_move_items(struct kvc_unpickler *unpickler, struct kvc_pickle *container,
                              size_t count)
{
    const size_t wanted = container->list.count + count;
    if (wanted > container->list.capacity) {
        const size_t capacity =
            wanted > 2 * container->list.capacity ? wanted : 2 * container->list.capacity;
        struct kvc_pickle **items =
            kvc_arena_alloc_array(unpickler->arena, capacity, sizeof(struct kvc_pickle *));
        if (container->list.count > 0)
            memcpy(items, container->list.items,
                   container->list.count * sizeof(struct kvc_pickle *));
        container->list.items = items;
        container->list.capacity = capacity;
    }
    unpickler->stack.count -= count;
    if (count > 0)
        memcpy(container->list.items + container->list.count,
               unpickler->stack.items + unpickler->stack.count,
               count * sizeof(struct kvc_pickle *));
    container->list.count = wanted;
}

/* ---- arguments in the bytes ---- */

kvc_status kvc_unpickler_take(struct kvc_unpickler *unpickler, uint64_t size,
                              struct kvc_bytes *taken)
{
    if (size > unpickler->bytes.size - unpickler->position)
        return kvc_unpickler_fail(unpickler, "cut short");
    *taken = (struct kvc_bytes){unpickler->bytes.data + unpickler->position, (size_t)size};
    unpickler->position += (size_t)size;
    return KVC_OK;
}

kvc_status kvc_unpickler_take_number(struct kvc_unpickler *unpickler, size_t size, uint64_t *value)
{
    struct kvc_bytes bytes = {0};
    KVC_GUARD(kvc_unpickler_take(unpickler, size, &bytes));
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)bytes.data[i] << 8 * i;
    return KVC_OK;
}

kvc_status kvc_unpickler_take_line(struct kvc_unpickler *unpickler, struct kvc_str *line)
{
    const uint8_t *start = unpickler->bytes.data + unpickler->position;
    const uint8_t *end = memchr(start, '\n', unpickler->bytes.size - unpickler->position);
    if (end == NULL)
        return kvc_unpickler_fail(unpickler, "cut short");
    *line = (struct kvc_str){(const char *)start, (size_t)(end - start)};
    unpickler->position += line->size + 1;
    return KVC_OK;
}
