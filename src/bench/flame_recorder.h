/* A profiler that runs beside a process and samples it, one mode each. For flames.c; what it saw is drawn by
 * flame_tree.c, so nothing but the profiler has to be installed. */
#ifndef KVC_BENCH_FLAME_RECORDER_H
#define KVC_BENCH_FLAME_RECORDER_H

#include <sys/types.h>

#include "src/bench/flame_tree.h"

enum kvc_flame_mode {
    KVC_FLAME_ON_CPU,  /* perf: where processors spend time */
    KVC_FLAME_OFF_CPU, /* offcputime of bcc: where threads wait */
    KVC_FLAME_WAKEUP,  /* wakeuptime of bcc: who wakes them */
    KVC_FLAME_OFFWAKE, /* offwaketime of bcc: both */
    KVC_FLAME_WALL,    /* py-spy: every thread of a Python process */
    KVC_FLAME_GIL,     /* py-spy: only those that hold the interpreter's lock */
    KVC_FLAME_MODE_COUNT,
};

/* "on-cpu", …; KVC_EUSAGE. */
kvc_status kvc_flame_mode_parse(struct kvc_str name, enum kvc_flame_mode *mode,
                                struct kvc_error *err);
const char *kvc_flame_mode_name(enum kvc_flame_mode mode);
const char *kvc_flame_mode_tag(enum kvc_flame_mode mode);  /* in names of files: "oncpu" */
const char *kvc_flame_mode_unit(enum kvc_flame_mode mode); /* of weights: "samples" */
bool kvc_flame_mode_is_python(enum kvc_flame_mode mode);

/* Whether the mode's profiler is there and may be used. KVC_EUSAGE: names the program that is missing, with the
 * package that has it, or what is not permitted. */
kvc_status kvc_flame_mode_check(enum kvc_flame_mode mode, struct kvc_error *err);

struct kvc_flame_recorder {
    enum kvc_flame_mode mode;
    pid_t profiler;
    char *folder;            /* for what it writes */
    char *recording, *words; /* there: what it saw, and what it says */
};

/* Starts the profiler and returns when it records all threads of the process. KVC_ESYSTEM with the profiler's own
 * words. Clear it in any case. */
kvc_status kvc_flame_recorder_start(enum kvc_flame_mode mode, pid_t process,
                                    struct kvc_flame_recorder *recorder, struct kvc_error *err);
/* Ends the profiler and waits until it has written everything. */
void kvc_flame_recorder_stop(struct kvc_flame_recorder *recorder);
/* Adds what was seen. KVC_ESYSTEM, also when that is nothing. */
kvc_status kvc_flame_recorder_read(const struct kvc_flame_recorder *recorder,
                                   struct kvc_flame_tree *tree, struct kvc_error *err);
/* Ends what still runs and removes the folder. Safe for one that was zeroed. */
void kvc_flame_recorder_clear(struct kvc_flame_recorder *recorder);

#endif
