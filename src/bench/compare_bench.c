/* Benches: figure by figure, the ratio of the medians against what chance does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/compare_parts.h"
#include "src/run/nearest.h"

/* The valid ones of a side. */
struct valid_side {
    const struct kvc_saved *reports[KVC_NOISE_MAX_RUNS];
    size_t count;
};

struct benches {
    const struct kvc_compare_options *options;
    struct kvc_comparison *comparison;
    const struct kvc_limit *limits;
    size_t limit_count;
    struct valid_side old, new;
};

static bool is_latency(const char *figure)
{
    return strcmp(figure, "mean") == 0 || strcmp(figure, "min") == 0 ||
           strcmp(figure, "max") == 0 || (figure[0] == 'p' && figure[1] >= '0' && figure[1] <= '9');
}

/* The figures that are no latency. */
static const struct {
    const char *name, *unit;
    int direction;
} others[] = {
    {"tokens_per_second", "tokens/s", 1},
    {"tokens_per_second_mean", "tokens/s", 1},
    {"tokens_per_second_p50", "tokens/s", 1},
    {"tokens_per_second_p90", "tokens/s", 1},
    {"tokens_per_second_p99", "tokens/s", 1},
    {"requests_per_second", "requests/s", 1},
    {"keys_per_second", "keys/s", 1},
    {"megabytes_per_second", "MB/s", 1},
    {"gigabytes_per_second", "GB/s", 1},
    {"speed", "GB/s", 1},
    {"memcpy_share", "", 1},
    {"ratio", "", 1},
    {"best_gigabytes_per_second", "GB/s", 1},
    {"baseline_gigabytes_per_second", "GB/s", 0},
};

int kvc_figure_direction(const char *figure)
{
    for (size_t i = 0; i < KVC_COUNT_OF(others); i++)
        if (strcmp(figure, others[i].name) == 0)
            return others[i].direction;
    return is_latency(figure) ? -1 : 0;
}

const char *kvc_figure_unit(const char *figure)
{
    for (size_t i = 0; i < KVC_COUNT_OF(others); i++)
        if (strcmp(figure, others[i].name) == 0)
            return others[i].unit;
    return is_latency(figure) ? "ms" : "";
}

/* ---- which reports take part, and whether they measured the same ---- */

static kvc_status not_valid(const struct benches *benches, const struct kvc_saved *report,
                            struct kvc_error *err)
{
    if (benches->options->force) {
        kvc_compare_note(&benches->comparison->notes, "left out: %s, %s", report->path,
                         report->bench.why);
        return KVC_OK;
    }
    kvc_fail(err, KVC_EMISMATCH, "the run is %s; --force leaves it out", report->bench.why);
    return kvc_error_set_where(err, "%s", report->path);
}

static kvc_status take_valid(const struct benches *benches, const struct kvc_side *side,
                             const char *name, struct valid_side *valid, struct kvc_error *err)
{
    for (size_t i = 0; i < side->count; i++) {
        const struct kvc_saved *report = &side->reports[i];
        if (report->bench.valid)
            valid->reports[valid->count++] = report;
        else
            KVC_GUARD(not_valid(benches, report, err));
    }
    return valid->count > 0 ? KVC_OK : kvc_fail(err, KVC_EMISMATCH, "no %s run was valid", name);
}

/* Every member of the first configuration against the other's: called once each way round, so that
 * what only one of them has is seen, too. */
static kvc_status same_config(const struct benches *benches, const struct kvc_saved *report,
                              bool swapped, struct kvc_error *err)
{
    const struct kvc_saved *first = benches->old.reports[0];
    json_t *config = first->bench.config;
    json_t *other = report->bench.config;
    const char *name;
    json_t *value;
    json_object_foreach(swapped ? other : config, name, value)
    {
        char place[96];
        json_t *opposite = json_object_get(swapped ? config : other, name);
        if (swapped && opposite != NULL)
            continue;
        snprintf(place, sizeof(place), "%s%s", first->kind->config_place, name);
        KVC_GUARD(kvc_compare_same_member(
            first, swapped ? opposite : value, report, swapped ? value : opposite, place,
            benches->options->force, &benches->comparison->notes, err));
    }
    return KVC_OK;
}

