#include "src/bench/noise.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/bytes.h"

static int compare_values(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;
    return (left > right) - (left < right);
}

struct kvc_spread kvc_spread_of(const double *values, size_t count)
{
    if (count == 0)
        return (struct kvc_spread){0};
    double *sorted = memcpy(kvc_alloc(count * sizeof(*sorted)), values, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare_values);
    const struct kvc_spread spread = {
        .median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2,
        .min = sorted[0],
        .max = sorted[count - 1],
    };
    free(sorted);
    return spread;
}

/* Twice the rank of a value among all: whole also where equal values share their ranks' mean. */
static size_t twice_rank(const double *sorted, size_t count, double value)
{
    size_t below = 0, equal = 0;
    for (size_t i = 0; i < count; i++) {
        below += sorted[i] < value;
        equal += sorted[i] == value;
    }
    return 2 * below + equal + 1;
}

/* deals[k][sum]: in how many ways k of the ranks seen so far can be chosen so that they add up to sum.
 * Their numbers pass 2^64, not what a double can tell to a few digits. */
static double share_of_deals(const size_t *ranks, size_t count, size_t chosen, size_t least_sum)
{
    size_t sums = 1;
    for (size_t i = 0; i < count; i++)
        sums += ranks[i];
    double *deals = kvc_alloc_zero((chosen + 1) * sums, sizeof(*deals));
    deals[0] = 1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i < chosen ? i + 1 : chosen; k > 0; k--)
            for (size_t sum = ranks[i]; sum < sums; sum++)
                deals[k * sums + sum] += deals[(k - 1) * sums + sum - ranks[i]];
    double all = 0, far = 0;
    for (size_t sum = 0; sum < sums; sum++) {
        all += deals[chosen * sums + sum];
        far += sum >= least_sum ? deals[chosen * sums + sum] : 0;
    }
    free(deals);
    return far / all;
}

double kvc_chance_of_higher(const double *low, size_t low_count, const double *high,
                            size_t high_count)
{
    double values[2 * KVC_NOISE_MAX_RUNS];
    size_t ranks[2 * KVC_NOISE_MAX_RUNS];
    const size_t count = low_count + high_count;
    memcpy(values, low, low_count * sizeof(*values));
    memcpy(values + low_count, high, high_count * sizeof(*values));
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        ranks[i] = twice_rank(values, count, values[i]);
        sum += i >= low_count ? ranks[i] : 0;
    }
    return share_of_deals(ranks, count, high_count, sum);
}

/* The chance of a whole separation, the smallest there is: one deal of all. */
static double smallest_chance(size_t low_count, size_t high_count)
{
    double chance = 1;
    for (size_t i = 1; i <= high_count; i++)
        chance *= (double)i / (double)(low_count + i);
    return chance;
}

bool kvc_is_beyond_noise(double chance, size_t low_count, size_t high_count)
{
    static const double enough = 1.0 / 20, rounding = 1e-9;
    const double smallest = smallest_chance(low_count, high_count);
    return chance <= (smallest > enough ? smallest : enough) + rounding;
}
