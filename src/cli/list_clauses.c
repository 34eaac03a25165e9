#include "src/cli/list_clauses.h"

#include <jansson.h>
#include <stdio.h>

#include "src/run/select.h"

/* ---- which ---- */

/* The pattern matches the clause's id, or an instance of its check. */
static bool matches(const struct kvc_registry *registry, const struct kvc_clause *clause,
                    const char *pattern)
{
    if (kvc_pattern_matches(pattern, clause->id))
        return true;
    for (size_t i = 0; i < registry->instance_count; i++) {
        const struct kvc_instance *instance = &registry->instances[i];
        if (instance->check == clause->check && kvc_pattern_matches(pattern, instance->id))
            return true;
    }
    return false;
}

static bool is_selected(const struct kvc_registry *registry, const struct kvc_clause *clause,
                        const struct kvc_texts *select)
{
    for (size_t i = 0; i < select->count; i++)
        if (matches(registry, clause, select->items[i]))
            return true;
    return select->count == 0;
}

/* Takes away what is not selected. */
static kvc_status keep_selected(const struct kvc_registry *registry, struct kvc_clauses *clauses,
                                const struct kvc_texts *select, struct kvc_error *err)
{
    for (size_t i = 0; i < select->count; i++) {
        bool used = false;
        for (size_t j = 0; j < clauses->count && !used; j++)
            used = matches(registry, &clauses->items[j], select->items[i]);
        if (used)
            continue;
        struct kvc_buffer nearest = {0};
        kvc_select_nearest(registry, select->items[i], &nearest);
        kvc_fail(err, KVC_EUSAGE, "no clause matches '%s'%s", select->items[i],
                 kvc_buffer_text(&nearest));
        kvc_buffer_clear(&nearest);
        kvc_error_set_where(err, "--select");
        return KVC_EUSAGE;
    }
    size_t kept = 0;
    for (size_t i = 0; i < clauses->count; i++)
        if (is_selected(registry, &clauses->items[i], select))
            clauses->items[kept++] = clauses->items[i];
    clauses->count = kept;
    return KVC_OK;
}

static size_t count_instances(const struct kvc_registry *registry, const struct kvc_check *check)
{
    size_t count = 0;
    for (size_t i = 0; i < registry->instance_count; i++)
        count += registry->instances[i].check == check;
    return count;
}

/* ---- text ---- */

static void print_clause(const struct kvc_registry *registry, const struct kvc_clause *clause)
{
    struct kvc_buffer dialects = {0};
    kvc_clause_dialects_append(clause, &dialects);
    printf("%-44s %-8s %3zu  %s\n    %s", clause->id, kvc_level_name(clause->level),
           clause->check != NULL ? count_instances(registry, clause->check) : 0,
           kvc_buffer_text(&dialects), clause->text);
    if (clause->source != NULL)
        printf(" [%s]", clause->source);
    printf("\n");
    if (clause->untested != NULL)
        printf("    no check: %s\n", clause->untested->reason);
    kvc_buffer_clear(&dialects);
}

static void print_text(const struct kvc_registry *registry, const struct kvc_clauses *clauses)
{
    size_t untested = 0;
    for (size_t i = 0; i < clauses->count; i++) {
        print_clause(registry, &clauses->items[i]);
        untested += clauses->items[i].untested != NULL;
    }
    printf("%zu clauses; %zu without a check, each with the reason\n", clauses->count, untested);
}

/* ---- JSON ---- */

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text != NULL)
        json_object_set_new(object, name, json_string(text));
}

static json_t *clause_value(const struct kvc_registry *registry, const struct kvc_clause *clause)
{
    json_t *value = json_object();
    struct kvc_buffer dialects = {0};
    kvc_clause_dialects_append(clause, &dialects);
    set_text(value, "id", clause->id);
    set_text(value, "clause", clause->text);
    set_text(value, "level", kvc_level_name(clause->level));
    set_text(value, "dialects", kvc_buffer_text(&dialects));
    set_text(value, "source", clause->source);
    if (clause->untested != NULL)
        set_text(value, "reason", clause->untested->reason);
    else
        json_object_set_new(value, "runs",
                            json_integer((json_int_t)count_instances(registry, clause->check)));
    kvc_buffer_clear(&dialects);
    return value;
}

static void print_json(const struct kvc_registry *registry, const struct kvc_clauses *clauses)
{
    json_t *list = json_array();
    for (size_t i = 0; i < clauses->count; i++)
        json_array_append_new(list, clause_value(registry, &clauses->items[i]));
    json_t *root = json_pack("{s:i, s:s, s:o}", "schema", 1, "kind", "clauses", "clauses", list);
    json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

kvc_status kvc_list_clauses(const struct kvc_registry *registry, const struct kvc_texts *select,
                            bool as_json, struct kvc_error *err)
{
    struct kvc_clauses clauses;
    kvc_status status = kvc_clauses_load(registry, &clauses, err);
    if (status == KVC_OK)
        status = keep_selected(registry, &clauses, select, err);
    if (status == KVC_OK && as_json)
        print_json(registry, &clauses);
    else if (status == KVC_OK)
        print_text(registry, &clauses);
    kvc_clauses_clear(&clauses);
    return status;
}
