/* `kvconform decode FILE`: recorded frames as text. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/wire/message.h"
#include "src/wire/recording.h"

struct decode_flags {
    const char *dialect;
    bool brief;
};

#define FLAG(member) offsetof(struct decode_flags, member)

static const struct kvc_option decode_table[] = {
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help = "what was spoken, by any release that speaks it; auto (default): the newest in which "
             "most requests make sense"},
    {.name = "brief",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(brief),
     .help = "one line for each message"},
};

static size_t count_readable(const struct kvc_recording *recording,
                             const struct kvc_dialect *dialect)
{
    size_t count = 0;
    for (size_t i = 0; i < recording->count; i++) {
        struct kvc_arena arena = {0};
        struct kvc_request request;
        if (!recording->messages[i].from_server &&
            kvc_request_decode(dialect, &recording->messages[i].frames, &arena, &request, NULL) ==
                KVC_OK)
            count++;
        kvc_arena_clear(&arena);
    }
    return count;
}

static const struct kvc_dialect *guess_dialect(const struct kvc_recording *recording)
{
    const struct kvc_dialect *best = NULL;
    size_t best_count = 0;
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        const size_t count = count_readable(recording, kvc_dialects[i]);
        if (best == NULL || count >= best_count) {
            best = kvc_dialects[i];
            best_count = count;
        }
    }
    return best;
}

static void print_message(const struct kvc_recorded_message *message,
                          const struct kvc_dialect *dialect, bool brief)
{
    enum { BRIEF_WIDTH = 160 };
    struct kvc_buffer text = {0};
    printf("%10.4f  %s  connection %lld", message->seconds, message->from_server ? "<-" : "->",
           (long long)message->client);
    if (brief)
        kvc_frames_summarise(&message->frames, dialect, message->from_server, BRIEF_WIDTH, &text);
    else
        kvc_frames_describe(&message->frames, dialect, message->from_server, &text);
    for (const char *line = kvc_buffer_text(&text); *line != '\0';) {
        const size_t size = strcspn(line, "\n");
        printf("%s%.*s", brief ? "  " : "\n    ", (int)size, line);
        line += size + (line[size] == '\n');
    }
    printf("\n");
    kvc_buffer_clear(&text);
}

static int decode(const char *path, const struct decode_flags *flags)
{
    struct kvc_recording recording = {0};
    const struct kvc_dialect *dialect = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status = kvc_dialect_flag_resolve(flags->dialect, &dialect, &err);
    if (status == KVC_OK)
        status = kvc_recording_load(path, &recording, &err);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        kvc_recording_clear(&recording);
        return KVC_EXIT_USAGE;
    }
    if (dialect == NULL)
        dialect = guess_dialect(&recording);
    printf("# %zu messages, read as dialect %s\n", recording.count, dialect->name);
    for (size_t i = 0; i < recording.count; i++)
        print_message(&recording.messages[i], dialect, flags->brief);
    kvc_recording_clear(&recording);
    return KVC_EXIT_OK;
}

static int command_decode(int argc, char **argv)
{
    struct decode_flags flags = {0};
    const struct kvc_option_group groups[] = {
        {"Options", decode_table, KVC_COUNT_OF(decode_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform decode FILE [OPTION…]",
        .about = "The messages of a recording (of `run --trace`, or fixtures/frames) as text.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
        .min_arguments = 1,
        .max_arguments = 1,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (!kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        return exit_status;
    return decode(arguments[0], &flags);
}

const struct kvc_command kvc_command_decode = {
    .name = "decode",
    .summary = "the frames of a recording as text",
    .run = command_decode,
};
