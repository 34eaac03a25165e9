#include "src/kv/paged.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/kv/region.h"

#define GUARD_SIZE ((size_t)KVC_PAGED_GUARD)

/* Never two equal bytes side by side: a fill, a shifted copy and a copied block all show. */
static uint8_t guard_byte(size_t index)
{
    return (uint8_t)(0xc5 ^ (index * 29));
}

static void fill_guard(uint8_t *guard)
{
    for (size_t i = 0; i < GUARD_SIZE; i++)
        guard[i] = guard_byte(i);
}

/* A tensor with its guards; each tensor starts with a page. */
static size_t private_size(const struct kvc_tensor *tensor)
{
    const size_t bytes = (size_t)tensor->bytes;
    return bytes + 2 * GUARD_SIZE + (GUARD_SIZE - bytes % GUARD_SIZE) % GUARD_SIZE;
}

/* All tensors in one piece: those of a small shape alone would not fill a huge page. */
static kvc_status open_private(struct kvc_paged *paged, struct kvc_error *err)
{
    size_t size = 0;
    for (size_t i = 0; i < paged->tensor_count; i++)
        size += private_size(&paged->tensors[i]);
    KVC_GUARD(kvc_memory_open(size, &paged->memory, err));
    uint8_t *at = paged->memory.data;
    for (size_t i = 0; i < paged->tensor_count; i++) {
        paged->tensors[i].data = at + GUARD_SIZE;
        fill_guard(at);
        at += private_size(&paged->tensors[i]);
    }
    return KVC_OK;
}

static kvc_status open_shared(struct kvc_paged *paged, struct kvc_error *err)
{
    for (size_t i = 0; i < paged->tensor_count; i++) {
        struct kvc_tensor *tensor = &paged->tensors[i];
        char name[sizeof(tensor->segment.name)];
        kvc_segment_name("", name, sizeof(name));
        KVC_GUARD(
            kvc_segment_create(name, (size_t)tensor->bytes + GUARD_SIZE, &tensor->segment, err));
        tensor->data = tensor->segment.data;
    }
    return KVC_OK;
}

static void make_tensors(struct kvc_paged *paged)
{
    const struct kvc_geometry *geometry = &paged->geometry;
    paged->tensors =
        kvc_alloc_zero((size_t)kvc_geometry_layer_count(geometry), sizeof(paged->tensors[0]));
    for (size_t group = 0; group < geometry->group_count; group++) {
        for (int64_t layer = 0; layer < geometry->groups[group].num_layers; layer++)
            paged->tensors[paged->tensor_count++] = (struct kvc_tensor){
                .group = group,
                .layer = layer,
                .bytes = kvc_group_tensor_bytes(&geometry->groups[group]),
            };
    }
}

kvc_status kvc_paged_open(const struct kvc_geometry *geometry, bool shared, struct kvc_paged *paged,
                          struct kvc_error *err)
{
    if (geometry->group_count == 0 || !kvc_geometry_fits(geometry))
        return kvc_fail(err, KVC_ENOMEM, "no machine can hold a KV cache of this shape");
    struct kvc_paged made = {.geometry = *geometry};
    make_tensors(&made);
    const kvc_status status = shared ? open_shared(&made, err) : open_private(&made, err);
    if (status != KVC_OK) {
        kvc_paged_close(&made);
        return status;
    }
    for (size_t i = 0; i < made.tensor_count; i++)
        fill_guard(made.tensors[i].data + made.tensors[i].bytes);
    *paged = made;
    return KVC_OK;
}

void kvc_paged_close(struct kvc_paged *paged)
{
    for (size_t i = 0; i < paged->tensor_count; i++)
        kvc_segment_close(&paged->tensors[i].segment);
    kvc_memory_close(&paged->memory);
    free(paged->tensors);
    *paged = (struct kvc_paged){.tensor_count = 0};
}

/* "layer 3", or "group 1 layer 3" where there are several groups. */
static const char *layer_text(const struct kvc_paged *paged, const struct kvc_tensor *tensor,
                              char text[64])
{
    if (paged->geometry.group_count > 1)
        snprintf(text, 64, "group %zu layer %" PRId64, tensor->group, tensor->layer);
    else
        snprintf(text, 64, "layer %" PRId64, tensor->layer);
    return text;
}

