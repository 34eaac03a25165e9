#include "tests/mock_server/chunk.h"

/* No machine has more, and sums of a few of these do not overflow. */
#define MOCK_MAX_BYTES ((int64_t)1 << 50)

int64_t mock_part_bytes(const struct mock_part *part)
{
    const int64_t factors[] = {part->kv, part->layers, part->tokens, part->hidden,
                               (int64_t)part->dtype->size};
    int64_t bytes = 1;
    for (size_t i = 0; i < KVC_COUNT_OF(factors); i++) {
        if (factors[i] <= 0 || __builtin_mul_overflow(bytes, factors[i], &bytes) ||
            bytes > MOCK_MAX_BYTES)
            return 0;
    }
    return bytes;
}

void mock_chunk_layout_seal(struct mock_chunk_layout *layout)
{
    layout->bytes = 0;
    for (size_t i = 0; i < layout->part_count; i++) {
        const int64_t bytes = mock_part_bytes(&layout->parts[i]);
        if (bytes == 0) {
            layout->bytes = 0;
            return;
        }
        layout->bytes += bytes;
    }
}

static bool part_equal(const struct mock_part *a, const struct mock_part *b)
{
    return a->kv == b->kv && a->layers == b->layers && a->tokens == b->tokens &&
           a->hidden == b->hidden && a->dtype == b->dtype;
}

bool mock_chunk_layout_equal(const struct mock_chunk_layout *a, const struct mock_chunk_layout *b)
{
    if (a->part_count != b->part_count)
        return false;
    for (size_t i = 0; i < a->part_count; i++) {
        if (!part_equal(&a->parts[i], &b->parts[i]))
            return false;
    }
    return true;
}

size_t mock_part_shape(const struct mock_part *part, int64_t shape[4])
{
    size_t rank = 0;
    if (!part->flat)
        shape[rank++] = part->kv;
    shape[rank++] = part->layers;
    shape[rank++] = part->tokens;
    shape[rank++] = part->hidden;
    return rank;
}
