/* What a report that is written at the end keeps until then: the run's description and every result,
 * copied. For junit and json. */
#ifndef KVC_REPORT_KEPT_H
#define KVC_REPORT_KEPT_H

#include "src/run/outcome.h"

/* A run's description that outlives the call that gave it. Texts are owned. */
struct kvc_kept_run {
    struct kvc_run_info info;
    struct kvc_arena arena;
    struct kvc_result *results;
    size_t count;
};

void kvc_kept_begin(struct kvc_kept_run *kept, const struct kvc_run_info *info);
void kvc_kept_add(struct kvc_kept_run *kept, const struct kvc_result *result);
/* By id, whatever the order in which they came. */
void kvc_kept_sort(struct kvc_kept_run *kept);
void kvc_kept_clear(struct kvc_kept_run *kept);

#endif
