/* A process that starts a command, ends it when told to or when we are gone, and leaves nothing of it
 * behind. For launch.c. */
#ifndef KVC_TARGET_SUPERVISOR_H
#define KVC_TARGET_SUPERVISOR_H

#include <signal.h>

/* Tells a supervisor to kill at once. */
#define KVC_SUPERVISOR_KILL SIGUSR1

/* Runs `/bin/sh -c command` in a process group of its own, stdin from /dev/null, output to log_fd,
 * until stop_fd becomes readable or closes, or SIGTERM, SIGINT or KVC_SUPERVISOR_KILL comes, or the
 * command ends. What it has started and still lives, in whatever group or session, then gets SIGTERM
 * (SIGINT if that came), and SIGKILL after grace_ms; shared-memory segments that a killed process of it
 * had made are removed. Never returns: exits with the command's status (128 + N for signal N). To be
 * called in a process just forked by `parent`. */
_Noreturn void kvc_supervise(const char *command, int parent, int log_fd, int stop_fd,
                             int grace_ms);

/* Ends what a supervisor that was killed has left: its session, first by SIGTERM, by SIGKILL after
 * grace_ms. To be called when the supervisor has been waited for; harmless when it ended by itself. */
void kvc_supervisor_lost(int supervisor, int grace_ms);

#endif
