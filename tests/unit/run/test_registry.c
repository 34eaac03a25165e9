#include <criterion/criterion.h>

#include <string.h>

#include "src/run/applies.h"
#include "src/run/registry.h"

static void nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

/* Builds a registry of some checks and gives back the error's text, or "" when it is accepted. */
static const char *refusal(const struct kvc_check *a, const struct kvc_check *b)
{
    static char text[512];
    const struct kvc_check *const checks[] = {a, NULL, b};
    struct kvc_registry registry;
    struct kvc_error err = KVC_ERROR_INIT;
    text[0] = '\0';
    if (kvc_registry_build(checks, b != NULL ? 3 : 2, &registry, &err) != KVC_OK)
        kvc_error_line(&err, text, sizeof(text));
    kvc_registry_clear(&registry);
    return text;
}

#define CHECK(...) (&(const struct kvc_check){.clause = "c", .run = nothing, __VA_ARGS__})

Test(registry, ids)
{
    static const char *const good[] = {"a/b", "framing/echo-uid", "data/utf-8-2"};
    static const char *const bad[] = {"",     "a",    "a/",     "/b",   "a/b/c", "A/b",
                                      "a/b_", "a/-b", "a/b--c", "a/b-", "a b/c", "a/b."};
    for (size_t i = 0; i < KVC_COUNT_OF(good); i++)
        cr_assert_str_eq(refusal(CHECK(.id = good[i]), NULL), "", "%s", good[i]);
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++)
        cr_assert_not_null(strstr(refusal(CHECK(.id = bad[i]), NULL), "kebab-case"), "%s", bad[i]);
}

