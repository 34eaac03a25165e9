/* What the kinds of target share. For this folder. */
#ifndef KVC_TARGET_TARGET_IMPL_H
#define KVC_TARGET_TARGET_IMPL_H

#include "src/target/target.h"

extern const struct kvc_target_ops kvc_target_attach;
extern const struct kvc_target_ops kvc_target_launch;
extern const struct kvc_target_ops kvc_target_mock;

/* Whether target's addresses, as they were given and completed, are addresses at all. KVC_EUSAGE with
 * the flag in where. */
kvc_status kvc_target_check_urls(const struct kvc_target *target, struct kvc_error *err);

/* Asks, from a process of its own, which dialect the server at target's addresses speaks, or, where
 * the options say it, just whether it answers; fills target->identity. The limits are for the
 * connection and for each question. */
kvc_status kvc_target_identify(struct kvc_target *target, int64_t connect_timeout_ms,
                               struct kvc_error *err);

/* Waits until something answers at the target's HTTP address, at most patience_ms, and takes the
 * version from there. Asks nothing where the version is known, since HTTP has said it. KVC_ECONNECT (nothing answers), KVC_EREFUSED (something does, and it
 * is not HTTP), both with the flag in where; KVC_EINTERRUPTED. */
kvc_status kvc_target_await_http(struct kvc_target *target, int64_t patience_ms,
                                 struct kvc_error *err);

/* Sends SIGTERM to a child of ours (with group: to its process group), waits for it, and sends
 * SIGKILL when it has not ended after grace_ms. */
void kvc_target_end_process(int pid, bool group, int64_t grace_ms);
/* The same with any signal, to the child alone. */
void kvc_target_signal_process(int pid, int signal, int64_t grace_ms);

#endif
