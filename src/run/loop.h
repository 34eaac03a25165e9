/* The event loop of a run: starts checks, listens to them, settles what came of them, and deals with
 * servers that die. For the runner. */
#ifndef KVC_RUN_LOOP_H
#define KVC_RUN_LOOP_H

#include "src/run/plan.h"

struct kvc_loop {
    const struct kvc_run_options *options;
    struct kvc_plan *plan;
    struct kvc_summary *summary; /* counts are kept here */
    int signal_fd;               /* SIGINT, SIGTERM, SIGHUP, SIGCHLD, which are blocked */
    int64_t deadline_ms;         /* of the whole run */
    size_t jobs, running;
    int stop_signal;            /* 0: none came */
    const char *stop_reason;    /* why nothing more is started; NULL: go on */
    struct kvc_buffer problems; /* lines */
};

/* Runs until every entry is done or the run is stopped; then every entry has been reported. */
void kvc_loop_run(struct kvc_loop *loop);

#endif
