/* The life of a run's servers: brought up, started again, ended because a check asks for it. For the loop. */
#ifndef KVC_RUN_SERVERS_H
#define KVC_RUN_SERVERS_H

#include "src/run/plan.h"

/* Starts a server and finds out what it can do. */
kvc_status kvc_server_bring_up(const struct kvc_run_options *options, struct kvc_server *server,
                               struct kvc_error *err);
/* Stops what is left of it, starts the same again, and points its facts at the new addresses. */
kvc_status kvc_server_start_again(struct kvc_server *server, struct kvc_error *err);
/* Does what the running check of this entry asks of its server, if it does. */
void kvc_server_control(const struct kvc_entry *entry);

#endif
