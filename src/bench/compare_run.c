/* Runs: check by check, which outcomes it had before and has now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/compare_parts.h"
#include "src/run/outcome.h"

enum {
    PASS = 1u << KVC_OUTCOME_PASS,
    /* What makes a run end with status 1. */
    UNEXPECTED = 1u << KVC_OUTCOME_FAIL | 1u << KVC_OUTCOME_SURPRISE | 1u << KVC_OUTCOME_TIMEOUT |
                 1u << KVC_OUTCOME_CRASH | 1u << KVC_OUTCOME_ERROR | 1u << KVC_OUTCOME_NOT_RUN,
};

/* One result of one report. */
struct entry {
    const char *id;
    const char *message;
    unsigned outcome;
    bool is_new;
    size_t place; /* in the reports: qsort keeps no order of its own */
};

struct entries {
    struct entry *items;
    size_t count;
};

static kvc_status read_outcome(const struct kvc_saved *report, size_t number, const char *name,
                               unsigned *outcome, struct kvc_error *err)
{
    for (int i = 0; name != NULL && i < KVC_OUTCOME_COUNT; i++) {
        if (strcmp(name, kvc_outcome_name((enum kvc_outcome)i)) != 0)
            continue;
        *outcome = 1u << i;
        return KVC_OK;
    }
    kvc_fail(err, KVC_EUSAGE, "is no outcome that is known");
    return kvc_error_set_where(err, "%s: results[%zu].outcome", report->path, number);
}

