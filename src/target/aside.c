#include "src/target/aside.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"

/* ---- the child ---- */

static bool is_kept(int fd, const int *keep, size_t keep_count)
{
    for (size_t i = 0; i < keep_count; i++)
        if (keep[i] == fd)
            return true;
    return false;
}

static void close_others(const int *keep, size_t keep_count)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const int fd = atoi(entry->d_name);
        if (fd > 2 && fd != dirfd(folder) && !is_kept(fd, keep, keep_count))
            close(fd);
    }
    closedir(folder);
}

void kvc_aside_detach(int parent, int signal, const int *keep, size_t keep_count)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD};
    prctl(PR_SET_PDEATHSIG, signal);
    if (getppid() != parent)
        _exit(0);
    for (size_t i = 0; i < KVC_COUNT_OF(handled); i++)
        sigaction(handled[i], &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_others(keep, keep_count);
}

void kvc_aside_limit_memory(void)
{
    enum { DATA_FIELD = 5 }; /* pages of memory that is neither shared nor read-only */
    unsigned long pages[DATA_FIELD + 1] = {0};
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return;
    bool complete = true;
    for (size_t i = 0; i <= DATA_FIELD; i++)
        complete = fscanf(file, "%lu", &pages[i]) == 1 && complete;
    fclose(file);
    struct rlimit limit;
    if (!complete || getrlimit(RLIMIT_DATA, &limit) != 0)
        return;
    const rlim_t wanted =
        pages[DATA_FIELD] * (rlim_t)sysconf(_SC_PAGESIZE) + KVC_ASIDE_MEMORY_BYTES;
    if (wanted < limit.rlim_cur)
        limit.rlim_cur = wanted;
    setrlimit(RLIMIT_DATA, &limit);
}

static bool write_all(int fd, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        const ssize_t written = write(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        size -= (size_t)written;
    }
    return true;
}

static _Noreturn void answer(kvc_aside_func *func, const void *arg, size_t result_size, int fd,
                             int words_fd)
{
    if (words_fd >= 0)
        dup2(words_fd, STDERR_FILENO);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_aside_limit_memory();
    void *result = kvc_alloc_zero(1, result_size);
    err.status = func(arg, result, &err);
    write_all(fd, &err, sizeof(err));
    write_all(fd, result, result_size);
    free(result);
    _exit(0);
}

/* ---- the parent ---- */

bool kvc_aside_stop_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
           sigismember(&pending, SIGHUP) == 1;
}

static kvc_status read_all(int fd, void *data, size_t size, int64_t deadline_ms,
                           struct kvc_error *err)
{
    enum { SLICE_MS = 50 };
    uint8_t *at = data;
    while (size > 0) {
        const int64_t left = deadline_ms - kvc_now_ms();
        if (left <= 0)
            return kvc_fail(err, KVC_ETIMEOUT, "no result within the limit");
        if (kvc_aside_stop_pending())
            return kvc_fail(err, KVC_EINTERRUPTED, "interrupted");
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, left < SLICE_MS ? (int)left : SLICE_MS) <= 0)
            continue;
        const ssize_t got = read(fd, at, size);
        if (got == 0)
            return kvc_fail(err, KVC_ELOST, "the process that asked the server died");
        if (got > 0) {
            at += got;
            size -= (size_t)got;
        }
    }
    return KVC_OK;
}

static kvc_status collect(int fd, void *result, size_t result_size, int64_t limit_ms,
                          struct kvc_error *err)
{
    const int64_t deadline_ms = kvc_now_ms() + limit_ms;
    struct kvc_error answer_err = KVC_ERROR_INIT;
    KVC_GUARD(read_all(fd, &answer_err, sizeof(answer_err), deadline_ms, err));
    KVC_GUARD(read_all(fd, result, result_size, deadline_ms, err));
    if (answer_err.status != KVC_OK && err != NULL)
        *err = answer_err;
    return answer_err.status;
}

static int reap(pid_t child)
{
    int wait_status = 0;
    kill(child, SIGKILL);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return wait_status;
}

/* Not of our own SIGKILL. */
static bool died_of_signal(int wait_status)
{
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) != SIGKILL;
}

/* What the child printed is passed on, but for the line with which libzmq, or kvc_alloc, ends a process that
 * gets no memory: true if that came. */
static bool ran_out_of_memory(int words_fd)
{
    char words[4096];
    const ssize_t got = words_fd >= 0 ? pread(words_fd, words, sizeof(words) - 1, 0) : 0;
    words[got > 0 ? got : 0] = '\0';
    if (strcasestr(words, "out of memory (") != NULL)
        return true;
    fputs(words, stderr);
    return false;
}

static void explain_death(int wait_status, bool out_of_memory, struct kvc_error *err)
{
    if (out_of_memory)
        kvc_fail(err, KVC_ELOST, "the server sends more than the %llu MiB that may be kept",
                 (unsigned long long)(KVC_ASIDE_MEMORY_BYTES >> 20));
    else if (died_of_signal(wait_status))
        kvc_fail(err, KVC_ELOST, "the process that asked the server died of signal %d (%s)",
                 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
}

kvc_status kvc_aside_run(kvc_aside_func *func, const void *arg, void *result, size_t result_size,
                         int64_t limit_ms, struct kvc_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    const int words_fd = memfd_create("aside", MFD_CLOEXEC);
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        const int keep[] = {ends[1], words_fd};
        kvc_aside_detach(parent, SIGKILL, keep, KVC_COUNT_OF(keep));
        answer(func, arg, result_size, ends[1], words_fd);
    }
    close(ends[1]);
    kvc_status status = KVC_OK;
    if (child < 0) {
        status = kvc_fail_errno(err, "cannot start a process");
    } else {
        status = collect(ends[0], result, result_size, limit_ms, err);
        const int wait_status = reap(child);
        const bool out_of_memory = ran_out_of_memory(words_fd);
        if (status == KVC_ELOST)
            explain_death(wait_status, out_of_memory, err);
    }
    close(ends[0]);
    if (words_fd >= 0)
        close(words_fd);
    return status;
}
