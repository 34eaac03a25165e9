/* Threads that do the same thing at the same time, each its share. For bench transfer. */
#ifndef KVC_BENCH_TEAM_H
#define KVC_BENCH_TEAM_H

#include <stdint.h>

#include "src/base/error.h"

/* One share of a piece of work, of `shares` that together are all of it. */
typedef void (*kvc_team_work)(void *context, int64_t share, int64_t shares);

struct kvc_team;

/* Starts count - 1 threads: the caller is the first member. NULL with KVC_ESYSTEM in err. Stopped and
 * freed with kvc_team_close, which takes NULL. */
struct kvc_team *kvc_team_open(int64_t count, struct kvc_error *err);
void kvc_team_close(struct kvc_team *team);

/* Does the work with all members and returns the nanoseconds that it took. */
int64_t kvc_team_run(struct kvc_team *team, kvc_team_work work, void *context);

#endif
