/* The latest few byte strings that came by: what a defect goes by. For dispatch.c. */
#ifndef KVC_TESTS_MOCK_SERVER_MEMORY_H
#define KVC_TESTS_MOCK_SERVER_MEMORY_H

#include "src/base/bytes.h"

enum { MOCK_REMEMBERED = 512 };

/* Zero-initialise; free with mock_memory_clear. */
struct mock_memory {
    struct kvc_buffer items[MOCK_REMEMBERED];
    size_t next; /* how many came by; the next one overwrites item next % MOCK_REMEMBERED */
};

bool mock_memory_has(const struct mock_memory *memory, struct kvc_bytes bytes);
void mock_memory_add(struct mock_memory *memory, struct kvc_bytes bytes);
void mock_memory_clear(struct mock_memory *memory);

#endif
