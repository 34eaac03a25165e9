#include "src/kv/paged.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/kv/region.h"

#define GUARD_SIZE ((size_t)4096)

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

static size_t private_size(const struct kvc_tensor *tensor)
{
    return (size_t)tensor->bytes + 2 * GUARD_SIZE;
}

static kvc_status open_private(struct kvc_tensor *tensor, struct kvc_error *err)
{
    const size_t size = private_size(tensor);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return kvc_fail(err, KVC_ENOMEM, "no memory for a KV cache tensor of %zu bytes", size);
    /* Where it can be had: blocks in arbitrary order are many pages to look up. */
    madvise(memory, size, MADV_HUGEPAGE);
    tensor->private_memory = memory;
    tensor->data = tensor->private_memory;
    tensor->data += GUARD_SIZE;
    fill_guard(tensor->private_memory);
    return KVC_OK;
}

static kvc_status open_shared(struct kvc_tensor *tensor, struct kvc_error *err)
{
    char name[sizeof(tensor->segment.name)];
    kvc_segment_name("", name, sizeof(name));
    KVC_GUARD(kvc_segment_create(name, (size_t)tensor->bytes + GUARD_SIZE, &tensor->segment, err));
    tensor->data = tensor->segment.data;
    return KVC_OK;
}

kvc_status kvc_paged_open(const struct kvc_geometry *geometry, bool shared, struct kvc_paged *paged,
                          struct kvc_error *err)
{
    if (geometry->group_count == 0 || !kvc_geometry_fits(geometry))
        return kvc_fail(err, KVC_ENOMEM, "no machine can hold a KV cache of this shape");
    struct kvc_paged made = {.geometry = *geometry};
    made.tensors =
        kvc_alloc_zero((size_t)kvc_geometry_layer_count(geometry), sizeof(made.tensors[0]));
    for (size_t group = 0; group < geometry->group_count; group++) {
        for (int64_t layer = 0; layer < geometry->groups[group].num_layers; layer++) {
            struct kvc_tensor *tensor = &made.tensors[made.tensor_count++];
            tensor->group = group;
            tensor->layer = layer;
            tensor->bytes = kvc_group_tensor_bytes(&geometry->groups[group]);
            const kvc_status status = shared ? open_shared(tensor, err) : open_private(tensor, err);
            if (status != KVC_OK) {
                kvc_paged_close(&made);
                return status;
            }
            fill_guard(tensor->data + tensor->bytes);
        }
    }
    *paged = made;
    return KVC_OK;
}

void kvc_paged_close(struct kvc_paged *paged)
{
    for (size_t i = 0; i < paged->tensor_count; i++) {
        struct kvc_tensor *tensor = &paged->tensors[i];
        kvc_segment_close(&tensor->segment);
        if (tensor->private_memory != NULL)
            munmap(tensor->private_memory, private_size(tensor));
    }
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
        if (tensor->private_memory != NULL)
            KVC_GUARD(check_guard(paged, tensor, tensor->private_memory, true, err));
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
