/* Private memory in which blocks in any order are found quickly. For paged caches and bench. */
#ifndef KVC_KV_MEMORY_H
#define KVC_KV_MEMORY_H

#include "src/base/bytes.h"

struct kvc_memory {
    uint8_t *data; /* page-aligned; NULL: none */
    size_t size;
    void *mapping;
    size_t mapping_size;
};

/* size bytes of zeros, on huge pages where it is large and they can be had. KVC_ENOMEM.
 * Freed with kvc_memory_close, which is safe twice and on zeroed memory. */
kvc_status kvc_memory_open(size_t size, struct kvc_memory *memory, struct kvc_error *err);
void kvc_memory_close(struct kvc_memory *memory);

#endif
