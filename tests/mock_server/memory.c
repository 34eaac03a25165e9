#include "tests/mock_server/memory.h"

bool mock_memory_has(const struct mock_memory *memory, struct kvc_bytes bytes)
{
    for (size_t i = 0; i < MOCK_REMEMBERED; i++) {
        if (memory->items[i].size > 0 && kvc_bytes_equal(kvc_buffer_view(&memory->items[i]), bytes))
            return true;
    }
    return false;
}

void mock_memory_add(struct mock_memory *memory, struct kvc_bytes bytes)
{
    struct kvc_buffer *item = &memory->items[memory->next++ % MOCK_REMEMBERED];
    item->size = 0;
    kvc_buffer_append(item, bytes.data, bytes.size);
}

void mock_memory_clear(struct mock_memory *memory)
{
    for (size_t i = 0; i < memory->next && i < MOCK_REMEMBERED; i++)
        kvc_buffer_clear(&memory->items[i]);
}
