/* Two sides of saved reports, old and new: what changed, and what of it counts. For `kvconform compare`. */
#ifndef KVC_BENCH_COMPARE_H
#define KVC_BENCH_COMPARE_H

#include "src/bench/limit.h"
#include "src/bench/noise.h"
#include "src/bench/saved.h"

/* Reports of one side. */
struct kvc_side {
    struct kvc_saved *reports;
    size_t count; /* at least 1, at most KVC_NOISE_MAX_RUNS */
};

struct kvc_compare_options {
    struct kvc_side old, new;
    const struct kvc_limit *limits; /* benches only; none: what their kind has */
    size_t limit_count;
    bool force; /* compare also what is different, and leave out what is not valid */
};

/* What a figure of a bench did. */
enum kvc_verdict {
    KVC_VERDICT_SAME,    /* the medians are equal */
    KVC_VERDICT_WITHIN,  /* they differ by no more than chance explains */
    KVC_VERDICT_UNKNOWN, /* they differ, and with one run each nobody knows what chance does */
    KVC_VERDICT_BETTER,
    KVC_VERDICT_WORSE,
    KVC_VERDICT_DIFFERS, /* beyond the noise, in a figure of which neither way is better */
    KVC_VERDICT_REGRESSION,
};

struct kvc_figure_change {
    const char *operation; /* views of the reports */
    const char *figure;
    struct kvc_spread old, new;
    double ratio;  /* of the medians; INFINITY when only the old one is 0 */
    double chance; /* of a difference as clear as this one; 1 for none */
    enum kvc_verdict verdict;
    const struct kvc_limit *broken; /* by a regression */
};

/* What a check did. */
enum kvc_change {
    KVC_CHANGE_WORSE,    /* unexpected now, not before; or passed before, and not carried out now */
    KVC_CHANGE_VANISHED, /* in no new report */
    KVC_CHANGE_BETTER,   /* unexpected before, not now */
    KVC_CHANGE_OTHER,
    KVC_CHANGE_APPEARED, /* in no old report */
    KVC_CHANGE_COUNT,
};

struct kvc_check_change {
    const char *id;
    enum kvc_change change;
    bool is_regression;
    unsigned old, new;   /* outcomes, a bit each: 1u << enum kvc_outcome */
    const char *message; /* of the new report; "" if it says nothing */
};

struct kvc_comparison {
    const struct kvc_saved_kind *kind;
    struct kvc_limit usual_limit; /* of the kind, when the options have none */
    size_t old_count, new_count;  /* reports that took part */
    struct kvc_figure_change *figures;
    size_t figure_count;
    struct kvc_check_change
        *checks; /* those that changed: regressions first, then by kind and id */
    size_t check_count;
    size_t same_count; /* checks that did not change */
    size_t regression_count;
    struct kvc_buffer notes; /* lines: what a reader should know besides */
};

/* Compares. KVC_EUSAGE: the sides cannot be compared, or a limit is about nothing that they have.
 * KVC_EMISMATCH: a run among them was not valid. The comparison holds views of the reports. */
kvc_status kvc_compare(const struct kvc_compare_options *options, struct kvc_comparison *comparison,
                       struct kvc_error *err);
void kvc_comparison_clear(struct kvc_comparison *comparison);

/* Whether smaller is better (-1), larger (1), or neither (0). */
int kvc_figure_direction(const char *figure);
const char *kvc_figure_unit(const char *figure); /* "ms"; "" if it has none */

const char *kvc_verdict_name(enum kvc_verdict verdict); /* "within noise", … */
const char *kvc_change_name(enum kvc_change change);    /* "worse", … */

/* The reports on a comparison, appended to out. `all`: every figure, and not only the usual ones and
 * those that a limit is about. */
void kvc_compare_write_text(const struct kvc_compare_options *options,
                            const struct kvc_comparison *comparison, bool all, bool markdown,
                            struct kvc_buffer *out);
/* docs/json.md describes it. */
void kvc_compare_write_json(const struct kvc_compare_options *options,
                            const struct kvc_comparison *comparison, struct kvc_buffer *out);

#endif
