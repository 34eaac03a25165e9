/* Threads that do the same thing at the same time, each its share. For bench transfer. */
#ifndef KVC_BENCH_TEAM_H
#define KVC_BENCH_TEAM_H

#include <stdint.h>

#include "src/base/error.h"

/* One share of a piece of work, of `shares` that together are all of it. */
typedef void (*kvc_team_work)(void *context, int64_t share, int64_t shares);

struct kvc_team;

/* WALL: what passes on a clock. CPU: the most that one member computed, without the time in which
 * the system let others run. */
enum kvc_team_clock { KVC_TEAM_WALL, KVC_TEAM_CPU };

/* Starts count - 1 threads: the caller is the first member. NULL with KVC_ESYSTEM in err. Stopped and
 * freed with kvc_team_close, which takes NULL. */
struct kvc_team *kvc_team_open(int64_t count, enum kvc_team_clock clock, struct kvc_error *err);
void kvc_team_close(struct kvc_team *team);

/* Does the work with all members and returns the nanoseconds that it took, by the team's clock. */
int64_t kvc_team_run(struct kvc_team *team, kvc_team_work work, void *context);

#endif
