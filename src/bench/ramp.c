#include "src/bench/ramp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 32, MAX_HALVINGS = 10, DECIDING_TRIES = 2 };

/* The two rates that enclose the answer are close enough. */
static const double precision = 1.05;

static const struct {
    const char *name;
    double nanoseconds;
} units[] = {{"", 1e6}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/* ---- the limit ---- */

static bool read_figure(struct kvc_str text, struct kvc_ramp_limit *limit)
{
    if (text.size == 0 || text.size >= sizeof(limit->figure))
        return false;
    snprintf(limit->figure, sizeof(limit->figure), KVC_STR_FMT, KVC_STR_ARG(text));
    if (strcmp(limit->figure, "mean") == 0)
        return limit->share = -1, true;
    if (strcmp(limit->figure, "max") == 0)
        return limit->share = 2, true;
    char *end = NULL;
    const double percent = strtod(limit->figure + 1, &end);
    limit->share = percent / 100;
    return limit->figure[0] == 'p' && limit->figure[1] >= '0' && limit->figure[1] <= '9' &&
           *end == '\0' && percent <= 100;
}

static bool read_value(const char *text, struct kvc_ramp_limit *limit)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end == text || !(number > 0))
        return false;
    for (size_t i = 0; i < KVC_COUNT_OF(units); i++) {
        if (strcmp(end, units[i].name) == 0 && number * units[i].nanoseconds < 1e18) {
            limit->limit_ns = (int64_t)(number * units[i].nanoseconds);
            return limit->limit_ns > 0;
        }
    }
    return false;
}

kvc_status kvc_ramp_limit_parse(const char *text, struct kvc_ramp_limit *limit,
                                struct kvc_error *err)
{
    *limit = (struct kvc_ramp_limit){.text = text};
    const char *point = strchr(text, '.');
    const char *relation = strstr(text, "<=");
    if (point != NULL && relation != NULL && point < relation) {
        const char *figure_end = relation;
        while (figure_end > point + 1 && figure_end[-1] == ' ')
            figure_end--;
        limit->operation = (struct kvc_str){text, (size_t)(point - text)};
        const struct kvc_str figure = {point + 1, (size_t)(figure_end - point - 1)};
        if (read_figure(figure, limit) && read_value(relation + 2, limit))
            return KVC_OK;
    }
    kvc_fail(err, KVC_EUSAGE, "'%s' is no latency limit", text);
    return kvc_error_set_expected(
        err, "OPERATION.FIGURE<=VALUE, such as 'warm_retrieve.p99<=20ms'; FIGURE is p and a "
             "number, mean or max, VALUE in us, ms or s");
}

int64_t kvc_ramp_limit_figure(const struct kvc_ramp_limit *limit,
                              const struct kvc_histogram *latencies)
{
    if (limit->share < 0)
        return (int64_t)kvc_histogram_mean(latencies);
    return limit->share > 1 ? latencies->max : kvc_histogram_percentile(latencies, limit->share);
}

/* ---- the search ---- */

void kvc_ramp_start(struct kvc_ramp *ramp, double rate)
{
    *ramp = (struct kvc_ramp){.rate = rate};
}

bool kvc_ramp_decide(struct kvc_ramp *ramp, bool try_met, bool *rate_met)
{
    *(try_met ? &ramp->met : &ramp->not_met) += 1;
    /* A neighbour makes figures worse, never better: a first try that met the limit is enough. */
    *rate_met = ramp->not_met == 0 || ramp->met == DECIDING_TRIES;
    return *rate_met || ramp->not_met == DECIDING_TRIES;
}

bool kvc_ramp_go_on(struct kvc_ramp *ramp, bool rate_met)
{
    *(rate_met ? &ramp->highest_met : &ramp->lowest_not_met) = ramp->rate;
    ramp->steps++;
    ramp->met = ramp->not_met = 0;
    if (ramp->lowest_not_met <= 0)
        ramp->rate *= 2;
    else if (ramp->highest_met <= 0)
        ramp->rate /= 2;
    else
        ramp->rate = sqrt(ramp->highest_met * ramp->lowest_not_met);
    const bool found = ramp->highest_met > 0 && ramp->lowest_not_met > 0 &&
                       ramp->lowest_not_met <= precision * ramp->highest_met;
    const bool hopeless = ramp->highest_met <= 0 && ramp->steps > MAX_HALVINGS;
    return !found && !hopeless && ramp->steps < MAX_STEPS;
}
