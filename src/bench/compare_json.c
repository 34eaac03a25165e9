/* A comparison for programs: docs/json.md describes it. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/compare.h"
#include "src/report/text.h"
#include "src/run/outcome.h"

enum { SCHEMA = 1 };

static json_t *text_value(const char *text)
{
    struct kvc_buffer clean = {0};
    kvc_report_clean(text, &clean);
    json_t *value = json_string(kvc_buffer_text(&clean));
    kvc_buffer_clear(&clean);
    return value;
}

static json_t *side_value(const struct kvc_side *side, size_t taken)
{
    json_t *value = json_object();
    json_t *files = json_array();
    for (size_t i = 0; i < side->count; i++)
        json_array_append_new(files, text_value(side->reports[i].path));
    json_object_set_new(value, "runs", json_integer((json_int_t)taken));
    json_object_set_new(value, "files", files);
    return value;
}

static json_t *spread_value(const struct kvc_spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->min, "max",
                     spread->max);
}

static json_t *figure_value(const struct kvc_figure_change *change, bool noise_is_known)
{
    json_t *value = json_object();
    json_object_set_new(value, "operation", text_value(change->operation));
    json_object_set_new(value, "figure", text_value(change->figure));
    json_object_set_new(value, "unit", json_string(kvc_figure_unit(change->figure)));
    json_object_set_new(value, "old", spread_value(&change->old));
    json_object_set_new(value, "new", spread_value(&change->new));
    json_object_set_new(value, "ratio",
                        isinf(change->ratio) ? json_null() : json_real(change->ratio));
    json_object_set_new(value, "chance", noise_is_known ? json_real(change->chance) : json_null());
    json_object_set_new(value, "verdict",
                        json_string(change->verdict == KVC_VERDICT_REGRESSION
                                        ? "regression"
                                        : kvc_verdict_name(change->verdict)));
    if (change->broken != NULL)
        json_object_set_new(value, "limit", text_value(change->broken->text));
    return value;
}

static json_t *outcomes_value(unsigned outcomes)
{
    json_t *value = json_array();
    for (int i = 0; i < KVC_OUTCOME_COUNT; i++)
        if ((outcomes & 1u << i) != 0)
            json_array_append_new(value, json_string(kvc_outcome_name((enum kvc_outcome)i)));
    return value;
}

static json_t *check_value(const struct kvc_check_change *change)
{
    json_t *value = json_object();
    json_object_set_new(value, "id", text_value(change->id));
    json_object_set_new(value, "change", json_string(kvc_change_name(change->change)));
    json_object_set_new(value, "regression", json_boolean(change->is_regression));
    json_object_set_new(value, "old", outcomes_value(change->old));
    json_object_set_new(value, "new", outcomes_value(change->new));
    if (change->message[0] != '\0')
        json_object_set_new(value, "message", text_value(change->message));
    return value;
}

static json_t *notes_value(const struct kvc_buffer *notes)
{
    json_t *value = json_array();
    const char *text = (const char *)notes->data;
    for (size_t begin = 0, end; begin < notes->size; begin = end + 1) {
        for (end = begin; end < notes->size && text[end] != '\n'; end++) {
        }
        json_array_append_new(value, json_stringn(text + begin, end - begin));
    }
    return value;
}

void kvc_compare_write_json(const struct kvc_compare_options *options,
                            const struct kvc_comparison *comparison, struct kvc_buffer *out)
{
    const bool is_bench = comparison->kind->read != NULL;
    json_t *changes = json_array();
    for (size_t i = 0; i < comparison->figure_count; i++)
        json_array_append_new(changes,
                              figure_value(&comparison->figures[i],
                                           comparison->old_count + comparison->new_count > 2));
    for (size_t i = 0; i < comparison->check_count; i++)
        json_array_append_new(changes, check_value(&comparison->checks[i]));
    json_t *root = json_pack(
        "{s:i, s:s, s:s, s:o, s:o, s:I, s:o}", "schema", SCHEMA, "kind", "comparison", "of",
        is_bench ? "bench" : "run", "old", side_value(&options->old, comparison->old_count), "new",
        side_value(&options->new, comparison->new_count), "regressions",
        (json_int_t)comparison->regression_count, "notes", notes_value(&comparison->notes));
    if (!is_bench)
        json_object_set_new(root, "unchanged", json_integer((json_int_t)comparison->same_count));
    json_object_set_new(root, is_bench ? "figures" : "checks", changes);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    kvc_buffer_printf(out, "%s\n", text == NULL ? "{}" : text);
    free(text);
}
