#include "src/run/select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/run/nearest.h"

/* One component of a pattern against one of an id; neither holds a slash. Only the last star is ever
 * stretched: what an earlier one could take, the last one can take as well. */
static bool component_matches(struct kvc_str pattern, struct kvc_str text)
{
    size_t at = 0, star = SIZE_MAX, stretched = 0;
    for (size_t i = 0; i < text.size;) {
        if (at < pattern.size && pattern.data[at] == '*') {
            star = at++;
            stretched = i;
        } else if (at < pattern.size &&
                   (pattern.data[at] == '?' || pattern.data[at] == text.data[i])) {
            at++;
            i++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            i = ++stretched;
        } else {
            return false;
        }
    }
    while (at < pattern.size && pattern.data[at] == '*')
        at++;
    return at == pattern.size;
}

/* Cuts the first component off; false when there is none left. */
static bool next_component(const char **text, struct kvc_str *component)
{
    if (**text == '\0')
        return false;
    component->data = *text;
    component->size = strcspn(*text, "/");
    *text += component->size;
    if (**text == '/')
        (*text)++;
    return true;
}

bool kvc_pattern_matches(const char *pattern, const char *id)
{
    const char *after_stars = NULL; /* of the pattern, behind its last double star */
    const char *stretched = id;     /* of the id, behind what that one takes */
    struct kvc_str wanted, component;
    while (next_component(&pattern, &wanted)) {
        if (kvc_str_is(wanted, "**")) {
            after_stars = pattern;
            stretched = id;
        } else if (!next_component(&id, &component) || !component_matches(wanted, component)) {
            if (after_stars == NULL || !next_component(&stretched, &component))
                return false;
            pattern = after_stars;
            id = stretched;
        }
    }
    return true; /* what is left of the id lies below the pattern */
}

static void append_pattern(struct kvc_patterns *patterns, char *text, char *where)
{
    patterns->items =
        kvc_realloc(patterns->items, (patterns->count + 1) * sizeof(patterns->items[0]));
    patterns->items[patterns->count++] = (struct kvc_pattern){.text = text, .where = where};
}

static kvc_status cannot_read(const char *flag, const char *path, int code, struct kvc_error *err)
{
    kvc_fail(err, KVC_EUSAGE, "cannot read the list of patterns '%s': %s", path, strerror(code));
    kvc_error_set_where(err, "%s", flag);
    return KVC_EUSAGE;
}

static kvc_status add_file(struct kvc_patterns *patterns, const char *flag, const char *path,
                           struct kvc_error *err)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return cannot_read(flag, path, errno, err);
    char *line = NULL;
    size_t capacity = 0;
    for (int number = 1; getline(&line, &capacity, file) >= 0; number++) {
        line[strcspn(line, "#\r\n")] = '\0';
        const char *start = line + strspn(line, " \t");
        const size_t size = strcspn(start, " \t");
        if (size > 0)
            append_pattern(patterns, kvc_format("%.*s", (int)size, start),
                           kvc_format("%s:%d", path, number));
    }
    const int code = ferror(file) ? errno : 0; /* of a folder, for example */
    free(line);
    fclose(file);
    return code == 0 ? KVC_OK : cannot_read(flag, path, code, err);
}

kvc_status kvc_patterns_add(struct kvc_patterns *patterns, const char *flag, const char *text,
                            struct kvc_error *err)
{
    patterns->given = true;
    if (text[0] == '@')
        return add_file(patterns, flag, text + 1, err);
    if (text[0] == '\0') {
        kvc_fail(err, KVC_EUSAGE,
                 "the pattern is empty: give an id, or a glob such as 'framing/*'");
        return kvc_error_set_where(err, "%s", flag), KVC_EUSAGE;
    }
    append_pattern(patterns, kvc_strdup(text), kvc_strdup(flag));
    return KVC_OK;
}

void kvc_patterns_clear(struct kvc_patterns *patterns)
{
    for (size_t i = 0; i < patterns->count; i++) {
        free(patterns->items[i].text);
        free(patterns->items[i].where);
    }
    free(patterns->items);
    *patterns = (struct kvc_patterns){0};
}

void kvc_select_nearest(const struct kvc_registry *registry, const char *pattern,
                        struct kvc_buffer *out)
{
    const char **ids = kvc_alloc_zero(registry->check_count + 1, sizeof(ids[0]));
    for (size_t i = 0; i < registry->check_count; i++)
        ids[i] = registry->checks[i]->id;
    struct kvc_buffer plain = {0}, names = {0};
    for (const char *c = pattern; *c != '\0'; c++)
        if (*c != '*' && *c != '?')
            kvc_buffer_append_byte(&plain, (uint8_t)*c);
    kvc_nearest_append(kvc_buffer_text(&plain), ids, registry->check_count, &names);
    if (names.size > 0)
        kvc_buffer_printf(out, "; nearest: %s", kvc_buffer_text(&names));
    else
        kvc_buffer_append_text(out, "; `kvconform list` shows the ids");
    kvc_buffer_clear(&plain);
    kvc_buffer_clear(&names);
    free(ids);
}

/* Every pattern must match something, else it is a slip of the pen that would hide checks. */
static kvc_status check_used(const struct kvc_registry *registry,
                             const struct kvc_patterns *patterns, struct kvc_error *err)
{
    for (size_t i = 0; i < patterns->count; i++) {
        bool used = false;
        for (size_t j = 0; j < registry->instance_count && !used; j++)
            used = kvc_pattern_matches(patterns->items[i].text, registry->instances[j].id);
        if (used)
            continue;
        struct kvc_buffer nearest = {0};
        kvc_select_nearest(registry, patterns->items[i].text, &nearest);
        kvc_fail(err, KVC_EUSAGE, "no check matches '%s'%s", patterns->items[i].text,
                 kvc_buffer_text(&nearest));
        kvc_error_set_where(err, "%s", patterns->items[i].where);
        kvc_buffer_clear(&nearest);
        return KVC_EUSAGE;
    }
    return KVC_OK;
}

static bool any_matches(const struct kvc_patterns *patterns, const char *id)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (kvc_pattern_matches(patterns->items[i].text, id))
            return true;
    return false;
}

kvc_status kvc_select(const struct kvc_registry *registry,
                      const struct kvc_selection_options *options, struct kvc_selection *selection,
                      struct kvc_error *err)
{
    *selection = (struct kvc_selection){0};
    KVC_GUARD(check_used(registry, &options->select, err));
    KVC_GUARD(check_used(registry, &options->skip, err));
    selection->items = kvc_alloc_zero(registry->instance_count + 1, sizeof(selection->items[0]));
    for (size_t i = 0; i < registry->instance_count; i++) {
        const struct kvc_instance *instance = &registry->instances[i];
        if (instance->check->level <= options->level &&
            (!options->select.given || any_matches(&options->select, instance->id)) &&
            !any_matches(&options->skip, instance->id))
            selection->items[selection->count++] = instance;
    }
    if (selection->count == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "nothing is selected: --select, --skip and --level leave "
                        "none of %zu checks",
                        registry->instance_count);
    return KVC_OK;
}

void kvc_selection_clear(struct kvc_selection *selection)
{
    free(selection->items);
    *selection = (struct kvc_selection){0};
}