static kvc_status has_operations(const struct benches *benches, const struct kvc_saved *from,
                                 const struct kvc_saved *in, struct kvc_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(from->bench.operations, name, value)
    {
        if (json_object_get(in->bench.operations, name) != NULL)
            continue;
        if (benches->options->force) {
            kvc_compare_note(&benches->comparison->notes, "%s is in %s and not in %s", name,
                             from->path, in->path);
            continue;
        }
        kvc_fail(err, KVC_EUSAGE, "has no '%s', which %s has; --force compares the others",
                 kvc_text_show(kvc_str_of(name)).text, from->path);
        return kvc_error_set_where(err, "%s", in->path);
    }
    return KVC_OK;
}

static kvc_status measured_the_same(const struct benches *benches, const struct valid_side *side,
                                    struct kvc_error *err)
{
    const struct kvc_saved *first = benches->old.reports[0];
    for (size_t i = 0; i < side->count; i++) {
        KVC_GUARD(same_config(benches, side->reports[i], false, err));
        KVC_GUARD(same_config(benches, side->reports[i], true, err));
        KVC_GUARD(has_operations(benches, first, side->reports[i], err));
        KVC_GUARD(has_operations(benches, side->reports[i], first, err));
    }
    return KVC_OK;
}

/* ---- one figure ---- */

/* The figure in every run of a side; false when one does not have it. */
static bool read_values(const struct valid_side *side, const char *operation, const char *figure,
                        double *values)
{
    for (size_t i = 0; i < side->count; i++) {
        const json_t *figures = json_object_get(side->reports[i]->bench.operations, operation);
        const json_t *value = json_object_get(figures, figure);
        if (!json_is_number(value))
            return false;
        values[i] = json_number_value(value);
    }
    return true;
}

static double ratio_of(double old, double new)
{
    return new == old ? 1 : old == 0 ? (double)INFINITY : new / old;
}

static enum kvc_verdict judge_direction(const char *figure, bool higher)
{
    const int direction = kvc_figure_direction(figure);
    if (direction == 0)
        return KVC_VERDICT_DIFFERS;
    return (direction > 0) == higher ? KVC_VERDICT_BETTER : KVC_VERDICT_WORSE;
}

struct values {
    double old[KVC_NOISE_MAX_RUNS], new[KVC_NOISE_MAX_RUNS];
    size_t old_count, new_count;
};

static double chance_of(const struct values *values, bool higher)
{
    return higher ? kvc_chance_of_higher(values->old, values->old_count, values->new,
                                         values->new_count)
                  : kvc_chance_of_higher(values->new, values->new_count, values->old,
                                         values->old_count);
}

static bool noise_is_known(const struct values *values)
{
    return values->old_count + values->new_count > 2;
}

static bool is_beyond_noise(const struct values *values, bool higher)
{
    return kvc_is_beyond_noise(chance_of(values, higher), values->old_count, values->new_count);
}

static void judge(const struct values *values, struct kvc_figure_change *change)
{
    const bool higher = change->new.median > change->old.median;
    change->chance = change->new.median == change->old.median ? 1 : chance_of(values, higher);
    if (change->new.median == change->old.median)
        change->verdict = KVC_VERDICT_SAME;
    else if (!noise_is_known(values))
        change->verdict = KVC_VERDICT_UNKNOWN;
    else if (!is_beyond_noise(values, higher))
        change->verdict = KVC_VERDICT_WITHIN;
    else
        change->verdict = judge_direction(change->figure, higher);
}

/* A ratio beyond a limit is a regression unless chance explains the difference. */
static void apply_limits(const struct benches *benches, const struct values *values,
                         struct kvc_figure_change *change)
{
    for (size_t i = 0; i < benches->limit_count; i++) {
        const struct kvc_limit *limit = &benches->limits[i];
        if (!kvc_limit_is_about(limit, change->operation, change->figure) ||
            !kvc_limit_breaks(limit, change->ratio) ||
            (noise_is_known(values) && !is_beyond_noise(values, kvc_limit_is_upper(limit))))
            continue;
        change->verdict = KVC_VERDICT_REGRESSION;
        change->broken = limit;
        benches->comparison->regression_count++;
        return;
    }
}

static void add_figure(struct benches *benches, const char *operation, const char *figure)
{
    struct kvc_comparison *comparison = benches->comparison;
    struct values values = {.old_count = benches->old.count, .new_count = benches->new.count};
    struct kvc_figure_change change = {.operation = operation, .figure = figure};
    if (!read_values(&benches->old, operation, figure, values.old) ||
        !read_values(&benches->new, operation, figure, values.new)) {
        kvc_compare_note(&comparison->notes, "%s.%s is not in every report", operation, figure);
        return;
    }
    change.old = kvc_spread_of(values.old, values.old_count);
    change.new = kvc_spread_of(values.new, values.new_count);
    change.ratio = ratio_of(change.old.median, change.new.median);
    judge(&values, &change);
    apply_limits(benches, &values, &change);
    comparison->figures = kvc_realloc(comparison->figures, (comparison->figure_count + 1) *
                                                               sizeof(*comparison->figures));
    comparison->figures[comparison->figure_count++] = change;
}

