/* The commands of the program, and what several of them share. For src/cli. */
#ifndef KVC_CLI_CLI_H
#define KVC_CLI_CLI_H

#include "src/cli/options.h"
#include "src/target/target.h"

enum {
    KVC_EXIT_OK = 0,
    KVC_EXIT_UNEXPECTED = 1, /* a failure, an unexpected pass, a regression */
    KVC_EXIT_USAGE = 2,
    KVC_EXIT_TARGET = 3, /* not reachable, not started, lost */
};

struct kvc_command {
    const char *name;
    const char *summary;               /* one line for `kvconform --help` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit status */
};

extern const struct kvc_command kvc_command_run;
extern const struct kvc_command kvc_command_list;
extern const struct kvc_command kvc_command_explain;
extern const struct kvc_command kvc_command_mock;
extern const struct kvc_command kvc_command_bench;
extern const struct kvc_command kvc_command_identify;
extern const struct kvc_command kvc_command_record;
extern const struct kvc_command kvc_command_decode;
extern const struct kvc_command kvc_command_replay;
extern const struct kvc_command kvc_command_compare;

/* ---- the target, as run, bench and identify take it ---- */

struct kvc_target_flags {
    const char *rpc_url;
    const char *url;
    const char *launch;
    struct kvc_texts setups; /* of a launched server: NAME=ARGUMENTS */
    const char *launch_log;
    const char *dialect;      /* "auto", or any release */
    int64_t timeout_ms;       /* 0: the command's default */
    int64_t start_timeout_ms; /* 0: the default */
    struct kvc_texts defects; /* of the mock */
};

/* --rpc-url, --url, --launch, --setup, --launch-log, --dialect, --timeout, --start-timeout; or_mock:
 * also --defect, for a command that starts the bundled mock server when no other is given. */
struct kvc_option_group kvc_target_flag_group(bool or_mock, struct kvc_target_flags *flags);

enum {
    KVC_DEFAULT_TIMEOUT_MS = 5000,
    KVC_DEFAULT_CONNECT_TIMEOUT_MS = 5000,
    KVC_DEFAULT_START_TIMEOUT_MS = 90000,
};

void kvc_target_flags_clear(struct kvc_target_flags *flags);
/* Fills target options. KVC_EUSAGE for an unknown dialect, set-up or defect. */
kvc_status kvc_target_flags_resolve(const struct kvc_target_flags *flags,
                                    struct kvc_target_options *options, struct kvc_error *err);
/* The dialect of --dialect; NULL in *dialect for "auto". */
kvc_status kvc_dialect_flag_resolve(const char *text, const struct kvc_dialect **dialect,
                                    struct kvc_error *err);
/* The dialect of a flag where there is no server to ask; NULL in *dialect when it is not given. */
kvc_status kvc_release_flag_resolve(const char *flag, const char *release,
                                    const struct kvc_dialect **dialect, struct kvc_error *err);
/* Appends the flags as a command line would give them, quoted for a shell. */
void kvc_target_flags_append(const struct kvc_target_flags *flags, struct kvc_buffer *out);
/* Appends text as one word of a shell. */
void kvc_shell_quote(const char *text, struct kvc_buffer *out);

/* "always", "never", "auto": whether text on this stream is coloured (NO_COLOR is honoured). */
bool kvc_use_color(const char *choice, int fd);
extern const char *const kvc_color_choices[];

#endif
