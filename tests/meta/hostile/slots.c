/* Lies about where in the pool the chunks are: slots, and which chunks they are for. */
#include "tests/meta/hostile/peer.h"

enum { DECOY = 4 << 20 };

static struct kvc_transfer_context *context_of(struct kvc_reply *reply)
{
    return reply->op == KVC_OP_PREPARE_STORE ? &reply->context : &reply->retrieve.context;
}

/* The slots as they may be changed; the views of a reply are const. */
static struct kvc_slot *slots_of(struct kvc_reply *reply, size_t *count)
{
    const struct kvc_transfer_context *context = context_of(reply);
    *count = context->slots.count;
    return (struct kvc_slot *)(uintptr_t)context->slots.items;
}

#define SLOT(function, change)                                                                     \
    static void function(struct peer *peer, struct kvc_reply *reply)                               \
    {                                                                                              \
        size_t count;                                                                              \
        struct kvc_slot *slots = slots_of(reply, &count);                                          \
        (void)peer;                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            struct kvc_slot *slot = &slots[i];                                                     \
            change;                                                                                \
        }                                                                                          \
    }
SLOT(slots_behind_pool, slot->offset = DECOY)
SLOT(slots_half_behind_pool, slot->offset = DECOY - slot->length / 2)
SLOT(slots_negative, slot->offset = -4096)
SLOT(slots_wrapping, slot->offset = INT64_MAX - 100)
SLOT(slots_at_smallest_int, slot->offset = INT64_MIN)
SLOT(slots_all_one, slot->offset = 0; if (count < 2) slot->offset = -1)
SLOT(slots_too_short, slot->length /= 2)
SLOT(slots_too_long, slot->length += 4096)
SLOT(slots_of_no_length, slot->length = 0)
SLOT(slots_of_negative_length, slot->length = -slot->length)
SLOT(slots_of_largest_length, slot->length = INT64_MAX)
SLOT(slots_without_shape, slot->shape.count = 0)
SLOT(slots_of_unknown_dtype, slot->dtype = KVC_STR("float16\x1b[31m"))
SLOT(slots_of_long_dtype, slot->dtype = reply_repeat(reply, 'd', 100000))

static void set_shape(struct kvc_reply *reply, size_t dimensions, int64_t each)
{
    size_t count;
    struct kvc_slot *slots = slots_of(reply, &count);
    int64_t *shape = kvc_arena_alloc_array(&reply->arena, dimensions, sizeof(*shape));
    for (size_t i = 0; i < dimensions; i++)
        shape[i] = each;
    for (size_t i = 0; i < count; i++)
        slots[i].shape = (struct kvc_ints){shape, dimensions};
}

static void slots_of_negative_shape(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    set_shape(reply, 4, -2);
}

static void slots_of_overflowing_shape(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    set_shape(reply, 4, (int64_t)1 << 32);
}

static void slots_of_many_dimensions(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    set_shape(reply, 100000, 1);
}

static void set_slot_count(struct kvc_reply *reply, size_t wanted)
{
    struct kvc_transfer_context *context = context_of(reply);
    struct kvc_slot *slots = kvc_arena_alloc_array(&reply->arena, wanted, sizeof(*slots));
    int64_t *indices = kvc_arena_alloc_array(&reply->arena, wanted, sizeof(*indices));
    for (size_t i = 0; i < wanted && context->slots.count > 0; i++) {
        slots[i] = context->slots.items[i % context->slots.count];
        indices[i] = (int64_t)i;
    }
    context->slots = (struct kvc_slots){slots, context->slots.count > 0 ? wanted : 0};
    if (context->has_chunk_indices)
        context->chunk_indices = (struct kvc_ints){indices, context->slots.count};
}

static void slots_5000(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    set_slot_count(reply, 5000);
}

static void slots_one_too_many(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    set_slot_count(reply, context_of(reply)->slots.count + 1);
}

static void no_slots(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    context_of(reply)->has_slots = false;
    context_of(reply)->slots.count = 0;
}

static void no_indices(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->context.has_chunk_indices = false;
    reply->context.chunk_indices.count = 0;
}

static void fewer_indices(struct peer *peer, struct kvc_reply *reply)
{
    (void)peer;
    reply->context.chunk_indices.count /= 2;
}

