#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/run/nearest.h"
#include "src/run/select.h"

static void nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

static const char *const ab[] = {"a", "b", NULL};
static const struct kvc_check echo = {
    .id = "framing/echo-uid", .clause = "c", .run = nothing, .variants = ab};
static const struct kvc_check pipelined = {
    .id = "framing/pipelined", .clause = "c", .level = KVC_LEVEL_SHOULD, .run = nothing};
static const struct kvc_check trip = {.id = "data/round-trip",
                                      .clause = "c",
                                      .level = KVC_LEVEL_OBSERVED,
                                      .run = nothing,
                                      .paths = KVC_PATHS_ENGINE_DRIVEN};
static const struct kvc_check *const all[] = {&echo, &pipelined, &trip};

static struct kvc_registry registry;

static void build(void)
{
    cr_assert_eq(kvc_registry_build(all, 3, &registry, NULL), KVC_OK);
}

static void clear(void)
{
    kvc_registry_clear(&registry);
}

TestSuite(select, .init = build, .fini = clear);

Test(select, patterns)
{
    static const struct {
        const char *pattern, *id;
        bool matches;
    } rows[] = {
        {"framing/echo-uid", "framing/echo-uid", true},
        {"framing/echo-uid", "framing/echo-uid/a", true}, /* everything below */
        {"framing/echo", "framing/echo-uid", false},      /* not half a component */
        {"framing", "framing/echo-uid", true},
        {"framing/", "framing/echo-uid", true},
        {"framing/*", "framing/echo-uid/a", true},
        {"framing/echo-*", "framing/echo-uid", true},
        {"framing/*-uid", "framing/echo-uid", true},
        {"framing/e*o*d", "framing/echo-uid", true},
        {"framing/e*x*d", "framing/echo-uid", false},
        {"*/echo-uid", "framing/echo-uid", true},
        {"*/a", "framing/echo-uid/a", false}, /* * stays within a component */
        {"**/a", "framing/echo-uid/a", true},
        {"**/a", "framing/echo-uid/b", false},
        {"**", "framing/echo-uid", true},
        {"data/**/f16", "data/x/nhd/f16", true},
        {"data/**/f16", "data/f16", true}, /* ** may be no component */
        {"framing/echo-ui?", "framing/echo-uid", true},
        {"framing/echo-uid?", "framing/echo-uid", false},
        {"framing/echo-uid/a/b", "framing/echo-uid/a", false},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        cr_assert_eq(kvc_pattern_matches(rows[i].pattern, rows[i].id), rows[i].matches, "%s on %s",
                     rows[i].pattern, rows[i].id);
}

/* Trying every way in which the stars could share the text would take longer than anybody waits. */
Test(select, many_stars)
{
    char id[64 * 2 + 1];
    for (size_t i = 0; i < 64; i++)
        memcpy(id + 2 * i, "a/", 3);
    cr_assert_not(
        kvc_pattern_matches("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b", id));
    cr_assert(kvc_pattern_matches("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a", id));
    memset(id, 'a', sizeof(id) - 1);
    cr_assert_not(kvc_pattern_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", id));
    cr_assert(kvc_pattern_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*", id));
}

/* The ids that a selection leaves, joined by spaces. */
static const char *selected(const char *select, const char *skip, enum kvc_level level)
{
    static char text[1024];
    struct kvc_selection_options options = {.level = level};
    struct kvc_selection selection;
    struct kvc_error err = KVC_ERROR_INIT;
    if (select != NULL)
        kvc_patterns_add(&options.select, "--select", select, &err);
    if (skip != NULL)
        kvc_patterns_add(&options.skip, "--skip", skip, &err);
    text[0] = '\0';
    if (kvc_select(&registry, &options, &selection, &err) != KVC_OK)
        snprintf(text, sizeof(text), "error %s: %s: %s", kvc_status_name(err.status), err.where,
                 err.what);
    for (size_t i = 0; i < selection.count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, selection.items[i]->id);
    }
    kvc_selection_clear(&selection);
    kvc_patterns_clear(&options.select);
    kvc_patterns_clear(&options.skip);
    return text;
}

Test(select, everything_sorted)
{
    cr_assert_str_eq(selected(NULL, NULL, KVC_LEVEL_OBSERVED),
                     "data/round-trip/engine_driven data/round-trip/engine_driven_inline "
                     "framing/echo-uid/a framing/echo-uid/b framing/pipelined");
}

Test(select, select_and_skip)
{
    cr_assert_str_eq(selected("framing/*", "**/b", KVC_LEVEL_OBSERVED),
                     "framing/echo-uid/a framing/pipelined");
}

Test(select, levels)
{
    cr_assert_str_eq(selected(NULL, NULL, KVC_LEVEL_MUST), "framing/echo-uid/a framing/echo-uid/b");
    cr_assert_str_eq(selected("framing", "**/echo-uid", KVC_LEVEL_SHOULD), "framing/pipelined");
}

Test(select, no_match_names_the_nearest)
{
    cr_assert_str_eq(selected("framing/eco-uid", NULL, KVC_LEVEL_OBSERVED),
                     "error usage: --select: no check matches 'framing/eco-uid'; nearest: "
                     "framing/echo-uid");
    cr_assert_str_eq(
        selected(NULL, "zzz/*", KVC_LEVEL_OBSERVED),
        "error usage: --skip: no check matches 'zzz/*'; `kvconform list` shows the ids");
}

Test(select, nothing_left)
{
    cr_assert_eq(strncmp(selected("framing/pipelined", NULL, KVC_LEVEL_MUST),
                         "error usage: : nothing is selected", 34),
                 0);
    cr_assert_eq(strncmp(selected(NULL, "**", KVC_LEVEL_OBSERVED), "error usage", 11), 0);
}

Test(select, file)
{
    char path[] = "/tmp/kvconform-test-XXXXXX", flag[64];
    const int fd = mkstemp(path);
    dprintf(fd, "# comment\n\n  framing/pipelined  # why\r\ndata/*\n");
    close(fd);
    snprintf(flag, sizeof(flag), "@%s", path);
    cr_assert_str_eq(selected(flag, "**/engine_driven", KVC_LEVEL_OBSERVED),
                     "data/round-trip/engine_driven_inline framing/pipelined");
    unlink(path);
}

Test(select, a_file_without_a_pattern_selects_nothing)
{
    static const char refused[] = "error usage: : nothing is selected";
    cr_assert_eq(
        strncmp(selected("@/dev/null", NULL, KVC_LEVEL_OBSERVED), refused, strlen(refused)), 0);
    cr_assert_str_eq(selected("framing/pipelined", "@/dev/null", KVC_LEVEL_OBSERVED),
                     "framing/pipelined");
}

Test(select, bad_pattern_arguments)
{
    struct kvc_patterns patterns = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_patterns_add(&patterns, "--select", "@/no/such", &err), KVC_EUSAGE);
    cr_assert_eq(err.status, KVC_EUSAGE);
    cr_assert_str_eq(err.where, "--select");
    cr_assert_not_null(strstr(err.what, "/no/such"));
    cr_assert_eq(kvc_patterns_add(&patterns, "--select", "@/tmp", &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "Is a directory"), "%s", err.what);
    cr_assert_eq(kvc_patterns_add(&patterns, "--skip", "", &err), KVC_EUSAGE);
    cr_assert_eq(patterns.count, 0);
    kvc_patterns_clear(&patterns);
}

Test(nearest, orders_by_distance)
{
    static const char *const names[] = {"decode", "record", "replay", "run"};
    struct kvc_buffer out = {0};
    kvc_nearest_append("recrd", names, KVC_COUNT_OF(names), &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "record");
    out.size = 0;
    kvc_nearest_append("rnu", names, KVC_COUNT_OF(names), &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "run");
    out.size = 0;
    kvc_nearest_append("xylophone", names, KVC_COUNT_OF(names), &out);
    cr_assert_eq(out.size, 0);
    kvc_buffer_clear(&out);
}

Test(nearest, a_part_of_a_name_is_near)
{
    static const char *const names[] = {"shared-memory", "inline"};
    struct kvc_buffer out = {0};
    kvc_nearest_append("memory", names, KVC_COUNT_OF(names), &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "shared-memory");
    kvc_buffer_clear(&out);
}

Test(nearest, at_most_three)
{
    static const char *const names[] = {"aaa1", "aaa2", "aaa3", "aaa4"};
    struct kvc_buffer out = {0};
    kvc_nearest_append("aaa", names, KVC_COUNT_OF(names), &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "aaa1, aaa2, aaa3");
    kvc_buffer_clear(&out);
}
