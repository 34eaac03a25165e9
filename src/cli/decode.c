/* `kvconform decode FILE`: recorded frames as text, and what the client did wrong. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "src/cli/cli.h"
#include "src/cli/findings.h"
#include "src/cli/recorded.h"

struct decode_flags {
    const char *dialect;
    bool brief;
    bool check;
    bool list_rules;
    int64_t chunk_size;
};

#define FLAG(member) offsetof(struct decode_flags, member)

static const struct kvc_option decode_table[] = {
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help = KVC_RECORDED_DIALECT_HELP},
    {.name = "brief",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(brief),
     .help = "one line for each message"},
    {.name = "check",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(check),
     .help = "print what the client does wrong instead; exit status 1 when there is anything"},
    {.name = "chunk-size",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(chunk_size),
     .argument = "N",
     .minimum = 1,
     .help = "with --check: tokens a chunk (default: what the recording says; if it does not, "
             "nothing is said about windows)"},
    {.name = "list-rules",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(list_rules),
     .help = "print what --check looks for, one rule a line, and end"},
};

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

static int print_messages(const struct kvc_recording *recording, const struct kvc_dialect *dialect,
                          bool brief)
{
    printf("# %zu messages, read as dialect %s\n", recording->count, dialect->name);
    for (size_t i = 0; i < recording->count; i++)
        print_message(&recording->messages[i], dialect, brief);
    return KVC_EXIT_OK;
}

static int check(const struct kvc_recording *recording, const struct kvc_dialect *dialect,
                 int64_t chunk_size)
{
    struct kvc_checker checker;
    kvc_checker_open(&checker, dialect, chunk_size, stdout);
    for (size_t i = 0; i < recording->count; i++)
        kvc_checker_feed(&checker, &recording->messages[i]);
    return kvc_checker_finish(&checker) > 0 ? KVC_EXIT_UNEXPECTED : KVC_EXIT_OK;
}

static int decode(const char *path, const struct decode_flags *flags)
{
    struct kvc_recording recording;
    const struct kvc_dialect *dialect = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    int exit_status = KVC_EXIT_USAGE;
    if (kvc_recorded_load(path, flags->dialect, &recording, &dialect, &err) != KVC_OK)
        kvc_print_error(&err);
    else if (flags->check)
        exit_status = check(&recording, dialect, flags->chunk_size);
    else
        exit_status = print_messages(&recording, dialect, flags->brief);
    kvc_recording_clear(&recording);
    return exit_status;
}

static int decode_or_list(char **arguments, size_t count, const struct decode_flags *flags)
{
    if (flags->list_rules) {
        kvc_rules_print(stdout);
        return KVC_EXIT_OK;
    }
    if (count == 1)
        return decode(arguments[0], flags);
    struct kvc_error err;
    kvc_fail(&err, KVC_EUSAGE, "which recording? Give its FILE");
    kvc_print_error(&err);
    return KVC_EXIT_USAGE;
}

static int command_decode(int argc, char **argv)
{
    struct decode_flags flags = {0};
    const struct kvc_option_group groups[] = {
        {"Options", decode_table, KVC_COUNT_OF(decode_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform decode FILE [OPTION…]",
        .about =
            "The messages of a recording (of `record`, of `run --trace`, or fixtures/frames) as "
            "text.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
        .max_arguments = 1,
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = decode_or_list(arguments, count, &flags);
    return exit_status;
}

const struct kvc_command kvc_command_decode = {
    .name = "decode",
    .summary = "the frames of a recording as text, and what is wrong with them",
    .run = command_decode,
};
