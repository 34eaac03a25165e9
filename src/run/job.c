#include "src/run/job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/run/control.h"
#include "src/target/aside.h"

enum {
    GRACE_MS = 1000, /* to clean up and send a verdict after being asked to end */
    MAX_OUTPUT = 32 << 10,
};

/* ---- what the two sides talk over ---- */

enum side { RUNNER, CHECK };

/* The runner's end and the check's. -1: none. */
struct channels {
    int verdict[2]; /* pipes, from the check */
    int output[2];
    int control[2]; /* a socket pair */
};

static void close_side(const struct channels *channels, enum side side)
{
    const int fds[] = {channels->verdict[side], channels->output[side], channels->control[side]};
    for (size_t i = 0; i < KVC_COUNT_OF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static kvc_status open_channels(struct channels *channels, struct kvc_error *err)
{
    *channels = (struct channels){{-1, -1}, {-1, -1}, {-1, -1}};
    kvc_status status = KVC_OK;
    if (pipe2(channels->verdict, O_CLOEXEC) != 0 || pipe2(channels->output, O_CLOEXEC) != 0)
        status = kvc_fail_errno(err, "cannot make a pipe");
    else
        status = kvc_control_open(&channels->control[RUNNER], &channels->control[CHECK], err);
    if (status != KVC_OK) {
        close_side(channels, RUNNER);
        close_side(channels, CHECK);
    }
    return status;
}

/* ---- the child ---- */

static volatile int stop_flag;

static void on_stop(int signal)
{
    (void)signal;
    stop_flag = 1;
}

/* A bit for each descriptor that is open. */
struct open_fds {
    uint64_t bits[16];
};

static struct open_fds list_open_fds(void)
{
    struct open_fds list = {0};
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return list;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder) &&
            (size_t)fd < 64 * KVC_COUNT_OF(list.bits))
            list.bits[fd / 64] |= (uint64_t)1 << (fd % 64);
    }
    closedir(folder);
    return list;
}

/* Appends the names of what is open now and was not before. Not counted are the event descriptors
 * that libzmq's context keeps until the process ends. */
static void list_leaked_fds(const struct open_fds *before, struct kvc_buffer *names)
{
    const struct open_fds after = list_open_fds();
    for (int fd = 0; fd < 64 * (int)KVC_COUNT_OF(after.bits); fd++) {
        const uint64_t bit = (uint64_t)1 << (fd % 64);
        if ((after.bits[fd / 64] & bit) == 0 || (before->bits[fd / 64] & bit) != 0)
            continue;
        char link[32], target[128] = "";
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof(target) - 1) > 0 &&
            strncmp(target, "anon_inode:", strlen("anon_inode:")) != 0)
            kvc_buffer_printf(names, "%s%s", names->size > 0 ? ", " : "", target);
    }
}

/* What the check opened and did not close: the check is wrong, or the library below it. libzmq closes
 * sockets a moment after it is told to, on a machine that is busy a long one. */
static void report_leaked_fds(const struct open_fds *before, struct kvc_verdict *verdict)
{
    enum { PATIENCE_MS = 3000, PAUSE_MS = 2 };
    const int64_t deadline_ms = kvc_now_ms() + PATIENCE_MS;
    struct kvc_buffer names = {0};
    if (verdict->outcome != KVC_OUTCOME_PASS)
        return;
    list_leaked_fds(before, &names);
    while (names.size > 0 && kvc_now_ms() < deadline_ms) {
        kvc_sleep_ms(PAUSE_MS);
        names.size = 0;
        list_leaked_fds(before, &names);
    }
    if (names.size > 0) {
        verdict->outcome = KVC_OUTCOME_ERROR;
        kvc_buffer_printf(&verdict->message, "the check left file descriptors open: %s",
                          kvc_buffer_text(&names));
    }
    kvc_buffer_clear(&names);
}

static void send_verdict(const struct kvc_verdict *verdict, int fd)
{
    struct kvc_buffer bytes = {0};
    kvc_verdict_encode(verdict, &bytes);
    size_t sent = 0;
    while (sent < bytes.size) {
        const ssize_t written = write(fd, bytes.data + sent, bytes.size - sent);
        if (written <= 0 && errno != EINTR)
            break;
        sent += written > 0 ? (size_t)written : 0;
    }
    kvc_buffer_clear(&bytes);
}

