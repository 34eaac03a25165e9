/* What a check may ask of the runner while it runs: that its server ends, or starts again. One message
 * each way, over a socket pair. For job, loop and context. */
#ifndef KVC_RUN_CONTROL_H
#define KVC_RUN_CONTROL_H

#include "src/target/target.h"

struct kvc_control_request {
    bool start; /* else: end it */
    enum kvc_ending ending;
    int64_t l2_bytes; /* start: see struct kvc_target */
};

struct kvc_control_reply {
    bool done;
    char rpc_url[256];  /* of the server that was started */
    char http_url[256]; /* "": none */
    char problem[512];  /* why it was not done */
};

/* Makes the two ends. KVC_ESYSTEM. */
kvc_status kvc_control_open(int *runner_fd, int *check_fd, struct kvc_error *err);
/* The check's side: asks, and waits for the answer. KVC_ESYSTEM, also for what was not done. */
kvc_status kvc_control_ask(int check_fd, const struct kvc_control_request *request,
                           struct kvc_control_reply *reply, struct kvc_error *err);
/* The runner's side: takes a request, if there is one. Never blocks. */
bool kvc_control_take(int runner_fd, struct kvc_control_request *request);
void kvc_control_answer(int runner_fd, const struct kvc_control_reply *reply);

#endif
