#include <criterion/criterion.h>

#include "tests/unit/wire/samples.h"

/* What the releases themselves have. */
static const struct {
    const char *release;
    const char *name;
    int64_t id;
} golden[] = {
#include "tests/unit/wire/golden_operations.inc"
};

Test(dialect, ids_are_those_of_the_releases)
{
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        const struct kvc_dialect *dialect = sample_dialect(golden[i].release);
        const enum kvc_op op = kvc_op_by_name(kvc_str_of(golden[i].name));
        cr_assert_neq(op, KVC_OP_NONE, "%s is unknown", golden[i].name);
        cr_assert_eq(dialect->id[op], golden[i].id, "%s in %s", golden[i].name, golden[i].release);
        cr_assert(dialect->has[op]);
        cr_assert_eq(kvc_op_by_id(dialect, golden[i].id), op);
    }
}

static size_t count_ids(const struct kvc_dialect *dialect)
{
    size_t count = 0;
    for (int op = 0; op < KVC_OP_COUNT; op++)
        count += dialect->id[op] >= 0;
    return count;
}

Test(dialect, no_operation_has_an_id_that_the_release_lacks)
{
    const char *const releases[] = {"0.5.1", "0.5.6"};
    for (size_t r = 0; r < KVC_COUNT_OF(releases); r++) {
        size_t expected = 0;
        for (size_t i = 0; i < KVC_COUNT_OF(golden); i++)
            expected += kvc_str_is(kvc_str_of(golden[i].release), releases[r]);
        cr_assert_eq(count_ids(sample_dialect(releases[r])), expected, "%s", releases[r]);
    }
}

/* protocol.md 2: the columns without a package at hand, by their landmarks. */
Test(dialect, ids_between_the_two)
{
    static const struct {
        const char *release;
        enum kvc_op op;
        int id;
    } landmarks[] = {
        {"0.5.3", KVC_OP_REGISTER_Q_CACHE, 3},
        {"0.5.3", KVC_OP_STORE, 6},
        {"0.5.3", KVC_OP_NOOP, 24},
        {"0.5.3", KVC_OP_CB_REGISTER_KV_CACHE, 25},
        {"0.5.3", KVC_OP_CB_UNIFIED_LOOKUP, 36},
        {"0.5.3", KVC_OP_GET_EXPERIMENTAL, 40},
        {"0.5.5", KVC_OP_STORE, 6},
        {"0.5.5", KVC_OP_QUERY_PREFETCH_LOOKUP_HITS, 11},
        {"0.5.5", KVC_OP_CB_REGISTER_ROPE, 25},
        {"0.5.5", KVC_OP_GET_EXPERIMENTAL, 32},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(landmarks); i++)
        cr_assert_eq(sample_dialect(landmarks[i].release)->id[landmarks[i].op], landmarks[i].id,
                     "%s in %s", kvc_op_name(landmarks[i].op), landmarks[i].release);
    cr_assert_eq(count_ids(sample_dialect("0.5.3")), 40);
    cr_assert_eq(count_ids(sample_dialect("0.5.5")), 33);
}

Test(dialect, an_id_names_one_operation)
{
    for (size_t d = 0; d < kvc_dialect_count; d++)
        for (int op = 1; op < KVC_OP_COUNT; op++)
            if (kvc_dialects[d]->id[op] >= 0)
                cr_assert_eq((int)kvc_op_by_id(kvc_dialects[d], kvc_dialects[d]->id[op]), op,
                             "%s: %s", kvc_dialects[d]->name, kvc_op_name((enum kvc_op)op));
}

Test(dialect, some_operations_have_names_only)
{
    const enum kvc_op named[] = {KVC_OP_CB_REORDER_PLAN, KVC_OP_SUBSCRIBE_KV_EVENTS,
                                 KVC_OP_SERVER_MODULE_CALL};
    for (size_t i = 0; i < KVC_COUNT_OF(named); i++) {
        cr_assert(sample_dialect("0.5.6")->has[named[i]]);
        cr_assert_eq(sample_dialect("0.5.6")->id[named[i]], -1);
        cr_assert_not(sample_dialect("0.5.5")->has[named[i]]);
    }
}

