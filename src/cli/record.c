/* `kvconform record`: a proxy between a client and a server that records what they say, and says what the
 * client does wrong. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/base/clock.h"
#include "src/cli/cli.h"
#include "src/cli/findings.h"
#include "src/cli/stop.h"
#include "src/driver/rpc.h"
#include "src/link/proxy.h"
#include "src/report/file.h"

struct record_flags {
    const char *listen, *rpc_url, *output, *dialect;
    int64_t count;
    int64_t for_ms;
    bool check;
    bool quiet;
};

#define FLAG(member) offsetof(struct record_flags, member)

static const struct kvc_option record_table[] = {
    {.name = "listen",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(listen),
     .argument = "URL",
     .help = "where clients connect to (default tcp://127.0.0.1:0, a free port); printed once it "
             "listens"},
    {.name = "rpc-url",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(rpc_url),
     .argument = "URL",
     .help = "the server"},
    {.name = "output",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(output),
     .argument = "FILE",
     .help = "the recording: complete, or not there at all"},
    {.name = "check",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(check),
     .help = "print on stderr what the client does wrong; exit status 1 when there is anything"},
    {.name = "dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(dialect),
     .argument = "RELEASE",
     .help = "with --check: what is spoken, by any release that speaks it (default: the server is "
             "asked)"},
    {.name = "count",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(count),
     .argument = "N",
     .minimum = 1,
     .help = "end after N messages"},
    {.name = "for",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(for_ms),
     .argument = "SECONDS",
     .help = "end after that time"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no summary"},
};

/* ---- recording ---- */

struct recorder {
    const struct record_flags *flags;
    int64_t start_ns;
    int64_t count; /* messages so far */
    struct kvc_report_file file;
    struct kvc_checker checker; /* without --check it does nothing */
};

static void write_message(struct recorder *recorder, const struct kvc_recorded_message *message)
{
    struct kvc_buffer text = {0};
    kvc_buffer_append_text(&text, recorder->count > 0 ? ",\n" : "[\n");
    kvc_recording_append(message, &text);
    fwrite(text.data, 1, text.size, recorder->file.stream);
    kvc_buffer_clear(&text);
}

/* Nobody reads on, or the disk is full: what comes after that would be lost. */
static bool cannot_write(const struct recorder *recorder)
{
    return recorder->file.stream != NULL && ferror(recorder->file.stream) != 0;
}

static bool is_full(const struct recorder *recorder)
{
    return recorder->flags->count > 0 && recorder->count >= recorder->flags->count;
}

static void on_message(void *user, int64_t client, bool from_server,
                       const struct kvc_frames *frames, int64_t now_ns)
{
    struct recorder *recorder = user;
    if (is_full(recorder))
        return;
    const struct kvc_recorded_message message = {
        .seconds = (double)(now_ns - recorder->start_ns) / 1e9,
        .from_server = from_server,
        .client = client,
        .frames = *frames,
    };
    if (recorder->file.stream != NULL)
        write_message(recorder, &message);
    kvc_checker_feed(&recorder->checker, &message);
    recorder->count++;
}

static kvc_status complete(struct recorder *recorder, struct kvc_error *err)
{
    static const char end[] = "\n]\n", nothing[] = "[\n]\n";
    const char *text = recorder->count > 0 ? end : nothing;
    if (recorder->file.stream == NULL)
        return KVC_OK;
    if (cannot_write(recorder))
        return kvc_fail(err, KVC_ESYSTEM, "cannot write all of '%s'", recorder->flags->output);
    return kvc_report_file_commit(
        &recorder->file,
        (struct kvc_bytes){(const uint8_t *)text,
                           recorder->count > 0 ? sizeof(end) - 1 : sizeof(nothing) - 1},
        err);
}

/* ---- until it is over ---- */

static kvc_status serve(struct recorder *recorder, struct kvc_proxy *proxy, struct kvc_error *err)
{
    const struct record_flags *flags = recorder->flags;
    const int64_t end_ms = flags->for_ms > 0 ? kvc_now_ms() + flags->for_ms : INT64_MAX;
    kvc_status status = KVC_OK;
    while (!is_full(recorder) && !cannot_write(recorder) &&
           (status == KVC_OK || status == KVC_ETIMEOUT)) {
        const int64_t left_ms = end_ms - kvc_now_ms();
        if (left_ms <= 0)
            return KVC_OK;
        status = kvc_proxy_serve(proxy, left_ms < 1000 ? left_ms : 1000, err);
    }
    /* To be told to stop is how a recording ends. */
    return status == KVC_EINTERRUPTED || status == KVC_ETIMEOUT ? KVC_OK : status;
}

