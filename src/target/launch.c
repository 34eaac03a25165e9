/* A server that we start from a command, and end. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/target/aside.h"
#include "src/target/l2_folder.h"
#include "src/target/launch_setup.h"
#include "src/target/supervisor.h"
#include "src/target/target_impl.h"

#define RPC_PORT  "{rpc_port}"
#define HTTP_PORT "{http_port}"

enum {
    COMMAND_GRACE_MS = 10000, /* for the server to end by itself */
    STOP_GRACE_MS = 15000,    /* for the supervisor to see to that */
    CONNECT_TRY_MS = 500,
    RETRY_MS = 100,
    HTTP_PATIENCE_MS = 15000, /* HTTP may start after ZMQ: where nobody gave its address */
    HTTP_TRY_MS = 1000,
    LOG_TAIL_BYTES = 320,
};

struct launch_state {
    int stop_fd;     /* the supervisor ends the server when this closes */
    int log_fd;      /* to read the log's end; -1: it is no plain file */
    int exit_status; /* of a command that ended by itself */
    int supervisor;
};

/* ---- addresses ---- */

/* A port that is free now. Two are bound before either is given up, so that they differ. */
static kvc_status find_ports(int ports[2], struct kvc_error *err)
{
    int fds[2] = {-1, -1};
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < 2 && status == KVC_OK; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&address, sizeof(address)) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&address, &size) != 0)
            status = kvc_fail_errno(err, "cannot find a free port");
        ports[i] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return status;
}

/* The text with both ports in it; the caller frees it. */
static char *fill_in_ports(const char *text, const int ports[2])
{
    char rpc_port[12], http_port[12];
    snprintf(rpc_port, sizeof(rpc_port), "%d", ports[0]);
    snprintf(http_port, sizeof(http_port), "%d", ports[1]);
    char *half_filled = kvc_launch_fill_in(text, RPC_PORT, rpc_port);
    char *filled = kvc_launch_fill_in(half_filled, HTTP_PORT, http_port);
    free(half_filled);
    return filled;
}

/* An address that the user gives, or else one that follows from the port in the command, or none. */
static void resolve_url(const char *given, const char *command, const char *placeholder,
                        const char *fallback, const int ports[2], char *url, size_t url_size)
{
    char *filled = fill_in_ports(given != NULL                          ? given
                                 : strstr(command, placeholder) != NULL ? fallback
                                                                        : "",
                                 ports);
    snprintf(url, url_size, "%s", filled);
    free(filled);
}

/* Sets the URLs; gives back the command with ports and folder, and what the set-up adds, in it. */
static kvc_status resolve_addresses(struct kvc_target *target, const struct kvc_target_setup *setup,
                                    char **command, struct kvc_error *err)
{
    const struct kvc_target_options *options = &target->options;
    int ports[2];
    if (strstr(options->launch, RPC_PORT) == NULL && options->rpc_url == NULL)
        return kvc_fail(err, KVC_EUSAGE,
                        "--launch: where will the server listen? Put " RPC_PORT
                        " into the command, or give --rpc-url");
    KVC_GUARD(find_ports(ports, err));
    resolve_url(options->rpc_url, options->launch, RPC_PORT, "tcp://127.0.0.1:" RPC_PORT, ports,
                target->rpc_url, sizeof(target->rpc_url));
    resolve_url(options->http_url, options->launch, HTTP_PORT, "http://127.0.0.1:" HTTP_PORT, ports,
                target->http_url, sizeof(target->http_url));
    KVC_GUARD(kvc_target_check_urls(target, err));
    if (strstr(options->launch, KVC_LAUNCH_L2_DIR) != NULL)
        KVC_GUARD(kvc_l2_folder_make(target, err));
    struct kvc_buffer whole = {0};
    kvc_buffer_append_text(&whole, options->launch);
    kvc_launch_append_setup(options, setup, &whole);
    char *half_filled = fill_in_ports(kvc_buffer_text(&whole), ports);
    *command = kvc_launch_fill_in(half_filled, KVC_LAUNCH_L2_DIR, target->l2_folder);
    free(half_filled);
    kvc_buffer_clear(&whole);
    return KVC_OK;
}

/* ---- the log ---- */

static kvc_status cannot_write_log(const char *path, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "cannot write the server's log '%s': %s", path,
                    strerror(errno));
}

