#include "src/wire/pickle.h"

#include <stdlib.h>
#include <string.h>

/* Bounds the memory that the nodes of one pickle take. The largest inline payload of the reference
 * client has some forty opcodes a chunk. */
enum { MAX_OPCODES = 1 << 21 };

/* A growing list of nodes: the stack, and the memo. */
struct nodes {
    struct kvc_pickle **items;
    size_t count;
    size_t capacity;
};

struct machine {
    struct kvc_bytes bytes;
    size_t position;
    struct kvc_arena *arena;
    struct nodes stack; /* a NULL is a MARK */
    struct nodes memo;
    bool stopped;
    struct kvc_error *err;
};

static kvc_status fail_at(struct machine *machine, const char *what)
{
    kvc_fail(machine->err, KVC_EFORMAT, "the pickle does not read: %s", what);
    kvc_error_set_where(machine->err, " at pickle byte %zu", machine->position);
    return KVC_EFORMAT;
}

/* ---- stack and memo ---- */

static void nodes_push(struct nodes *nodes, struct kvc_pickle *node)
{
    if (nodes->count == nodes->capacity) {
        nodes->capacity = nodes->capacity == 0 ? 64 : 2 * nodes->capacity;
        nodes->items = kvc_realloc(nodes->items, nodes->capacity * sizeof(struct kvc_pickle *));
    }
    nodes->items[nodes->count++] = node;
}

static struct kvc_pickle *push_new(struct machine *machine, enum kvc_pickle_kind kind)
{
    struct kvc_pickle *node = kvc_arena_alloc(machine->arena, sizeof(*node));
    node->kind = kind;
    nodes_push(&machine->stack, node);
    return node;
}

/* The top `count` nodes, none of them a MARK. */
static kvc_status need(struct machine *machine, size_t count)
{
    const struct nodes *stack = &machine->stack;
    if (stack->count < count)
        return fail_at(machine, "the stack is empty");
    for (size_t i = 1; i <= count; i++)
        if (stack->items[stack->count - i] == NULL)
            return fail_at(machine, "a mark is where a value should be");
    return KVC_OK;
}

static struct kvc_pickle *top(struct machine *machine)
{
    return machine->stack.items[machine->stack.count - 1];
}

/* How many nodes lie above the last MARK. */
static kvc_status count_to_mark(struct machine *machine, size_t *count)
{
    const struct nodes *stack = &machine->stack;
    for (*count = 0; *count < stack->count; (*count)++)
        if (stack->items[stack->count - 1 - *count] == NULL)
            return KVC_OK;
    return fail_at(machine, "no mark on the stack");
}

/* Moves the top count nodes to the end of a container's list. */
static void move_items(struct machine *machine, struct kvc_pickle *container, size_t count)
{
    const size_t wanted = container->list.count + count;
    if (wanted > container->list.capacity) {
        const size_t capacity =
            wanted > 2 * container->list.capacity ? wanted : 2 * container->list.capacity;
        struct kvc_pickle **items =
            kvc_arena_alloc_array(machine->arena, capacity, sizeof(struct kvc_pickle *));
        if (container->list.count > 0)
            memcpy(items, container->list.items,
                   container->list.count * sizeof(struct kvc_pickle *));
        container->list.items = items;
        container->list.capacity = capacity;
    }
    machine->stack.count -= count;
    if (count > 0)
        memcpy(container->list.items + container->list.count,
               machine->stack.items + machine->stack.count, count * sizeof(struct kvc_pickle *));
    container->list.count = wanted;
}

/* ---- arguments in the bytes ---- */

static kvc_status take(struct machine *machine, uint64_t size, struct kvc_bytes *taken)
{
    if (size > machine->bytes.size - machine->position)
        return fail_at(machine, "cut short");
    *taken = (struct kvc_bytes){machine->bytes.data + machine->position, (size_t)size};
    machine->position += (size_t)size;
    return KVC_OK;
}

static kvc_status take_number(struct machine *machine, size_t size, uint64_t *value)
{
    struct kvc_bytes bytes = {0};
    KVC_GUARD(take(machine, size, &bytes));
    *value = 0;
    for (size_t i = 0; i < size; i++)
        *value |= (uint64_t)bytes.data[i] << 8 * i;
    return KVC_OK;
}

