#include "src/run/clause.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the table as a check that nobody runs: the rules for ids and dialects are the same. */
static struct kvc_check as_check(const struct kvc_untested *untested)
{
    return (struct kvc_check){
        .id = untested->id,
        .clause = untested->clause,
        .level = untested->level,
        .first = untested->first,
        .last = untested->last,
    };
}

static kvc_status check_entry(const struct kvc_untested *untested, struct kvc_error *err)
{
    const struct kvc_check check = as_check(untested);
    KVC_GUARD(kvc_check_declaration(&check, err));
    if (untested->source == NULL || untested->source[0] == '\0' || untested->reason == NULL ||
        untested->reason[0] == '\0')
        return kvc_fail(err, KVC_EFORMAT, "it has no source, or no reason why no check tests it");
    return KVC_OK;
}

static int compare_clauses(const void *a, const void *b)
{
    const struct kvc_clause *left = a, *right = b;
    return strcmp(left->id, right->id);
}

static kvc_status check_ids(const struct kvc_clauses *clauses, struct kvc_error *err)
{
    for (size_t i = 1; i < clauses->count; i++) {
        if (strcmp(clauses->items[i - 1].id, clauses->items[i].id) != 0)
            continue;
        kvc_fail(err, KVC_EFORMAT, "two clauses have this id");
        kvc_error_set_where(err, "clause '%s'", clauses->items[i].id);
        return KVC_EFORMAT;
    }
    return KVC_OK;
}

static size_t count_untested(const struct kvc_untested *untested)
{
    size_t count = 0;
    while (untested != NULL && untested[count].id != NULL)
        count++;
    return count;
}

kvc_status kvc_clauses_build(const struct kvc_registry *registry,
                             const struct kvc_untested *untested, struct kvc_clauses *clauses,
                             struct kvc_error *err)
{
    const size_t untested_count = count_untested(untested);
    *clauses =
        (struct kvc_clauses){.items = kvc_alloc_zero(registry->check_count + untested_count + 1,
                                                     sizeof(clauses->items[0]))};
    for (size_t i = 0; i < registry->check_count; i++) {
        const struct kvc_check *check = registry->checks[i];
        clauses->items[clauses->count++] = (struct kvc_clause){
            check->id, check->clause, check->source, check->level, .check = check};
    }
    for (size_t i = 0; i < untested_count; i++) {
        const struct kvc_untested *entry = &untested[i];
        if (check_entry(entry, err) != KVC_OK) {
            kvc_error_set_where(err, "clause '%s'", entry->id);
            return KVC_EFORMAT;
        }
        clauses->items[clauses->count++] = (struct kvc_clause){
            entry->id, entry->clause, entry->source, entry->level, .untested = entry};
    }
    qsort(clauses->items, clauses->count, sizeof(clauses->items[0]), compare_clauses);
    return check_ids(clauses, err);
}

kvc_status kvc_clauses_load(const struct kvc_registry *registry, struct kvc_clauses *clauses,
                            struct kvc_error *err)
{
    return kvc_clauses_build(registry, kvc_untested_clauses, clauses, err);
}

void kvc_clauses_clear(struct kvc_clauses *clauses)
{
    free(clauses->items);
    *clauses = (struct kvc_clauses){0};
}

void kvc_clause_dialects_append(const struct kvc_clause *clause, struct kvc_buffer *out)
{
    if (clause->check != NULL) {
        kvc_check_dialects_append(clause->check, out);
    } else {
        const struct kvc_check check = as_check(clause->untested);
        kvc_check_dialects_append(&check, out);
    }
}