/* *fd is for the server to write to. */
static kvc_status open_log(const char *path, struct launch_state *state, int *fd,
                           struct kvc_error *err)
{
    struct stat there;
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (*fd < 0)
        return cannot_write_log(path, err);
    if (fstat(*fd, &there) == 0 && S_ISREG(there.st_mode))
        state->log_fd = open(path, O_RDONLY | O_CLOEXEC);
    return KVC_OK;
}

/* Servers that run side by side have a file each: FILE, FILE.tiny-pool, … */
static kvc_status open_named_log(const char *path, const struct kvc_target_setup *setup,
                                 struct launch_state *state, int *fd, struct kvc_error *err)
{
    if (setup == NULL)
        return open_log(path, state, fd, err);
    char *own_path = kvc_format("%s.%s", path, setup->name);
    const kvc_status status = open_log(own_path, state, fd, err);
    free(own_path);
    return status;
}

/* One that has no name any more, so that nobody needs to remove it. */
static kvc_status open_temporary_log(struct launch_state *state, int *fd, struct kvc_error *err)
{
    const char *folder = getenv("TMPDIR");
    char *path = kvc_format("%s/kvconform-launch-XXXXXX", folder ? folder : "/tmp");
    kvc_status status = KVC_OK;
    *fd = mkostemp(path, O_CLOEXEC);
    if (*fd >= 0) {
        unlink(path);
        state->log_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    } else {
        status = cannot_write_log(path, err);
    }
    free(path);
    return status;
}

/* Appends the last lines of the log, joined by " | ". */
static void append_log_tail(const struct launch_state *state, struct kvc_buffer *out)
{
    char bytes[LOG_TAIL_BYTES + 1];
    struct stat log;
    if (state->log_fd < 0 || fstat(state->log_fd, &log) != 0)
        return;
    const bool cut = log.st_size > LOG_TAIL_BYTES;
    const ssize_t size =
        pread(state->log_fd, bytes, LOG_TAIL_BYTES, cut ? log.st_size - LOG_TAIL_BYTES : 0);
    if (size < 0)
        return;
    bytes[size] = '\0';
    const char *start = cut && strchr(bytes, '\n') != NULL ? strchr(bytes, '\n') + 1 : bytes;
    for (const char *c = start; *c != '\0'; c++) {
        if (*c != '\n')
            kvc_buffer_append_byte(out, (uint8_t)*c);
        else if (c[1] != '\0')
            kvc_buffer_append_text(out, " | ");
    }
}

static kvc_status fail_with_log(const struct launch_state *state, kvc_status status,
                                const char *what, struct kvc_error *err)
{
    struct kvc_buffer tail = {0};
    append_log_tail(state, &tail);
    kvc_fail(err, status, "%s; its log ends: %s", what,
             tail.size > 0 ? kvc_buffer_text(&tail) : "(empty)");
    kvc_buffer_clear(&tail);
    return status;
}

/* ---- starting ---- */

/* Never returns. */
static _Noreturn void be_supervisor(const struct kvc_target *target, const char *command,
                                    int parent, int log_fd, int stop_fd)
{
    struct kvc_error err = KVC_ERROR_INIT;
    if (target->l2_bytes != 0 &&
        kvc_l2_folder_confine(target->l2_folder, target->l2_bytes, &err) != KVC_OK) {
        dprintf(log_fd, "%s\n", err.what);
        _exit(127);
    }
    kvc_supervise(command, parent, log_fd, stop_fd, COMMAND_GRACE_MS);
}

static kvc_status start_supervisor(struct kvc_target *target, const char *command, int log_fd,
                                   struct kvc_error *err)
{
    struct launch_state *state = target->state;
    int stop[2];
    if (pipe2(stop, O_CLOEXEC) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0)
        be_supervisor(target, command, parent, log_fd, stop[0]);
    close(stop[0]);
    state->stop_fd = stop[1];
    if (child < 0)
        return kvc_fail_errno(err, "cannot start a process");
    target->process = state->supervisor = child;
    return KVC_OK;
}

static bool command_ended(struct kvc_target *target)
{
    struct launch_state *state = target->state;
    int status;
    if (target->process == 0 || waitpid(target->process, &status, WNOHANG) != target->process)
        return target->process == 0;
    state->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    target->process = 0;
    return true;
}

