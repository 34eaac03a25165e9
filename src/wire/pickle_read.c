#include <stdlib.h>

#include "src/wire/unpickler.h"

/* Bounds the memory that the nodes of one pickle take. The largest inline payload of the reference
 * client has some forty opcodes a chunk. */
enum { MAX_OPCODES = 1 << 21 };

/* ---- opcodes, each with the argument of its table row ---- */

static kvc_status op_skip(struct kvc_unpickler *unpickler, int size)
{
    struct kvc_bytes ignored = {0};
    return kvc_unpickler_take(unpickler, (uint64_t)size, &ignored);
}

static kvc_status op_mark(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    kvc_unpickler_push(&unpickler->stack, NULL);
    return KVC_OK;
}

static kvc_status op_stop(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    unpickler->stopped = true;
    return kvc_unpickler_need(unpickler, 1);
}

static kvc_status op_empty(struct kvc_unpickler *unpickler, int kind)
{
    kvc_unpickler_push_new(unpickler, (enum kvc_pickle_kind)kind);
    return KVC_OK;
}

static kvc_status op_bool(struct kvc_unpickler *unpickler, int value)
{
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_BOOL)->boolean = value != 0;
    return KVC_OK;
}

static kvc_status op_unsigned(struct kvc_unpickler *unpickler, int size)
{
    uint64_t value;
    KVC_GUARD(kvc_unpickler_take_number(unpickler, (size_t)size, &value));
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_INT)->integer = (int64_t)value;
    return KVC_OK;
}

static kvc_status op_int32(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    uint64_t value;
    KVC_GUARD(kvc_unpickler_take_number(unpickler, 4, &value));
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_INT)->integer = (int32_t)(uint32_t)value;
    return KVC_OK;
}

/* Two's complement of up to 255 bytes. What does not fit becomes bytes, which no reader of a
 * number accepts (the magic number of torch files is such a one). */
static kvc_status op_long1(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(kvc_unpickler_take_number(unpickler, 1, &size));
    KVC_GUARD(kvc_unpickler_take(unpickler, size, &bytes));
    if (size > 8) {
        kvc_unpickler_push_new(unpickler, KVC_PICKLE_BYTES)->bytes = bytes;
        return KVC_OK;
    }
    const bool negative = size > 0 && (bytes.data[size - 1] & 0x80) != 0;
    uint64_t value = negative ? UINT64_MAX : 0;
    for (size_t i = bytes.size; i-- > 0;)
        value = value << 8 | bytes.data[i];
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_INT)->integer = (int64_t)value;
    return KVC_OK;
}

static kvc_status op_str(struct kvc_unpickler *unpickler, int length_size)
{
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(kvc_unpickler_take_number(unpickler, (size_t)length_size, &size));
    KVC_GUARD(kvc_unpickler_take(unpickler, size, &bytes));
    const struct kvc_str text = {(const char *)bytes.data, bytes.size};
    if (!kvc_utf8_is_valid(text.data, text.size))
        return kvc_unpickler_fail(unpickler, "text is not UTF-8");
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_STR)->text = text;
    return KVC_OK;
}

static kvc_status op_bytes(struct kvc_unpickler *unpickler, int length_size)
{
    uint64_t size;
    struct kvc_bytes bytes = {0};
    KVC_GUARD(kvc_unpickler_take_number(unpickler, (size_t)length_size, &size));
    KVC_GUARD(kvc_unpickler_take(unpickler, size, &bytes));
    kvc_unpickler_push_new(unpickler, KVC_PICKLE_BYTES)->bytes = bytes;
    return KVC_OK;
}

static kvc_status op_global(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    struct kvc_str module;
    struct kvc_str name;
    KVC_GUARD(kvc_unpickler_take_line(unpickler, &module));
    KVC_GUARD(kvc_unpickler_take_line(unpickler, &name));
    struct kvc_pickle *node = kvc_unpickler_push_new(unpickler, KVC_PICKLE_GLOBAL);
    node->global.module = module;
    node->global.name = name;
    return KVC_OK;
}

static kvc_status op_stack_global(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 2));
    const struct kvc_pickle *name = unpickler->stack.items[unpickler->stack.count - 1];
    const struct kvc_pickle *module = unpickler->stack.items[unpickler->stack.count - 2];
    if (name->kind != KVC_PICKLE_STR || module->kind != KVC_PICKLE_STR)
        return kvc_unpickler_fail(unpickler, "a global is named by something that is no text");
    unpickler->stack.count -= 2;
    struct kvc_pickle *node = kvc_unpickler_push_new(unpickler, KVC_PICKLE_GLOBAL);
    node->global.module = module->text;
    node->global.name = name->text;
    return KVC_OK;
}

/* Pops count nodes into a new one of the kind. */
static void gather(struct kvc_unpickler *unpickler, enum kvc_pickle_kind kind, size_t count)
{
    struct kvc_pickle *node = kvc_arena_alloc(unpickler->arena, sizeof(*node));
    node->kind = kind;
    kvc_unpickler_move_items(unpickler, node, count);
    kvc_unpickler_push(&unpickler->stack, node);
}

static kvc_status op_tuple(struct kvc_unpickler *unpickler, int count)
{
    KVC_GUARD(kvc_unpickler_need(unpickler, (size_t)count));
    gather(unpickler, KVC_PICKLE_TUPLE, (size_t)count);
    return KVC_OK;
}

