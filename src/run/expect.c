#include "src/run/expect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/run/select.h"

static const struct {
    const char *name;
    unsigned bit;
} outcome_names[] = {
    {"fail", KVC_EXPECTED_FAIL}, {"timeout", KVC_EXPECTED_TIMEOUT}, {"crash", KVC_EXPECTED_CRASH},
    {"dies", KVC_EXPECTED_DIES}, {"skip", KVC_EXPECTED_SKIP},
};

/* ---- reading ---- */

static unsigned outcome_bit(struct kvc_str name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(outcome_names); i++)
        if (kvc_str_is(name, outcome_names[i].name))
            return outcome_names[i].bit;
    return 0;
}

static kvc_status parse_outcomes(struct kvc_str text, unsigned *outcomes, struct kvc_error *err)
{
    while (true) {
        size_t size = 0;
        while (size < text.size && text.data[size] != '|')
            size++;
        const unsigned bit = outcome_bit((struct kvc_str){text.data, size});
        if (bit == 0)
            return kvc_fail(err, KVC_EUSAGE,
                            "'%.*s' is no outcome: write fail, timeout, crash, dies or skip, "
                            "several joined by |",
                            (int)size, text.data);
        *outcomes |= bit;
        if (size == text.size)
            return KVC_OK;
        text.data += size + 1;
        text.size -= size + 1;
    }
}

/* Cuts a word off the front. */
static struct kvc_str next_word(const char **text)
{
    *text += strspn(*text, " \t");
    const struct kvc_str word = {*text, strcspn(*text, " \t#")};
    *text += word.size;
    return word;
}

static kvc_status parse_line(struct kvc_expectation *line, struct kvc_error *err)
{
    const char *rest = line->text;
    const struct kvc_str pattern = next_word(&rest);
    if (pattern.size == 0)
        return KVC_OK; /* empty, or a comment */
    const struct kvc_str outcomes = next_word(&rest);
    if (outcomes.size == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "no outcome after '" KVC_STR_FMT "': write "
                        "ID OUTCOME # WHY",
                        KVC_STR_ARG(pattern));
    KVC_GUARD(parse_outcomes(outcomes, &line->outcomes, err));
    rest += strspn(rest, " \t");
    const char *reason = rest + strspn(rest, "# \t");
    if (rest[0] != '#' || reason[0] == '\0' || strcmp(reason, KVC_EXPECT_PLACEHOLDER) == 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "no reason: say after # why '" KVC_STR_FMT "' is expected "
                        "to %s, and where it was reported",
                        KVC_STR_ARG(pattern),
                        line->outcomes & KVC_EXPECTED_SKIP ? "be skipped" : "fail");
    line->pattern = kvc_format(KVC_STR_FMT, KVC_STR_ARG(pattern));
    line->reason = kvc_strdup(reason);
    return KVC_OK;
}

static kvc_status check_repeats(const struct kvc_expectations *expectations,
                                const struct kvc_expectation *line, struct kvc_error *err)
{
    for (size_t i = 0; line->pattern != NULL && i + 1 < expectations->count; i++) {
        const struct kvc_expectation *earlier = &expectations->lines[i];
        if (earlier->pattern != NULL && strcmp(earlier->pattern, line->pattern) == 0)
            return kvc_fail(err, KVC_EUSAGE, "'%s' is already in line %d", line->pattern,
                            earlier->line);
    }
    return KVC_OK;
}

static kvc_status add_line(struct kvc_expectations *expectations, char *text, struct kvc_error *err)
{
    text[strcspn(text, "\r\n")] = '\0';
    for (size_t size = strlen(text); size > 0 && strchr(" \t", text[size - 1]) != NULL; size--)
        text[size - 1] = '\0';
    expectations->lines = kvc_realloc(expectations->lines,
                                      (expectations->count + 1) * sizeof(expectations->lines[0]));
    struct kvc_expectation *line = &expectations->lines[expectations->count++];
    *line = (struct kvc_expectation){.line = (int)expectations->count, .text = kvc_strdup(text)};
    kvc_status status = parse_line(line, err);
    if (status == KVC_OK)
        status = check_repeats(expectations, line, err);
    if (status != KVC_OK)
        kvc_error_set_where(err, "%s:%d", expectations->path, line->line);
    return status;
}

static void count_matches(struct kvc_expectations *expectations,
                          const struct kvc_registry *registry)
{
    for (size_t i = 0; i < registry->instance_count; i++) {
        struct kvc_expectation *line = kvc_expect_find(expectations, registry->instances[i].id);
        if (line != NULL)
            line->matched++;
    }
}

static kvc_status cannot_read(const char *path, int code, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "cannot read the expectation file '%s': %s", path,
                    strerror(code));
}

/* What a link leads to, so that the link stays one; the caller frees it. */
static char *resolve(const char *path)
{
    char *target = realpath(path, NULL);
    return target != NULL ? target : kvc_strdup(path);
}

