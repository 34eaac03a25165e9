/* What the tests of kv share. */
#ifndef KVC_TESTS_UNIT_KV_SAMPLES_H
#define KVC_TESTS_UNIT_KV_SAMPLES_H

#include <stdlib.h>
#include <string.h>

#include "src/kv/geometry.h"

/* The group of generate.py: NB 3, BS 2, NH 2, HS 3, two layers. */
static inline struct kvc_group sample_group(enum kvc_layout layout, const char *dtype)
{
    return (struct kvc_group){
        .kv_size = layout == KVC_LAYOUT_MLA ? 1 : 2,
        .num_blocks = 3,
        .block_size = 2,
        .num_heads = 2,
        .head_size = 3,
        .num_layers = 2,
        .dtype = kvc_dtype_find(kvc_str_of(dtype)),
        .layout = layout,
    };
}

/* One layer's tensor of generate.py: element i holds (i + layer x elements) x factor. For free(). */
static inline uint8_t *sample_tensor(const struct kvc_group *group, int64_t layer, uint64_t factor)
{
    const size_t bytes = (size_t)kvc_group_tensor_bytes(group), size = group->dtype->size;
    uint8_t *tensor = kvc_alloc(bytes);
    for (size_t i = 0; i < bytes / size; i++) {
        const uint64_t value = (i + (size_t)layer * (bytes / size)) * factor;
        memcpy(tensor + i * size, &value, size);
    }
    return tensor;
}

#endif
