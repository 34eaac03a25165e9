#include <criterion/criterion.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/kv/segment.h"
#include "src/run/context.h"

/* Runs a function as a check of its own; the verdict is in `verdict`. */
static struct kvc_verdict verdict;
static char log_text[64];

static struct kvc_facts facts;

static void run_instance(const struct kvc_instance *instance, uint64_t seed)
{
    facts.dialect = kvc_dialect_find(KVC_STR("0.5.5"));
    facts.rpc_url = "tcp://127.0.0.1:1";
    const struct kvc_ctx_options options = {
        .instance = instance, .facts = &facts, .seed = seed, .connect_timeout_ms = 100};
    kvc_verdict_clear(&verdict);
    kvc_ctx_run(&options, &verdict);
}

static void run(void (*func)(struct kvc_ctx *ctx))
{
    const struct kvc_check check = {.id = "a/b", .clause = "c", .run = func};
    const struct kvc_instance instance = {.check = &check, .id = (char *)"a/b"};
    run_instance(&instance, 1);
}

static const char *message(void)
{
    return kvc_buffer_text(&verdict.message);
}

static void expect_verdict(enum kvc_outcome outcome, const char *text, const char *expected,
                           const char *got)
{
    cr_assert_eq(verdict.outcome, outcome, "%s: %s", kvc_outcome_name(verdict.outcome), message());
    cr_assert_str_eq(message(), text);
    cr_assert_str_eq(kvc_buffer_text(&verdict.expected), expected);
    cr_assert_str_eq(kvc_buffer_text(&verdict.got), got);
}

/* ---- cleanups ---- */

static void log_word(void *word)
{
    strcat(log_text, word);
}

static void defer_three(struct kvc_ctx *ctx)
{
    kvc_ctx_defer(ctx, log_word, (char *)"a");
    kvc_ctx_defer(ctx, log_word, (char *)"b");
    kvc_ctx_defer(ctx, log_word, (char *)"c");
    kvc_ctx_fail(ctx, "failed with %d", 7);
}

Test(context, cleanups_run_last_first_after_a_failure)
{
    run(defer_three);
    expect_verdict(KVC_OUTCOME_FAIL, "failed with 7", "", "");
    cr_assert_str_eq(log_text, "cba");
}

/* ---- memory that a server takes away ---- */

static struct kvc_segment shared;

static void touch_shared(void *arg)
{
    (void)arg;
    strcat(log_text, "t");
    memset(shared.data, 1, shared.size);
    strcat(log_text, "never");
}

/* As a server does that has the name: the mapping stays, the memory behind it goes. */
static void lose_memory(struct kvc_ctx *ctx)
{
    char name[96];
    kvc_segment_name("test-", name, sizeof(name));
    cr_assert_eq(kvc_segment_create(name, 1 << 16, &shared, NULL), KVC_OK);
    const int fd = shm_open(name, O_RDWR, 0);
    cr_assert_eq(ftruncate(fd, 0), 0);
    close(fd);
    kvc_ctx_defer(ctx, log_word, (char *)"a");
    kvc_ctx_defer(ctx, touch_shared, NULL);
    memset(shared.data, 1, shared.size);
}

Test(context, a_segment_that_is_cut_off_is_a_failed_check)
{
    run(lose_memory);
    expect_verdict(
        KVC_OUTCOME_FAIL,
        "memory shared with the server is gone: a segment was cut off while it was in use", "", "");
    cr_assert_str_eq(log_text, "ta", "the cleanups run, and a second loss ends one only");
    kvc_segment_close(&shared);
}

static void fail_again(void *ctx)
{
    strcat(log_text, "x");
    kvc_ctx_fail(ctx, "second");
}

static void fail_twice(struct kvc_ctx *ctx)
{
    kvc_ctx_defer(ctx, log_word, (char *)"a");
    kvc_ctx_defer(ctx, fail_again, ctx);
    kvc_ctx_fail(ctx, "first");
}

Test(context, the_first_verdict_stands)
{
    run(fail_twice);
    expect_verdict(KVC_OUTCOME_FAIL, "first", "", "");
    cr_assert_str_eq(log_text, "xa");
}

static void pass_then_fail(struct kvc_ctx *ctx)
{
    kvc_ctx_defer(ctx, fail_again, ctx);
}

Test(context, a_cleanup_can_fail_a_check)
{
    run(pass_then_fail);
    expect_verdict(KVC_OUTCOME_FAIL, "second", "", "");
}

/* ---- verdicts ---- */

