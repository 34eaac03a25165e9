/* A question asked in a child process, so that this one stays without threads, sockets and library
 * state: a runner forks for every check. For target and run. */
#ifndef KVC_TARGET_ASIDE_H
#define KVC_TARGET_ASIDE_H

#include "src/base/bytes.h"

/* Many times what any check needs. Segments that are shared do not count. */
#define KVC_ASIDE_MEMORY_BYTES ((uint64_t)1 << 30)

/* Fills result_size bytes at result (plain data without pointers), or *err. */
typedef kvc_status kvc_aside_func(const void *arg, void *result, struct kvc_error *err);

/* Runs func(arg) in a child and gives back what it returned. The child dies with us. KVC_ETIMEOUT
 * when it is not done within limit_ms (it is then killed), KVC_EINTERRUPTED when a signal that the
 * caller blocks is pending, KVC_ELOST when it dies. Its memory is limited as below. */
kvc_status kvc_aside_run(kvc_aside_func *func, const void *arg, void *result, size_t result_size,
                         int64_t limit_ms, struct kvc_error *err);

/* For a process just forked: dies when `parent` does (by `signal`; at once if it is gone), gives
 * up every file descriptor above 2 except those in keep (-1 is passed over), and takes signals as a
 * program does by default. */
void kvc_aside_detach(int parent, int signal, const int *keep, size_t keep_count);

/* For a process that listens to a server: from now on it may take KVC_ASIDE_MEMORY_BYTES more memory
 * than it has, however much the server sends. What needs more ends the process. */
void kvc_aside_limit_memory(void);

/* A request to stop (SIGINT, SIGTERM, SIGHUP) that is blocked, to be handled later, is waiting: nothing should
 * be waited for any more. */
bool kvc_aside_stop_pending(void);

#endif
