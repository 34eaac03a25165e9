/* The flags of `kvconform run`, and what they mean. For run.c. */
#ifndef KVC_CLI_RUN_FLAGS_H
#define KVC_CLI_RUN_FLAGS_H

#include "src/cli/cli.h"
#include "src/run/runner.h"

struct run_flags {
    struct kvc_texts select, skip, require;
    const char *level, *transfer, *device;
    const char *client_dialect;
    const char *expect;
    bool update_expect, destructive, fail_fast, quiet, verbose;
    int64_t min_checks, jobs, check_limit_ms, run_limit_ms;
    uint64_t seed;
    const char *junit, *json, *html, *trace, *color;
};

/* The options by the headings of the help, to be filled into these two. */
enum { KVC_RUN_GROUP_COUNT = 4 };
void kvc_run_flags_groups(struct run_flags *flags, struct kvc_target_flags *target_flags,
                          struct kvc_option_group groups[KVC_RUN_GROUP_COUNT]);

/* Which instances --select, --skip and --level leave. */
kvc_status kvc_run_flags_select(const struct run_flags *flags, const struct kvc_registry *registry,
                                struct kvc_selection *selection, struct kvc_error *err);

/* Texts that resolved options point to. */
struct kvc_run_texts {
    char paths_reason[200];
    char cuda_skip[200];
    char device[120];
};
/* Fills required, facts.client and applies from --require, --client-dialect, --transfer (and the
 * environment), --device, --destructive. */
kvc_status kvc_run_flags_resolve(const struct run_flags *flags, struct kvc_run_options *options,
                                 struct kvc_run_texts *texts, struct kvc_error *err);
/* The command line that repeats this run, without --select; the caller frees it. */
char *kvc_run_flags_reproduce(const struct run_flags *flags,
                              const struct kvc_target_flags *target_flags);

#endif
