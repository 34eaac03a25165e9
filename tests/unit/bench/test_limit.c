#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/bench/limit.h"

Test(limit, parts)
{
    static const struct {
        const char *text, *operation, *figure;
        enum kvc_limit_relation relation;
        double ratio;
    } cases[] = {
        {"warm_retrieve.p99 > 1.10", "warm_retrieve", "p99", KVC_LIMIT_GT, 1.10},
        {"a.b>=1", "a", "b", KVC_LIMIT_GE, 1},
        {"  *.p99.9\t< .5 ", "*", "p99.9", KVC_LIMIT_LT, 0.5},
        {"cold_store.gb_per_s <= 0.95", "cold_store", "gb_per_s", KVC_LIMIT_LE, 0.95},
        {"gather/*/flashinfer-nhd/*.ratio<0.9", "gather/*/flashinfer-nhd/*", "ratio", KVC_LIMIT_LT,
         0.9},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_limit limit;
        cr_assert_eq(kvc_limit_parse(cases[i].text, &limit, NULL), KVC_OK, "case %zu", i);
        cr_assert(kvc_str_is(limit.operation, cases[i].operation), "case %zu", i);
        cr_assert(kvc_str_is(limit.figure, cases[i].figure), "case %zu", i);
        cr_assert_eq(limit.relation, cases[i].relation, "case %zu", i);
        cr_assert_float_eq(limit.ratio, cases[i].ratio, 0, "case %zu", i);
    }
}

/* Each refused at the character where it goes wrong, counted from 1. */
Test(limit, refused_with_the_place)
{
    static const struct {
        const char *text;
        size_t character;
    } cases[] = {
        {"", 1},
        {".p99 > 1", 1},
        {"Cold.p99 > 1", 1},
        {"a > 1", 2},
        {"a.", 3},
        {"a. > 1", 3},
        {"a.p99", 6},
        {"a.p99 = 1", 7},
        {"a.p99 >", 8},
        {"a.p99 > x", 9},
        {"a.p99 > -1", 9},
        {"a.p99 > 0", 9},
        {"a.p99 > inf", 9},
        {"a.p99 > 1e3", 9},
        {"a.p99 > 1.1.1", 9},
        {"a.p99 > 0x2", 9},
        {"a.p99 > 1 2", 11},
        {"a.p99 >> 1", 8},
        {"[a].p99 > 1", 1},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_limit limit;
        struct kvc_error err = KVC_ERROR_INIT;
        char place[64];
        snprintf(place, sizeof(place), ", character %zu", cases[i].character);
        cr_assert_eq(kvc_limit_parse(cases[i].text, &limit, &err), KVC_EUSAGE, "%s", cases[i].text);
        const size_t size = strlen(err.where), tail = strlen(place);
        cr_assert(size > tail && strcmp(err.where + size - tail, place) == 0, "%s: %s",
                  cases[i].text, err.where);
    }
}

Test(limit, breaks_on_its_own_side)
{
    static const struct {
        const char *text;
        bool below, at, above; /* for 0.9, 1 and 1.1 */
    } cases[] = {
        {"a.b > 1", false, false, true},
        {"a.b >= 1", false, true, true},
        {"a.b < 1", true, false, false},
        {"a.b <= 1", true, true, false},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_limit limit;
        kvc_limit_parse(cases[i].text, &limit, NULL);
        cr_assert_eq(kvc_limit_breaks(&limit, 0.9), cases[i].below, "%s", cases[i].text);
        cr_assert_eq(kvc_limit_breaks(&limit, 1), cases[i].at, "%s", cases[i].text);
        cr_assert_eq(kvc_limit_breaks(&limit, 1.1), cases[i].above, "%s", cases[i].text);
        cr_assert_eq(kvc_limit_is_upper(&limit), i < 2);
    }
}

Test(limit, any_operation)
{
    struct kvc_limit limit;
    kvc_limit_parse("*.p50 > 1", &limit, NULL);
    cr_assert(kvc_limit_is_about(&limit, "cold_store", "p50"));
    cr_assert_not(kvc_limit_is_about(&limit, "cold_store", "p5"));
    kvc_limit_parse("cold_store.p50 > 1", &limit, NULL);
    cr_assert(kvc_limit_is_about(&limit, "cold_store", "p50"));
    cr_assert_not(kvc_limit_is_about(&limit, "cold_lookup", "p50"));
}