/* Asks the server, on a connection that is not recorded, what the checker has to know. */
static kvc_status ask_server(const char *rpc_url, struct kvc_identity *identity,
                             struct kvc_error *err)
{
    struct kvc_client *client = NULL;
    if (identity->dialect == NULL)
        return kvc_identify(rpc_url, NULL, KVC_DEFAULT_CONNECT_TIMEOUT_MS, KVC_DEFAULT_TIMEOUT_MS,
                            identity, err);
    KVC_GUARD(kvc_client_open(rpc_url, KVC_DEFAULT_CONNECT_TIMEOUT_MS, &client, err));
    const struct kvc_rpc rpc = {client, identity->dialect, KVC_DEFAULT_TIMEOUT_MS};
    const kvc_status status = kvc_rpc_chunk_size(&rpc, &identity->chunk_size, err);
    kvc_client_close(client);
    return status;
}

static kvc_status open_checker(struct recorder *recorder, struct kvc_error *err)
{
    const struct record_flags *flags = recorder->flags;
    struct kvc_identity identity = {0};
    if (!flags->check)
        return KVC_OK;
    KVC_GUARD(kvc_dialect_flag_resolve(flags->dialect, &identity.dialect, err));
    KVC_GUARD(ask_server(flags->rpc_url, &identity, err));
    kvc_checker_open(&recorder->checker, identity.dialect, identity.chunk_size, stderr);
    return KVC_OK;
}

/* On stdout, unless the recording goes there. */
static void tell_url(const struct recorder *recorder, const struct kvc_proxy *proxy)
{
    FILE *out = recorder->file.stream == stdout ? stderr : stdout;
    fprintf(out, "%s\n", kvc_proxy_url(proxy));
    fflush(out);
}

static kvc_status record_with_file(struct recorder *recorder, struct kvc_error *err)
{
    const struct record_flags *flags = recorder->flags;
    struct kvc_proxy *proxy = NULL;
    kvc_status status = open_checker(recorder, err);
    if (status == KVC_OK)
        status = kvc_proxy_open(flags->listen, flags->rpc_url, KVC_DEFAULT_CONNECT_TIMEOUT_MS,
                                on_message, recorder, &proxy, err);
    if (status == KVC_ESYSTEM) /* where clients are to connect to, nobody can listen */
        status = KVC_ECONNECT;
    if (status == KVC_OK) {
        tell_url(recorder, proxy);
        recorder->start_ns = kvc_now_ns();
        status = serve(recorder, proxy, err);
    }
    kvc_proxy_close(proxy);
    return status == KVC_OK ? complete(recorder, err) : status;
}

/* ---- the command ---- */

static kvc_status check_flags(const struct record_flags *flags, struct kvc_error *err)
{
    if (flags->rpc_url == NULL)
        return kvc_fail(err, KVC_EUSAGE, "which server? Give --rpc-url");
    if (flags->output == NULL && !flags->check)
        return kvc_fail(err, KVC_EUSAGE, "what for? Give --output FILE, --check, or both");
    return KVC_OK;
}

static kvc_status open_output(const char *path, struct kvc_report_file *file, struct kvc_error *err)
{
    const kvc_status status = kvc_report_file_open(path, file, err);
    if (status != KVC_OK)
        kvc_error_set_where(err, "--output");
    return status;
}

static int record(const struct record_flags *flags)
{
    struct recorder recorder = {.flags = flags};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_stop_catch();
    kvc_link_set_stop_flag(&kvc_stop_signal);
    kvc_status status = check_flags(flags, &err);
    if (status == KVC_OK && flags->output != NULL)
        status = open_output(flags->output, &recorder.file, &err);
    if (status == KVC_OK)
        status = record_with_file(&recorder, &err);
    kvc_report_file_close(&recorder.file);
    const size_t findings = kvc_checker_finish(&recorder.checker);
    if (status != KVC_OK) {
        kvc_print_error(&err);
        return kvc_exit_status(status);
    }
    if (!flags->quiet)
        fprintf(stderr, "%lld messages%s%s\n", (long long)recorder.count,
                flags->output != NULL ? " recorded in " : "",
                flags->output != NULL ? flags->output : "");
    return findings > 0 ? KVC_EXIT_UNEXPECTED : KVC_EXIT_OK;
}

static int command_record(int argc, char **argv)
{
    struct record_flags flags = {.listen = "tcp://127.0.0.1:0"};
    const struct kvc_option_group groups[] = {
        {"Options", record_table, KVC_COUNT_OF(record_table), &flags},
    };
    const struct kvc_command_line line = {
        .usage = "kvconform record --rpc-url URL [OPTION…]",
        .about =
            "Stands between clients and a server, and records what they say until Ctrl-C. Exit "
            "status: 0, 1 when --check has found something, 2 wrong usage, 3 the server could not be "
            "reached, or --listen not be listened on.",
        .groups = groups,
        .group_count = KVC_COUNT_OF(groups),
    };
    char **arguments = NULL;
    size_t count = 0;
    int exit_status = 0;
    if (kvc_options_parse(&line, argc, argv, &arguments, &count, &exit_status))
        exit_status = record(&flags);
    return exit_status;
}

const struct kvc_command kvc_command_record = {
    .name = "record",
    .summary = "a proxy that records what a client and a server say, and checks the client",
    .run = command_record,
};
