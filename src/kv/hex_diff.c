#include "src/kv/stamp.h"

/* Bytes a line and side. */
enum { LINE = 16 };

static size_t count_different(const uint8_t *expected, const uint8_t *actual, size_t size)
{
    size_t different = 0;
    for (size_t i = 0; i < size; i++)
        different += expected[i] != actual[i];
    return different;
}

/* A byte that is right shows as dots on the actual side, so that the wrong ones stand out. */
static void append_line(const uint8_t *expected, const uint8_t *actual, size_t offset, size_t count,
                        struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "%08zx ", offset);
    for (size_t i = 0; i < LINE; i++) {
        if (i < count)
            kvc_buffer_printf(out, " %02x", expected[offset + i]);
        else
            kvc_buffer_append_text(out, "   ");
    }
    kvc_buffer_append_text(out, "  |");
    for (size_t i = offset; i < offset + count; i++) {
        if (expected[i] == actual[i])
            kvc_buffer_append_text(out, " ..");
        else
            kvc_buffer_printf(out, " %02x", actual[i]);
    }
    kvc_buffer_append_byte(out, '\n');
}

void kvc_stamp_hex_diff(const uint8_t *expected, const uint8_t *actual, size_t size,
                        size_t max_lines, struct kvc_buffer *out)
{
    size_t first = 0;
    while (first < size && expected[first] == actual[first])
        first++;
    if (first == size || max_lines == 0)
        return;
    size_t offset = first / LINE * LINE;
    if (offset > 0 && max_lines > 2)
        offset -= LINE; /* one line that is right, to see where the wrong ones begin */
    for (size_t lines = 0; offset < size; lines++, offset += LINE) {
        const size_t left = count_different(expected + offset, actual + offset, size - offset);
        const size_t count = size - offset < LINE ? size - offset : LINE;
        const size_t here = count_different(expected + offset, actual + offset, count);
        if (left == 0)
            return;
        if (lines + 1 == max_lines && left > here) {
            kvc_buffer_printf(out, "%08zx  ... %zu more bytes differ\n", offset, left);
            return;
        }
        append_line(expected, actual, offset, count, out);
    }
}
