/* What came of a check, and of a run. The runner fills these, the reports read them. */
#ifndef KVC_RUN_OUTCOME_H
#define KVC_RUN_OUTCOME_H

#include "src/run/check.h"

enum kvc_outcome {
    KVC_OUTCOME_PASS,
    KVC_OUTCOME_FAIL,
    KVC_OUTCOME_SKIP,
    KVC_OUTCOME_KNOWN,    /* failed as the expectation file says */
    KVC_OUTCOME_SURPRISE, /* passed though expected to fail */
    KVC_OUTCOME_TIMEOUT,  /* the check ran into its own limit */
    KVC_OUTCOME_CRASH,    /* the check's process died */
    KVC_OUTCOME_ERROR,    /* ours: a leak, a missing resource */
    KVC_OUTCOME_NOT_RUN, /* what it depends on failed, the server was lost, or the run was stopped */
    KVC_OUTCOME_COUNT,
};

const char *kvc_outcome_name(enum kvc_outcome outcome); /* "pass", …, "not-run" */

/* One check with one value for each of its axes. */
struct kvc_instance {
    const struct kvc_check *check;
    char *id; /* with axes */
    enum kvc_path path;
    enum kvc_layout layout;
    const struct kvc_dtype *dtype;
    const char *variant;
};

/* Texts are owned by the result, never NULL, possibly empty, and may hold any byte but NUL.
 * Free them with kvc_result_clear. */
struct kvc_result {
    const struct kvc_instance *instance;
    enum kvc_outcome outcome;
    enum kvc_outcome raw; /* before expectations: fail instead of known, pass instead of surprise */
    char *message;        /* one line: what went wrong, or why it was skipped */
    char *expected;
    char *got;
    char *details;   /* frames and bytes, many lines */
    char *reason;    /* from the expectation file */
    char *reproduce; /* the command line that runs this one check again */
    double seconds;
    bool server_died; /* a fresh client got no answer afterwards */
};

/* Makes every text empty. */
void kvc_result_init(struct kvc_result *result, const struct kvc_instance *instance);
void kvc_result_clear(struct kvc_result *result);
/* Replaces a text of a result. */
void kvc_result_set(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct kvc_run_info {
    const char *suite_version;
    const char *target; /* "mock", "launch", "attach" */
    const char *rpc_url;
    const char *dialect;
    const char *server_version; /* "" if unknown */
    const char *how;            /* how the dialect was found */
    const char *client; /* clients of this release can work with the server; NULL: nobody asked */
    const char *paths;  /* which transfer paths work and why the others do not */
    uint64_t seed;
    const char *started;        /* ISO 8601, UTC */
    const char *const *defects; /* of the mock; NULL-terminated or NULL */
    const char *device;         /* the GPU that checks used, or what stands in for one; "": none */
    bool stand_in;              /* the bundled mock was tested: says nothing about a real server */
};

struct kvc_summary {
    size_t total;
    size_t counts[KVC_OUTCOME_COUNT];
    double seconds;
    bool interrupted;
    bool target_lost;
    /* Expectation lines that matched no check, or only checks that passed. NULL-terminated. */
    char **stale_expectations;
    /* Why else the run is not as it should be: a required feature that is missing, too few checks, a
     * server that died without one check to blame. NULL-terminated. */
    char **problems;
    int exit_status; /* design section 2 */
};

/* Whether something unexpected came of a check: any bad end that no expectation covers, or a pass
 * that one rules out. */
bool kvc_summary_failed(const struct kvc_summary *summary);

/* A report format: one table of callbacks. Results come in the order in which checks end; `finish`
 * comes once, also after an interruption. Returns KVC_ESYSTEM when a file cannot be written. */
struct kvc_report;
struct kvc_report_ops {
    kvc_status (*begin)(struct kvc_report *report, const struct kvc_run_info *info, size_t total,
                        struct kvc_error *err);
    void (*started)(struct kvc_report *report, const struct kvc_instance *instance); /* or NULL */
    void (*result)(struct kvc_report *report, const struct kvc_result *result);
    /* A few times a second while nothing else happens; or NULL. */
    void (*tick)(struct kvc_report *report);
    kvc_status (*finish)(struct kvc_report *report, const struct kvc_summary *summary,
                         struct kvc_error *err);
    void (*free)(struct kvc_report *report);
};

struct kvc_report {
    const struct kvc_report_ops *ops;
};

#endif
