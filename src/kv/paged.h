/* A worker's paged KV cache: one tensor a layer, with guard bands, in shared memory or private
 * memory. For drivers, checks and bench. */
#ifndef KVC_KV_PAGED_H
#define KVC_KV_PAGED_H

#include "src/kv/geometry.h"
#include "src/kv/memory.h"
#include "src/kv/segment.h"

enum { KVC_PAGED_GUARD = 4096 }; /* bytes of a guard band */

struct kvc_tensor {
    uint8_t *data; /* the first byte of the tensor, behind the front guard */
    int64_t bytes;
    size_t group;               /* index into geometry.groups */
    int64_t layer;              /* within the group */
    struct kvc_segment segment; /* shared caches only; data is at storage_offset in it */
    int64_t storage_offset;     /* bytes */
};

struct kvc_paged {
    struct kvc_geometry geometry;
    struct kvc_tensor *tensors; /* groups in order, layers in order within a group */
    size_t tensor_count;
    struct kvc_memory memory; /* private caches only: of all tensors */
};

/* Allocates every tensor. shared: one segment a tensor, which a server can map; the tensor then
 * starts at byte 0 of the segment and the guard follows it. Guards are filled with a pattern.
 * Freed with kvc_paged_close. */
kvc_status kvc_paged_open(const struct kvc_geometry *geometry, bool shared, struct kvc_paged *paged,
                          struct kvc_error *err);
void kvc_paged_close(struct kvc_paged *paged);
/* KVC_EMISMATCH when a byte of a guard band changed; names layer and offset. */
kvc_status kvc_paged_check_guards(const struct kvc_paged *paged, struct kvc_error *err);
/* Fills all blocks, or one block of every layer, with one byte. */
void kvc_paged_fill(struct kvc_paged *paged, uint8_t byte);
void kvc_paged_fill_block(struct kvc_paged *paged, int64_t block, uint8_t byte);
/* KVC_EMISMATCH unless every byte of the block, in every layer, is `byte`. */
kvc_status kvc_paged_check_block_is(const struct kvc_paged *paged, int64_t block, uint8_t byte,
                                    struct kvc_error *err);

#endif
