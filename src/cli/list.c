/* `kvconform list`. */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/cli/list_clauses.h"
#include "src/run/select.h"

struct list_flags {
    struct kvc_texts select;
    const char *format;
    bool clauses, dialects, families, instances;
};

#define FLAG(member) offsetof(struct list_flags, member)

static const char *const format_choices[] = {"text", "json", NULL};

static const struct kvc_option list_table[] = {
    {.name = "select",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(select),
     .argument = "PATTERN",
     .help = "only these, as in `kvconform run`"},
    {.name = "instances",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(instances),
     .help = "each value of each axis on a line of its own"},
    {.name = "clauses",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(clauses),
     .help =
         "every clause in full: its level, dialects and source, and the check that tests it, or "
         "the reason why none does"},
    {.name = "families",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(families),
     .help = "the families and how many checks each has"},
    {.name = "dialects",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(dialects),
     .help = "the dialects and the releases that speak them"},
    {.name = "format",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(format),
     .argument = "FORMAT",
     .choices = format_choices,
     .help = "text (default), or json: every check, or clause, with all that is declared of it"},
};

static void print_dialects(void)
{
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        printf("%s ", kvc_dialects[i]->name);
        for (const char *const *release = kvc_dialects[i]->releases; *release != NULL; release++)
            printf(" %s", *release);
        printf("\n");
    }
}

static size_t count_instances(const struct kvc_registry *registry, const struct kvc_check *check)
{
    size_t count = 0;
    for (size_t i = 0; i < registry->instance_count; i++)
        count += registry->instances[i].check == check;
    return count;
}

static void print_families(const struct kvc_registry *registry)
{
    for (size_t i = 0; i < registry->check_count;) {
        const struct kvc_str family = kvc_check_family(registry->checks[i]);
        size_t checks = 0, instances = 0;
        for (; i < registry->check_count &&
               kvc_str_equal(kvc_check_family(registry->checks[i]), family);
             i++) {
            checks++;
            instances += count_instances(registry, registry->checks[i]);
        }
        printf("%-16.*s %3zu checks, %zu instances\n", KVC_STR_ARG(family), checks, instances);
    }
}

static void print_check(const struct kvc_registry *registry, const struct kvc_check *check)
{
    struct kvc_buffer dialects = {0};
    kvc_check_dialects_append(check, &dialects);
    printf("%-44s %-8s %3zu  %s\n", check->id, kvc_level_name(check->level),
           count_instances(registry, check), kvc_buffer_text(&dialects));
    kvc_buffer_clear(&dialects);
}

static void print_checks(const struct list_flags *flags, const struct kvc_registry *registry,
                         const struct kvc_selection *selection)
{
    const struct kvc_check *last = NULL;
    for (size_t i = 0; i < registry->check_count && !flags->instances; i++) {
        for (size_t j = 0; j < selection->count; j++) {
            if (selection->items[j]->check != registry->checks[i] || last == registry->checks[i])
                continue;
            last = registry->checks[i];
            print_check(registry, last);
        }
    }
    for (size_t i = 0; i < selection->count && flags->instances; i++)
        printf("%s\n", selection->items[i]->id);
}

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text != NULL)
        json_object_set_new(object, name, json_string(text));
}

static json_t *check_value(const struct kvc_check *check, const struct kvc_selection *selection)
{
    json_t *value = json_object();
    json_t *instances = json_array();
    struct kvc_buffer dialects = {0};
    kvc_check_dialects_append(check, &dialects);
    set_text(value, "id", check->id);
    set_text(value, "level", kvc_level_name(check->level));
    set_text(value, "clause", check->clause);
    set_text(value, "source", check->source);
    set_text(value, "exchange", check->exchange);
    set_text(value, "dialects", kvc_buffer_text(&dialects));
    set_text(value, "after", check->after);
    for (size_t i = 0; i < selection->count; i++)
        if (selection->items[i]->check == check)
            json_array_append_new(instances, json_string(selection->items[i]->id));
    json_object_set_new(value, "instances", instances);
    kvc_buffer_clear(&dialects);
    return value;
}

static void print_json(const struct kvc_registry *registry, const struct kvc_selection *selection)
{
    json_t *root = json_object();
    json_t *checks = json_array();
    for (size_t i = 0; i < registry->check_count; i++) {
        json_t *value = check_value(registry->checks[i], selection);
        if (json_array_size(json_object_get(value, "instances")) > 0)
            json_array_append(checks, value);
        json_decref(value);
    }
    json_object_set_new(root, "schema", json_integer(1));
    json_object_set_new(root, "kind", json_string("list"));
    json_object_set_new(root, "checks", checks);
    json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

static kvc_status list(const struct list_flags *flags, const struct kvc_registry *registry,
                       struct kvc_error *err)
{
    struct kvc_selection_options options = {.level = KVC_LEVEL_OBSERVED};
    struct kvc_selection selection = {0};
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < flags->select.count && status == KVC_OK; i++)
        status = kvc_patterns_add(&options.select, "--select", flags->select.items[i], err);
    if (status == KVC_OK)
        status = kvc_select(registry, &options, &selection, err);
    if (status == KVC_OK && strcmp(flags->format, "json") == 0)
        print_json(registry, &selection);
    else if (status == KVC_OK)
        print_checks(flags, registry, &selection);
    kvc_selection_clear(&selection);
    kvc_patterns_clear(&options.select);
    return status;
}

static int list_parsed(const struct list_flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_registry registry = {0};
    kvc_status status = KVC_OK;
    if (flags->dialects)
        print_dialects();
    else
        status = kvc_registry_load(&registry, &err);
    if (status == KVC_OK && flags->families)
        print_families(&registry);
    else if (status == KVC_OK && flags->clauses)
        status =
            kvc_list_clauses(&registry, &flags->select, strcmp(flags->format, "json") == 0, &err);
    else if (status == KVC_OK && !flags->dialects)
        status = list(flags, &registry, &err);
    if (status != KVC_OK)
        kvc_print_error(&err);
    kvc_registry_clear(&registry);
    return status == KVC_OK ? KVC_EXIT_OK : KVC_EXIT_USAGE;
}

static int command_list(int argc, char **argv)
{
    struct list_flags flags = {.format = "text"};
    const struct kvc_option_group groups[] = {
        {"Options", list_table, KVC_COUNT_OF(list_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform list [OPTION…]",
        .about = "One check a line: its id, level, number of instances, and dialects.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = list_parsed(&flags);
    kvc_texts_clear(&flags.select);
    return exit_status;
}

const struct kvc_command kvc_command_list = {
    .name = "list",
    .summary = "the checks, one a line; clauses, families, dialects",
    .run = command_list,
};
