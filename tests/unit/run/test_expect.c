#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/run/expect.h"

static void nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

static const char *const abc[] = {"a", "b", "c", NULL};
static const struct kvc_check one = {.id = "f/one", .clause = "c", .run = nothing};
static const struct kvc_check three = {
    .id = "f/three", .clause = "c", .run = nothing, .variants = abc};
static const struct kvc_check *const checks[] = {&one, &three};

static struct kvc_registry registry;
static struct kvc_expectations expectations;
static struct kvc_error err;
static char path[] = "/tmp/kvconform-expect-XXXXXX";

static void start(void)
{
    cr_assert_eq(kvc_registry_build(checks, 2, &registry, NULL), KVC_OK);
    close(mkstemp(path));
}

static void end(void)
{
    kvc_expect_clear(&expectations);
    kvc_registry_clear(&registry);
    unlink(path);
}

TestSuite(expect, .init = start, .fini = end);

static kvc_status load(const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    return kvc_expect_load(path, false, &registry, &expectations, &err);
}

/* Judges a result of the instance with this id; the outcome. */
static enum kvc_outcome judge(const char *id, enum kvc_outcome raw, bool died)
{
    for (size_t i = 0; i < registry.instance_count; i++) {
        if (strcmp(registry.instances[i].id, id) != 0)
            continue;
        struct kvc_result result;
        kvc_result_init(&result, &registry.instances[i]);
        result.raw = raw;
        result.server_died = died;
        kvc_expect_judge(&expectations, &result);
        const enum kvc_outcome outcome = result.outcome;
        kvc_result_clear(&result);
        return outcome;
    }
    cr_assert_fail("no instance %s", id);
    return KVC_OUTCOME_COUNT;
}

/* The stale lines, joined by newlines. */
static const char *stale(void)
{
    static char text[1024];
    text[0] = '\0';
    char **lines = kvc_expect_stale(&expectations);
    for (size_t i = 0; lines[i] != NULL; i++) {
        strcat(text, i > 0 ? "\n" : "");
        strcat(text, lines[i] + strlen(path));
        free(lines[i]);
    }
    free(lines);
    return text;
}

static const char *updated(void)
{
    static char text[1024];
    cr_assert_eq(kvc_expect_update(&expectations, &err), KVC_OK);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

Test(expect, outcomes)
{
    cr_assert_eq(load("f/one fail|timeout # why\nf/three crash # why\nf/three/b dies # why\n"),
                 KVC_OK);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_FAIL, false), KVC_OUTCOME_KNOWN);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_TIMEOUT, false), KVC_OUTCOME_KNOWN);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_CRASH, false), KVC_OUTCOME_CRASH);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_FAIL, true), KVC_OUTCOME_FAIL);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_PASS, false), KVC_OUTCOME_SURPRISE);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_SKIP, false), KVC_OUTCOME_SKIP);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_ERROR, false), KVC_OUTCOME_ERROR);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_NOT_RUN, false), KVC_OUTCOME_NOT_RUN);
    cr_assert_eq(judge("f/three/a", KVC_OUTCOME_CRASH, false), KVC_OUTCOME_KNOWN);
    cr_assert_eq(judge("f/three/b", KVC_OUTCOME_CRASH, false), KVC_OUTCOME_CRASH);
    cr_assert_eq(judge("f/three/b", KVC_OUTCOME_FAIL, true), KVC_OUTCOME_KNOWN);
}

Test(expect, without_a_file)
{
    cr_assert_eq(judge("f/one", KVC_OUTCOME_FAIL, false), KVC_OUTCOME_FAIL);
    cr_assert_eq(judge("f/one", KVC_OUTCOME_PASS, false), KVC_OUTCOME_PASS);
    cr_assert_str_eq(stale(), "");
}

