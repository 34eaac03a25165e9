#include "src/kv/memory.h"

#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

kvc_status kvc_memory_open(size_t size, struct kvc_memory *memory, struct kvc_error *err)
{
    /* Less is not worth a page that has to be cleared as a whole. */
    const bool huge = size >= 2 * HUGE_PAGE;
    const size_t mapping_size = size + (huge ? HUGE_PAGE : 0);
    void *mapping =
        mmap(NULL, mapping_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return kvc_fail(err, KVC_ENOMEM, "no memory for a KV cache of %zu bytes", size);
    const size_t rest = (uintptr_t)mapping % HUGE_PAGE;
    *memory = (struct kvc_memory){
        .data = (uint8_t *)mapping + (huge && rest != 0 ? HUGE_PAGE - rest : 0),
        .size = size,
        .mapping = mapping,
        .mapping_size = mapping_size,
    };
    if (huge)
        madvise(memory->data, size, MADV_HUGEPAGE);
    return KVC_OK;
}

void kvc_memory_close(struct kvc_memory *memory)
{
    if (memory->mapping != NULL)
        munmap(memory->mapping, memory->mapping_size);
    *memory = (struct kvc_memory){.data = NULL};
}
