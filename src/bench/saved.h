/* Reports that were written as JSON, read back. For `compare`. */
#ifndef KVC_BENCH_SAVED_H
#define KVC_BENCH_SAVED_H

#include <jansson.h>

#include "src/base/bytes.h"

enum kvc_saved_kind {
    KVC_SAVED_BENCH, /* kvconform bench server --format json */
    KVC_SAVED_RUN,   /* kvconform run --json */
};

enum { KVC_SAVED_MAX_SIZE = 32 << 20 };

/* Texts point into root, and are clean (src/report/text.h) only when they are shown. */
struct kvc_saved {
    const char *path; /* the caller's */
    enum kvc_saved_kind kind;
    json_t *root;
};

/* Reads a file (or a pipe). KVC_EUSAGE when it cannot be read, is larger than KVC_SAVED_MAX_SIZE, is not
 * JSON, or is no report of a version that is known: the error's place is the file and the line. */
kvc_status kvc_saved_open(const char *path, struct kvc_saved *saved, struct kvc_error *err);
/* Safe for one that was zeroed. */
void kvc_saved_close(struct kvc_saved *saved);

/* What stands in a report at "metrics.results.valid", of the type that is wanted, in *value (borrowed).
 * KVC_EUSAGE when it is missing or of another type. */
kvc_status kvc_saved_get(const struct kvc_saved *saved, const char *place, json_type type,
                         json_t **value, struct kvc_error *err);
/* The text at a place; "" when there is none. */
const char *kvc_saved_text(const struct kvc_saved *saved, const char *place);
bool kvc_saved_is_true(const struct kvc_saved *saved, const char *place);

#endif
