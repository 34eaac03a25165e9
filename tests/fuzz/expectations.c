/* Expectation files. What is read must be rewritten as a file that reads, with the lines that still
 * count and no other. */
#include <unistd.h>

#include "src/run/expect.h"
#include "tests/fuzz/fuzz.h"

static void nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

static const char *const letters[] = {"a", "b", "c", NULL};
static const struct kvc_check one = {.id = "f/one", .clause = "c", .run = nothing};
static const struct kvc_check three = {
    .id = "f/three", .clause = "c", .run = nothing, .variants = letters};
static const struct kvc_check other = {.id = "g/other", .clause = "c", .run = nothing};
static const struct kvc_check *const checks[] = {&one, &three, &other};

static const struct kvc_registry *registry_of_checks(void)
{
    static struct kvc_registry registry;
    if (registry.instance_count == 0)
        FUZZ_REQUIRE(kvc_registry_build(checks, KVC_COUNT_OF(checks), &registry, NULL) == KVC_OK);
    return &registry;
}

/* Every check ends as the line that counts for it expects. */
static void end_as_expected(struct kvc_expectations *expectations)
{
    const struct kvc_registry *registry = registry_of_checks();
    for (size_t i = 0; i < registry->instance_count; i++) {
        struct kvc_result result;
        const struct kvc_expectation *line =
            kvc_expect_find(expectations, registry->instances[i].id);
        kvc_result_init(&result, &registry->instances[i]);
        if (line == NULL)
            result.raw = KVC_OUTCOME_PASS;
        else if ((line->outcomes & KVC_EXPECTED_FAIL) != 0)
            result.raw = KVC_OUTCOME_FAIL;
        else if ((line->outcomes & KVC_EXPECTED_TIMEOUT) != 0)
            result.raw = KVC_OUTCOME_TIMEOUT;
        else if ((line->outcomes & KVC_EXPECTED_CRASH) != 0)
            result.raw = KVC_OUTCOME_CRASH;
        else
            result.raw = KVC_OUTCOME_SKIP;
        kvc_expect_judge(expectations, &result);
        FUZZ_REQUIRE(result.outcome == result.raw || result.outcome == KVC_OUTCOME_KNOWN);
        kvc_result_clear(&result);
    }
}

static size_t lines_that_count(const struct kvc_expectations *expectations)
{
    size_t count = 0;
    for (size_t i = 0; i < expectations->count; i++)
        count += expectations->lines[i].pattern == NULL || expectations->lines[i].matched > 0;
    return count;
}

void fuzz_one(struct kvc_bytes input)
{
    struct kvc_expectations expectations, again;
    struct kvc_error err = KVC_ERROR_INIT;
    const char *path = fuzz_file(input);
    if (kvc_expect_load(path, false, registry_of_checks(), &expectations, &err) == KVC_OK) {
        end_as_expected(&expectations);
        FUZZ_REQUIRE(kvc_expect_update(&expectations, NULL) == KVC_OK);
        FUZZ_REQUIRE(kvc_expect_load(path, false, registry_of_checks(), &again, NULL) == KVC_OK);
        FUZZ_REQUIRE(again.count == lines_that_count(&expectations));
        kvc_expect_clear(&again);
    } else {
        FUZZ_REQUIRE(err.status == KVC_EUSAGE && err.where[0] != '\0');
    }
    kvc_expect_clear(&expectations);
}