Test(expect, bad_lines)
{
    static const struct {
        const char *text, *line, *word;
    } rows[] = {
        {"f/one\n", ":1", "no outcome"},
        {"\n# c\nf/one # why\n", ":3", "no outcome"},
        {"f/one fail\n", ":1", "no reason"},
        {"f/one fail #  \n", ":1", "no reason"},
        {"f/one fail # ?\n", ":1", "no reason"},
        {"f/one fail why\n", ":1", "no reason"},
        {"f/one falls # why\n", ":1", "'falls' is no outcome"},
        {"f/one fail|| # why\n", ":1", "'' is no outcome"},
        {"f/one fail # a\nf/one crash # b\n", ":2", "already in line 1"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        cr_assert_eq(load(rows[i].text), KVC_EUSAGE, "%s", rows[i].text);
        cr_assert_str_eq(err.where + strlen(path), rows[i].line);
        cr_assert_not_null(strstr(err.what, rows[i].word), "%s: %s", rows[i].text, err.what);
        kvc_expect_clear(&expectations);
    }
}

Test(expect, a_file_that_is_not_there)
{
    cr_assert_eq(kvc_expect_load("/no/such", false, &registry, &expectations, &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "/no/such"));
    kvc_expect_clear(&expectations);
    unlink(path);
    cr_assert_eq(kvc_expect_load(path, true, &registry, &expectations, &err), KVC_OK);
}

Test(expect, what_is_no_file_or_cannot_be_replaced)
{
    static const struct {
        const char *path;
        bool to_rewrite;
        const char *word;
    } rows[] = {
        {"/tmp", false, "Is a directory"},    {"/tmp", true, "no plain file"},
        {"/dev/null", true, "no plain file"}, {"/no/such/x", true, "No such file"},
        {"", true, "No such file"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        cr_assert_eq(
            kvc_expect_load(rows[i].path, rows[i].to_rewrite, &registry, &expectations, &err),
            KVC_EUSAGE, "%s", rows[i].path);
        cr_assert_not_null(strstr(err.what, rows[i].word), "%s: %s", rows[i].path, err.what);
        kvc_expect_clear(&expectations);
    }
}

Test(expect, update_keeps_a_link)
{
    char target[] = "/tmp/kvconform-expect-XXXXXX";
    close(mkstemp(target));
    unlink(path);
    cr_assert_eq(symlink(target, path), 0);
    cr_assert_eq(load("f/one fail # a\n"), KVC_OK);
    kvc_expect_clear(&expectations);
    cr_assert_eq(kvc_expect_load(path, true, &registry, &expectations, &err), KVC_OK);
    judge("f/one", KVC_OUTCOME_TIMEOUT, false);
    cr_assert_str_eq(updated(), "f/one  timeout  # a\n");
    char there[sizeof(target)] = "";
    cr_assert_eq(readlink(path, there, sizeof(there)), (ssize_t)strlen(target));
    unlink(target);
}

Test(expect, stale_lines)
{
    cr_assert_eq(load("f/gone fail # a\nf/one fail # b\nf/three/* fail # c\n"), KVC_OK);
    /* Nothing ran: only what can never match is stale. */
    cr_assert_str_eq(stale(), ":1: 'f/gone' matches no check, or only checks that a later line is "
                              "for");
    judge("f/one", KVC_OUTCOME_PASS, false);
    judge("f/three/a", KVC_OUTCOME_PASS, false);
    judge("f/three/b", KVC_OUTCOME_FAIL, false);
    cr_assert_not_null(strstr(stale(), "\n:2: 'f/one' is expected to fail, and passed"));
    cr_assert_null(strstr(stale(), ":3:"));
}

Test(expect, skipped_checks_are_harmless)
{
    cr_assert_eq(load("f/one fail # b\n"), KVC_OK);
    judge("f/one", KVC_OUTCOME_SKIP, false);
    cr_assert_str_eq(stale(), "");
}

Test(expect, update_keeps_what_it_did_not_see)
{
    static const char text[] = "# head\n\n  f/one   fail   # b  c\nf/three skip # d\n";
    cr_assert_eq(load(text), KVC_OK);
    cr_assert_str_eq(updated(), text);
}

Test(expect, update_drops_changes_adds)
{
    cr_assert_eq(load("# head\nf/gone fail # old\nf/one fail # fixed\n"), KVC_OK);
    judge("f/one", KVC_OUTCOME_PASS, false);
    judge("f/three/a", KVC_OUTCOME_FAIL, false);
    judge("f/three/b", KVC_OUTCOME_TIMEOUT, true);
    judge("f/three/c", KVC_OUTCOME_PASS, false);
    cr_assert_str_eq(updated(), "# head\nf/three/a  fail  # ?\nf/three/b  dies  # ?\n");
}

Test(expect, update_changes_outcomes)
{
    cr_assert_eq(load("f/one fail # a\nf/three fail # b\n"), KVC_OK);
    judge("f/one", KVC_OUTCOME_TIMEOUT, false);
    judge("f/three/a", KVC_OUTCOME_CRASH, false); /* the others did not run: fail stays */
    cr_assert_str_eq(updated(), "f/one  timeout  # a\nf/three  fail|crash  # b\n");
}

Test(expect, update_splits_a_line)
{
    cr_assert_eq(load("f/three fail # b\n"), KVC_OK);
    judge("f/three/a", KVC_OUTCOME_FAIL, false);
    judge("f/three/b", KVC_OUTCOME_PASS, false);
    judge("f/three/c", KVC_OUTCOME_CRASH, false);
    cr_assert_str_eq(updated(), "f/three/a  fail  # b\nf/three/c  crash  # b\n");
}

Test(expect, update_fails_where_it_cannot_write)
{
    char folder[] = "/tmp/kvconform-expect-XXXXXX", file[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/x", folder);
    cr_assert_eq(kvc_expect_load(file, true, &registry, &expectations, &err), KVC_OK);
    rmdir(folder);
    cr_assert_eq(kvc_expect_update(&expectations, &err), KVC_ESYSTEM);
}