static kvc_status take_line(struct machine *machine, struct kvc_str *line)
{
    const uint8_t *start = machine->bytes.data + machine->position;
    const uint8_t *end = memchr(start, '\n', machine->bytes.size - machine->position);
    if (end == NULL)
        return fail_at(machine, "cut short");
    *line = (struct kvc_str){(const char *)start, (size_t)(end - start)};
    machine->position += line->size + 1;
    return KVC_OK;
}

/* ---- opcodes, each with the argument of its table row ---- */

static kvc_status op_skip(struct machine *machine, int size)
{
    struct kvc_bytes ignored = {0};
    return take(machine, (uint64_t)size, &ignored);
}

static kvc_status op_mark(struct machine *machine, int unused)
{
    (void)unused;
    nodes_push(&machine->stack, NULL);
    return KVC_OK;
}

static kvc_status op_stop(struct machine *machine, int unused)
{
    (void)unused;
    machine->stopped = true;
    return need(machine, 1);
}

static kvc_status op_empty(struct machine *machine, int kind)
{
    push_new(machine, (enum kvc_pickle_kind)kind);
    return KVC_OK;
}

static kvc_status op_bool(struct machine *machine, int value)
{
    push_new(machine, KVC_PICKLE_BOOL)->boolean = value != 0;
    return KVC_OK;
}

static kvc_status op_unsigned(struct machine *machine, int size)
{
    uint64_t value;
    KVC_GUARD(take_number(machine, (size_t)size, &value));
    push_new(machine, KVC_PICKLE_INT)->integer = (int64_t)value;
    return KVC_OK;
}

static kvc_status op_int32(struct machine *machine, int unused)
{
    (void)unused;
    uint64_t value;
    KVC_GUARD(take_number(machine, 4, &value));
    push_new(machine, KVC_PICKLE_INT)->integer = (int32_t)(uint32_t)value;
    return KVC_OK;
}

/* Two's complement of up to 255 bytes. What does not fit becomes bytes, which no reader of a
 * number accepts (the magic number of torch files is such a one). */
static kvc_status op_long1(struct machine *machine, int unused)
{
    (void)unused;
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(take_number(machine, 1, &size));
    KVC_GUARD(take(machine, size, &bytes));
    if (size > 8) {
        push_new(machine, KVC_PICKLE_BYTES)->bytes = bytes;
        return KVC_OK;
    }
    const bool negative = size > 0 && (bytes.data[size - 1] & 0x80) != 0;
    uint64_t value = negative ? UINT64_MAX : 0;
    for (size_t i = bytes.size; i-- > 0;)
        value = value << 8 | bytes.data[i];
    push_new(machine, KVC_PICKLE_INT)->integer = (int64_t)value;
    return KVC_OK;
}

static kvc_status op_str(struct machine *machine, int length_size)
{
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(take_number(machine, (size_t)length_size, &size));
    KVC_GUARD(take(machine, size, &bytes));
    const struct kvc_str text = {(const char *)bytes.data, bytes.size};
    if (!kvc_utf8_is_valid(text.data, text.size))
        return fail_at(machine, "text is not UTF-8");
    push_new(machine, KVC_PICKLE_STR)->text = text;
    return KVC_OK;
}

static kvc_status op_bytes(struct machine *machine, int length_size)
{
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(take_number(machine, (size_t)length_size, &size));
    KVC_GUARD(take(machine, size, &bytes));
    push_new(machine, KVC_PICKLE_BYTES)->bytes = bytes;
    return KVC_OK;
}

static kvc_status op_global(struct machine *machine, int unused)
{
    (void)unused;
    struct kvc_str module;
    struct kvc_str name;
    KVC_GUARD(take_line(machine, &module));
    KVC_GUARD(take_line(machine, &name));
    struct kvc_pickle *node = push_new(machine, KVC_PICKLE_GLOBAL);
    node->global.module = module;
    node->global.name = name;
    return KVC_OK;
}

static kvc_status op_stack_global(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 2));
    const struct kvc_pickle *name = machine->stack.items[machine->stack.count - 1];
    const struct kvc_pickle *module = machine->stack.items[machine->stack.count - 2];
    if (name->kind != KVC_PICKLE_STR || module->kind != KVC_PICKLE_STR)
        return fail_at(machine, "a global is named by something that is no text");
    machine->stack.count -= 2;
    struct kvc_pickle *node = push_new(machine, KVC_PICKLE_GLOBAL);
    node->global.module = module->text;
    node->global.name = name->text;
    return KVC_OK;
}

