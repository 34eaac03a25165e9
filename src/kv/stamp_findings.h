/* What a check of stamps found wrong, and the words for it. For the stamp files of kv only. */
#ifndef KVC_KV_STAMP_FINDINGS_H
#define KVC_KV_STAMP_FINDINGS_H

#include "src/kv/region.h"
#include "src/kv/stamp_histogram.h"
#include "src/kv/stamp_plan.h"
#include "src/kv/stamp_search.h"

/* A region of memory and where its bytes belong. */
struct kvc_stamp_site {
    struct kvc_region region;
    int64_t layer_kv;    /* layer x kv_size + kv */
    int64_t first_token; /* counted from the plan's first */
    int64_t block;       /* -1: in a chunk */
};

/* Zero-initialise all but search; kvc_stamp_findings_close frees. */
struct kvc_stamp_findings {
    const struct kvc_stamp_search *search;
    struct kvc_stamp_origins *origins; /* made when something is wrong */
    struct kvc_stamp_histogram histogram;
    int64_t total; /* elements */
    int64_t wrong;
    struct kvc_stamp_place first; /* the first wrong element */
    int64_t block;                /* where it is: the block, -1 in a chunk, and its slot there */
    int64_t slot;
    uint8_t held[KVC_STAMP_EVIDENCE]; /* that element and the wrong ones behind it in its row */
    size_t held_size;
};

/* Counts the wrong elements of a region, by what they hold, and takes down the first one. */
void kvc_stamp_findings_add(struct kvc_stamp_findings *findings, const struct kvc_stamp_plan *plan,
                            const struct kvc_stamp_site *site);
/* KVC_OK when there were none; else KVC_EMISMATCH with all of it said, as stamp.h has it. */
kvc_status kvc_stamp_findings_report(const struct kvc_stamp_findings *findings,
                                     struct kvc_error *err);
void kvc_stamp_findings_close(struct kvc_stamp_findings *findings);

#endif
