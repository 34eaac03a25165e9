/* A comparison for people: on a terminal, or as Markdown for a page. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/bench/compare.h"
#include "src/report/table.h"
#include "src/report/text.h"
#include "src/run/outcome.h"

/* A few digits that count, and no exponent. */
static void show_number(double value, char *out, size_t out_size)
{
    const double size = fabs(value);
    int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    for (double least = 0.1; digits < 6 && digits >= 3 && size > 0 && size < least; least /= 10)
        digits++;
    snprintf(out, out_size, "%.*f", digits, value);
}

static void add_spread(struct kvc_table *table, const struct kvc_spread *spread, size_t runs)
{
    char median[40], min[40], max[40];
    show_number(spread->median, median, sizeof(median));
    show_number(spread->min, min, sizeof(min));
    show_number(spread->max, max, sizeof(max));
    if (runs == 1)
        kvc_table_add(table, "%s", median);
    else
        kvc_table_add(table, "%s (%s–%s)", median, min, max);
}

static bool is_usual(const char *figure)
{
    return strcmp(figure, "p50") == 0 || strcmp(figure, "p99") == 0 ||
           kvc_figure_direction(figure) > 0;
}

static bool is_shown(const struct kvc_compare_options *options,
                     const struct kvc_figure_change *change, bool all)
{
    bool shown = all || is_usual(change->figure) || change->verdict == KVC_VERDICT_REGRESSION;
    for (size_t i = 0; i < options->limit_count && !shown; i++)
        shown = kvc_limit_is_about(&options->limits[i], change->operation, change->figure);
    return shown;
}

static void add_chance(struct kvc_table *table, const struct kvc_comparison *comparison,
                       const struct kvc_figure_change *change)
{
    if (comparison->old_count + comparison->new_count == 2)
        kvc_table_add(table, "-");
    else if (change->chance < 0.001)
        kvc_table_add(table, "< 0.1 %%");
    else
        kvc_table_add(table, "%.1f %%", 100 * change->chance);
}

static void write_figures(const struct kvc_compare_options *options,
                          const struct kvc_comparison *comparison, bool all, bool markdown,
                          struct kvc_buffer *out)
{
    static const char *const head[] = {"operation", "figure",  "unit",      "old",
                                       "new",       "new/old", "by chance", "verdict"};
    struct kvc_table table = {.columns = "lllrrrrl"};
    for (size_t i = 0; i < KVC_COUNT_OF(head); i++)
        kvc_table_add(&table, "%s", head[i]);
    for (size_t i = 0; i < comparison->figure_count; i++) {
        const struct kvc_figure_change *change = &comparison->figures[i];
        if (!is_shown(options, change, all))
            continue;
        kvc_table_add(&table, "%s", change->operation);
        kvc_table_add(&table, "%s", change->figure);
        kvc_table_add(&table, "%s", kvc_figure_unit(change->figure));
        add_spread(&table, &change->old, comparison->old_count);
        add_spread(&table, &change->new, comparison->new_count);
        kvc_table_add(&table, "%.3f", change->ratio);
        add_chance(&table, comparison, change);
        if (change->broken != NULL)
            kvc_table_add(&table, "%s: %s", kvc_verdict_name(change->verdict),
                          change->broken->text);
        else
            kvc_table_add(&table, "%s", kvc_verdict_name(change->verdict));
    }
    kvc_table_write(&table, markdown, out);
    kvc_table_clear(&table);
}

static void add_outcomes(struct kvc_table *table, unsigned outcomes)
{
    struct kvc_buffer text = {0};
    for (int i = 0; i < KVC_OUTCOME_COUNT; i++)
        if ((outcomes & 1u << i) != 0)
            kvc_buffer_printf(&text, "%s%s", text.size > 0 ? ", " : "",
                              kvc_outcome_name((enum kvc_outcome)i));
    kvc_table_add(table, "%s", text.size > 0 ? kvc_buffer_text(&text) : "-");
    kvc_buffer_clear(&text);
}

static void write_checks(const struct kvc_comparison *comparison, bool markdown,
                         struct kvc_buffer *out)
{
    static const char *const head[] = {"change", "check", "old", "new", "why"};
    struct kvc_table table = {.columns = "lllll"};
    for (size_t i = 0; i < KVC_COUNT_OF(head); i++)
        kvc_table_add(&table, "%s", head[i]);
    for (size_t i = 0; i < comparison->check_count; i++) {
        const struct kvc_check_change *change = &comparison->checks[i];
        kvc_table_add(&table, "%s%s", kvc_change_name(change->change),
                      change->is_regression ? " (REGRESSION)" : "");
        kvc_table_add(&table, "%s", change->id);
        add_outcomes(&table, change->old);
        add_outcomes(&table, change->new);
        kvc_table_add(&table, "%s", kvc_text_show(kvc_str_of(change->message)).text);
    }
    if (comparison->check_count > 0)
        kvc_table_write(&table, markdown, out);
    kvc_table_clear(&table);
}

static void write_side(const char *name, const struct kvc_side *side, size_t taken,
                       struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "%s: %zu run%s (", name, taken, taken == 1 ? "" : "s");
    for (size_t i = 0; i < side->count; i++) {
        kvc_buffer_append_text(out, i > 0 ? ", " : "");
        kvc_report_clean_line(side->reports[i].path, out);
    }
    kvc_buffer_append_text(out, ")");
}

static void write_notes(const char *notes, bool markdown, struct kvc_buffer *out)
{
    while (*notes != '\0') {
        const size_t size = strcspn(notes, "\n");
        kvc_buffer_printf(out, "%s%.*s\n", markdown ? "- " : "note: ", (int)size, notes);
        notes += size + (notes[size] == '\n');
    }
}

static void write_end(const struct kvc_comparison *comparison, struct kvc_buffer *out)
{
    const size_t count = comparison->regression_count;
    if (comparison->kind->read == NULL)
        kvc_buffer_printf(out, "%zu checks as before, %zu not. ", comparison->same_count,
                          comparison->check_count);
    if (count == 0)
        kvc_buffer_append_text(out, "No regression.\n");
    else
        kvc_buffer_printf(out, "%zu regression%s.\n", count, count == 1 ? "" : "s");
}

void kvc_compare_write_text(const struct kvc_compare_options *options,
                            const struct kvc_comparison *comparison, bool all, bool markdown,
                            struct kvc_buffer *out)
{
    struct kvc_buffer notes = {0};
    kvc_buffer_append(&notes, comparison->notes.data, comparison->notes.size);
    write_side("old", &options->old, comparison->old_count, out);
    kvc_buffer_append_text(out, markdown ? "; " : "\n");
    write_side("new", &options->new, comparison->new_count, out);
    kvc_buffer_append_text(out, "\n\n");
    const size_t table_at = out->size;
    if (comparison->kind->read != NULL)
        write_figures(options, comparison, all, markdown, out);
    else
        write_checks(comparison, markdown, out);
    if (out->size > table_at)
        kvc_buffer_append_text(out, "\n");
    write_notes(kvc_buffer_text(&notes), markdown, out);
    kvc_buffer_append_text(out, markdown && notes.size > 0 ? "\n" : "");
    write_end(comparison, out);
    kvc_buffer_clear(&notes);
}
