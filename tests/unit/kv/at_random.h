/* Seeds and choices of the tests that draw their shapes. */
#ifndef KVC_TESTS_UNIT_KV_AT_RANDOM_H
#define KVC_TESTS_UNIT_KV_AT_RANDOM_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "src/base/clock.h"

/* The same on every run, unless KVC_TEST_SEED is a number, or "random". */
static inline uint64_t chosen_seed(void)
{
    const char *text = getenv("KVC_TEST_SEED");
    uint64_t seed = 1;
    if (text != NULL && strcmp(text, "random") == 0)
        cr_assert_eq(getrandom(&seed, sizeof(seed), 0), (ssize_t)sizeof(seed));
    else if (text != NULL)
        seed = strtoull(text, NULL, 0);
    return seed;
}

static inline int64_t pick(struct kvc_random *random, const int64_t *choices, size_t count)
{
    return choices[kvc_random_below(random, count)];
}

#endif