static kvc_status op_tuple_to_mark(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    size_t count;
    KVC_GUARD(kvc_unpickler_count_to_mark(unpickler, &count));
    gather(unpickler, KVC_PICKLE_TUPLE, count);
    /* The tuple lies on the mark: take its place. */
    unpickler->stack.items[unpickler->stack.count - 2] = kvc_unpickler_top(unpickler);
    unpickler->stack.count--;
    return KVC_OK;
}

static kvc_status op_call(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 2));
    if (kvc_unpickler_top(unpickler)->kind != KVC_PICKLE_TUPLE)
        return kvc_unpickler_fail(unpickler, "the arguments of a call are no tuple");
    gather(unpickler, KVC_PICKLE_CALL, 2);
    return KVC_OK;
}

static kvc_status op_persistent(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 1));
    gather(unpickler, KVC_PICKLE_PERSISTENT, 1);
    return KVC_OK;
}

static kvc_status op_build(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 2));
    struct kvc_pickle *state = kvc_unpickler_top(unpickler);
    unpickler->stack.count--;
    if (kvc_unpickler_top(unpickler)->kind != KVC_PICKLE_CALL)
        return kvc_unpickler_fail(unpickler, "state for something that is no object");
    kvc_unpickler_top(unpickler)->list.state = state;
    return KVC_OK;
}

/* Adds count nodes to the container of the kind below them (and below a mark). */
static kvc_status add_to(struct kvc_unpickler *unpickler, enum kvc_pickle_kind kind, size_t count,
                         bool marked)
{
    const size_t above = count + marked;
    if (unpickler->stack.count <= above)
        return kvc_unpickler_fail(unpickler, "the stack is empty");
    struct kvc_pickle *container = unpickler->stack.items[unpickler->stack.count - 1 - above];
    if (container == NULL || container->kind != kind)
        return kvc_unpickler_fail(unpickler, "elements for something that is no container of them");
    if (kind == KVC_PICKLE_DICT && count % 2 != 0)
        return kvc_unpickler_fail(unpickler, "a key without a value");
    kvc_unpickler_move_items(unpickler, container, count);
    unpickler->stack.count -= marked;
    return KVC_OK;
}

static kvc_status op_append(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 2));
    return add_to(unpickler, KVC_PICKLE_LIST, 1, false);
}

static kvc_status op_set_item(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    KVC_GUARD(kvc_unpickler_need(unpickler, 3));
    return add_to(unpickler, KVC_PICKLE_DICT, 2, false);
}

static kvc_status op_add_to_mark(struct kvc_unpickler *unpickler, int kind)
{
    size_t count;
    KVC_GUARD(kvc_unpickler_count_to_mark(unpickler, &count));
    return add_to(unpickler, (enum kvc_pickle_kind)kind, count, true);
}

static kvc_status memo_set(struct kvc_unpickler *unpickler, uint64_t number)
{
    KVC_GUARD(kvc_unpickler_need(unpickler, 1));
    if (number > unpickler->memo.count)
        return kvc_unpickler_fail(unpickler, "a memo entry is left out");
    if (number == unpickler->memo.count)
        kvc_unpickler_push(&unpickler->memo, kvc_unpickler_top(unpickler));
    else
        unpickler->memo.items[number] = kvc_unpickler_top(unpickler);
    return KVC_OK;
}

static kvc_status op_memoize(struct kvc_unpickler *unpickler, int unused)
{
    (void)unused;
    return memo_set(unpickler, unpickler->memo.count);
}

static kvc_status op_put(struct kvc_unpickler *unpickler, int size)
{
    uint64_t number;
    KVC_GUARD(kvc_unpickler_take_number(unpickler, (size_t)size, &number));
    return memo_set(unpickler, number);
}

static kvc_status op_get(struct kvc_unpickler *unpickler, int size)
{
    uint64_t number;
    KVC_GUARD(kvc_unpickler_take_number(unpickler, (size_t)size, &number));
    if (number >= unpickler->memo.count)
        return kvc_unpickler_fail(unpickler, "no such memo entry");
    kvc_unpickler_push(&unpickler->stack, unpickler->memo.items[number]);
    return KVC_OK;
}

static const struct opcode {
    kvc_status (*run)(struct kvc_unpickler *unpickler, int argument);
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

static kvc_status run_to_stop(struct kvc_unpickler *unpickler)
{
    for (size_t count = 0; !unpickler->stopped; count++) {
        if (count == MAX_OPCODES)
            return kvc_unpickler_fail(unpickler, "more opcodes than a payload may have");
        if (unpickler->position == unpickler->bytes.size)
            return kvc_unpickler_fail(unpickler, "cut short");
        const struct opcode *opcode = &opcodes[unpickler->bytes.data[unpickler->position]];
        if (opcode->run == NULL)
            return kvc_unpickler_fail(unpickler, "an opcode that no tensor uses");
        unpickler->position++;
        KVC_GUARD(opcode->run(unpickler, opcode->argument));
    }
    return KVC_OK;
}

kvc_status kvc_pickle_read(struct kvc_bytes bytes, struct kvc_arena *arena,
                           struct kvc_pickle **root, size_t *used, struct kvc_error *err)
{
    struct kvc_unpickler unpickler = {.bytes = bytes, .arena = arena, .err = err};
    const kvc_status status = run_to_stop(&unpickler);
    if (status == KVC_OK)
        *root = kvc_unpickler_top(&unpickler);
    if (used != NULL)
        *used = unpickler.position;
    free(unpickler.stack.items);
    free(unpickler.memo.items);
    return status;
}
