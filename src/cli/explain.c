/* `kvconform explain ID`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/run/registry.h"
#include "src/run/select.h"

static void print_row(const char *name, const char *text)
{
    if (text != NULL && text[0] != '\0')
        printf("  %-10s %s\n", name, text);
}

static void append_word(struct kvc_buffer *out, const char *word)
{
    kvc_buffer_printf(out, "%s%s", out->size > 0 ? ", " : "", word);
}

static void print_needs(const struct kvc_check *check)
{
    struct kvc_buffer needs = {0};
    for (size_t i = 0; i < kvc_need_name_count; i++)
        if ((check->needs & kvc_need_names[i].bit) != 0)
            append_word(&needs, kvc_need_names[i].meaning);
    if (check->setup != NULL) {
        append_word(&needs, "a server set up as ");
        kvc_buffer_append_text(&needs, check->setup->name);
    }
    print_row("needs:", kvc_buffer_text(&needs));
    kvc_buffer_clear(&needs);
}

static void print_axes(const struct kvc_check *check)
{
    struct kvc_buffer values = {0};
    for (int layout = 0; layout < KVC_LAYOUT_COUNT; layout++)
        if ((check->layouts & KVC_LAYOUT_BIT(layout)) != 0)
            append_word(&values, kvc_layout_name((enum kvc_layout)layout));
    print_row("layouts:", kvc_buffer_text(&values));
    values.size = 0;
    for (size_t i = 0; check->dtypes != NULL && check->dtypes[i] != NULL; i++)
        append_word(&values, check->dtypes[i]);
    print_row("dtypes:", kvc_buffer_text(&values));
    values.size = 0;
    for (int path = 0; path < KVC_PATH_COUNT; path++)
        if ((check->paths & 1u << path) != 0)
            append_word(&values, kvc_path_name((enum kvc_path)path));
    print_row("paths:", kvc_buffer_text(&values));
    values.size = 0;
    for (size_t i = 0; check->variants != NULL && check->variants[i] != NULL; i++)
        append_word(&values, check->variants[i]);
    print_row("variants:", kvc_buffer_text(&values));
    kvc_buffer_clear(&values);
}

static void print_check(const struct kvc_check *check)
{
    struct kvc_buffer dialects = {0};
    kvc_check_dialects_append(check, &dialects);
    printf("%s\n", check->id);
    print_row("clause:", check->clause);
    print_row("level:", kvc_level_name(check->level));
    print_row("dialects:", kvc_buffer_text(&dialects));
    print_row("source:", check->source);
    print_row("exchange:", check->exchange);
    print_needs(check);
    print_row("after:", check->after);
    print_row("alone:", (check->flags & KVC_FLAG_DESTRUCTIVE) != 0
                            ? "yes; may harm the server: on one of somebody else only with "
                              "--destructive"
                        : (check->flags & KVC_FLAG_EXCLUSIVE) != 0
                            ? "yes; it looks at counters or memory of the whole server"
                            : NULL);
    print_axes(check);
    struct kvc_buffer program = {0};
    kvc_shell_quote(program_invocation_name, &program);
    printf("  %-10s %s run --select %s\n", "run:", kvc_buffer_text(&program), check->id);
    kvc_buffer_clear(&program);
    kvc_buffer_clear(&dialects);
}

/* An id with axes explains its check; a pattern explains every check that it matches. */
static size_t print_matches(const struct kvc_registry *registry, const char *pattern)
{
    const struct kvc_check *last = NULL;
    size_t count = 0;
    for (size_t i = 0; i < registry->instance_count && pattern[0] != '\0'; i++) {
        const struct kvc_instance *instance = &registry->instances[i];
        if (instance->check == last || !kvc_pattern_matches(pattern, instance->id))
            continue;
        last = instance->check;
        if (count++ > 0)
            printf("\n");
        print_check(last);
    }
    return count;
}

static int explain(const char *pattern)
{
    struct kvc_registry registry;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = kvc_registry_load(&registry, &err);
    if (status == KVC_OK && print_matches(&registry, pattern) == 0) {
        struct kvc_buffer nearest = {0};
        kvc_select_nearest(&registry, pattern, &nearest);
        status = kvc_fail(&err, KVC_EUSAGE, "no check matches '%s'%s", pattern,
                          kvc_buffer_text(&nearest));
        kvc_buffer_clear(&nearest);
    }
    if (status != KVC_OK)
        kvc_print_error(&err);
    kvc_registry_clear(&registry);
    return status == KVC_OK ? KVC_EXIT_OK : KVC_EXIT_USAGE;
}

static int command_explain(int argc, char **argv)
{
    const struct kvc_command_line line = {
        .usage = "kvconform explain ID",
        .about = "What a check demands, of whom, why, and the exchange it makes. ID may be a glob.",
        .min_arguments = 1,
        .max_arguments = 1,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (!kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        return exit_status;
    return explain(arguments[0]);
}

const struct kvc_command kvc_command_explain = {
    .name = "explain",
    .summary = "one check: its clause, level, dialects, needs, and the exchange it makes",
    .run = command_explain,
};