static _Noreturn void be_check(const struct kvc_ctx_options *options, int parent,
                               const struct channels *channels)
{
    const int verdict_fd = channels->verdict[CHECK], control_fd = channels->control[CHECK];
    struct kvc_ctx_options own_options = *options;
    own_options.control_fd = control_fd;
    dup2(channels->output[CHECK], STDOUT_FILENO);
    dup2(channels->output[CHECK], STDERR_FILENO);
    const int keep[] = {verdict_fd, control_fd};
    kvc_aside_detach(parent, SIGKILL, keep, KVC_COUNT_OF(keep));
    kvc_aside_limit_memory();
    setpgid(0, 0); /* what the check starts is found, and ended, with it */
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_stop}, NULL);
    kvc_link_set_stop_flag(&stop_flag);
    const struct open_fds before = list_open_fds();
    struct kvc_verdict verdict;
    kvc_ctx_run(&own_options, &verdict);
    report_leaked_fds(&before, &verdict);
    fflush(NULL);
    send_verdict(&verdict, verdict_fd);
    kvc_verdict_clear(&verdict);
    _exit(0);
}

/* ---- the parent ---- */

kvc_status kvc_job_start(struct kvc_job *job, const struct kvc_ctx_options *options,
                         int64_t limit_ms, struct kvc_error *err)
{
    struct channels channels;
    KVC_GUARD(open_channels(&channels, err));
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0)
        be_check(options, parent, &channels);
    close_side(&channels, CHECK);
    if (child < 0) {
        kvc_fail_errno(err, "cannot start a process");
        close_side(&channels, RUNNER);
        return KVC_ESYSTEM;
    }
    setpgid(child, child); /* both sides do it: neither knows who is first */
    fcntl(channels.verdict[RUNNER], F_SETFL, O_NONBLOCK);
    fcntl(channels.output[RUNNER], F_SETFL, O_NONBLOCK);
    *job = (struct kvc_job){.pid = child,
                            .verdict_fd = channels.verdict[RUNNER],
                            .output_fd = channels.output[RUNNER],
                            .control_fd = channels.control[RUNNER],
                            .start_ns = kvc_now_ns(),
                            .deadline_ms = kvc_now_ms() + limit_ms,
                            .limit_ms = limit_ms};
    return KVC_OK;
}

/* Reads what is there; keeps at most `limit` bytes. */
static void drain(int *fd, struct kvc_buffer *kept, size_t limit)
{
    char bytes[4096];
    while (*fd >= 0) {
        const ssize_t got = read(*fd, bytes, sizeof(bytes));
        if (got < 0)
            return; /* nothing there, or a signal: poll tells again */
        if (got == 0) {
            close(*fd);
            *fd = -1;
            return;
        }
        const size_t room = limit > kept->size ? limit - kept->size : 0;
        kvc_buffer_append(kept, bytes, (size_t)got < room ? (size_t)got : room);
    }
}

void kvc_job_read(struct kvc_job *job)
{
    drain(&job->verdict_fd, &job->verdict, KVC_VERDICT_MAX_BYTES);
    drain(&job->output_fd, &job->output, MAX_OUTPUT);
}

void kvc_job_ask_to_end(struct kvc_job *job, int64_t now_ms)
{
    if (job->asked_to_end)
        return;
    job->asked_to_end = true;
    job->deadline_ms = now_ms + GRACE_MS;
    kill(job->pid, SIGTERM);
}

void kvc_job_check(struct kvc_job *job, int64_t now_ms)
{
    if (!job->ended && waitpid(job->pid, &job->wait_status, WNOHANG) == job->pid)
        job->ended = true;
    if (job->ended || now_ms < job->deadline_ms)
        return;
    if (job->asked_to_end) {
        kvc_job_kill(job);
        return;
    }
    job->timed_out = true;
    kvc_job_ask_to_end(job, now_ms);
}

void kvc_job_kill(struct kvc_job *job)
{
    if (job->ended)
        return;
    kill(-job->pid, SIGKILL);
    while (waitpid(job->pid, &job->wait_status, 0) < 0 && errno == EINTR) {
    }
    job->ended = true;
}

/* ---- what came of it ---- */

