/* The search is followed by hand, against servers that are a formula. */
#include <criterion/criterion.h>

#include <string.h>

#include "src/bench/ramp.h"

Test(ramp_limit, what_a_user_may_write)
{
    static const struct {
        const char *text, *operation, *figure;
        double share;
        int64_t limit_ns;
    } cases[] = {
        {"warm_retrieve.p99<=20ms", "warm_retrieve", "p99", 0.99, 20000000},
        {"warm_retrieve.p99.9 <= 20", "warm_retrieve", "p99.9", 0.999, 20000000},
        {"cold_store.mean<=0.5s", "cold_store", "mean", -1, 500000000},
        {"cold_lookup.max<= 750us", "cold_lookup", "max", 2, 750000},
        {"x.p100<=1", "x", "p100", 1, 1000000},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kvc_ramp_limit limit;
        cr_assert_eq(kvc_ramp_limit_parse(cases[i].text, &limit, NULL), KVC_OK, "%s",
                     cases[i].text);
        cr_assert(kvc_str_is(limit.operation, cases[i].operation));
        cr_assert_str_eq(limit.figure, cases[i].figure);
        cr_assert_float_eq(limit.share, cases[i].share, 1e-12);
        cr_assert_eq(limit.limit_ns, cases[i].limit_ns);
    }
}

Test(ramp_limit, what_is_refused)
{
    static const char *const texts[] = {
        "",
        "p99<=20ms",
        "a.p99<20ms",
        "a.p99<=",
        "a.p99<=-1",
        "a.p99<=0",
        "a.p99<=1h",
        "a.q<=1",
        "a.p<=1",
        "a.p101<=1",
        "a.p-1<=1",
        "a.p99<=nan",
        "a.p99<=1e30",
        "a.<=1",
        "<=1.p99",
        "a.p9x<=1 ms",
        "a.p99<=20ms x",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct kvc_ramp_limit limit;
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_ramp_limit_parse(texts[i], &limit, &err), KVC_EUSAGE, "%s", texts[i]);
        cr_assert_neq(err.expected[0], '\0');
    }
}

Test(ramp_limit, figure_of_latencies)
{
    struct kvc_histogram latencies = {0};
    for (int64_t i = 1; i <= 100; i++)
        kvc_histogram_add(&latencies, i);
    struct kvc_ramp_limit limit = {.share = 0.99};
    cr_assert_eq(kvc_ramp_limit_figure(&limit, &latencies), 99);
    limit.share = -1;
    cr_assert_eq(kvc_ramp_limit_figure(&limit, &latencies), 50);
    limit.share = 2;
    cr_assert_eq(kvc_ramp_limit_figure(&limit, &latencies), 100);
    kvc_histogram_clear(&latencies);
}

Test(ramp, two_of_three_tries_decide)
{
    /* Tries that met the limit, or did not, until it was decided; and what was. */
    static const struct {
        const char *tries;
        bool met;
    } cases[] = {{"+", true}, {"--", false}, {"-++", true}, {"-+-", false}};
    struct kvc_ramp ramp;
    kvc_ramp_start(&ramp, 8);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *tries = cases[i].tries;
        bool met;
        for (size_t j = 0; tries[j] != '\0'; j++)
            cr_assert_eq(kvc_ramp_decide(&ramp, tries[j] == '+', &met), tries[j + 1] == '\0', "%s",
                         tries);
        cr_assert_eq(met, cases[i].met, "%s", tries);
        kvc_ramp_go_on(&ramp, met);
    }
}

/* A server that meets the limit up to `capacity`; every `noise`th try has a neighbour and does not
 * (0: none). */
static struct kvc_ramp search_beside(double first, double capacity, int noise)
{
    struct kvc_ramp ramp;
    int tries = 0;
    bool met;
    kvc_ramp_start(&ramp, first);
    do {
        do
            tries++;
        while (!kvc_ramp_decide(&ramp, ramp.rate <= capacity && (noise == 0 || tries % noise != 0),
                                &met));
        cr_assert_gt(ramp.rate, 0);
    } while (kvc_ramp_go_on(&ramp, met));
    return ramp;
}

static struct kvc_ramp search(double first, double capacity)
{
    return search_beside(first, capacity, 0);
}

Test(ramp, a_neighbour_does_not_end_the_search)
{
    for (int noise = 3; noise < 8; noise++) {
        const struct kvc_ramp ramp = search_beside(5, 100, noise);
        cr_assert_leq(ramp.highest_met, 100);
        cr_assert_gt(ramp.highest_met * 1.05, 100, "every %dth", noise);
    }
}

Test(ramp, finds_the_capacity_within_five_percent)
{
    static const double capacities[] = {0.3, 1, 7, 100, 12345.6};
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        const struct kvc_ramp ramp = search(5, capacities[i]);
        cr_assert_leq(ramp.highest_met, capacities[i]);
        cr_assert_gt(ramp.highest_met * 1.05, capacities[i], "%g for %g", ramp.highest_met,
                     capacities[i]);
    }
}

Test(ramp, gives_up_on_a_server_that_meets_no_rate)
{
    const struct kvc_ramp ramp = search(100, 0);
    cr_assert_float_eq(ramp.highest_met, 0, 0);
    cr_assert_leq(ramp.steps, 12);
}

Test(ramp, ends_with_a_server_that_meets_every_rate)
{
    const struct kvc_ramp ramp = search(1, 1e300);
    cr_assert_leq(ramp.steps, 40);
    cr_assert_gt(ramp.highest_met, 1e6);
}
