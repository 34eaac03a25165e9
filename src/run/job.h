/* One check in a child process: started, listened to, ended, and told apart: pass, fail, timeout,
 * crash, leak. For the runner. */
#ifndef KVC_RUN_JOB_H
#define KVC_RUN_JOB_H

#include "src/run/context.h"

struct kvc_job {
    int pid; /* 0: none */
    int verdict_fd;
    int output_fd;  /* what the process writes to stdout and stderr */
    int control_fd; /* what it asks of the runner */
    struct kvc_buffer verdict, output;
    int64_t start_ns;
    int64_t deadline_ms; /* next: asked to end, then killed */
    int64_t limit_ms;
    bool timed_out;
    bool asked_to_end;
    bool ended;
    int wait_status; /* once ended */
};

/* Forks. KVC_ESYSTEM. */
kvc_status kvc_job_start(struct kvc_job *job, const struct kvc_ctx_options *options,
                         int64_t limit_ms, struct kvc_error *err);
/* Takes in what the process has written. Never blocks. */
void kvc_job_read(struct kvc_job *job);
/* Notices its end, and its limit: asks it to end, then kills it. Never blocks. */
void kvc_job_check(struct kvc_job *job, int64_t now_ms);
/* Asks the process to end now, so that it cleans up; kvc_job_check kills it when it does not. */
void kvc_job_ask_to_end(struct kvc_job *job, int64_t now_ms);
/* Kills it and waits for it. */
void kvc_job_kill(struct kvc_job *job);
/* Fills raw, seconds and the texts of a result from a job that has ended; removes what the process
 * left behind and says so. Frees the job. */
void kvc_job_finish(struct kvc_job *job, struct kvc_result *result);

#endif
