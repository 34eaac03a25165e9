#include "src/kv/geometry.h"

#include <inttypes.h>

/* No machine has more address space than this for one process. */
#define MAX_BYTES ((int64_t)1 << 46)

static const struct {
    const char *name;
    const char *hint;
} layouts[KVC_LAYOUT_COUNT] = {
    [KVC_LAYOUT_NHD] = {"nhd", "NHD"},
    [KVC_LAYOUT_HND] = {"hnd", "HND"},
    [KVC_LAYOUT_FLASHINFER_NHD] = {"flashinfer-nhd", "NHD"},
    [KVC_LAYOUT_FLASHINFER_HND] = {"flashinfer-hnd", "HND"},
    [KVC_LAYOUT_MLA] = {"mla", "NHD"},
};

const char *kvc_layout_name(enum kvc_layout layout)
{
    return layouts[layout].name;
}

const char *kvc_layout_hint(enum kvc_layout layout)
{
    return layouts[layout].hint;
}

void kvc_geometry_format(const struct kvc_geometry *geometry, struct kvc_buffer *out)
{
    for (size_t i = 0; i < geometry->group_count; i++) {
        const struct kvc_group *g = &geometry->groups[i];
        kvc_buffer_printf(
            out, "%s(%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "):%s:%" PRId64,
            i == 0 ? "" : ";", g->kv_size, g->num_blocks, g->block_size, g->num_heads, g->head_size,
            g->dtype->name, g->num_layers);
    }
}

int64_t kvc_group_hidden(const struct kvc_group *group)
{
    return group->num_heads * group->head_size;
}

static int64_t token_bytes(const struct kvc_group *group)
{
    return group->kv_size * kvc_group_hidden(group) * (int64_t)group->dtype->size;
}

int64_t kvc_group_block_bytes(const struct kvc_group *group)
{
    return token_bytes(group) * group->block_size;
}

int64_t kvc_group_tensor_bytes(const struct kvc_group *group)
{
    return kvc_group_block_bytes(group) * group->num_blocks;
}

int64_t kvc_group_chunk_bytes(const struct kvc_group *group, int64_t chunk_tokens)
{
    return token_bytes(group) * group->num_layers * chunk_tokens;
}

int64_t kvc_geometry_chunk_bytes(const struct kvc_geometry *geometry, int64_t chunk_tokens)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < geometry->group_count; i++)
        bytes += kvc_group_chunk_bytes(&geometry->groups[i], chunk_tokens);
    return bytes;
}

int64_t kvc_geometry_layer_count(const struct kvc_geometry *geometry)
{
    int64_t layers = 0;
    for (size_t i = 0; i < geometry->group_count; i++)
        layers += geometry->groups[i].num_layers;
    return layers;
}

bool kvc_geometry_fits(const struct kvc_geometry *geometry)
{
    int64_t total = 0;
    for (size_t i = 0; i < geometry->group_count; i++) {
        const struct kvc_group *g = &geometry->groups[i];
        const int64_t factors[] = {g->kv_size,   g->num_blocks, g->block_size,
                                   g->num_heads, g->head_size,  g->num_layers};
        int64_t bytes = (int64_t)g->dtype->size;
        for (size_t f = 0; f < KVC_COUNT_OF(factors); f++) {
            if (factors[f] < 1 || factors[f] > MAX_BYTES / bytes)
                return false;
            bytes *= factors[f];
        }
        total += bytes;
        if (total > MAX_BYTES)
            return false;
    }
    return true;
}

/* Which axis stands where, as the names of enum kvc_layout spell it. */
enum axis { AXIS_KV, AXIS_BLOCK, AXIS_SLOT, AXIS_HEAD, AXIS_ELEMENT, AXIS_HIDDEN };

static const struct {
    size_t rank;
    enum axis axes[5];
} shapes[KVC_LAYOUT_COUNT] = {
    [KVC_LAYOUT_NHD] = {5, {AXIS_KV, AXIS_BLOCK, AXIS_SLOT, AXIS_HEAD, AXIS_ELEMENT}},
    [KVC_LAYOUT_HND] = {5, {AXIS_KV, AXIS_BLOCK, AXIS_HEAD, AXIS_SLOT, AXIS_ELEMENT}},
    [KVC_LAYOUT_FLASHINFER_NHD] = {5, {AXIS_BLOCK, AXIS_KV, AXIS_SLOT, AXIS_HEAD, AXIS_ELEMENT}},
    [KVC_LAYOUT_FLASHINFER_HND] = {5, {AXIS_BLOCK, AXIS_KV, AXIS_HEAD, AXIS_SLOT, AXIS_ELEMENT}},
    [KVC_LAYOUT_MLA] = {3, {AXIS_BLOCK, AXIS_SLOT, AXIS_HIDDEN}},
};

size_t kvc_group_tensor_shape(const struct kvc_group *group, int64_t shape[5], int64_t stride[5])
{
    const int64_t sizes[] = {
        [AXIS_KV] = group->kv_size,        [AXIS_BLOCK] = group->num_blocks,
        [AXIS_SLOT] = group->block_size,   [AXIS_HEAD] = group->num_heads,
        [AXIS_ELEMENT] = group->head_size, [AXIS_HIDDEN] = kvc_group_hidden(group),
    };
    const size_t rank = shapes[group->layout].rank;
    int64_t step = 1;
    for (size_t i = rank; i-- > 0;) {
        shape[i] = sizes[shapes[group->layout].axes[i]];
        stride[i] = step;
        step *= shape[i];
    }
    return rank;
}