Test(registry, wrong_declarations)
{
    static const char *const unknown[] = {"float17", NULL}, *const camel[] = {"OneTwo", NULL};
    static const char *const none[] = {NULL};
    const struct {
        const struct kvc_check *check;
        const char *word;
    } rows[] = {
        {&(const struct kvc_check){.id = "a/b", .run = nothing}, "no clause"},
        {&(const struct kvc_check){.id = "a/b", .clause = "c"}, "no function"},
        {CHECK(.id = "a/b", .first = "1.2.3"), "1.2.3"},
        {CHECK(.id = "a/b", .first = "0.5.6", .last = "0.5.1"), "newer than its last"},
        {CHECK(.id = "a/b", .dtypes = unknown), "float17"},
        {CHECK(.id = "a/b", .variants = camel), "OneTwo"},
        {CHECK(.id = "a/b", .variants = none), "no value"},
        {CHECK(.id = "a/b", .dtypes = none), "no value"},
        {CHECK(.id = "a/b", .paths = 1u << KVC_PATH_COUNT), "a bit"},
        {CHECK(.id = "a/b", .after = "a/c"), "no check"},
        {CHECK(.id = "a/b", .after = "a/b"), "after itself"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        cr_assert_not_null(strstr(refusal(rows[i].check, NULL), rows[i].word), "%s: %s",
                           rows[i].word, refusal(rows[i].check, NULL));
}

Test(registry, two_checks_with_one_id)
{
    cr_assert_str_eq(refusal(CHECK(.id = "a/b"), CHECK(.id = "a/b")),
                     "check 'a/b': two checks have this id");
}

Test(registry, a_circle)
{
    cr_assert_not_null(strstr(
        refusal(CHECK(.id = "a/b", .after = "a/c"), CHECK(.id = "a/c", .after = "a/b")), "itself"));
}

Test(registry, axes_make_instances)
{
    static const char *const dtypes[] = {"float16", "bfloat16", NULL};
    static const char *const variants[] = {"one", "two", NULL};
    const struct kvc_check *const checks[] = {
        CHECK(.id = "b/all",
              .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_MLA) | KVC_LAYOUT_BIT(KVC_LAYOUT_NHD),
              .dtypes = dtypes, .paths = KVC_PATHS_ENGINE_DRIVEN, .variants = variants),
        CHECK(.id = "a/none"),
    };
    struct kvc_registry registry;
    cr_assert_eq(kvc_registry_build(checks, 2, &registry, NULL), KVC_OK);
    cr_assert_eq(registry.check_count, 2);
    cr_assert_eq(registry.instance_count, 1 + 2 * 2 * 2 * 2);
    cr_assert_str_eq(registry.checks[0]->id, "a/none");
    cr_assert_str_eq(registry.instances[0].id, "a/none");
    cr_assert_str_eq(registry.instances[1].id, "b/all/mla/bf16/engine_driven/one");
    cr_assert_str_eq(registry.instances[16].id, "b/all/nhd/f16/engine_driven_inline/two");
    const struct kvc_instance *last = &registry.instances[16];
    cr_assert_eq(last->layout, KVC_LAYOUT_NHD);
    cr_assert_eq(last->path, KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_str_eq(last->dtype->name, "float16");
    cr_assert_str_eq(last->variant, "two");
    for (size_t i = 1; i < registry.instance_count; i++)
        cr_assert_lt(strcmp(registry.instances[i - 1].id, registry.instances[i].id), 0);
    cr_assert_eq(kvc_registry_find(&registry, "b/all"), checks[0]);
    cr_assert_null(kvc_registry_find(&registry, "b/al"));
    kvc_registry_clear(&registry);
}

Test(registry, a_program_without_checks)
{
    struct kvc_registry registry;
    cr_assert_eq(kvc_registry_load(&registry, NULL), KVC_OK);
    cr_assert_eq(registry.instance_count, 0);
    cr_assert_null(kvc_registry_find(&registry, "a/b"));
    kvc_registry_clear(&registry);
}

/* ---- whether an instance can run ---- */

static const struct kvc_target_ops mine = {.name = "mock", .can_restart = true, .is_private = true};
static const struct kvc_target_ops theirs = {.name = "attach"};

/* Why the check cannot run on a 0.5.3 server that offers a pool; "" when it can. */
static const char *skip_reason(const struct kvc_check *check, enum kvc_path path,
                               const struct kvc_target_ops *ops, bool destructive)
{
    static char text[256];
    const struct kvc_target target = {.ops = ops};
    const struct kvc_instance instance = {.check = check, .id = (char *)check->id, .path = path};
    const struct kvc_facts_record record = {
        .facts = {.dialect = kvc_dialect_find(KVC_STR("0.5.3")),
                  .paths = 1u << KVC_PATH_ENGINE_DRIVEN,
                  .offers_pool = true},
        .path_reasons = {[KVC_PATH_LMCACHE_DRIVEN] = "no answer"},
    };
    const struct kvc_applies_options options = {
        .destructive = destructive,
        .paths = 1u << KVC_PATH_ENGINE_DRIVEN | 1u << KVC_PATH_LMCACHE_DRIVEN,
        .paths_reason = "so asked",
    };
    struct kvc_buffer reason = {0};
    const bool applies = kvc_applies(&instance, &target, &record, &options, &reason);
    cr_assert_eq(applies, reason.size == 0);
    strcpy(text, kvc_buffer_text(&reason));
    kvc_buffer_clear(&reason);
    return text;
}

Test(applies, reasons)
{
    const struct {
        const struct kvc_check *check;
        enum kvc_path path;
        const char *reason;
    } rows[] = {
        {CHECK(.id = "a/b"), KVC_PATH_COUNT, ""},
        {CHECK(.id = "a/b", .first = "0.5.3", .last = "0.5.4"), KVC_PATH_COUNT, ""},
        {CHECK(.id = "a/b", .first = "0.5.5"), KVC_PATH_COUNT,
         "holds in dialects 0.5.5 and later; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .last = "0.5.2"), KVC_PATH_COUNT,
         "holds in dialects up to 0.5.2; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .first = "0.5.0", .last = "0.5.1"), KVC_PATH_COUNT,
         "holds in dialects up to 0.5.2; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .first = "0.5.6"), KVC_PATH_COUNT,
         "holds in dialects 0.5.6 only; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .first = "0.5.5", .features = KVC_FEATURE_CLEAR_FORCE), KVC_PATH_COUNT,
         "holds in dialects 0.5.6 only; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .last = "0.5.0", .features = KVC_FEATURE_CLEAR_FORCE), KVC_PATH_COUNT,
         "holds in dialects none; the server speaks 0.5.3"},
        {CHECK(.id = "a/b", .features = KVC_FEATURE_CLEAR_FORCE), KVC_PATH_COUNT,
         "dialect 0.5.3 lacks what the clause is about"},
        {CHECK(.id = "a/b", .needs = KVC_NEED_POOL), KVC_PATH_COUNT, ""},
        {CHECK(.id = "a/b", .needs = KVC_NEED_POOL | KVC_NEED_HTTP), KVC_PATH_COUNT,
         "needs an HTTP address on which the server answers"},
        {CHECK(.id = "a/b", .needs = KVC_NEED_NO_POOL), KVC_PATH_COUNT,
         "needs a server that offers no shared-memory pool"},
        {CHECK(.id = "a/b", .needs = KVC_NEED_ENGINE_DRIVEN), KVC_PATH_COUNT, ""},
        {CHECK(.id = "a/b", .paths = KVC_PATHS_ALL), KVC_PATH_ENGINE_DRIVEN, ""},
        {CHECK(.id = "a/b", .paths = KVC_PATHS_ALL), KVC_PATH_LMCACHE_DRIVEN,
         "path lmcache_driven does not work on this server: no answer"},
        {CHECK(.id = "a/b", .paths = KVC_PATHS_ALL), KVC_PATH_ENGINE_DRIVEN_INLINE,
         "path engine_driven_inline left out: so asked"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        cr_assert_str_eq(skip_reason(rows[i].check, rows[i].path, &mine, false), rows[i].reason);
}

Test(applies, destructive_checks)
{
    const struct kvc_check *check = CHECK(.id = "a/b", .flags = KVC_FLAG_DESTRUCTIVE);
    cr_assert_str_eq(skip_reason(check, KVC_PATH_COUNT, &mine, false), "");
    cr_assert_str_eq(skip_reason(check, KVC_PATH_COUNT, &theirs, true), "");
    cr_assert_not_null(strstr(skip_reason(check, KVC_PATH_COUNT, &theirs, false), "--destructive"));
}

Test(applies, restart)
{
    const struct kvc_check *check = CHECK(.id = "a/b", .needs = KVC_NEED_RESTART);
    cr_assert_str_eq(skip_reason(check, KVC_PATH_COUNT, &mine, false), "");
    cr_assert_not_null(strstr(skip_reason(check, KVC_PATH_COUNT, &theirs, false), "start again"));
}

Test(facts, block_size)
{
    static const struct {
        int64_t chunk, block;
    } rows[] = {{256, 16}, {64, 16}, {48, 8}, {16, 4}, {4, 1}, {1, 1}, {100, 4}, {7, 1}};
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        cr_assert_eq(kvc_facts_block_size(rows[i].chunk), rows[i].block, "chunk %lld",
                     (long long)rows[i].chunk);
}