/* Whether a new file can be moved to its place, found out before the run and not after it. */
static kvc_status check_place(const char *path, struct kvc_error *err)
{
    struct stat there;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode))
        return kvc_fail(err, KVC_EUSAGE, "cannot rewrite '%s': it is no plain file", path);
    char *folder = resolve(path);
    char *name = strrchr(folder, '/');
    if (name == NULL)
        strcpy(folder, folder[0] == '\0' ? "" : ".");
    else
        name[name == folder] = '\0';
    const kvc_status status =
        access(folder, W_OK) == 0
            ? KVC_OK
            : kvc_fail(err, KVC_EUSAGE, "cannot write '%s': %s", path, strerror(errno));
    free(folder);
    return status;
}

kvc_status kvc_expect_load(const char *path, bool to_rewrite, const struct kvc_registry *registry,
                           struct kvc_expectations *expectations, struct kvc_error *err)
{
    *expectations = (struct kvc_expectations){.path = kvc_strdup(path)};
    if (to_rewrite)
        KVC_GUARD(check_place(path, err));
    FILE *file = fopen(path, "r");
    if (file == NULL && errno == ENOENT && to_rewrite)
        return KVC_OK;
    if (file == NULL)
        return cannot_read(path, errno, err);
    kvc_status status = KVC_OK;
    char *text = NULL;
    size_t capacity = 0;
    while (status == KVC_OK && getline(&text, &capacity, file) >= 0)
        status = add_line(expectations, text, err);
    if (status == KVC_OK && ferror(file)) /* a folder, for example */
        status = cannot_read(path, errno, err);
    free(text);
    fclose(file);
    if (status == KVC_OK)
        count_matches(expectations, registry);
    return status;
}

static void clear_seen(struct kvc_expect_seen_list *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->items[i].id);
    free(seen->items);
}

void kvc_expect_clear(struct kvc_expectations *expectations)
{
    for (size_t i = 0; i < expectations->count; i++) {
        free(expectations->lines[i].text);
        free(expectations->lines[i].pattern);
        free(expectations->lines[i].reason);
        clear_seen(&expectations->lines[i].seen);
    }
    clear_seen(&expectations->unexpected);
    free(expectations->lines);
    free(expectations->path);
    *expectations = (struct kvc_expectations){0};
}

/* ---- judging ---- */

struct kvc_expectation *kvc_expect_find(struct kvc_expectations *expectations, const char *id)
{
    for (size_t i = expectations->count; i > 0; i--) {
        struct kvc_expectation *line = &expectations->lines[i - 1];
        if (line->pattern != NULL && kvc_pattern_matches(line->pattern, id))
            return line;
    }
    return NULL;
}

/* The bit that would have to be expected; 0 when it passed. */
static unsigned observed_bit(const struct kvc_result *result)
{
    if (result->raw == KVC_OUTCOME_PASS)
        return 0;
    if (result->server_died)
        return KVC_EXPECTED_DIES;
    return result->raw == KVC_OUTCOME_FAIL      ? KVC_EXPECTED_FAIL
           : result->raw == KVC_OUTCOME_TIMEOUT ? KVC_EXPECTED_TIMEOUT
                                                : KVC_EXPECTED_CRASH;
}

static void remember(struct kvc_expect_seen_list *seen, const char *id, unsigned outcome)
{
    seen->items = kvc_realloc(seen->items, (seen->count + 1) * sizeof(seen->items[0]));
    seen->items[seen->count++] = (struct kvc_expect_seen){.id = kvc_strdup(id), .outcome = outcome};
}

static void append_outcomes(struct kvc_buffer *out, unsigned outcomes)
{
    const char *joint = "";
    for (size_t i = 0; i < KVC_COUNT_OF(outcome_names); i++) {
        if ((outcomes & outcome_names[i].bit) == 0)
            continue;
        kvc_buffer_printf(out, "%s%s", joint, outcome_names[i].name);
        joint = "|";
    }
}

/* What a line says of a result that did not come out as it says. */
static void tell_listed(const struct kvc_expectation *line, struct kvc_result *result)
{
    struct kvc_buffer outcomes = {0};
    append_outcomes(&outcomes, line->outcomes);
    kvc_result_set(&result->reason, "%s (line %d): %s", kvc_buffer_text(&outcomes), line->line,
                   line->reason);
    kvc_buffer_clear(&outcomes);
}

