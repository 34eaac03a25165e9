#include "src/report/html_matrix.h"

#include <string.h>

#include "src/report/html_page.h"
#include "src/run/registry.h"

/* A column: one value of one axis. */
struct column {
    enum { COLUMN_ALL, COLUMN_PATH, COLUMN_LAYOUT, COLUMN_DTYPE } axis;
    int value;                     /* path or layout */
    const struct kvc_dtype *dtype; /* COLUMN_DTYPE */
    const char *name;
};

enum { MAX_COLUMNS = 64 };

struct columns {
    struct column items[MAX_COLUMNS];
    size_t count;
};

static bool matches(const struct column *column, const struct kvc_instance *instance)
{
    switch (column->axis) {
    case COLUMN_ALL:
        return true;
    case COLUMN_PATH:
        return instance->check->paths != 0 && (int)instance->path == column->value;
    case COLUMN_LAYOUT:
        return instance->check->layouts != 0 && (int)instance->layout == column->value;
    case COLUMN_DTYPE:
        return instance->dtype == column->dtype;
    }
    return false;
}

static void add_if_used(struct columns *columns, struct column column,
                        const struct kvc_kept_run *kept)
{
    if (columns->count == MAX_COLUMNS)
        return;
    for (size_t i = 0; i < kept->count; i++) {
        if (!matches(&column, kept->results[i].instance))
            continue;
        columns->items[columns->count++] = column;
        return;
    }
}

static bool has_dtype(const struct columns *columns, const struct kvc_dtype *dtype)
{
    for (size_t i = 0; i < columns->count; i++)
        if (columns->items[i].axis == COLUMN_DTYPE && columns->items[i].dtype == dtype)
            return true;
    return false;
}

static void find_columns(const struct kvc_kept_run *kept, struct columns *columns)
{
    add_if_used(columns, (struct column){.axis = COLUMN_ALL, .name = "all"}, kept);
    for (int path = 0; path < KVC_PATH_COUNT; path++)
        add_if_used(columns,
                    (struct column){.axis = COLUMN_PATH,
                                    .value = path,
                                    .name = kvc_path_name((enum kvc_path)path)},
                    kept);
    for (int layout = 0; layout < KVC_LAYOUT_COUNT; layout++)
        add_if_used(columns,
                    (struct column){.axis = COLUMN_LAYOUT,
                                    .value = layout,
                                    .name = kvc_layout_name((enum kvc_layout)layout)},
                    kept);
    for (size_t i = 0; i < kept->count; i++) {
        const struct kvc_dtype *dtype = kept->results[i].instance->dtype;
        if (dtype != NULL && !has_dtype(columns, dtype))
            add_if_used(
                columns,
                (struct column){.axis = COLUMN_DTYPE, .dtype = dtype, .name = dtype->short_name},
                kept);
    }
}

static void write_cell(const struct kvc_kept_run *kept, size_t first, size_t end,
                       const struct column *column, struct kvc_buffer *out)
{
    size_t passed = 0, done = 0, bad = 0;
    for (size_t i = first; i < end; i++) {
        const struct kvc_result *result = &kept->results[i];
        if (!matches(column, result->instance) || result->outcome == KVC_OUTCOME_SKIP)
            continue;
        done++;
        passed += result->outcome == KVC_OUTCOME_PASS;
        bad += result->outcome != KVC_OUTCOME_PASS && result->outcome != KVC_OUTCOME_KNOWN;
    }
    if (done == 0)
        kvc_buffer_append_text(out, "<td></td>");
    else
        kvc_buffer_printf(out, "<td class=\"%s\">%zu/%zu</td>",
                          bad > 0         ? "bad"
                          : passed < done ? "warn"
                                          : "good",
                          passed, done);
}

void kvc_html_matrix(const struct kvc_kept_run *kept, struct kvc_buffer *out)
{
    struct columns columns = {.count = 0};
    find_columns(kept, &columns);
    kvc_buffer_append_text(out, "<div class=\"scroll\"><table>\n<thead><tr><th>family</th>");
    for (size_t i = 0; i < columns.count; i++)
        kvc_buffer_printf(out, "<th>%s</th>", columns.items[i].name);
    kvc_buffer_append_text(out, "</tr></thead>\n<tbody>\n");
    for (size_t first = 0, end; first < kept->count; first = end) {
        const struct kvc_str family = kvc_check_family(kept->results[first].instance->check);
        end = first + 1;
        while (end < kept->count &&
               kvc_str_equal(kvc_check_family(kept->results[end].instance->check), family))
            end++;
        kvc_buffer_printf(out, "<tr><th>" KVC_STR_FMT "</th>", KVC_STR_ARG(family));
        for (size_t i = 0; i < columns.count; i++)
            write_cell(kept, first, end, &columns.items[i], out);
        kvc_buffer_append_text(out, "</tr>\n");
    }
    kvc_buffer_append_text(out, "</tbody></table></div>\n");
}
