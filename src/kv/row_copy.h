/* Copies rows between two orders: past the caches where the target is too large for them, and in a
 * loop of its own for each size that a head's row often has. For transfer.c only. */
#ifndef KVC_KV_ROW_COPY_H
#define KVC_KV_ROW_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A rectangle of rows of row_size bytes, a row_size of 1 or more. Strides are in bytes. */
struct kvc_rows {
    uint8_t *to;
    const uint8_t *from;
    int64_t row_size;
    int64_t outer_count, inner_count;
    int64_t to_outer, to_inner;
    int64_t from_outer, from_inner;
};

enum { KVC_LINE = 64 };

/* The alignment that streaming asks of every row that is written: its address and its size. */
enum { KVC_STREAM_ALIGNMENT = 4 };

/* Copies the rows, the inner ones of one outer step after another. stream: past the caches, with all
 * rows aligned; good only when the rows that follow one another in this order fill whole cache lines.
 * kvc_row_copy_finish comes after the last. */
void kvc_row_copy(const struct kvc_rows *rows, bool stream);
/* Makes what was streamed visible to other threads and processes. */
void kvc_row_copy_finish(void);

#endif
