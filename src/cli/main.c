/* The program: finds the command and runs it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/cli/cli.h"
#include "src/run/nearest.h"
#include "tests/mock_server/mock.h"

static const struct kvc_command *const commands[] = {
    &kvc_command_run,    &kvc_command_list,     &kvc_command_explain, &kvc_command_mock,
    &kvc_command_bench,  &kvc_command_identify, &kvc_command_record,  &kvc_command_decode,
    &kvc_command_replay, &kvc_command_compare,
};

static int print_version(void)
{
    printf("kvconform %s\n", KVC_VERSION);
    return KVC_EXIT_OK;
}

static int print_help(void)
{
    printf("usage: kvconform COMMAND [OPTION…]\n\n"
           "Finds out whether an LMCache multiprocess server does what the protocol says, whether\n"
           "every byte of KV cache arrives where it belongs, and how fast.\n\n");
    for (size_t i = 0; i < KVC_COUNT_OF(commands); i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    printf(
        "\n  version    the program's version, as --version\n"
        "\n`kvconform help COMMAND` describes a command. `kvconform run` without a target tests\n"
        "the bundled mock server.\n");
    return KVC_EXIT_OK;
}

static const struct kvc_command *find_command(const char *name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[KVC_COUNT_OF(commands) + 1];
    for (size_t i = 0; i < KVC_COUNT_OF(commands); i++)
        names[i] = commands[i]->name;
    names[KVC_COUNT_OF(commands)] = "version";
    struct kvc_buffer nearest = {0};
    kvc_nearest_append(name, names, KVC_COUNT_OF(names), &nearest);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EUSAGE, "there is no command '%s'%s%s; --help shows all", name,
             nearest.size > 0 ? "; nearest: " : "", kvc_buffer_text(&nearest));
    kvc_print_error(&err);
    kvc_buffer_clear(&nearest);
    return KVC_EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
    const struct kvc_command *command = find_command(argv[0]);
    if (command == NULL)
        return unknown_command(argv[0]);
    kvc_target_set_mock(kvc_mock_run);
    return command->run(argc, argv);
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help();
        return KVC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0)
        return print_version();
    if (asks_for_help(argv[1]) && argc > 2) {
        char *words[] = {argv[2], argc > 3 ? argv[3] : "--help", "--help", NULL};
        return run_command(argc > 3 ? 3 : 2, words);
    }
    if (asks_for_help(argv[1]))
        return print_help();
    return run_command(argc - 1, argv + 1);
}

/* The first socket or pipe must not become a stream that is closed. What is written there still fails. */
static void occupy_closed_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    occupy_closed_streams();
    const int exit_status = run(argc, argv);
    const bool failed = ferror(stdout) != 0;
    if ((fflush(stdout) == 0 && !failed) || exit_status != KVC_EXIT_OK)
        return exit_status;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail_errno(&err, "cannot write to stdout");
    kvc_print_error(&err);
    return KVC_EXIT_UNEXPECTED;
}
