/* Carries out a selection of checks on a target. For `run`. */
#ifndef KVC_RUN_RUNNER_H
#define KVC_RUN_RUNNER_H

#include "src/run/applies.h"
#include "src/run/expect.h"
#include "src/run/select.h"

enum {
    KVC_RUN_CHECK_LIMIT_MS = 30 * 1000,
    KVC_RUN_LIMIT_MS = 30 * 60 * 1000,
};

struct kvc_run_options {
    const struct kvc_registry *registry;
    const struct kvc_selection *selection;
    struct kvc_target *target; /* initialised, not started; stopped at the end */
    struct kvc_expectations *expectations;
    struct kvc_report *const *reports;
    size_t report_count;
    struct kvc_facts_options facts;
    struct kvc_applies_options applies;
    uint64_t seed;
    size_t jobs;            /* checks at the same time; 0: kvc_run_default_jobs */
    int64_t check_limit_ms; /* for checks that name no limit; 0: KVC_RUN_CHECK_LIMIT_MS */
    int64_t run_limit_ms;   /* 0: KVC_RUN_LIMIT_MS */
    uint32_t required;      /* enum kvc_need: what the server must have */
    size_t min_checks;      /* that must have been carried out */
    bool fail_fast;         /* the first unexpected outcome ends the run */
    const char *device;     /* for reports: the GPU that checks use; NULL or "": none */
    const char *trace_dir;  /* frames of failing checks go here; NULL: nowhere */
    const char *reproduce;  /* the command line without --select: "kvconform run --seed 7" */
};

/* Starts the target, finds out what it can do, runs the selection, reports, stops the target. Each
 * check is a child process; several run at a time unless they must be alone. SIGINT and SIGTERM end
 * the run in order: summary->interrupted, exit status 130 or 143. summary->exit_status is always set
 * (design section 2); a status other than KVC_OK is an error to print: the target could not be
 * started, or a report could not be written. Free the summary with kvc_summary_clear. */
kvc_status kvc_run(const struct kvc_run_options *options, struct kvc_summary *summary,
                   struct kvc_error *err);
void kvc_summary_clear(struct kvc_summary *summary);

/* Checks mostly wait for the server: several for each core. */
size_t kvc_run_default_jobs(void);

#endif
