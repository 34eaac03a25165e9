/* `--flamegraph on`: where a process spends its time while a bench measures. For `bench server` (the server), `bench
 * engine` (the engine) and `bench l2` (this program). */
#ifndef KVC_CLI_FLAMEGRAPH_H
#define KVC_CLI_FLAMEGRAPH_H

#include <stdio.h>
#include <sys/types.h>

#include "src/bench/flames.h"
#include "src/cli/options.h"
#include "src/report/file.h"

/* As the flags of `lmcache bench server` and `lmcache bench l2`. */
struct kvc_flamegraph_flags {
    const char *on;          /* "on" or "off" */
    int64_t pid;             /* of the process; 0: not given */
    const char *modes;       /* "gil", or several with commas */
    const char *output;      /* NULL: a place below /tmp */
    const char *scripts_dir; /* not used: nothing but a profiler is needed */
};

extern const char *const kvc_flamegraph_switch[];

/* The rows of an option table for a struct kvc_flamegraph_flags at `at`; `words` are about the mode. */
/* clang-format off */
#define KVC_FLAMEGRAPH_OPTIONS(at, words, place)                                                   \
    {.name = "flamegraph", .kind = KVC_OPTION_CHOICE, .argument = "on|off",                        \
     .offset = (at) + offsetof(struct kvc_flamegraph_flags, on),                                   \
     .choices = kvc_flamegraph_switch,                                                             \
     .help = "on: draw where its time goes while it is measured (default off)"},                   \
    {.name = "flamegraph-mode", .kind = KVC_OPTION_TEXT, .argument = "MODE[,MODE...]",             \
     .offset = (at) + offsetof(struct kvc_flamegraph_flags, modes), .help = words},                \
    {.name = "flamegraph-output", .kind = KVC_OPTION_TEXT, .argument = "FILE",                     \
     .offset = (at) + offsetof(struct kvc_flamegraph_flags, output),                               \
     .help = "the SVG (default: /tmp/lmcache_bench_flames/" place ".MODE.svg)"},                   \
    {.name = "flamegraph-scripts-dir", .kind = KVC_OPTION_TEXT, .argument = "DIR",                 \
     .offset = (at) + offsetof(struct kvc_flamegraph_flags, scripts_dir),                          \
     .help = "taken as LMCache's benches do, and not needed: the SVG is drawn here"},              \
    {.name = "flamegraph-dir", .kind = KVC_OPTION_TEXT, .argument = "DIR",                         \
     .offset = (at) + offsetof(struct kvc_flamegraph_flags, scripts_dir),                          \
     .help = "the same"}
/* clang-format on */

#define KVC_FLAMEGRAPH_MODES                                                                       \
    "on-cpu (perf), off-cpu, wakeup, offwake (bcc, as root), wall, gil (py-spy, of Python); "      \
    "several are recorded at the same time"

/* What is recorded, and the files that it is drawn into. Zero-initialise. */
struct kvc_flamegraph {
    struct kvc_flames flames;
    struct kvc_report_file files[KVC_FLAME_MODE_COUNT];
    char *paths[KVC_FLAME_MODE_COUNT];
};

/* Whose time it is. */
struct kvc_flamegraph_subject {
    const char *pid_flag; /* "--profile-server-pid"; NULL: this program's */
    bool is_started_here; /* then the flag may be left out */
};

/* Before anything is started. KVC_EUSAGE for flags that do not go together, unknown modes, a profiler that is missing
 * or not permitted, no such process. */
kvc_status kvc_flamegraph_check(const struct kvc_flamegraph_flags *flags,
                                const struct kvc_flamegraph_subject *subject,
                                struct kvc_error *err);
/* Opens the files; label is in the names of those that are not named: "server-pid17". Nothing when flags are off.
 * KVC_EUSAGE. Close it in any case. */
kvc_status kvc_flamegraph_open(const struct kvc_flamegraph_flags *flags, pid_t process,
                               const char *label, struct kvc_flamegraph *flamegraph,
                               struct kvc_error *err);
/* Draws what was recorded, and prints a line about each to `progress` unless that is NULL. The first error; the others
 * are drawn all the same. */
kvc_status kvc_flamegraph_draw(struct kvc_flamegraph *flamegraph, const char *title, FILE *progress,
                               struct kvc_error *err);
void kvc_flamegraph_close(struct kvc_flamegraph *flamegraph);

/* Below the shells, and what else only watches over another process: the one that does the work. */
pid_t kvc_flamegraph_worker(pid_t started);

#endif