#define INDICES(function, value)                                                                   \
    static void function(struct peer *peer, struct kvc_reply *reply)                               \
    {                                                                                              \
        int64_t *indices = (int64_t *)(uintptr_t)reply->context.chunk_indices.items;               \
        const int64_t count = (int64_t)reply->context.chunk_indices.count;                         \
        (void)peer;                                                                                \
        for (int64_t i = 0; i < count; i++)                                                        \
            indices[i] = (value);                                                                  \
    }
INDICES(indices_out_of_range, count + i)
INDICES(indices_repeated, count < 2 ? 1 : 0)
INDICES(indices_descending, count < 2 ? 1 : count - 1 - i)
INDICES(indices_negative, i - 1)
INDICES(indices_smallest_int, INT64_MIN + i)
INDICES(indices_largest_int, INT64_MAX - i)

/* A slot of a store: nothing may be written, which the decoy shows. */
#define STORE_ROW(id, text, function)                                                              \
    {                                                                                              \
        .name = "store/" id, .summary = text, .exits = "0 1 1 0",                                  \
        .ops = OP_BIT(KVC_OP_PREPARE_STORE), .revise = function, .decoy_bytes = DECOY              \
    }
/* The same of a retrieve, from the mock's own pool. */
#define READ_ROW(id, text, function)                                                               \
    {                                                                                              \
        .name = "retrieve/" id, .summary = text, .exits = "0 1 1 0",                               \
        .ops = OP_BIT(KVC_OP_PREPARE_RETRIEVE), .revise = function                                 \
    }
#define BOTH_ROWS(id, text, function) STORE_ROW(id, text, function), READ_ROW(id, text, function)

static const struct behaviour rows[] = {
    BOTH_ROWS("slots-behind-pool", "slots behind the pool's end", slots_behind_pool),
    BOTH_ROWS("slots-half-behind-pool", "slots across the pool's end", slots_half_behind_pool),
    BOTH_ROWS("slots-negative", "slots before the pool", slots_negative),
    BOTH_ROWS("slots-wrapping", "offset + length beyond 2^63", slots_wrapping),
    BOTH_ROWS("slots-at-smallest-int", "slots at -2^63", slots_at_smallest_int),
    BOTH_ROWS("slots-all-one", "every chunk in one slot", slots_all_one),
    BOTH_ROWS("slots-too-short", "slots of half a chunk", slots_too_short),
    BOTH_ROWS("slots-too-long", "slots of a chunk and a page", slots_too_long),
    BOTH_ROWS("slots-of-no-length", "slots of 0 bytes", slots_of_no_length),
    BOTH_ROWS("slots-of-negative-length", "slots of negative length", slots_of_negative_length),
    BOTH_ROWS("slots-of-largest-length", "slots of 2^63-1 bytes", slots_of_largest_length),
    BOTH_ROWS("slots-without-shape", "an empty shape", slots_without_shape),
    BOTH_ROWS("slots-of-unknown-dtype", "escape codes in the dtype", slots_of_unknown_dtype),
    BOTH_ROWS("slots-of-long-dtype", "a dtype of 100,000 characters", slots_of_long_dtype),
    BOTH_ROWS("slots-of-negative-shape", "a shape of four -2", slots_of_negative_shape),
    BOTH_ROWS("slots-of-overflowing-shape", "a shape of four 2^32", slots_of_overflowing_shape),
    BOTH_ROWS("slots-of-many-dimensions", "100,000 dimensions", slots_of_many_dimensions),
    BOTH_ROWS("slots-5000", "5,000 slots", slots_5000),
    BOTH_ROWS("slots-one-too-many", "one slot more than chunks", slots_one_too_many),
    BOTH_ROWS("no-slots", "a pool, and no slots in it", no_slots),
    STORE_ROW("no-indices", "slots without chunk_indices", no_indices),
    STORE_ROW("fewer-indices", "fewer chunk_indices than slots", fewer_indices),
    STORE_ROW("indices-out-of-range", "chunk_indices behind the window", indices_out_of_range),
    STORE_ROW("indices-repeated", "one chunk index again and again", indices_repeated),
    STORE_ROW("indices-descending", "chunk_indices from the last to the first", indices_descending),
    STORE_ROW("indices-negative", "chunk_indices from -1", indices_negative),
    STORE_ROW("indices-smallest-int", "chunk_indices from -2^63", indices_smallest_int),
    STORE_ROW("indices-largest-int", "chunk_indices of 2^63-1", indices_largest_int),
};

const struct behaviours hostile_slots = {rows, KVC_COUNT_OF(rows)};
