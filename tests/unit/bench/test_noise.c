/* Expected chances: every deal counted with itertools.combinations and numpy's ranks, in Python. */
#include <criterion/criterion.h>

#include "src/base/bytes.h"
#include "src/bench/noise.h"

struct chance_case {
    double low[8], high[8];
    size_t low_count, high_count;
    double chance;
};

static const struct chance_case cases[] = {
    {{1}, {2}, 1, 1, 1.0 / 2},
    {{2}, {1}, 1, 1, 1},
    {{1, 2}, {3, 4}, 2, 2, 1.0 / 6},
    {{1, 2, 3}, {4, 5, 6}, 3, 3, 1.0 / 20},
    {{1, 2, 4}, {3, 5, 6}, 3, 3, 2.0 / 20},
    {{1, 2, 3}, {3, 4, 5}, 3, 3, 2.0 / 20},
    {{5, 5, 5}, {5, 5, 5}, 3, 3, 1},
    {{7.1, 7.3, 7.2, 7.6, 7.4}, {7.5, 7.8, 7.7, 7.9, 7.35}, 5, 5, 7.0 / 252},
    {{10, 11, 12, 13}, {14, 15, 16}, 4, 3, 1.0 / 35},
    {{1, 2, 2, 3}, {2, 3, 3, 4, 1}, 4, 5, 35.0 / 126},
    {{100, 101, 99, 98, 102, 100.5, 97, 103},
     {104, 99.5, 105, 106, 101.5, 107, 103.5, 108},
     8,
     8,
     45.0 / 12870},
};

Test(noise, chance_of_higher)
{
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        const struct chance_case *c = &cases[i];
        const double chance = kvc_chance_of_higher(c->low, c->low_count, c->high, c->high_count);
        cr_assert_float_eq(chance, c->chance, 1e-12, "case %zu: %.12f", i, chance);
    }
}

/* 1 of "64 choose 32" deals: math.comb(64, 32) = 1832624140942590534. */
Test(noise, as_many_runs_as_there_may_be)
{
    double low[KVC_NOISE_MAX_RUNS], high[KVC_NOISE_MAX_RUNS];
    for (size_t i = 0; i < KVC_NOISE_MAX_RUNS; i++) {
        low[i] = (double)i;
        high[i] = (double)(i + KVC_NOISE_MAX_RUNS);
    }
    const double chance = kvc_chance_of_higher(low, KVC_NOISE_MAX_RUNS, high, KVC_NOISE_MAX_RUNS);
    cr_assert_float_eq(chance * 1832624140942590534.0, 1, 1e-9);
}

Test(noise, one_in_twenty_is_enough)
{
    cr_assert(kvc_is_beyond_noise(1.0 / 20, 3, 3));
    cr_assert_not(kvc_is_beyond_noise(2.0 / 20, 3, 3));
    cr_assert(kvc_is_beyond_noise(7.0 / 252, 5, 5));
    cr_assert_not(kvc_is_beyond_noise(13.0 / 252, 5, 5));
}

Test(noise, too_few_runs_have_to_be_apart)
{
    cr_assert(kvc_is_beyond_noise(1.0 / 6, 2, 2));
    cr_assert_not(kvc_is_beyond_noise(2.0 / 6, 2, 2));
    cr_assert(kvc_is_beyond_noise(1.0 / 4, 1, 3));
    cr_assert(kvc_is_beyond_noise(1.0 / 4, 3, 1));
    cr_assert_not(kvc_is_beyond_noise(2.0 / 4, 3, 1));
}

/* numpy.median */
Test(noise, spread)
{
    static const struct {
        double values[4];
        size_t count;
        double median, min, max;
    } spreads[] = {
        {{3, 1, 2}, 3, 2, 1, 3},
        {{4, 1, 3, 2}, 4, 2.5, 1, 4},
        {{7.5}, 1, 7.5, 7.5, 7.5},
        {{2.5, 2.5, 9, 1}, 4, 2.5, 1, 9},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(spreads); i++) {
        const struct kvc_spread spread = kvc_spread_of(spreads[i].values, spreads[i].count);
        cr_assert_float_eq(spread.median, spreads[i].median, 0, "case %zu", i);
        cr_assert_float_eq(spread.min, spreads[i].min, 0, "case %zu", i);
        cr_assert_float_eq(spread.max, spreads[i].max, 0, "case %zu", i);
    }
    cr_assert_float_eq(kvc_spread_of(NULL, 0).median, 0, 0);
}
