/* `kvconform mock`: the mock server in the foreground. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "src/cli/cli.h"
#include "src/kv/segment.h"
#include "tests/mock_server/mock.h"

struct mock_flags {
    const char *bind, *http, *dialect, *version, *pool_name, *l2_adapter;
    int64_t chunk_size, pool_size;
    int64_t read_ttl_ms, write_ttl_ms, session_ttl_ms, reap_ms;
    struct kvc_texts defects;
    bool no_http, no_pool, strict, list_defects;
};

#define FLAG(member) offsetof(struct mock_flags, member)

static const struct kvc_option mock_table[] = {
    {.name = "bind",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(bind),
     .argument = "URL",
     .help = "where it listens (default tcp://127.0.0.1:5555; port 0: a free one)"},
    {.name = "http",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(http),
     .argument = "HOST:PORT",
     .help = "where it serves HTTP (default 127.0.0.1:8080; port 0: a free one)"},
    {.name = "no-http", .kind = KVC_OPTION_FLAG, .offset = FLAG(no_http), .help = "no HTTP"},
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help = "what it speaks, by any release that speaks it (default: the newest)"},
    {.name = "server-version",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(version),
     .argument = "TEXT",
     .help = "the version that it claims (default: the release of --dialect)"},
    {.name = "chunk-size",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(chunk_size),
     .argument = "N",
     .minimum = 1,
     .help = "tokens a chunk (default 256)"},
    {.name = "pool-size",
     .kind = KVC_OPTION_BYTES,
     .offset = FLAG(pool_size),
     .argument = "BYTES",
     .minimum = 1,
     .help = "size of the cache (default 1G)"},
    {.name = "pool-name",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(pool_name),
     .argument = "NAME",
     .help = "name of the pool's shared-memory segment (default: one of its own)"},
    {.name = "no-pool",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(no_pool),
     .help = "offer no shared-memory pool: engine-driven workers send the bytes inline"},
    {.name = "l2-adapter",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(l2_adapter),
     .argument = "JSON",
     .help = "keep chunks below the cache as well, as with LMCache's flag of that name; types and "
             "members are those of `bench l2`"},
    {.name = "read-ttl",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(read_ttl_ms),
     .argument = "SECONDS",
     .help = "how long a read lock lasts (default 300)"},
    {.name = "write-ttl",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(write_ttl_ms),
     .argument = "SECONDS",
     .help = "how long a write reservation lasts (default 600)"},
    {.name = "session-ttl",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(session_ttl_ms),
     .argument = "SECONDS",
     .help = "how long a session lasts (default 600)"},
    {.name = "reap",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(reap_ms),
     .argument = "SECONDS",
     .help = "how long a worker that has pinged may be silent (default 120)"},
    {.name = "defect",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(defects),
     .argument = "NAME",
     .help = "be wrong in one named way; may be given several times"},
    {.name = "list-defects",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(list_defects),
     .help = "print the defects, one a line, and end"},
    {.name = "strict",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(strict),
     .help = "report on stderr what a client does wrong; exit status 1 when there is anything"},
};

static int list_defects(void)
{
    for (size_t i = 0; i < kvc_mock_defect_count; i++)
        printf("%-36s %s [%s]\n", kvc_mock_defects[i].name, kvc_mock_defects[i].summary,
               kvc_mock_defects[i].origin);
    return KVC_EXIT_OK;
}

static int serve(const struct mock_flags *flags)
{
    struct kvc_error err = KVC_ERROR_INIT;
    size_t findings = 0;
    struct kvc_mock_options options = {
        .bind = flags->bind,
        .http = flags->no_http ? NULL : flags->http,
        .version = flags->version != NULL ? flags->version : flags->dialect,
        .chunk_size = flags->chunk_size,
        .pool_size = flags->pool_size,
        .no_pool = flags->no_pool,
        .pool_name = flags->pool_name,
        .l2_adapter = flags->l2_adapter,
        .read_ttl_ms = flags->read_ttl_ms,
        .write_ttl_ms = flags->write_ttl_ms,
        .session_ttl_ms = flags->session_ttl_ms,
        .reap_ms = flags->reap_ms,
        .defects = flags->defects.items,
        .strict = flags->strict,
        .findings = &findings,
        .ready_fd = STDOUT_FILENO, /* the two addresses are the command's output */
        .stop_fd = -1,
    };
    kvc_status status =
        kvc_release_flag_resolve("--dialect", flags->dialect, &options.dialect, &err);
    if (options.dialect == NULL)
        options.dialect = kvc_dialects[kvc_dialect_count - 1];
    if (status == KVC_OK) {
        kvc_segment_sweep();
        status = kvc_mock_run(&options, &err);
    }
    if (status == KVC_OK)
        return findings > 0 ? KVC_EXIT_UNEXPECTED : KVC_EXIT_OK;
    kvc_print_error(&err);
    return status == KVC_EUSAGE ? KVC_EXIT_USAGE : KVC_EXIT_TARGET;
}

static int command_mock(int argc, char **argv)
{
    struct mock_flags flags = {.bind = "tcp://127.0.0.1:5555", .http = "127.0.0.1:8080"};
    const struct kvc_option_group groups[] = {
        {"Options", mock_table, KVC_COUNT_OF(mock_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform mock [OPTION…]",
        .about =
            "Serves as an MP server until SIGINT or SIGTERM. Once it listens, its address and its HTTP "
            "address are printed, a line each. Exit status: 0, 1 when --strict has found something, 2 wrong "
            "usage, 3 it could not listen.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = flags.list_defects ? list_defects() : serve(&flags);
    kvc_texts_clear(&flags.defects);
    return exit_status;
}

const struct kvc_command kvc_command_mock = {
    .name = "mock",
    .summary = "the mock server in the foreground",
    .run = command_mock,
};