static kvc_status check_guard(const struct kvc_paged *paged, const struct kvc_tensor *tensor,
                              const uint8_t *guard, bool front, struct kvc_error *err)
{
    size_t first = GUARD_SIZE, last = 0;
    for (size_t i = 0; i < GUARD_SIZE; i++) {
        if (guard[i] == guard_byte(i))
            continue;
        first = first == GUARD_SIZE ? i : first;
        last = i;
    }
    if (first == GUARD_SIZE)
        return KVC_OK;
    char text[64];
    if (front)
        kvc_fail(err, KVC_EMISMATCH,
                 "the guard before the tensor was written: %zu to %zu bytes before its start",
                 GUARD_SIZE - last, GUARD_SIZE - first);
    else
        kvc_fail(err, KVC_EMISMATCH,
                 "the guard behind the tensor was written: bytes %zu to %zu after its end", first,
                 last);
    kvc_error_set_where(err, "%s", layer_text(paged, tensor, text));
    kvc_error_set_expected(err, "0x%02x", guard_byte(first));
    kvc_error_set_got(err, "0x%02x", guard[first]);
    return KVC_EMISMATCH;
}

kvc_status kvc_paged_check_guards(const struct kvc_paged *paged, struct kvc_error *err)
{
    for (size_t i = 0; i < paged->tensor_count; i++) {
        const struct kvc_tensor *tensor = &paged->tensors[i];
        if (paged->memory.data != NULL)
            KVC_GUARD(check_guard(paged, tensor, tensor->data - GUARD_SIZE, true, err));
        KVC_GUARD(check_guard(paged, tensor, tensor->data + tensor->bytes, false, err));
    }
    return KVC_OK;
}

void kvc_paged_fill(struct kvc_paged *paged, uint8_t byte)
{
    for (size_t i = 0; i < paged->tensor_count; i++)
        memset(paged->tensors[i].data, byte, (size_t)paged->tensors[i].bytes);
}

void kvc_paged_fill_block(struct kvc_paged *paged, int64_t block, uint8_t byte)
{
    for (size_t i = 0; i < paged->tensor_count; i++) {
        const struct kvc_group *group = &paged->geometry.groups[paged->tensors[i].group];
        for (int64_t kv = 0; kv < group->kv_size; kv++) {
            const struct kvc_region region =
                kvc_region_of(group, paged->tensors[i].data, kv, block);
            memset(region.data, byte, (size_t)region.size);
        }
    }
}

/* How many bytes at the start of the region are `byte`. */
static int64_t count_equal(const struct kvc_region *region, uint8_t byte)
{
    /* All equal: the first is right, and each equals its neighbour. */
    if (region->data[0] == byte &&
        memcmp(region->data, region->data + 1, (size_t)region->size - 1) == 0)
        return region->size;
    int64_t equal = 0;
    while (region->data[equal] == byte)
        equal++;
    return equal;
}

kvc_status kvc_paged_check_block_is(const struct kvc_paged *paged, int64_t block, uint8_t byte,
                                    struct kvc_error *err)
{
    for (size_t i = 0; i < paged->tensor_count; i++) {
        const struct kvc_tensor *tensor = &paged->tensors[i];
        const struct kvc_group *group = &paged->geometry.groups[tensor->group];
        for (int64_t kv = 0; kv < group->kv_size; kv++) {
            const struct kvc_region region = kvc_region_of(group, tensor->data, kv, block);
            const int64_t equal = count_equal(&region, byte);
            if (equal == region.size)
                continue;
            char text[64];
            kvc_fail(err, KVC_EMISMATCH, "a block that must stay untouched was written");
            kvc_error_set_where(err, "%s %s block %" PRId64 " byte %" PRId64,
                                layer_text(paged, tensor, text),
                                group->kv_size == 1 ? "KV" : (kv == 0 ? "K" : "V"), block, equal);
            kvc_error_set_expected(err, "0x%02x", byte);
            kvc_error_set_got(err, "0x%02x", region.data[equal]);
            return KVC_EMISMATCH;
        }
    }
    return KVC_OK;
}
