/* Looks up where bytes belong, for as many of them as were found wrong: an index by the key of a row
 * (stamp_plan.h). For the stamp files of kv only. */
#ifndef KVC_KV_STAMP_ORIGIN_H
#define KVC_KV_STAMP_ORIGIN_H

#include "src/kv/stamp_plan.h"
#include "src/kv/stamp_search.h"

/* Whose bytes they are, and where they belong; the element is not told. */
struct kvc_stamp_origin {
    size_t source; /* 0: the one that was checked for; i: the i-th of the others */
    struct kvc_stamp_place place;
};

struct kvc_stamp_origins;

/* The rows of what was checked and some before and behind it, of all sources; of very much data only
 * the first part. Freed with kvc_stamp_origins_close, which takes NULL. */
struct kvc_stamp_origins *kvc_stamp_origins_open(const struct kvc_stamp_search *search);
void kvc_stamp_origins_close(struct kvc_stamp_origins *origins);

/* row: as found in memory where a row of the plan's group belongs; the bytes at offset `at`, as many
 * as a word has, decide. False when nothing indexed has them there, or when rows are too short to be
 * told apart. */
bool kvc_stamp_origins_find(const struct kvc_stamp_origins *origins,
                            const struct kvc_stamp_plan *plan, const uint8_t *row, size_t at,
                            struct kvc_stamp_origin *origin);

#endif