static void do_nothing(struct kvc_ctx *ctx)
{
    (void)ctx;
}

Test(context, a_check_that_returns_passes)
{
    run(do_nothing);
    expect_verdict(KVC_OUTCOME_PASS, "", "", "");
}

static void skip(struct kvc_ctx *ctx)
{
    kvc_ctx_note(ctx, "not shown");
    kvc_ctx_skip(ctx, "because %s", "so");
}

Test(context, skip)
{
    run(skip);
    expect_verdict(KVC_OUTCOME_SKIP, "because so", "", "");
    cr_assert_eq(verdict.details.size, 0);
}

static kvc_status status_of_error;

static void expect_error(struct kvc_ctx *ctx)
{
    struct kvc_error err;
    kvc_fail(&err, status_of_error, "it went wrong");
    kvc_error_set_where(&err, "there");
    kvc_error_set_expected(&err, "1");
    kvc_error_set_got(&err, "2");
    kvc_ctx_note(ctx, "note %d", 1);
    kvc_ctx_note(ctx, "note 2\n");
    kvc_expect_ok(ctx, "STORE", status_of_error, &err);
}

Test(context, errors_of_the_server_and_ours)
{
    static const struct {
        kvc_status status;
        enum kvc_outcome outcome;
    } rows[] = {
        {KVC_EFORMAT, KVC_OUTCOME_FAIL},   {KVC_ETIMEOUT, KVC_OUTCOME_FAIL},
        {KVC_EMISMATCH, KVC_OUTCOME_FAIL}, {KVC_ECONNECT, KVC_OUTCOME_FAIL},
        {KVC_ENOMEM, KVC_OUTCOME_ERROR},   {KVC_ESYSTEM, KVC_OUTCOME_ERROR},
        {KVC_EUSAGE, KVC_OUTCOME_ERROR},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        status_of_error = rows[i].status;
        run(expect_error);
        expect_verdict(rows[i].outcome, "STORE: there: it went wrong", "1", "2");
        cr_assert_str_eq(kvc_buffer_text(&verdict.details), "note 1\nnote 2\n");
    }
    status_of_error = KVC_OK;
    run(expect_error);
    cr_assert_eq(verdict.outcome, KVC_OUTCOME_PASS);
}

static void expect_int(struct kvc_ctx *ctx)
{
    kvc_expect_int(ctx, "same", 5, 5);
    kvc_expect_int(ctx, "count", -3, INT64_MAX);
}

static void expect_true(struct kvc_ctx *ctx)
{
    kvc_expect_true(ctx, "right", true);
    kvc_expect_false(ctx, "wrong", false);
    kvc_expect_true(ctx, "flag", false);
}

static void expect_false(struct kvc_ctx *ctx)
{
    kvc_expect_false(ctx, "flag", true);
}

static void expect_str(struct kvc_ctx *ctx)
{
    kvc_expect_str(ctx, "same", KVC_STR("x"), "x");
    kvc_expect_str(ctx, "name", KVC_STR("a\0\"b"), "OK");
}

static void expect_bytes(struct kvc_ctx *ctx)
{
    static const uint8_t got[40] = {[9] = 0xab, [10] = 1}, expected[12] = {0};
    kvc_expect_bytes(ctx, "same", (struct kvc_bytes){got, 9}, (struct kvc_bytes){expected, 9});
    kvc_expect_bytes(ctx, "bytes", (struct kvc_bytes){got, 12}, (struct kvc_bytes){expected, 12});
}

static void expect_shorter(struct kvc_ctx *ctx)
{
    static const uint8_t bytes[4] = {0};
    kvc_expect_bytes(ctx, "bytes", (struct kvc_bytes){bytes, 2}, (struct kvc_bytes){bytes, 4});
}

static void expect_condition(struct kvc_ctx *ctx)
{
    KVC_EXPECT(ctx, 1 + 1 == 2, "never");
    KVC_EXPECT(ctx, 1 + 1 == 3, "sum of %d", 2);
}

Test(context, comparisons)
{
    const struct {
        void (*func)(struct kvc_ctx *ctx);
        const char *message, *expected, *got;
    } rows[] = {
        {expect_int, "count", "9223372036854775807", "-3"},
        {expect_true, "flag", "true", "false"},
        {expect_false, "flag", "false", "true"},
        {expect_str, "name", "\"OK\"", "\"a\\x00\\x22b\""},
        {expect_bytes, "bytes", "12 bytes; from byte 9: 000000", "12 bytes; from byte 9: ab0100"},
        {expect_shorter, "bytes", "4 bytes; from byte 2: 0000", "2 bytes"},
        {expect_condition, "sum of 2", "", ""},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        run(rows[i].func);
        expect_verdict(KVC_OUTCOME_FAIL, rows[i].message, rows[i].expected, rows[i].got);
    }
}

