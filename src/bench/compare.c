#include "src/bench/compare.h"

#include <stdlib.h>
#include <string.h>

#include "src/bench/compare_parts.h"
#include "src/report/text.h"

const char *kvc_verdict_name(enum kvc_verdict verdict)
{
    static const char *const names[] = {
        [KVC_VERDICT_SAME] = "same",
        [KVC_VERDICT_WITHIN] = "within noise",
        [KVC_VERDICT_UNKNOWN] = "noise unknown",
        [KVC_VERDICT_BETTER] = "better",
        [KVC_VERDICT_WORSE] = "worse",
        [KVC_VERDICT_DIFFERS] = "differs",
        [KVC_VERDICT_REGRESSION] = "REGRESSION",
    };
    return names[verdict];
}

const char *kvc_change_name(enum kvc_change change)
{
    static const char *const names[KVC_CHANGE_COUNT] = {
        [KVC_CHANGE_WORSE] = "worse",       [KVC_CHANGE_VANISHED] = "vanished",
        [KVC_CHANGE_BETTER] = "better",     [KVC_CHANGE_OTHER] = "changed",
        [KVC_CHANGE_APPEARED] = "appeared",
    };
    return names[change];
}

void kvc_compare_note(struct kvc_buffer *notes, const char *format, ...)
{
    struct kvc_buffer line = {0};
    va_list args;
    va_start(args, format);
    char text[1024];
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kvc_report_clean_line(text, &line);
    kvc_buffer_printf(notes, "%s\n", kvc_buffer_text(&line));
    kvc_buffer_clear(&line);
}

/* A value as a person would write it down: at most a few words of it. */
static char *shown_value(const json_t *value)
{
    if (value == NULL)
        return kvc_strdup("nothing");
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const struct kvc_shown_text shown =
        kvc_text_show(kvc_str_of(json_is_string(value) ? json_string_value(value) : text));
    free(text);
    return kvc_strdup(shown.text);
}

kvc_status kvc_compare_same_member(const struct kvc_saved *old, const json_t *old_value,
                                   const struct kvc_saved *new, const json_t *new_value,
                                   const char *place, bool force, struct kvc_buffer *notes,
                                   struct kvc_error *err)
{
    if (json_equal(old_value, new_value) || (old_value == NULL && new_value == NULL))
        return KVC_OK;
    char *old_text = shown_value(old_value);
    char *new_text = shown_value(new_value);
    kvc_status status = KVC_OK;
    if (force) {
        kvc_compare_note(notes, "%s differs: %s in %s, %s in %s", place, old_text, old->path,
                         new_text, new->path);
    } else {
        status = kvc_fail(err, KVC_EUSAGE, "is not what %s has; --force compares all the same",
                          old->path);
        kvc_error_set_where(err, "%s: %s", new->path, place);
        kvc_error_set_expected(err, "%s", old_text);
        kvc_error_set_got(err, "%s", new_text);
    }
    free(old_text);
    free(new_text);
    return status;
}

void kvc_compare_note_text(const struct kvc_saved *old, const struct kvc_saved *new,
                           const char *place, const char *what, struct kvc_buffer *notes)
{
    const char *old_text = kvc_saved_text(old, place);
    const char *new_text = kvc_saved_text(new, place);
    if (strcmp(old_text, new_text) != 0)
        kvc_compare_note(notes, "%s: %s, now %s", what, old_text[0] == '\0' ? "not said" : old_text,
                         new_text[0] == '\0' ? "not said" : new_text);
}

static kvc_status one_kind(const struct kvc_compare_options *options, struct kvc_error *err)
{
    const struct kvc_saved *first = &options->old.reports[0];
    for (size_t i = 0; i < options->old.count + options->new.count; i++) {
        const struct kvc_saved *other = i < options->old.count
                                            ? &options->old.reports[i]
                                            : &options->new.reports[i - options->old.count];
        if (other->kind == first->kind)
            continue;
        kvc_fail(err, KVC_EUSAGE, "is a report of another command than %s", first->path);
        return kvc_error_set_where(err, "%s", other->path);
    }
    return KVC_OK;
}

kvc_status kvc_compare(const struct kvc_compare_options *options, struct kvc_comparison *comparison,
                       struct kvc_error *err)
{
    *comparison = (struct kvc_comparison){.kind = options->old.reports[0].kind};
    kvc_status status = one_kind(options, err);
    if (status == KVC_OK)
        status = comparison->kind->read != NULL ? kvc_compare_benches(options, comparison, err)
                                                : kvc_compare_runs(options, comparison, err);
    if (status != KVC_OK)
        kvc_comparison_clear(comparison);
    return status;
}

void kvc_comparison_clear(struct kvc_comparison *comparison)
{
    free(comparison->figures);
    free(comparison->checks);
    kvc_buffer_clear(&comparison->notes);
    *comparison = (struct kvc_comparison){0};
}