static kvc_status read_entries(const struct kvc_saved *report, bool is_new, struct entries *entries,
                               struct kvc_error *err)
{
    json_t *results;
    KVC_GUARD(kvc_saved_get(report, "results", JSON_ARRAY, &results, err));
    const size_t count = json_array_size(results);
    entries->items =
        kvc_realloc(entries->items, (entries->count + count + 1) * sizeof(*entries->items));
    for (size_t i = 0; i < count; i++) {
        const json_t *result = json_array_get(results, i);
        const char *message = json_string_value(json_object_get(result, "message"));
        struct entry entry = {.id = json_string_value(json_object_get(result, "id")),
                              .message = message == NULL ? "" : message,
                              .is_new = is_new,
                              .place = entries->count};
        if (entry.id == NULL) {
            kvc_fail(err, KVC_EUSAGE, "is missing or no text");
            return kvc_error_set_where(err, "%s: results[%zu].id", report->path, i);
        }
        KVC_GUARD(read_outcome(report, i, json_string_value(json_object_get(result, "outcome")),
                               &entry.outcome, err));
        entries->items[entries->count++] = entry;
    }
    return KVC_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = a;
    const struct entry *right = b;
    const int order = strcmp(left->id, right->id);
    return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

static bool is_regression(unsigned old, unsigned new)
{
    if ((new &UNEXPECTED) != 0)
        return (old & UNEXPECTED) == 0;
    return (old & PASS) != 0 && (new == 0 || new == 1u << KVC_OUTCOME_SKIP);
}

static enum kvc_change change_of(unsigned old, unsigned new)
{
    if (new == 0)
        return KVC_CHANGE_VANISHED;
    if (old == 0)
        return KVC_CHANGE_APPEARED;
    if (is_regression(old, new))
        return KVC_CHANGE_WORSE;
    return (old & UNEXPECTED) != 0 && (new &UNEXPECTED) == 0 ? KVC_CHANGE_BETTER : KVC_CHANGE_OTHER;
}

/* All entries of one check as one change. */
static struct kvc_check_change fold(const struct entry *entries, size_t count)
{
    struct kvc_check_change change = {.id = entries[0].id, .message = ""};
    for (size_t i = 0; i < count; i++) {
        *(entries[i].is_new ? &change.new : &change.old) |= entries[i].outcome;
        if (entries[i].is_new && (change.message[0] == '\0' || (entries[i].outcome & UNEXPECTED)))
            change.message = entries[i].message;
    }
    change.change = change_of(change.old, change.new);
    change.is_regression = is_regression(change.old, change.new);
    return change;
}

static int compare_changes(const void *a, const void *b)
{
    const struct kvc_check_change *left = a;
    const struct kvc_check_change *right = b;
    if (left->is_regression != right->is_regression)
        return left->is_regression ? -1 : 1;
    const int order = (left->change > right->change) - (left->change < right->change);
    return order != 0 ? order : strcmp(left->id, right->id);
}

static void fold_all(struct entries *entries, struct kvc_comparison *comparison)
{
    qsort(entries->items, entries->count, sizeof(*entries->items), compare_entries);
    comparison->checks = kvc_alloc_zero(entries->count + 1, sizeof(*comparison->checks));
    for (size_t first = 0, end; first < entries->count; first = end) {
        end = first + 1;
        while (end < entries->count &&
               strcmp(entries->items[end].id, entries->items[first].id) == 0)
            end++;
        const struct kvc_check_change change = fold(entries->items + first, end - first);
        comparison->regression_count += change.is_regression;
        if (change.old == change.new)
            comparison->same_count++;
        else
            comparison->checks[comparison->check_count++] = change;
    }
    qsort(comparison->checks, comparison->check_count, sizeof(*comparison->checks),
          compare_changes);
}

/* ---- whether they may be compared ---- */

static kvc_status is_whole(const struct kvc_saved *report, bool force, struct kvc_buffer *notes,
                           struct kvc_error *err)
{
    const char *why = kvc_saved_is_true(report, "summary.interrupted")   ? "was interrupted"
                      : kvc_saved_is_true(report, "summary.target_lost") ? "lost its server"
                                                                         : NULL;
    if (why == NULL)
        return KVC_OK;
    if (force) {
        kvc_compare_note(notes, "not whole: the run in %s %s", report->path, why);
        return KVC_OK;
    }
    kvc_fail(err, KVC_EMISMATCH, "the run %s; --force compares what there is", why);
    return kvc_error_set_where(err, "%s", report->path);
}

static kvc_status may_compare(const struct kvc_compare_options *options,
                              const struct kvc_saved *report, struct kvc_buffer *notes,
                              struct kvc_error *err)
{
    static const struct {
        const char *place;
        json_type type;
    } same[] = {{"run.dialect", JSON_STRING}, {"run.stand_in", JSON_TRUE}};
    const struct kvc_saved *first = &options->old.reports[0];
    for (size_t i = 0; i < KVC_COUNT_OF(same); i++) {
        json_t *old_value, *new_value;
        KVC_GUARD(kvc_saved_get(first, same[i].place, same[i].type, &old_value, err));
        KVC_GUARD(kvc_saved_get(report, same[i].place, same[i].type, &new_value, err));
        KVC_GUARD(kvc_compare_same_member(first, old_value, report, new_value, same[i].place,
                                          options->force, notes, err));
    }
    return is_whole(report, options->force, notes, err);
}

static kvc_status read_side(const struct kvc_compare_options *options, const struct kvc_side *side,
                            struct entries *entries, struct kvc_buffer *notes,
                            struct kvc_error *err)
{
    for (size_t i = 0; i < side->count; i++) {
        KVC_GUARD(may_compare(options, &side->reports[i], notes, err));
        KVC_GUARD(read_entries(&side->reports[i], side == &options->new, entries, err));
    }
    return KVC_OK;
}

kvc_status kvc_compare_runs(const struct kvc_compare_options *options,
                            struct kvc_comparison *comparison, struct kvc_error *err)
{
    if (options->limit_count > 0) {
        kvc_fail(err, KVC_EUSAGE, "%s is a report of 'run', and has no figures",
                 options->old.reports[0].path);
        return kvc_error_set_where(err, "--fail-if '%s'", options->limits[0].text);
    }
    struct entries entries = {0};
    kvc_status status = read_side(options, &options->old, &entries, &comparison->notes, err);
    if (status == KVC_OK)
        status = read_side(options, &options->new, &entries, &comparison->notes, err);
    if (status == KVC_OK) {
        const struct kvc_saved *old = &options->old.reports[0], *new = &options->new.reports[0];
        comparison->old_count = options->old.count;
        comparison->new_count = options->new.count;
        kvc_compare_note_text(old, new, "run.server_version", "version of the server",
                              &comparison->notes);
        kvc_compare_note_text(old, new, "run.paths", "paths", &comparison->notes);
        kvc_compare_note_text(old, new, "run.suite_version", "version of kvconform",
                              &comparison->notes);
        fold_all(&entries, comparison);
    }
    free(entries.items);
    return status;
}