/* ---- asking ---- */

static void ask_axes(struct kvc_ctx *ctx)
{
    kvc_expect_int(ctx, "path", kvc_ctx_path(ctx), KVC_PATH_LMCACHE_DRIVEN);
    kvc_expect_int(ctx, "layout", kvc_ctx_layout(ctx), KVC_LAYOUT_HND);
    kvc_expect_str(ctx, "dtype", kvc_str_of(kvc_ctx_dtype(ctx)->name), "float32");
    kvc_expect_true(ctx, "variant", kvc_ctx_variant_is(ctx, "two"));
    kvc_expect_false(ctx, "variant", kvc_ctx_variant_is(ctx, "one"));
    kvc_expect_true(ctx, "feature", kvc_ctx_has(ctx, KVC_FEATURE_KV_READERS));
    kvc_expect_false(ctx, "feature", kvc_ctx_has(ctx, KVC_FEATURE_CLEAR_FORCE));
    kvc_expect_true(ctx, "facts", kvc_ctx_facts(ctx)->dialect == facts.dialect);
    kvc_expect_true(ctx, "arena", kvc_arena_alloc(kvc_ctx_arena(ctx), 10) != NULL);
}

Test(context, axes)
{
    static const char *const dtypes[] = {"float32", NULL}, *const variants[] = {"two", NULL};
    const struct kvc_check check = {.id = "a/b",
                                    .clause = "c",
                                    .run = ask_axes,
                                    .paths = KVC_PATHS_ALL,
                                    .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_HND),
                                    .dtypes = dtypes,
                                    .variants = variants};
    const struct kvc_instance instance = {.check = &check,
                                          .id = (char *)"a/b",
                                          .path = KVC_PATH_LMCACHE_DRIVEN,
                                          .layout = KVC_LAYOUT_HND,
                                          .dtype = kvc_dtype_find(KVC_STR("float32")),
                                          .variant = "two"};
    run_instance(&instance, 1);
    expect_verdict(KVC_OUTCOME_PASS, "", "", "");
}

static void ask_path(struct kvc_ctx *ctx)
{
    kvc_ctx_path(ctx);
}

static void ask_layout(struct kvc_ctx *ctx)
{
    kvc_ctx_layout(ctx);
}

static void ask_dtype(struct kvc_ctx *ctx)
{
    kvc_ctx_dtype(ctx);
}

static void ask_variant(struct kvc_ctx *ctx)
{
    kvc_ctx_variant_is(ctx, "x");
}

Test(context, an_axis_that_is_not_declared_is_our_error)
{
    void (*const funcs[])(struct kvc_ctx *) = {ask_path, ask_layout, ask_dtype, ask_variant};
    for (size_t i = 0; i < KVC_COUNT_OF(funcs); i++) {
        run(funcs[i]);
        cr_assert_eq(verdict.outcome, KVC_OUTCOME_ERROR);
        cr_assert_not_null(strstr(message(), "no such axis"));
    }
}

static uint64_t drawn;

static void draw(struct kvc_ctx *ctx)
{
    drawn = kvc_random_next(kvc_ctx_random(ctx)) ^ kvc_ctx_seed(ctx);
}

static uint64_t draw_as(const char *id, uint64_t seed)
{
    const struct kvc_check check = {.id = id, .clause = "c", .run = draw};
    const struct kvc_instance instance = {.check = &check, .id = (char *)id};
    run_instance(&instance, seed);
    return drawn;
}

Test(context, draws_depend_on_seed_and_id_alone)
{
    cr_assert_eq(draw_as("a/b", 1), draw_as("a/b", 1));
    cr_assert_neq(draw_as("a/b", 1), draw_as("a/b", 2));
    cr_assert_neq(draw_as("a/b", 1), draw_as("a/c", 1));
}

static void connect_to_nobody(struct kvc_ctx *ctx)
{
    kvc_ctx_rpc(ctx);
}

Test(context, nobody_there)
{
    run(connect_to_nobody);
    cr_assert_eq(verdict.outcome, KVC_OUTCOME_FAIL);
    cr_assert_eq(strncmp(message(), "connecting: ", 12), 0);
}
