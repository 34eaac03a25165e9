/* `--flamegraph on`: flame graphs of the server while a bench loads it, recorded by
 * `lmcache tool flamegraph`. For bench_server.c. */
#ifndef KVC_CLI_FLAMEGRAPH_H
#define KVC_CLI_FLAMEGRAPH_H

#include <stdio.h>
#include <sys/types.h>

#include "src/base/bytes.h"

/* As the flags of `lmcache bench server`. */
struct kvc_flamegraph_flags {
    const char *on; /* "on" or "off" */
    int64_t pid;    /* of the server; 0: not given */
    const char *modes;
    const char *output;      /* NULL: a place below /tmp */
    const char *scripts_dir; /* NULL: the tool's default */
};

enum { KVC_FLAMEGRAPH_MAX_MODES = 6 };

/* A recorder for each mode, at work. */
struct kvc_flamegraph {
    struct kvc_recorder {
        pid_t pid;
        int output; /* what it prints */
        char *path; /* of its picture */
    } recorders[KVC_FLAMEGRAPH_MAX_MODES];
    size_t count;
};

/* KVC_EUSAGE for flags that do not go together, unknown modes, or no such process. */
kvc_status kvc_flamegraph_check(const struct kvc_flamegraph_flags *flags, struct kvc_error *err);
/* Returns when every recorder records. KVC_ESYSTEM with what a recorder said. Nothing is started when
 * flags are off. kvc_flamegraph_stop in any case. */
kvc_status kvc_flamegraph_start(const struct kvc_flamegraph_flags *flags,
                                struct kvc_flamegraph *flamegraph, struct kvc_error *err);
/* Ends the recorders and waits for their pictures; prints a line about each to `progress` unless that
 * is NULL. KVC_ESYSTEM when one has none. */
kvc_status kvc_flamegraph_stop(struct kvc_flamegraph *flamegraph, FILE *progress,
                               struct kvc_error *err);

#endif
