/* `kvconform replay FILE`: a recording's requests against a server, and its replies beside the recorded. */
#include <stddef.h>
#include <stdio.h>

#include "src/cli/cli.h"
#include "src/cli/player.h"
#include "src/cli/recorded.h"
#include "src/cli/stop.h"
#include "src/kv/segment.h"
#include "src/link/client.h"

struct replay_flags {
    const char *rpc_url, *dialect;
    int64_t timeout_ms;
    bool quiet;
};

#define FLAG(member) offsetof(struct replay_flags, member)

static const struct kvc_option replay_table[] = {
    {.name = "rpc-url",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(rpc_url),
     .argument = "URL",
     .help = "the server"},
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help = KVC_RECORDED_DIALECT_HELP},
    {.name = "timeout",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(timeout_ms),
     .argument = "SECONDS",
     .help = "for each reply that was recorded (default 5)"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no summary"},
};

static void print_summary(const struct kvc_played *played)
{
    fprintf(stderr, "%zu requests played, %zu replies compared, %zu difference%s\n",
            played->requests, played->compared, played->differences,
            played->differences == 1 ? "" : "s");
}

static kvc_status play(const char *path, const struct replay_flags *flags,
                       struct kvc_played *played, struct kvc_error *err)
{
    struct kvc_recording recording = {0};
    struct kvc_player_options options = {
        .rpc_url = flags->rpc_url,
        .connect_timeout_ms = KVC_DEFAULT_CONNECT_TIMEOUT_MS,
        .timeout_ms = flags->timeout_ms,
        .out = stdout,
    };
    if (flags->rpc_url == NULL)
        return kvc_fail(err, KVC_EUSAGE, "against which server? Give --rpc-url");
    kvc_status status = kvc_recorded_load(path, flags->dialect, &recording, &options.dialect, err);
    if (status == KVC_OK) {
        kvc_segment_sweep();
        status = kvc_play(&recording, &options, played, err);
    }
    kvc_recording_clear(&recording);
    return status;
}

static int replay(const char *path, const struct replay_flags *flags)
{
    struct kvc_played played = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_stop_catch();
    kvc_link_set_stop_flag(&kvc_stop_signal);
    const kvc_status status = play(path, flags, &played, &err);
    if (status == KVC_EINTERRUPTED)
        return kvc_stop_exit_status();
    if (status != KVC_OK) {
        kvc_print_error(&err);
        return kvc_exit_status(status);
    }
    if (!flags->quiet)
        print_summary(&played);
    return played.differences > 0 ? KVC_EXIT_UNEXPECTED : KVC_EXIT_OK;
}

static int command_replay(int argc, char **argv)
{
    struct replay_flags flags = {.timeout_ms = KVC_DEFAULT_TIMEOUT_MS};
    const struct kvc_option_group groups[] = {
        {"Options", replay_table, KVC_COUNT_OF(replay_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform replay FILE --rpc-url URL [OPTION…]",
        .about =
            "Sends what the client of a recording sent to a server, in order and waiting for replies "
            "where there were any, and lists how the replies differ from the recorded ones. The "
            "server should not hold the recording's chunks yet. Exit status: 0 no difference, 1 some, "
            "2 wrong usage, 3 the server could not be reached or was lost.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
        .min_arguments = 1,
        .max_arguments = 1,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = replay(arguments[0], &flags);
    return exit_status;
}

const struct kvc_command kvc_command_replay = {
    .name = "replay",
    .summary = "a recording played against a server",
    .run = command_replay,
};
