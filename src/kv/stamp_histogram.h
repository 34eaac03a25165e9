/* What wrong elements hold, all of them: how many hold what. For the stamp files of kv only. */
#ifndef KVC_KV_STAMP_HISTOGRAM_H
#define KVC_KV_STAMP_HISTOGRAM_H

#include "src/kv/stamp_origin.h"

/* In what the place that bytes belong to differs from the one where they are. */
enum {
    KVC_STAMP_SOURCE = 1,
    KVC_STAMP_GROUP = 2,
    KVC_STAMP_LAYER = 4,
    KVC_STAMP_KV = 8,
    KVC_STAMP_TOKEN = 16,
    KVC_STAMP_HEAD = 32,
    KVC_STAMP_CLASSES = 64,
};

/* Elements that differ in the same coordinates. */
struct kvc_stamp_class {
    int64_t count;
    struct kvc_stamp_origin from; /* of the first */
    struct kvc_stamp_place to;
    unsigned varied; /* coordinates in which not all went the way of the first */
};

/* Zero-initialise. */
struct kvc_stamp_histogram {
    struct kvc_stamp_class classes[KVC_STAMP_CLASSES];
    int64_t constants[256]; /* by the byte that they consist of */
    int64_t others;
};

/* Counts `count` elements of the place `to`: by their origin, which may be NULL, else by the byte that
 * they consist of, negative if there is none. */
void kvc_stamp_histogram_add(struct kvc_stamp_histogram *histogram,
                             const struct kvc_stamp_origin *origin, int byte,
                             const struct kvc_stamp_place *to, int64_t count);

/* Appends "3072 hold layer 3 where layer 4 belongs, 1024 hold poison 0x5a". */
void kvc_stamp_histogram_describe(const struct kvc_stamp_histogram *histogram,
                                  const struct kvc_stamp_search *search, struct kvc_buffer *out);

#endif
