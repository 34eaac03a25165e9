#include <string.h>

#include "tests/mock_server/registry.h"

/* Row-major without gaps; strides of axes of one element say nothing. */
static bool is_contiguous(const struct kvc_tensor_handle *handle)
{
    int64_t expected = 1;
    for (size_t i = handle->shape.count; i-- > 0;) {
        if (handle->shape.items[i] != 1 && handle->stride.items[i] != expected)
            return false;
        expected *= handle->shape.items[i];
    }
    return true;
}

static kvc_status check_dimensions(const struct kvc_tensor_handle *handle,
                                   struct mock_reading reading, struct kvc_error *err)
{
    int64_t elements = 1;
    if (handle->shape.count != handle->stride.count)
        return kvc_fail(err, KVC_EFORMAT, "the tensor has %zu dimensions and %zu strides",
                        handle->shape.count, handle->stride.count);
    for (size_t i = 0; i < handle->shape.count; i++) {
        if (handle->shape.items[i] <= 0 ||
            __builtin_mul_overflow(elements, handle->shape.items[i], &elements))
            return kvc_fail(err, KVC_EFORMAT, "the tensor has an impossible dimension %lld",
                            (long long)handle->shape.items[i]);
    }
    if (!is_contiguous(handle) && !reading.strides_ignored)
        return kvc_fail(err, KVC_EUNSUPPORTED, "the tensor is not contiguous");
    return KVC_OK;
}

/* [blocks, slots, hidden] */
static void read_mla(const int64_t *shape, struct kvc_group *group)
{
    group->kv_size = 1;
    group->num_blocks = shape[0];
    group->block_size = shape[1];
    group->num_heads = 1;
    group->head_size = shape[2];
    group->layout = KVC_LAYOUT_MLA;
}

/* [2, blocks, …] or [blocks, 2, …], then [slots, heads, head size] or [heads, slots, head size] */
static void read_kv(const int64_t *shape, bool kv_first, bool slots_first, struct kvc_group *group)
{
    group->kv_size = 2;
    group->num_blocks = kv_first ? shape[1] : shape[0];
    group->block_size = slots_first ? shape[2] : shape[3];
    group->num_heads = slots_first ? shape[3] : shape[2];
    group->head_size = shape[4];
    if (kv_first)
        group->layout = slots_first ? KVC_LAYOUT_NHD : KVC_LAYOUT_HND;
    else
        group->layout = slots_first ? KVC_LAYOUT_FLASHINFER_NHD : KVC_LAYOUT_FLASHINFER_HND;
}

kvc_status mock_layout_detect(const struct kvc_tensor_handle *handle,
                              const struct kvc_layout_hints *hints, struct mock_reading reading,
                              struct kvc_group *group, struct kvc_error *err)
{
    KVC_GUARD(check_dimensions(handle, reading, err));
    *group = (struct kvc_group){.dtype = kvc_dtype_find(handle->dtype)};
    if (group->dtype == NULL)
        return kvc_fail(err, KVC_EUNSUPPORTED, "the tensor has the unknown dtype " KVC_STR_FMT,
                        KVC_STR_ARG(handle->dtype));
    const int64_t *shape = handle->shape.items;
    const bool slots_first = kvc_str_is(hints->kv_layout, "NHD") && !reading.layout_hint_ignored;
    if (handle->shape.count == 3) {
        read_mla(shape, group);
    } else if (handle->shape.count == 5 && shape[0] == 2) {
        read_kv(shape, true, slots_first, group);
    } else if (handle->shape.count == 5 && shape[1] == 2) {
        read_kv(shape, false, slots_first, group);
        if (reading.kv_first_always)
            group->layout = slots_first ? KVC_LAYOUT_NHD : KVC_LAYOUT_HND;
    } else {
        return kvc_fail(err, KVC_EUNSUPPORTED,
                        "a tensor of %zu dimensions is none of the layouts [2,NB,…], [NB,2,…] and "
                        "[NB,BS,HS]",
                        handle->shape.count);
    }
    return KVC_OK;
}

bool mock_same_shape(const struct kvc_group *a, const struct kvc_group *b)
{
    return a->kv_size == b->kv_size && a->num_blocks == b->num_blocks &&
           a->block_size == b->block_size && a->num_heads == b->num_heads &&
           a->head_size == b->head_size && a->dtype == b->dtype && a->layout == b->layout;
}
