#include "src/driver/paths.h"

#include <stdlib.h>
#include <string.h>

static kvc_status slot_error(struct kvc_error *err, size_t index, const char *field,
                             const char *what)
{
    kvc_fail(err, KVC_EFORMAT, "%s", what);
    return kvc_error_set_where(err, "slots[%zu].%s", index, field), KVC_EFORMAT;
}

/* Bytes of a tensor, or -1 when a dimension is negative or the product leaves 63 bits. */
static int64_t tensor_bytes(struct kvc_ints shape, const struct kvc_dtype *dtype)
{
    int64_t bytes = (int64_t)dtype->size;
    for (size_t i = 0; i < shape.count; i++) {
        if (shape.items[i] < 0 || __builtin_mul_overflow(bytes, shape.items[i], &bytes))
            return -1;
    }
    return bytes;
}

static kvc_status check_place(const struct kvc_slot *slot, size_t index, int64_t pool_size,
                              int64_t expected_bytes, struct kvc_error *err)
{
    if (slot->length != expected_bytes) {
        slot_error(err, index, "length", "the slot does not have the size of one chunk");
        kvc_error_set_expected(err, "%lld bytes", (long long)expected_bytes);
        kvc_error_set_got(err, "%lld", (long long)slot->length);
        return KVC_EFORMAT;
    }
    if (slot->offset < 0 || slot->offset > pool_size - slot->length) {
        slot_error(err, index, "offset", "the slot is not inside the pool");
        kvc_error_set_expected(err, "%lld bytes within [0, %lld)", (long long)slot->length,
                               (long long)pool_size);
        kvc_error_set_got(err, "offset %lld", (long long)slot->offset);
        return KVC_EFORMAT;
    }
    return KVC_OK;
}

static kvc_status check_type(const struct kvc_slot *slot, size_t index, struct kvc_error *err)
{
    const struct kvc_dtype *dtype = kvc_dtype_find(slot->dtype);
    if (dtype == NULL)
        return slot_error(err, index, "dtype", "the dtype is unknown");
    const int64_t bytes = tensor_bytes(slot->shape, dtype);
    if (bytes == slot->length)
        return KVC_OK;
    slot_error(err, index, "shape", "shape times element size is not the slot's length");
    kvc_error_set_expected(err, "%lld bytes", (long long)slot->length);
    kvc_error_set_got(err, "%lld", (long long)bytes);
    return KVC_EFORMAT;
}

struct placed {
    int64_t offset;
    size_t index;
};

static int by_offset(const void *left, const void *right)
{
    const struct placed *a = left;
    const struct placed *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static kvc_status check_disjoint(struct kvc_slots slots, struct kvc_error *err)
{
    struct placed *order = kvc_alloc_zero(slots.count, sizeof(*order));
    for (size_t i = 0; i < slots.count; i++)
        order[i] = (struct placed){slots.items[i].offset, i};
    qsort(order, slots.count, sizeof(*order), by_offset);

    kvc_status status = KVC_OK;
    for (size_t i = 1; i < slots.count && status == KVC_OK; i++) {
        const struct kvc_slot *before = &slots.items[order[i - 1].index];
        if (order[i].offset - before->offset >= before->length)
            continue;
        status = slot_error(err, order[i].index, "offset", "the slot overlaps another one");
        kvc_error_set_got(err, "offset %lld; slots[%zu] is at %lld, %lld bytes",
                          (long long)order[i].offset, order[i - 1].index, (long long)before->offset,
                          (long long)before->length);
    }
    free(order);
    return status;
}

kvc_status kvc_slots_check(struct kvc_slots slots, int64_t pool_size, int64_t expected_bytes,
                           struct kvc_error *err)
{
    for (size_t i = 0; i < slots.count; i++) {
        KVC_GUARD(check_place(&slots.items[i], i, pool_size, expected_bytes, err));
        KVC_GUARD(check_type(&slots.items[i], i, err));
    }
    return check_disjoint(slots, err);
}

static kvc_status check_indices(struct kvc_ints indices, size_t slot_count, int64_t chunks,
                                struct kvc_error *err)
{
    if (indices.count != slot_count) {
        kvc_fail(err, KVC_EFORMAT, "there are not as many chunk indices as slots");
        kvc_error_set_where(err, "chunk_indices");
        kvc_error_set_expected(err, "%zu", slot_count);
        return kvc_error_set_got(err, "%zu", indices.count), KVC_EFORMAT;
    }
    for (size_t i = 0; i < indices.count; i++) {
        const int64_t index = indices.items[i];
        const int64_t lowest = i == 0 ? 0 : indices.items[i - 1] + 1;
        if (index >= lowest && index < chunks)
            continue;
        kvc_fail(err, KVC_EFORMAT, "chunk indices must ascend and lie within the window");
        kvc_error_set_where(err, "chunk_indices[%zu]", i);
        kvc_error_set_expected(err, "from %lld to %lld", (long long)lowest, (long long)chunks - 1);
        return kvc_error_set_got(err, "%lld", (long long)index), KVC_EFORMAT;
    }
    return KVC_OK;
}

static kvc_status check_slot_count(size_t slot_count, int64_t chunks, struct kvc_error *err)
{
    if (slot_count == (size_t)chunks)
        return KVC_OK;
    kvc_fail(err, KVC_EFORMAT, "there is not one slot for each chunk");
    kvc_error_set_where(err, "slots");
    kvc_error_set_expected(err, "%lld slots", (long long)chunks);
    return kvc_error_set_got(err, "%zu", slot_count), KVC_EFORMAT;
}

static kvc_status check_shapes(struct kvc_slots slots, const struct kvc_window *window,
                               struct kvc_error *err)
{
    for (size_t i = 0; i < slots.count; i++) {
        const struct kvc_slot *slot = &slots.items[i];
        if (kvc_window_matches(window, slot->shape, slot->dtype))
            continue;
        kvc_window_mismatch(window, slot->shape, slot->dtype, err);
        return kvc_error_set_where(err, "slots[%zu]", i), KVC_EFORMAT;
    }
    return KVC_OK;
}

static kvc_status check_context(enum kvc_op op, const struct kvc_transfer_context *context,
                                const struct kvc_window *window, int64_t pool_size,
                                struct kvc_error *err)
{
    const size_t count = context->slots.count;
    if (!context->has_slots)
        return kvc_fail(err, KVC_EFORMAT, "the server offered a pool, but names no slots");
    if (op == KVC_OP_PREPARE_RETRIEVE) {
        KVC_GUARD(check_slot_count(count, window->chunks, err));
    } else {
        if (!context->has_chunk_indices)
            return kvc_fail(err, KVC_EFORMAT, "the reply has slots, but no chunk_indices");
        KVC_GUARD(check_indices(context->chunk_indices, count, window->chunks, err));
    }
    KVC_GUARD(kvc_slots_check(context->slots, pool_size, window->chunk_bytes, err));
    return check_shapes(context->slots, window, err);
}

kvc_status kvc_slots_check_context(enum kvc_op op, const struct kvc_transfer_context *context,
                                   const struct kvc_window *window, int64_t pool_size,
                                   struct kvc_error *err)
{
    const kvc_status status = check_context(op, context, window, pool_size, err);
    if (status != KVC_OK && err != NULL)
        kvc_error_prepend_where(err, "%s: context%s", kvc_op_name(op),
                                err->where[0] == '\0' ? "" : ".");
    return status;
}