Test(dialect, retired_and_absent_ids_name_nothing)
{
    cr_assert_eq(kvc_op_by_id(sample_dialect("0.5.6"), 11), KVC_OP_NONE);
    cr_assert_not(sample_dialect("0.5.6")->has[KVC_OP_QUERY_PREFETCH_LOOKUP_HITS]);
    cr_assert_eq(kvc_op_by_id(sample_dialect("0.5.1"), 0), KVC_OP_NONE);
    cr_assert_eq(kvc_op_by_id(sample_dialect("0.5.1"), -1), KVC_OP_NONE);
    cr_assert_eq(kvc_op_by_id(sample_dialect("0.5.1"), 37), KVC_OP_NONE);
    cr_assert_eq(kvc_op_by_id(sample_dialect("0.5.1"), INT64_MAX), KVC_OP_NONE);
    cr_assert_eq(kvc_op_by_name(KVC_STR("LOOKUP")), KVC_OP_NONE);
    cr_assert_eq(kvc_op_by_name(KVC_STR("")), KVC_OP_NONE);
}

Test(dialect, every_operation_has_a_name)
{
    for (int op = 1; op < KVC_OP_COUNT; op++)
        cr_assert_eq((int)kvc_op_by_name(kvc_str_of(kvc_op_name((enum kvc_op)op))), op);
    cr_assert_str_eq(kvc_op_name(KVC_OP_NONE), "none");
    cr_assert_str_eq(kvc_op_name(KVC_OP_COUNT), "none");
}

Test(dialect, releases_share_dialects)
{
    cr_assert_eq(sample_dialect("0.5.0"), sample_dialect("0.5.2"));
    cr_assert_eq(sample_dialect("0.5.3"), sample_dialect("0.5.4"));
    cr_assert_neq(sample_dialect("0.5.4"), sample_dialect("0.5.5"));
    cr_assert_str_eq(sample_dialect("0.5.4")->name, "0.5.3");
    cr_assert_eq(kvc_dialect_position(sample_dialect("0.5.1")), 0);
    cr_assert_eq(kvc_dialect_position(sample_dialect("0.5.6")), kvc_dialect_count - 1);
}

Test(dialect, suffixes_are_ignored)
{
    cr_assert_eq(kvc_dialect_find(KVC_STR("0.5.1-g979719d7")), sample_dialect("0.5.1"));
    cr_assert_eq(kvc_dialect_find(KVC_STR("0.5.6+cpu")), sample_dialect("0.5.6"));
    cr_assert_null(kvc_dialect_find(KVC_STR("0.5.60")));
    cr_assert_null(kvc_dialect_find(KVC_STR("0.5")));
    cr_assert_null(kvc_dialect_find(KVC_STR("0.4.7")));
    cr_assert_null(kvc_dialect_find(KVC_STR("")));
    cr_assert_null(kvc_dialect_find(KVC_STR("-0.5.1")));
}

Test(dialect, features_come_and_stay)
{
    const struct kvc_dialect *first = sample_dialect("0.5.0");
    const struct kvc_dialect *last = sample_dialect("0.5.6");
    cr_assert(kvc_dialect_has(first, KVC_FEATURE_HANDLE_PICKLE));
    cr_assert_not(kvc_dialect_has(last, KVC_FEATURE_HANDLE_PICKLE));
    cr_assert_not(kvc_dialect_has(first, KVC_FEATURE_KV_READERS));
    cr_assert(kvc_dialect_has(sample_dialect("0.5.5"), KVC_FEATURE_KV_READERS));
    cr_assert_not(kvc_dialect_has(sample_dialect("0.5.5"), KVC_FEATURE_CLEAR_FORCE));
    cr_assert(kvc_dialect_has(last, KVC_FEATURE_CLEAR_FORCE));
}