/* Pops count nodes into a new one of the kind. */
static void gather(struct machine *machine, enum kvc_pickle_kind kind, size_t count)
{
    struct kvc_pickle *node = kvc_arena_alloc(machine->arena, sizeof(*node));
    node->kind = kind;
    move_items(machine, node, count);
    nodes_push(&machine->stack, node);
}

static kvc_status op_tuple(struct machine *machine, int count)
{
    KVC_GUARD(need(machine, (size_t)count));
    gather(machine, KVC_PICKLE_TUPLE, (size_t)count);
    return KVC_OK;
}

static kvc_status op_tuple_to_mark(struct machine *machine, int unused)
{
    (void)unused;
    size_t count;
    KVC_GUARD(count_to_mark(machine, &count));
    gather(machine, KVC_PICKLE_TUPLE, count);
    /* The tuple lies on the mark: take its place. */
    machine->stack.items[machine->stack.count - 2] = top(machine);
    machine->stack.count--;
    return KVC_OK;
}

static kvc_status op_call(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 2));
    if (top(machine)->kind != KVC_PICKLE_TUPLE)
        return fail_at(machine, "the arguments of a call are no tuple");
    gather(machine, KVC_PICKLE_CALL, 2);
    return KVC_OK;
}

static kvc_status op_persistent(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 1));
    gather(machine, KVC_PICKLE_PERSISTENT, 1);
    return KVC_OK;
}

static kvc_status op_build(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 2));
    struct kvc_pickle *state = top(machine);
    machine->stack.count--;
    if (top(machine)->kind != KVC_PICKLE_CALL)
        return fail_at(machine, "state for something that is no object");
    top(machine)->list.state = state;
    return KVC_OK;
}

/* Adds count nodes to the container of the kind below them (and below a mark). */
static kvc_status add_to(struct machine *machine, enum kvc_pickle_kind kind, size_t count,
                         bool marked)
{
    const size_t above = count + marked;
    if (machine->stack.count <= above)
        return fail_at(machine, "the stack is empty");
    struct kvc_pickle *container = machine->stack.items[machine->stack.count - 1 - above];
    if (container == NULL || container->kind != kind)
        return fail_at(machine, "elements for something that is no container of them");
    if (kind == KVC_PICKLE_DICT && count % 2 != 0)
        return fail_at(machine, "a key without a value");
    move_items(machine, container, count);
    machine->stack.count -= marked;
    return KVC_OK;
}

static kvc_status op_append(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 2));
    return add_to(machine, KVC_PICKLE_LIST, 1, false);
}

static kvc_status op_set_item(struct machine *machine, int unused)
{
    (void)unused;
    KVC_GUARD(need(machine, 3));
    return add_to(machine, KVC_PICKLE_DICT, 2, false);
}

static kvc_status op_add_to_mark(struct machine *machine, int kind)
{
    size_t count;
    KVC_GUARD(count_to_mark(machine, &count));
    return add_to(machine, (enum kvc_pickle_kind)kind, count, true);
}

static kvc_status memo_set(struct machine *machine, uint64_t number)
{
    KVC_GUARD(need(machine, 1));
    if (number > machine->memo.count)
        return fail_at(machine, "a memo entry is left out");
    if (number == machine->memo.count)
        nodes_push(&machine->memo, top(machine));
    else
        machine->memo.items[number] = top(machine);
    return KVC_OK;
}

static kvc_status op_memoize(struct machine *machine, int unused)
{
    (void)unused;
    return memo_set(machine, machine->memo.count);
}

static kvc_status op_put(struct machine *machine, int size)
{
    uint64_t number;
    KVC_GUARD(take_number(machine, (size_t)size, &number));
    return memo_set(machine, number);
}

static kvc_status op_get(struct machine *machine, int size)
{
    uint64_t number;
    KVC_GUARD(take_number(machine, (size_t)size, &number));
    if (number >= machine->memo.count)
        return fail_at(machine, "no such memo entry");
    nodes_push(&machine->stack, machine->memo.items[number]);
    return KVC_OK;
}