/* Asks until it answers. */
static kvc_status await_answer(struct kvc_target *target, struct kvc_error *err)
{
    struct launch_state *state = target->state;
    const int64_t deadline_ms = kvc_now_ms() + target->options.start_timeout_ms;
    while (true) {
        const kvc_status status = kvc_target_identify(target, CONNECT_TRY_MS, err);
        if (status != KVC_ECONNECT && status != KVC_ETIMEOUT && status != KVC_ELOST)
            return status;
        if (command_ended(target)) {
            char what[80];
            snprintf(what, sizeof(what), "the launched command ended with status %d",
                     state->exit_status);
            return fail_with_log(state, KVC_ELOST, what, err);
        }
        if (kvc_now_ms() >= deadline_ms) {
            char what[80];
            snprintf(what, sizeof(what), "the launched server did not answer within %.0f s",
                     (double)target->options.start_timeout_ms / 1000);
            return fail_with_log(state, KVC_ETIMEOUT, what, err);
        }
        kvc_sleep_ms(RETRY_MS);
    }
}

/* That nothing answers is an error where the user gave the address, and else for others to find. */
static kvc_status await_http(struct kvc_target *target, struct kvc_error *err)
{
    if (target->http_url[0] == '\0')
        return KVC_OK;
    const bool given = target->options.http_url != NULL;
    const int64_t deadline_ms =
        kvc_now_ms() + (given ? target->options.start_timeout_ms : HTTP_PATIENCE_MS);
    while (true) {
        const int64_t left_ms = deadline_ms - kvc_now_ms();
        const kvc_status status =
            kvc_target_await_http(target, left_ms < HTTP_TRY_MS ? left_ms : HTTP_TRY_MS, err);
        if (status != KVC_ECONNECT)
            return given || status == KVC_EINTERRUPTED ? status : KVC_OK;
        if (command_ended(target))
            return fail_with_log(target->state, KVC_ELOST,
                                 "the launched command ended before it served HTTP", err);
        if (kvc_now_ms() >= deadline_ms)
            return given ? status : KVC_OK;
    }
}

static kvc_status launch_start(struct kvc_target *target, const struct kvc_target_setup *setup,
                               struct kvc_error *err)
{
    struct launch_state *state = kvc_alloc_zero(1, sizeof(*state));
    char *command = NULL;
    int log_fd = -1;
    state->stop_fd = -1;
    state->log_fd = -1;
    target->state = state;
    kvc_status status = resolve_addresses(target, setup, &command, err);
    if (status == KVC_OK)
        status = target->options.launch_log != NULL
                     ? open_named_log(target->options.launch_log, setup, state, &log_fd, err)
                     : open_temporary_log(state, &log_fd, err);
    if (status == KVC_OK)
        status = start_supervisor(target, command, log_fd, err);
    if (log_fd >= 0)
        close(log_fd);
    free(command);
    if (status == KVC_OK)
        status = await_answer(target, err);
    if (status == KVC_OK)
        status = await_http(target, err);
    return status;
}

static void launch_stop(struct kvc_target *target)
{
    struct launch_state *state = target->state;
    if (state == NULL)
        return;
    if (state->stop_fd >= 0)
        close(state->stop_fd);
    if (target->process != 0)
        kvc_target_end_process(target->process, false, STOP_GRACE_MS);
    if (state->supervisor != 0)
        kvc_supervisor_lost(state->supervisor, COMMAND_GRACE_MS);
    if (state->log_fd >= 0)
        close(state->log_fd);
    free(state);
    target->state = NULL;
    target->process = 0;
}

/* The supervisor passes on what it gets. */
static void launch_end(struct kvc_target *target, enum kvc_ending ending)
{
    static const int signals[] = {SIGTERM, SIGINT, KVC_SUPERVISOR_KILL};
    kvc_target_signal_process(target->process, signals[ending], STOP_GRACE_MS);
    target->process = 0;
}

const struct kvc_target_ops kvc_target_launch = {
    .name = "launch",
    .can_restart = true,
    .is_private = true,
    .takes = kvc_launch_takes,
    .time_unit_ms = 1000,
    .start = launch_start,
    .stop = launch_stop,
    .end = launch_end,
};
