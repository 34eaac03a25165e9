/* The child side of a run: one check, carried out in this process. For the runner, and for tests of
 * the asking and saying functions of check.h. */
#ifndef KVC_RUN_CONTEXT_H
#define KVC_RUN_CONTEXT_H

#include "src/run/verdict.h"

struct kvc_ctx_options {
    const struct kvc_instance *instance;
    const struct kvc_facts *facts;
    const struct kvc_target_setup *setup; /* of the server */
    uint64_t seed;                        /* the run's */
    int64_t connect_timeout_ms;           /* for kvc_ctx_rpc */
    int control_fd;                       /* to ask the runner; 0: there is none */
    const char *trace_path;               /* a failing check's frames go here; NULL: nowhere */
};

/* Runs the check and everything it deferred, closes its connections, and fills *verdict. Returns
 * however the check ends, unless the process dies. The caller clears *verdict. */
void kvc_ctx_run(const struct kvc_ctx_options *options, struct kvc_verdict *verdict);

#endif
