/* Command-line options as tables: one walk parses them, one prints the help. For every command. */
#ifndef KVC_CLI_OPTIONS_H
#define KVC_CLI_OPTIONS_H

#include "src/base/bytes.h"

enum kvc_option_kind {
    KVC_OPTION_FLAG,    /* bool: set when given */
    KVC_OPTION_TEXT,    /* const char * */
    KVC_OPTION_TEXTS,   /* struct kvc_texts: may be given several times */
    KVC_OPTION_NUMBER,  /* int64_t, not below minimum */
    KVC_OPTION_RATE,    /* double, above 0: "200" or "0.5" */
    KVC_OPTION_SEED,    /* uint64_t, decimal or 0x… */
    KVC_OPTION_SECONDS, /* int64_t milliseconds, from "10" or "0.5" */
    KVC_OPTION_PAUSE,   /* the same, and 0 is one, too */
    KVC_OPTION_BYTES,   /* int64_t, from "4096", "64M", "2G" (powers of 1024) */
    KVC_OPTION_CHOICE,  /* const char *: one of choices */
};

struct kvc_option {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum kvc_option_kind kind;
    size_t offset;              /* of the value in the group's values */
    const char *argument;       /* how the help calls it: "FILE"; NULL for a flag */
    const char *help;           /* one sentence; the help breaks it into lines */
    const char *const *choices; /* NULL-terminated; KVC_OPTION_CHOICE only */
    int64_t minimum;            /* KVC_OPTION_NUMBER, KVC_OPTION_BYTES */
};

/* The rows that every command with a report has: of what form it is, said in `words`, and a file for it. */
/* clang-format off */
#define KVC_OPTION_REPORT_FORMAT(at, forms, words)                                                 \
    {.name = "format", .kind = KVC_OPTION_CHOICE, .offset = (at), .argument = "FORMAT",            \
     .choices = (forms), .help = "of the report on stdout: " words}
#define KVC_OPTION_REPORT_FILE(at)                                                                 \
    {.name = "output", .kind = KVC_OPTION_TEXT, .offset = (at), .argument = "FILE",                \
     .help = "write the report there as well"}
/* clang-format on */

struct kvc_texts {
    const char **items; /* point into argv; one more than count, NULL */
    size_t count;
};

void kvc_texts_clear(struct kvc_texts *texts);

/* A table and the struct that it fills. Defaults are what the struct holds before. */
struct kvc_option_group {
    const char *title; /* "Target": a heading of the help */
    const struct kvc_option *options;
    size_t count;
    void *values;
};

struct kvc_command_line {
    const char *usage; /* "kvconform run [OPTION…]" */
    const char *about; /* what the command does: text below the usage */
    const struct kvc_option_group *groups;
    size_t group_count;
    size_t min_arguments, max_arguments; /* besides the options */
};

/* Parses argv (argv[0] is the command's name). Options and arguments may be mixed; "--" ends the
 * options. Returns true when the command should go on; *arguments are then what is left of argv,
 * *argument_count of them. Returns false when it should end with *exit_status: --help was given and
 * the help printed to stdout (0), or something is wrong and one line about it printed to stderr (2). */
bool kvc_options_parse(const struct kvc_command_line *line, int argc, char **argv,
                       char ***arguments, size_t *argument_count, int *exit_status);

/* What KVC_OPTION_BYTES takes; "64MiB" is 64M. KVC_EUSAGE. */
kvc_status kvc_bytes_parse(const char *text, int64_t minimum, int64_t *bytes,
                           struct kvc_error *err);

/* Prints an error as one line on stderr: "kvconform: where: what; expected …". */
void kvc_print_error(const struct kvc_error *err);

/* The exit status (design section 2) for an error that ends a command. */
int kvc_exit_status(kvc_status status);

#endif
