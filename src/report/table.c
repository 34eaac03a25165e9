#include "src/report/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/report/text.h"

void kvc_table_add(struct kvc_table *table, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct kvc_buffer clean = {0};
    kvc_report_clean_line(text, &clean);
    table->cells = kvc_realloc(table->cells, (table->count + 1) * sizeof(*table->cells));
    table->cells[table->count++] = kvc_buffer_take_text(&clean);
}

/* Characters, not bytes; all that appear here are one column wide. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static size_t column_width(const struct kvc_table *table, size_t column)
{
    const size_t columns = strlen(table->columns);
    size_t width = 0;
    for (size_t i = column; i < table->count; i += columns) {
        const size_t cell = width_of(table->cells[i]);
        width = cell > width ? cell : width;
    }
    return width;
}

static void write_spaces(size_t count, struct kvc_buffer *out)
{
    while (count-- > 0)
        kvc_buffer_append_byte(out, ' ');
}

static void write_text(const struct kvc_table *table, struct kvc_buffer *out)
{
    const size_t columns = strlen(table->columns);
    for (size_t i = 0; i < table->count; i++) {
        const size_t column = i % columns;
        const size_t gap = column_width(table, column) - width_of(table->cells[i]);
        const bool is_right = table->columns[column] == 'r';
        write_spaces(is_right ? gap : 0, out);
        kvc_buffer_append_text(out, table->cells[i]);
        write_spaces(2 + (is_right ? 0 : gap), out);
        if (column + 1 < columns)
            continue;
        while (out->size > 0 && out->data[out->size - 1] == ' ')
            out->size--;
        kvc_buffer_append_byte(out, '\n');
    }
}

static void write_markdown(const struct kvc_table *table, struct kvc_buffer *out)
{
    const size_t columns = strlen(table->columns);
    for (size_t i = 0; i < table->count; i++) {
        kvc_buffer_append_text(out, i % columns == 0 ? "| " : " | ");
        for (const char *c = table->cells[i]; *c != '\0'; c++)
            kvc_buffer_printf(out, strchr("|*<`\\", *c) != NULL ? "\\%c" : "%c", *c);
        if ((i + 1) % columns != 0)
            continue;
        kvc_buffer_append_text(out, " |\n");
        for (size_t j = 0; i < columns && j < columns; j++)
            kvc_buffer_append_text(out, table->columns[j] == 'r' ? "|---:" : "|---");
        kvc_buffer_append_text(out, i < columns ? "|\n" : "");
    }
}

void kvc_table_write(const struct kvc_table *table, bool markdown, struct kvc_buffer *out)
{
    if (markdown)
        write_markdown(table, out);
    else
        write_text(table, out);
}

void kvc_table_clear(struct kvc_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = 0;
}