static const struct opcode {
    kvc_status (*run)(struct machine *machine, int argument);
    int argument;
} opcodes[256] = {
    [KVC_PICKLE_OP_PROTO] = {op_skip, 1},
    [KVC_PICKLE_OP_FRAME] = {op_skip, 8},
    [KVC_PICKLE_OP_MARK] = {op_mark, 0},
    [KVC_PICKLE_OP_STOP] = {op_stop, 0},
    [KVC_PICKLE_OP_NONE] = {op_empty, KVC_PICKLE_NONE},
    [KVC_PICKLE_OP_EMPTY_TUPLE] = {op_empty, KVC_PICKLE_TUPLE},
    [KVC_PICKLE_OP_EMPTY_LIST] = {op_empty, KVC_PICKLE_LIST},
    [KVC_PICKLE_OP_EMPTY_DICT] = {op_empty, KVC_PICKLE_DICT},
    [KVC_PICKLE_OP_TRUE] = {op_bool, 1},
    [KVC_PICKLE_OP_FALSE] = {op_bool, 0},
    [KVC_PICKLE_OP_BININT1] = {op_unsigned, 1},
    [KVC_PICKLE_OP_BININT2] = {op_unsigned, 2},
    [KVC_PICKLE_OP_BININT] = {op_int32, 0},
    [KVC_PICKLE_OP_LONG1] = {op_long1, 0},
    [KVC_PICKLE_OP_SHORT_BINUNICODE] = {op_str, 1},
    [KVC_PICKLE_OP_BINUNICODE] = {op_str, 4},
    [KVC_PICKLE_OP_BINUNICODE8] = {op_str, 8},
    [KVC_PICKLE_OP_SHORT_BINBYTES] = {op_bytes, 1},
    [KVC_PICKLE_OP_BINBYTES] = {op_bytes, 4},
    [KVC_PICKLE_OP_BINBYTES8] = {op_bytes, 8},
    [KVC_PICKLE_OP_GLOBAL] = {op_global, 0},
    [KVC_PICKLE_OP_STACK_GLOBAL] = {op_stack_global, 0},
    [KVC_PICKLE_OP_TUPLE1] = {op_tuple, 1},
    [KVC_PICKLE_OP_TUPLE2] = {op_tuple, 2},
    [KVC_PICKLE_OP_TUPLE3] = {op_tuple, 3},
    [KVC_PICKLE_OP_TUPLE] = {op_tuple_to_mark, 0},
    [KVC_PICKLE_OP_REDUCE] = {op_call, 0},
    [KVC_PICKLE_OP_NEWOBJ] = {op_call, 0},
    [KVC_PICKLE_OP_BINPERSID] = {op_persistent, 0},
    [KVC_PICKLE_OP_BUILD] = {op_build, 0},
    [KVC_PICKLE_OP_APPEND] = {op_append, 0},
    [KVC_PICKLE_OP_APPENDS] = {op_add_to_mark, KVC_PICKLE_LIST},
    [KVC_PICKLE_OP_SETITEM] = {op_set_item, 0},
    [KVC_PICKLE_OP_SETITEMS] = {op_add_to_mark, KVC_PICKLE_DICT},
    [KVC_PICKLE_OP_MEMOIZE] = {op_memoize, 0},
    [KVC_PICKLE_OP_BINPUT] = {op_put, 1},
    [KVC_PICKLE_OP_LONG_BINPUT] = {op_put, 4},
    [KVC_PICKLE_OP_BINGET] = {op_get, 1},
    [KVC_PICKLE_OP_LONG_BINGET] = {op_get, 4},
};

static kvc_status run_to_stop(struct machine *machine)
{
    for (size_t count = 0; !machine->stopped; count++) {
        if (count == MAX_OPCODES)
            return fail_at(machine, "more opcodes than a payload may have");
        if (machine->position == machine->bytes.size)
            return fail_at(machine, "cut short");
        const struct opcode *opcode = &opcodes[machine->bytes.data[machine->position]];
        if (opcode->run == NULL)
            return fail_at(machine, "an opcode that no tensor uses");
        machine->position++;
        KVC_GUARD(opcode->run(machine, opcode->argument));
    }
    return KVC_OK;
}

kvc_status kvc_pickle_read(struct kvc_bytes bytes, struct kvc_arena *arena,
                           struct kvc_pickle **root, size_t *used, struct kvc_error *err)
{
    struct machine machine = {.bytes = bytes, .arena = arena, .err = err};
    const kvc_status status = run_to_stop(&machine);
    if (status == KVC_OK)
        *root = top(&machine);
    if (used != NULL)
        *used = machine.position;
    free(machine.stack.items);
    free(machine.memo.items);
    return status;
}
