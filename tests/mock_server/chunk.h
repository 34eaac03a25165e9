/* What one chunk's bytes are: the arrays that make it, one for each kernel group (protocol.md 5.1).
 * For the mock's registrations, which make such layouts, and its objects, which keep them. */
#ifndef KVC_TESTS_MOCK_SERVER_CHUNK_H
#define KVC_TESTS_MOCK_SERVER_CHUNK_H

#include "src/kv/geometry.h"

/* One row-major array [kv, layers, tokens, hidden]. */
struct mock_part {
    int64_t kv; /* 2: K and V; 1: MLA */
    int64_t layers;
    int64_t tokens;
    int64_t hidden;
    const struct kvc_dtype *dtype;
    bool flat; /* kv is 1 and not an axis of its own: [layers, tokens, hidden] */
};

struct mock_chunk_layout {
    struct mock_part parts[KVC_MAX_GROUPS];
    size_t part_count;
    int64_t bytes; /* of the whole chunk; 0: not a possible layout */
};

/* Bytes of one part; 0 when a dimension is not positive or the product is beyond any memory. */
int64_t mock_part_bytes(const struct mock_part *part);
/* Fills layout->bytes from its parts. */
void mock_chunk_layout_seal(struct mock_chunk_layout *layout);
/* The same arrays, whether or not kv is an axis. */
bool mock_chunk_layout_equal(const struct mock_chunk_layout *a, const struct mock_chunk_layout *b);
/* The array's dimensions as a slot reports them; returns how many (3 or 4). */
size_t mock_part_shape(const struct mock_part *part, int64_t shape[4]);

#endif
