/* `kvconform bench TARGET`: chooses the bench. */
#include <stdio.h>
#include <string.h>

#include "src/cli/bench.h"

static const struct kvc_command *const benches[] = {
    &kvc_command_bench_server, &kvc_command_bench_engine, &kvc_command_bench_l2,
    &kvc_command_bench_call, &kvc_command_bench_transfer};

static void print_help(FILE *stream)
{
    fputs("usage: kvconform bench BENCH [OPTION…]\n\nBenches:\n", stream);
    for (size_t i = 0; i < KVC_COUNT_OF(benches); i++)
        fprintf(stream, "  %-10s %s\n", benches[i]->name, benches[i]->summary);
    fputs("\n`kvconform bench BENCH --help` shows its options.\n", stream);
}

static int run_bench(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return KVC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return KVC_EXIT_OK;
    }
    for (size_t i = 0; i < KVC_COUNT_OF(benches); i++)
        if (strcmp(argv[1], benches[i]->name) == 0)
            return benches[i]->run(argc - 1, argv + 1);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EUSAGE, "there is no bench '%s'; `kvconform bench --help` lists them",
             argv[1]);
    kvc_print_error(&err);
    return KVC_EXIT_USAGE;
}

const struct kvc_command kvc_command_bench = {
    .name = "bench",
    .summary = "measure a server, or the store below it: every byte verified",
    .run = run_bench,
};
