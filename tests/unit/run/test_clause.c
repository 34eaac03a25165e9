#include <criterion/criterion.h>
#include <string.h>

#include "src/run/clause.h"

static void nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

static const struct kvc_check tested = {
    .id = "b/tested", .clause = "Holds.", .source = "protocol 1.1", .run = nothing};

/* The clauses of one check and a table; what they are refused with, or "". */
static const char *refusal(const struct kvc_untested *table, struct kvc_clauses *clauses)
{
    static const struct kvc_check *const checks[] = {&tested};
    static char text[512];
    struct kvc_registry registry;
    struct kvc_error err = KVC_ERROR_INIT;
    text[0] = '\0';
    cr_assert_eq(kvc_registry_build(checks, 1, &registry, NULL), KVC_OK);
    if (kvc_clauses_build(&registry, table, clauses, &err) != KVC_OK)
        kvc_error_line(&err, text, sizeof(text));
    kvc_registry_clear(&registry);
    return text;
}

Test(clauses, of_checks_and_of_a_table_sorted)
{
    static const struct kvc_untested table[] = {
        {"c/last", "Holds.", "B01", KVC_LEVEL_SHOULD, "0.5.6", NULL, "no GPU"},
        {"a/first", "Holds.", "B02", KVC_LEVEL_OBSERVED, NULL, "0.5.5", "no GPU"},
        {.id = NULL},
    };
    struct kvc_clauses clauses;
    cr_assert_str_eq(refusal(table, &clauses), "");
    cr_assert_eq(clauses.count, 3);
    cr_assert_str_eq(clauses.items[0].id, "a/first");
    cr_assert_eq(clauses.items[0].untested, &table[1]);
    cr_assert_null(clauses.items[0].check);
    cr_assert_eq(clauses.items[0].level, KVC_LEVEL_OBSERVED);
    cr_assert_eq(clauses.items[1].check, &tested);
    cr_assert_null(clauses.items[1].untested);
    cr_assert_str_eq(clauses.items[1].source, "protocol 1.1");
    struct kvc_buffer dialects = {0};
    for (size_t i = 0; i < 3; i++) {
        kvc_clause_dialects_append(&clauses.items[i], &dialects);
        kvc_buffer_append_byte(&dialects, ';');
    }
    cr_assert_str_eq(kvc_buffer_text(&dialects), "up to 0.5.5;all;0.5.6 only;");
    kvc_buffer_clear(&dialects);
    kvc_clauses_clear(&clauses);
}

Test(clauses, of_checks_alone)
{
    struct kvc_clauses clauses;
    cr_assert_str_eq(refusal(NULL, &clauses), "");
    cr_assert_eq(clauses.count, 1);
    kvc_clauses_clear(&clauses);
}

Test(clauses, wrong_entries)
{
    static const struct {
        struct kvc_untested entry;
        const char *word;
    } rows[] = {
        {{"a", "c", "s", KVC_LEVEL_MUST, NULL, NULL, "r"}, "kebab-case"},
        {{"a/b", NULL, "s", KVC_LEVEL_MUST, NULL, NULL, "r"}, "no clause"},
        {{"a/b", "c", NULL, KVC_LEVEL_MUST, NULL, NULL, "r"}, "no source"},
        {{"a/b", "c", "s", KVC_LEVEL_MUST, NULL, NULL, NULL}, "no reason"},
        {{"a/b", "c", "s", KVC_LEVEL_MUST, NULL, NULL, ""}, "no reason"},
        {{"a/b", "c", "s", KVC_LEVEL_MUST, "9.9.9", NULL, "r"}, "9.9.9"},
        {{"b/tested", "c", "s", KVC_LEVEL_MUST, NULL, NULL, "r"}, "two clauses"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        const struct kvc_untested table[] = {rows[i].entry, {.id = NULL}};
        struct kvc_clauses clauses;
        const char *text = refusal(table, &clauses);
        cr_assert_not_null(strstr(text, rows[i].word), "%s: %s", rows[i].word, text);
        cr_assert_not_null(strstr(text, rows[i].entry.id), "%s", text);
        kvc_clauses_clear(&clauses);
    }
}
