/* Rows of cells, lined up for a terminal or as a Markdown table. For reports. */
#ifndef KVC_REPORT_TABLE_H
#define KVC_REPORT_TABLE_H

#include "src/base/bytes.h"

/* Zero-initialise, set columns; free with kvc_table_clear. */
struct kvc_table {
    const char *columns; /* one letter each: 'l' is lined up on the left, 'r' on the right */
    char **cells;        /* row by row, the first row is the head */
    size_t count;
};

/* Adds the next cell: any text, made harmless and one line. */
void kvc_table_add(struct kvc_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void kvc_table_write(const struct kvc_table *table, bool markdown, struct kvc_buffer *out);
void kvc_table_clear(struct kvc_table *table);

#endif
