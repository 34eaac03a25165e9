/* The shape of a worker's paged KV cache, and the spec language that names it.
 * For drivers, checks, bench. */
#ifndef KVC_KV_GEOMETRY_H
#define KVC_KV_GEOMETRY_H

#include "src/kv/dtype.h"

/* How one layer's tensor orders its axes; names and ids as LMCache's EngineKVFormat. */
enum kvc_layout {
    KVC_LAYOUT_NHD,            /* [2, NB, BS, NH, HS]  NL_X_TWO_NB_BS_NH_HS */
    KVC_LAYOUT_HND,            /* [2, NB, NH, BS, HS]  NL_X_TWO_NB_NH_BS_HS */
    KVC_LAYOUT_FLASHINFER_NHD, /* [NB, 2, BS, NH, HS]  NL_X_NB_TWO_BS_NH_HS */
    KVC_LAYOUT_FLASHINFER_HND, /* [NB, 2, NH, BS, HS]  NL_X_NB_TWO_NH_BS_HS */
    KVC_LAYOUT_MLA,            /* [NB, BS, HS]         NL_X_NB_BS_HS */
    KVC_LAYOUT_COUNT,
};

/* Layers that share shape and dtype. */
struct kvc_group {
    int64_t kv_size;    /* 2: K and V; 1: MLA */
    int64_t num_blocks; /* NB */
    int64_t block_size; /* BS, tokens a block */
    int64_t num_heads;  /* NH */
    int64_t head_size;  /* HS, elements */
    int64_t num_layers;
    const struct kvc_dtype *dtype;
    enum kvc_layout layout;
};

enum { KVC_MAX_GROUPS = 8 };

/* All groups have the same num_blocks and block_size. */
struct kvc_geometry {
    struct kvc_group groups[KVC_MAX_GROUPS];
    size_t group_count;
};

/* Reads "(kv_size,NB,BS,NH,HS):dtype:layers[;…]" as lmcache bench server does. kv_size 2 gives
 * KVC_LAYOUT_NHD, 1 KVC_LAYOUT_MLA. KVC_EUSAGE with the position and what is accepted. */
kvc_status kvc_geometry_parse(const char *spec, struct kvc_geometry *geometry,
                              struct kvc_error *err);
/* The same, where NB or BS <= 0 in the spec stands for these defaults (both > 0), as it does for the
 * flags of lmcache bench server. */
kvc_status kvc_geometry_parse_defaults(const char *spec, int64_t num_blocks, int64_t block_size,
                                       struct kvc_geometry *geometry, struct kvc_error *err);
/* Whether every number is at least 1 and all tensors together can be addressed, so that no size
 * below overflows. */
bool kvc_geometry_fits(const struct kvc_geometry *geometry);
/* Appends the spec of a geometry. */
void kvc_geometry_format(const struct kvc_geometry *geometry, struct kvc_buffer *out);

int64_t kvc_group_hidden(const struct kvc_group *group); /* NH x HS */
/* Bytes of one block of one layer (K and V), of one layer's tensor, of the group's part of one chunk. */
int64_t kvc_group_block_bytes(const struct kvc_group *group);
int64_t kvc_group_tensor_bytes(const struct kvc_group *group);
int64_t kvc_group_chunk_bytes(const struct kvc_group *group, int64_t chunk_tokens);
int64_t kvc_geometry_chunk_bytes(const struct kvc_geometry *geometry, int64_t chunk_tokens);
int64_t kvc_geometry_layer_count(const struct kvc_geometry *geometry);

/* "nhd", "hnd", "flashinfer-nhd", "flashinfer-hnd", "mla"; "NHD"/"HND" for the layout hint. */
const char *kvc_layout_name(enum kvc_layout layout);
const char *kvc_layout_hint(enum kvc_layout layout);
/* The tensor's shape and strides (in elements) as registered: rank dimensions, at most 5. */
size_t kvc_group_tensor_shape(const struct kvc_group *group, int64_t shape[5], int64_t stride[5]);

/* Byte offset of one element in its layer's tensor. kv 0: K, 1: V (0 for MLA). The one place where
 * layouts are spelled out; gather, scatter, stamps and tests use it or are tested against it. */
static inline int64_t kvc_group_element_offset(const struct kvc_group *g, int64_t kv, int64_t block,
                                               int64_t slot, int64_t head, int64_t element)
{
    const int64_t nb = g->num_blocks, bs = g->block_size, nh = g->num_heads, hs = g->head_size;
    int64_t index = 0;
    switch (g->layout) {
    case KVC_LAYOUT_NHD:
        index = (((kv * nb + block) * bs + slot) * nh + head) * hs + element;
        break;
    case KVC_LAYOUT_HND:
        index = (((kv * nb + block) * nh + head) * bs + slot) * hs + element;
        break;
    case KVC_LAYOUT_FLASHINFER_NHD:
        index = (((block * 2 + kv) * bs + slot) * nh + head) * hs + element;
        break;
    case KVC_LAYOUT_FLASHINFER_HND:
        index = (((block * 2 + kv) * nh + head) * bs + slot) * hs + element;
        break;
    case KVC_LAYOUT_MLA:
        index = ((block * bs + slot) * nh + head) * hs + element;
        break;
    case KVC_LAYOUT_COUNT:
        break;
    }
    return index * (int64_t)g->dtype->size;
}

/* Byte offset of one element in a chunk [kv, layers, T, NH x HS] of this group (protocol.md 5.1). */
static inline int64_t kvc_group_chunk_offset(const struct kvc_group *g, int64_t chunk_tokens,
                                             int64_t kv, int64_t layer, int64_t token, int64_t head,
                                             int64_t element)
{
    const int64_t row = (kv * g->num_layers + layer) * chunk_tokens + token;
    return ((row * g->num_heads + head) * g->head_size + element) * (int64_t)g->dtype->size;
}

#endif