static void take_verdict(struct kvc_job *job, struct kvc_result *result)
{
    struct kvc_verdict verdict;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_verdict_decode(kvc_buffer_view(&job->verdict), &verdict, &err) != KVC_OK) {
        result->raw = KVC_OUTCOME_ERROR;
        kvc_result_set(&result->message, "%s", err.what);
        return;
    }
    result->raw = verdict.outcome;
    kvc_result_set(&result->message, "%s", kvc_buffer_text(&verdict.message));
    kvc_result_set(&result->expected, "%s", kvc_buffer_text(&verdict.expected));
    kvc_result_set(&result->got, "%s", kvc_buffer_text(&verdict.got));
    kvc_result_set(&result->details, "%s", kvc_buffer_text(&verdict.details));
    kvc_verdict_clear(&verdict);
}

static void describe_death(const struct kvc_job *job, struct kvc_result *result)
{
    result->raw = KVC_OUTCOME_CRASH;
    if (WIFSIGNALED(job->wait_status))
        kvc_result_set(&result->message, "the check's process died of signal %d (%s)",
                       WTERMSIG(job->wait_status), strsignal(WTERMSIG(job->wait_status)));
    else
        kvc_result_set(&result->message, "the check's process ended with exit status %d",
                       WEXITSTATUS(job->wait_status));
}

static void describe_timeout(const struct kvc_job *job, struct kvc_result *result)
{
    if (WIFEXITED(job->wait_status) && job->verdict.size > 0)
        take_verdict((struct kvc_job *)job, result); /* it says what it was waiting for */
    char *doing = kvc_strdup(result->message);
    result->raw = KVC_OUTCOME_TIMEOUT;
    kvc_result_set(&result->message, "the check did not end within %.1f s%s%s",
                   (double)job->limit_ms / 1000, doing[0] != '\0' ? "; at the end: " : "", doing);
    free(doing);
}

/* A check that passes must also have cleaned up. */
static void spoil(struct kvc_result *result, const char *what, size_t count)
{
    if (result->raw != KVC_OUTCOME_PASS)
        return;
    result->raw = KVC_OUTCOME_ERROR;
    kvc_result_set(&result->message, "the check left behind: %zu %s", count, what);
}

static size_t end_leftover_processes(pid_t group)
{
    while (waitpid(-group, NULL, WNOHANG) > 0) {
    }
    if (kill(-group, SIGKILL) != 0)
        return 0;
    size_t count = 0;
    while (waitpid(-group, NULL, 0) > 0)
        count++;
    return count > 0 ? count : 1;
}

static void remove_leftovers(const struct kvc_job *job, struct kvc_result *result)
{
    const size_t processes = end_leftover_processes(job->pid);
    const size_t segments = kvc_segment_sweep_pid(job->pid);
    if (processes > 0)
        spoil(result, "process(es)", processes);
    if (segments > 0)
        spoil(result, "shared-memory segment(s)", segments);
}

static void show_output(struct kvc_job *job, struct kvc_result *result)
{
    if (job->output.size == 0)
        return;
    if (result->raw == KVC_OUTCOME_PASS) {
        result->raw = KVC_OUTCOME_ERROR;
        kvc_result_set(&result->message, "the check's process wrote to its output");
    }
    char *details = kvc_strdup(result->details);
    kvc_result_set(&result->details, "%soutput of the check's process:\n%s", details,
                   kvc_buffer_text(&job->output));
    free(details);
}

void kvc_job_finish(struct kvc_job *job, struct kvc_result *result)
{
    kvc_job_read(job);
    result->seconds = (double)(kvc_now_ns() - job->start_ns) / 1e9;
    if (job->timed_out)
        describe_timeout(job, result);
    else if (!WIFEXITED(job->wait_status) || WEXITSTATUS(job->wait_status) != 0 ||
             job->verdict.size == 0)
        describe_death(job, result);
    else
        take_verdict(job, result);
    remove_leftovers(job, result);
    show_output(job, result);
    if (job->verdict_fd >= 0)
        close(job->verdict_fd);
    if (job->output_fd >= 0)
        close(job->output_fd);
    close(job->control_fd);
    kvc_buffer_clear(&job->verdict);
    kvc_buffer_clear(&job->output);
    *job = (struct kvc_job){0};
}
