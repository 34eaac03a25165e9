#include "src/target/supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/target/aside.h"

#define SHM_FOLDER "/dev/shm/"

static volatile sig_atomic_t told_to_stop;

static void on_stop(int signal)
{
    told_to_stop = signal;
}

/* ---- segments of a process that cannot clean up ---- */

/* Names, one a line. */
static struct kvc_buffer list_segments(void)
{
    struct kvc_buffer names = {0};
    DIR *folder = opendir(SHM_FOLDER);
    if (folder == NULL)
        return names;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        kvc_buffer_printf(&names, "\n%s\n", entry->d_name);
    closedir(folder);
    return names;
}

static bool is_listed(struct kvc_buffer *names, const char *name)
{
    char *line = kvc_format("\n%s\n", name);
    const bool listed = strstr(kvc_buffer_text(names), line) != NULL;
    free(line);
    return listed;
}

/* Adds the segments that a process has mapped and that were not there `before`. */
static void add_mapped(const char *pid, struct kvc_buffer *before, struct kvc_buffer *found)
{
    char *path = kvc_format("/proc/%s/maps", pid);
    FILE *maps = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    free(path);
    while (maps != NULL && getline(&line, &capacity, maps) >= 0) {
        char *name = strstr(line, " " SHM_FOLDER);
        if (name == NULL)
            continue;
        name += strlen(" " SHM_FOLDER);
        name[strcspn(name, " \n")] = '\0';
        if (!is_listed(before, name) && !is_listed(found, name))
            kvc_buffer_printf(found, "\n%s\n", name);
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
}

static void remove_segments(struct kvc_buffer *names)
{
    for (char *name = strtok((char *)kvc_buffer_text(names), "\n"); name != NULL;
         name = strtok(NULL, "\n"))
        shm_unlink(name);
}

/* ---- the command ---- */

static _Noreturn void be_command(const char *command, int supervisor, int log_fd)
{
    const int null_fd = open("/dev/null", O_RDONLY);
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    kvc_aside_detach(supervisor, SIGTERM, NULL, 0);
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    dprintf(STDERR_FILENO, "cannot run /bin/sh: %s\n", strerror(errno));
    _exit(127);
}

/* ---- its processes ---- */

struct process {
    char state;
    int parent, group, session;
};

/* False when there is no such process. */
static bool look_up(pid_t pid, struct process *process)
{
    char *path = kvc_format("/proc/%d/stat", (int)pid);
    char line[512] = "";
    FILE *file = fopen(path, "re");
    free(path);
    if (file == NULL)
        return false;
    const char *got = fgets(line, sizeof(line), file);
    fclose(file);
    /* The second field is the program's name in brackets, which may hold anything. */
    const char *after_name = got != NULL ? strrchr(line, ')') : NULL;
    return after_name != NULL && sscanf(after_name + 1, " %c %d %d %d", &process->state,
                                        &process->parent, &process->group, &process->session) == 4;
}

/* We take in what loses its parent, so whatever the command has started is below us, also what has left
 * its process group. */
static bool is_below(pid_t pid, pid_t ancestor)
{
    enum { MAX_DEPTH = 1000 };
    struct process process;
    for (int depth = 0; pid > 1 && depth < MAX_DEPTH && look_up(pid, &process); depth++) {
        pid = process.parent;
        if (pid == ancestor)
            return true;
    }
    return false;
}

/* Sends a signal to everything below us. With found, adds the segments that it has mapped. */
static void signal_all(pid_t group, int signal, struct kvc_buffer *before, struct kvc_buffer *found)
{
    DIR *folder = opendir("/proc");
    if (folder == NULL) {
        kill(-group, signal);
        return;
    }
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || !is_below(pid, getpid()))
            continue;
        if (found != NULL)
            add_mapped(entry->d_name, before, found);
        kill(pid, signal);
    }
    closedir(folder);
}

static bool any_lives(void)
{
    pid_t ended;
    while ((ended = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    return ended == 0;
}

/* Ends whatever is left of the command: with a signal that it may heed, and then by force. */
static void end_all(pid_t group, int signal, int grace_ms, struct kvc_buffer *before)
{
    enum { STEP_MS = 20 };
    const int64_t deadline_ms = kvc_now_ms() + (signal != SIGKILL ? grace_ms : 0);
    struct kvc_buffer segments = {0};
    if (any_lives() && signal != SIGKILL)
        signal_all(group, signal, NULL, NULL);
    while (any_lives() && kvc_now_ms() < deadline_ms)
        kvc_sleep_ms(STEP_MS);
    while (any_lives()) {
        signal_all(group, SIGKILL, before, &segments);
        kvc_sleep_ms(STEP_MS);
    }
    remove_segments(&segments);
    kvc_buffer_clear(&segments);
}

/* Waits for one of the reasons to end; the command's wait status, or -1 while it runs. */
static int await_end(pid_t command, int stop_fd)
{
    enum { SLICE_MS = 50 };
    int status;
    while (!told_to_stop) {
        if (waitpid(command, &status, WNOHANG) == command)
            return status;
        struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
        if (poll(&stop, 1, SLICE_MS) > 0)
            break;
    }
    return -1;
}

void kvc_supervise(const char *command, int parent, int log_fd, int stop_fd, int grace_ms)
{
    const int keep[] = {log_fd, stop_fd};
    /* No signal when the parent dies: the pipe tells, and then there is work to do. */
    kvc_aside_detach(parent, 0, keep, KVC_COUNT_OF(keep));
    setsid(); /* Ctrl-C is for kvconform, which then ends us */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    static const int told_by[] = {SIGTERM, SIGINT, KVC_SUPERVISOR_KILL};
    for (size_t i = 0; i < KVC_COUNT_OF(told_by); i++)
        sigaction(told_by[i], &(struct sigaction){.sa_handler = on_stop}, NULL);
    struct kvc_buffer before = list_segments();
    const pid_t supervisor = getpid();
    const pid_t child = fork();
    if (child == 0)
        be_command(command, supervisor, log_fd);
    if (child < 0)
        _exit(127);
    setpgid(child, child);
    const int status = await_end(child, stop_fd);
    end_all(child,
            told_to_stop == KVC_SUPERVISOR_KILL ? SIGKILL
            : told_to_stop == SIGINT            ? SIGINT
                                                : SIGTERM,
            grace_ms, &before);
    kvc_buffer_clear(&before);
    if (status == -1)
        _exit(0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* ---- without a supervisor ---- */

/* Sends a signal to what lives of a session; false when nothing does. */
static bool signal_session(pid_t session, int signal)
{
    bool any = false;
    DIR *folder = opendir("/proc");
    if (folder == NULL)
        return false;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct process process;
        if (pid <= 0 || pid == session || !look_up(pid, &process) || process.session != session ||
            process.state == 'Z')
            continue;
        any = true;
        kill(pid, signal);
    }
    closedir(folder);
    return any;
}

void kvc_supervisor_lost(int supervisor, int grace_ms)
{
    enum { STEP_MS = 20 };
    const int64_t deadline_ms = kvc_now_ms() + grace_ms;
    if (!signal_session(supervisor, SIGTERM))
        return;
    while (signal_session(supervisor, 0) && kvc_now_ms() < deadline_ms)
        kvc_sleep_ms(STEP_MS);
    while (signal_session(supervisor, SIGKILL))
        kvc_sleep_ms(STEP_MS);
}
