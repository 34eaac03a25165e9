/* A flame graph of this process's own work, by a profiler that runs beside it; drawn here, so nothing but
 * the profiler has to be installed. For the benches. */
#ifndef KVC_BENCH_PROFILE_H
#define KVC_BENCH_PROFILE_H

#include <sys/types.h>

#include "src/base/bytes.h"

enum kvc_profile_mode {
    KVC_PROFILE_ON_CPU,  /* perf: where processors spend time */
    KVC_PROFILE_OFF_CPU, /* offcputime of bcc: where threads wait; as root */
};

/* "on-cpu", "off-cpu"; KVC_EUSAGE. */
kvc_status kvc_profile_mode_parse(const char *text, enum kvc_profile_mode *mode,
                                  struct kvc_error *err);

/* Whether the profiler is there. KVC_EUSAGE: what names the program that is missing, expected the
 * Debian package, or who may use it. */
kvc_status kvc_profile_check(enum kvc_profile_mode mode, struct kvc_error *err);

struct kvc_profile {
    enum kvc_profile_mode mode;
    pid_t profiler;
    char *folder;    /* for what it writes */
    char *recording; /* there */
};

/* Starts the profiler and returns when it records this process and its threads. KVC_ESYSTEM with the
 * profiler's own words. */
kvc_status kvc_profile_start(enum kvc_profile_mode mode, struct kvc_profile *graph,
                             struct kvc_error *err);
/* Ends the profiler and writes the SVG; output NULL: only ends it. KVC_ESYSTEM, KVC_EREFUSED when it
 * saw nothing. */
kvc_status kvc_profile_stop(struct kvc_profile *graph, const char *title, const char *output,
                            struct kvc_error *err);

#endif
