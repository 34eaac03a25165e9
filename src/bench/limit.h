/* `--fail-if 'warm_retrieve.p99 > 1.10'`: which ratio of new to old is a regression. For `compare`. */
#ifndef KVC_BENCH_LIMIT_H
#define KVC_BENCH_LIMIT_H

#include "src/base/bytes.h"

enum kvc_limit_relation { KVC_LIMIT_GT, KVC_LIMIT_GE, KVC_LIMIT_LT, KVC_LIMIT_LE };

struct kvc_limit {
    const char *text;         /* as given; operation and figure are views of it */
    struct kvc_str operation; /* * in it stands for any text */
    struct kvc_str figure;
    enum kvc_limit_relation relation;
    double ratio;
};

/* OPERATION.FIGURE, one of > >= < <=, RATIO. Spaces may stand between them. text must outlive the
 * limit. KVC_EUSAGE, with the place in where. */
kvc_status kvc_limit_parse(const char *text, struct kvc_limit *limit, struct kvc_error *err);

bool kvc_limit_is_about(const struct kvc_limit *limit, const char *operation, const char *figure);
/* Whether a ratio is beyond the limit. */
bool kvc_limit_breaks(const struct kvc_limit *limit, double ratio);
/* True for > and >=: the limit is on what grows. */
bool kvc_limit_is_upper(const struct kvc_limit *limit);

#endif