static void add_figures(struct benches *benches)
{
    const char *operation, *figure;
    json_t *figures, *value;
    json_object_foreach(benches->old.reports[0]->bench.operations, operation, figures)
    {
        json_object_foreach(figures, figure, value)
        {
            add_figure(benches, operation, figure);
        }
    }
}

static size_t count_figures_of(const struct kvc_comparison *comparison,
                               const struct kvc_limit *limit)
{
    size_t count = 0;
    for (size_t i = 0; i < comparison->figure_count; i++)
        count += kvc_limit_is_about(limit, comparison->figures[i].operation,
                                    comparison->figures[i].figure);
    return count;
}

static kvc_status no_such_figure(const struct kvc_comparison *comparison,
                                 const struct kvc_limit *limit, struct kvc_error *err)
{
    const size_t count = comparison->figure_count;
    char **names = kvc_alloc_zero(count + 1, sizeof(*names));
    for (size_t i = 0; i < count; i++)
        names[i] =
            kvc_format("%s.%s", comparison->figures[i].operation, comparison->figures[i].figure);
    char *wanted = kvc_format(KVC_STR_FMT "." KVC_STR_FMT, KVC_STR_ARG(limit->operation),
                              KVC_STR_ARG(limit->figure));
    struct kvc_buffer nearest = {0};
    kvc_nearest_append(wanted, (const char *const *)names, count, &nearest);
    kvc_fail(err, KVC_EUSAGE, "the reports have no figure '%s'%s%s", wanted,
             nearest.size > 0 ? "; nearest: " : "", kvc_buffer_text(&nearest));
    kvc_buffer_clear(&nearest);
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
    free(wanted);
    return kvc_error_set_where(err, "--fail-if '%s'", limit->text);
}

/* A limit that is about nothing would never fail: it is a slip of whoever wrote it. */
static kvc_status each_limit_is_about_something(const struct benches *benches,
                                                struct kvc_error *err)
{
    for (size_t i = 0; i < benches->options->limit_count; i++) {
        const struct kvc_limit *limit = &benches->limits[i];
        if (count_figures_of(benches->comparison, limit) == 0)
            return no_such_figure(benches->comparison, limit, err);
    }
    return KVC_OK;
}

/* What a difference may come from besides the server. */
static void note_surroundings(const struct benches *benches)
{
    static const struct {
        const char *place, *what;
    } texts[] = {
        {"suite_version", "version of kvconform"},
        {"machine.cpu", "processor"},
        {"machine.kernel", "kernel"},
        {"metrics.config.l2_adapter_json", "L2 adapter"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(texts); i++)
        kvc_compare_note_text(benches->old.reports[0], benches->new.reports[0], texts[i].place,
                              texts[i].what, &benches->comparison->notes);
}

kvc_status kvc_compare_benches(const struct kvc_compare_options *options,
                               struct kvc_comparison *comparison, struct kvc_error *err)
{
    struct benches benches = {.options = options,
                              .comparison = comparison,
                              .limits = options->limits,
                              .limit_count = options->limit_count};
    if (options->limit_count == 0) {
        KVC_GUARD(kvc_limit_parse(comparison->kind->limit, &comparison->usual_limit, err));
        benches.limits = &comparison->usual_limit;
        benches.limit_count = 1;
    }
    KVC_GUARD(take_valid(&benches, &options->old, "old", &benches.old, err));
    KVC_GUARD(take_valid(&benches, &options->new, "new", &benches.new, err));
    KVC_GUARD(measured_the_same(&benches, &benches.old, err));
    KVC_GUARD(measured_the_same(&benches, &benches.new, err));
    comparison->old_count = benches.old.count;
    comparison->new_count = benches.new.count;
    if (benches.old.count + benches.new.count == 2)
        kvc_compare_note(&comparison->notes, "one run each: how much runs differ by chance is "
                                             "unknown, and a limit decides alone");
    note_surroundings(&benches);
    add_figures(&benches);
    return each_limit_is_about_something(&benches, err);
}
