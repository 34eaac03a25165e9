/* Reports that were written as JSON, read back. For `compare`. */
#ifndef KVC_BENCH_SAVED_H
#define KVC_BENCH_SAVED_H

#include <jansson.h>

#include "src/base/bytes.h"

enum { KVC_SAVED_MAX_SIZE = 32 << 20 };

struct kvc_saved;

/* A bench's report in the form in which all benches are compared. */
struct kvc_saved_bench {
    json_t *config;     /* what was measured: what has to be equal on both sides */
    json_t *operations; /* objects by the operation's name: numbers by the figure's */
    bool valid;    /* false: the run failed or was cut short, and its figures are worth nothing */
    char why[400]; /* it is not valid */
};

/* One command whose reports are read. */
struct kvc_saved_kind {
    const char *name;            /* "bench server" */
    const char *marker, *marked; /* a member of its reports, and what it holds */
    const char *version;         /* the member with the version */
    json_int_t newest;           /* that is read */
    const char *limit;           /* of a bench, when the user gives none: what a regression is */
    const char
        *config_place; /* where a report has what `read` makes its config of: "metrics.config." */
    /* Fills what the caller clears, also after an error. KVC_EUSAGE names what is missing or wrong.
     * NULL: no bench. */
    kvc_status (*read)(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                       struct kvc_error *err);
};

/* Texts point into the report, and are clean (src/report/text.h) only when they are shown. */
struct kvc_saved {
    const char *path; /* the caller's */
    const struct kvc_saved_kind *kind;
    json_t *root;
    struct kvc_saved_bench bench; /* of benches */
};

/* Reads a file (or a pipe). KVC_EUSAGE when it cannot be read, is larger than KVC_SAVED_MAX_SIZE, is not
 * JSON, or is no report of a version that is known: the error's place is the file, and the line or the
 * member. */
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

/* ---- how each kind of bench is read ---- */

/* For those below: whether it is valid, and why not, from the places of true or false and of a verdict, and the first
 * problem (NULL or "": none is known). KVC_EUSAGE. */
kvc_status kvc_saved_read_verdict(const struct kvc_saved *saved, const char *valid_place,
                                  const char *verdict_place, const char *problem,
                                  struct kvc_saved_bench *bench, struct kvc_error *err);

kvc_status kvc_saved_read_server(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                 struct kvc_error *err);
kvc_status kvc_saved_read_engine(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                 struct kvc_error *err);
kvc_status kvc_saved_read_l2(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                             struct kvc_error *err);
kvc_status kvc_saved_read_transfer(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                   struct kvc_error *err);

#endif