void kvc_expect_judge(struct kvc_expectations *expectations, struct kvc_result *result)
{
    result->outcome = result->raw;
    /* A check that was not carried out says nothing, and an error of ours is never expected. */
    if (result->raw != KVC_OUTCOME_PASS && result->raw != KVC_OUTCOME_FAIL &&
        result->raw != KVC_OUTCOME_TIMEOUT && result->raw != KVC_OUTCOME_CRASH)
        return;
    struct kvc_expectation *line = kvc_expect_find(expectations, result->instance->id);
    const unsigned observed = observed_bit(result);
    if (line == NULL) {
        if (observed != 0)
            remember(&expectations->unexpected, result->instance->id, observed);
        return;
    }
    remember(&line->seen, result->instance->id, observed);
    if ((line->outcomes & observed) != 0) {
        result->outcome = KVC_OUTCOME_KNOWN;
        kvc_result_set(&result->reason, "%s", line->reason);
        return;
    }
    if (observed == 0)
        result->outcome = KVC_OUTCOME_SURPRISE;
    tell_listed(line, result);
}

static size_t count_passed(const struct kvc_expect_seen_list *seen)
{
    size_t passed = 0;
    for (size_t i = 0; i < seen->count; i++)
        passed += seen->items[i].outcome == 0;
    return passed;
}

char **kvc_expect_stale(const struct kvc_expectations *expectations)
{
    char **texts = kvc_alloc_zero(expectations->count + 1, sizeof(texts[0]));
    size_t count = 0;
    for (size_t i = 0; i < expectations->count; i++) {
        const struct kvc_expectation *line = &expectations->lines[i];
        if (line->pattern == NULL)
            continue;
        if (line->matched == 0)
            texts[count++] = kvc_format("%s:%d: '%s' matches no check, or only checks that a later "
                                        "line is for",
                                        expectations->path, line->line, line->pattern);
        else if (line->seen.count > 0 && count_passed(&line->seen) == line->seen.count)
            texts[count++] = kvc_format("%s:%d: '%s' is expected to fail, and passed",
                                        expectations->path, line->line, line->pattern);
    }
    return texts;
}

/* ---- rewriting ---- */

static void append_entry(struct kvc_buffer *out, const char *pattern, unsigned outcomes,
                         const char *reason)
{
    kvc_buffer_printf(out, "%s  ", pattern);
    append_outcomes(out, outcomes);
    kvc_buffer_printf(out, "  # %s\n", reason);
}

static unsigned observed_outcomes(const struct kvc_expect_seen_list *seen)
{
    unsigned outcomes = 0;
    for (size_t i = 0; i < seen->count; i++)
        outcomes |= seen->items[i].outcome;
    return outcomes;
}

/* Several checks under one line of which some passed: each that failed gets its own. */
static void append_split(struct kvc_buffer *out, const struct kvc_expectation *line)
{
    for (size_t i = 0; i < line->seen.count; i++)
        if (line->seen.items[i].outcome != 0)
            append_entry(out, line->seen.items[i].id, line->seen.items[i].outcome, line->reason);
}

static void append_updated(struct kvc_buffer *out, const struct kvc_expectation *line)
{
    const bool complete = line->seen.count == line->matched;
    const size_t passed = count_passed(&line->seen);
    const unsigned observed = observed_outcomes(&line->seen);
    if (line->pattern == NULL || (line->matched > 0 && line->seen.count == 0))
        kvc_buffer_printf(out, "%s\n", line->text);
    else if (passed > 0 && complete)
        append_split(out, line);
    else if ((observed & ~line->outcomes) != 0)
        append_entry(out, line->pattern, complete ? observed : observed | line->outcomes,
                     line->reason);
    else if (line->matched > 0)
        kvc_buffer_printf(out, "%s\n", line->text);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct kvc_expect_seen *)a)->id, ((const struct kvc_expect_seen *)b)->id);
}

/* What came about in the order of a run would be another file each time. */
static void append_unexpected(struct kvc_buffer *text,
                              const struct kvc_expect_seen_list *unexpected)
{
    struct kvc_expect_seen *sorted = kvc_alloc_zero(unexpected->count, sizeof(*sorted));
    for (size_t i = 0; i < unexpected->count; i++)
        sorted[i] = unexpected->items[i];
    qsort(sorted, unexpected->count, sizeof(*sorted), by_id);
    for (size_t i = 0; i < unexpected->count; i++)
        append_entry(text, sorted[i].id, sorted[i].outcome, KVC_EXPECT_PLACEHOLDER);
    free(sorted);
}

kvc_status kvc_expect_update(const struct kvc_expectations *expectations, struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    for (size_t i = 0; i < expectations->count; i++)
        append_updated(&text, &expectations->lines[i]);
    append_unexpected(&text, &expectations->unexpected);
    char *target = resolve(expectations->path);
    char *temporary = kvc_format("%s.new", target);
    FILE *file = fopen(temporary, "w");
    bool written = file != NULL && fwrite(text.data, 1, text.size, file) == text.size;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    if (written)
        written = rename(temporary, target) == 0;
    const kvc_status status =
        written ? KVC_OK : kvc_fail_errno(err, "cannot write '%s'", expectations->path);
    if (!written)
        unlink(temporary);
    free(temporary);
    free(target);
    kvc_buffer_clear(&text);
    return status;
}
