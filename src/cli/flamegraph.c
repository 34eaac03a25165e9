#include "src/cli/flamegraph.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"

enum { START_MS = 60000, STOP_MS = 60000, LOOK_MS = 20 };

static const char *const modes[] = {"on-cpu", "off-cpu", "wakeup", "offwake", "wall", "gil"};
static const char recording[] = "recording started";

extern char **environ;

/* ---- flags ---- */

static bool is_on(const struct kvc_flamegraph_flags *flags)
{
    return strcmp(flags->on, "on") == 0;
}

static bool is_mode(struct kvc_str name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(modes); i++)
        if (kvc_str_is(name, modes[i]))
            return true;
    return false;
}

/* The next of "gil,wall"; *rest moves on, NULL after the last. */
static struct kvc_str next_mode(const char **rest)
{
    const size_t size = strcspn(*rest, ",");
    const struct kvc_str mode = {*rest, size};
    *rest = (*rest)[size] == ',' ? *rest + size + 1 : NULL;
    return mode;
}

static kvc_status check_modes(const struct kvc_flamegraph_flags *flags, struct kvc_error *err)
{
    size_t count = 0;
    for (const char *rest = flags->modes; rest != NULL; count++) {
        const struct kvc_str mode = next_mode(&rest);
        if (!is_mode(mode) || count == KVC_FLAMEGRAPH_MAX_MODES) {
            kvc_fail(err, KVC_EUSAGE, "--flamegraph-mode '%s': not accepted", flags->modes);
            return kvc_error_set_expected(
                err, "on-cpu, off-cpu, wakeup, offwake, wall, gil, or several of them with commas");
        }
    }
    if (count > 1 && flags->output != NULL)
        return kvc_fail(err, KVC_EUSAGE,
                        "--flamegraph-output names one picture, --flamegraph-mode asks for %zu",
                        count);
    return KVC_OK;
}

kvc_status kvc_flamegraph_check(const struct kvc_flamegraph_flags *flags, struct kvc_error *err)
{
    if (!is_on(flags))
        return KVC_OK;
    KVC_GUARD(check_modes(flags, err));
    if (flags->pid <= 0)
        return kvc_fail(err, KVC_EUSAGE,
                        "--flamegraph on needs --profile-server-pid, the pid of the server");
    if (kill((pid_t)flags->pid, 0) != 0)
        return kvc_fail(err, KVC_EUSAGE, "--profile-server-pid %lld: %s", (long long)flags->pid,
                        strerror(errno));
    return KVC_OK;
}

/* ---- a recorder ---- */

/* In a process group of its own: a Ctrl-C at the terminal ends the bench, and that ends it. */
static kvc_status spawn(char *const *arguments, struct kvc_recorder *recorder,
                        struct kvc_error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return kvc_fail_errno(err, "cannot make a pipe");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    const int failed =
        posix_spawnp(&recorder->pid, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    recorder->output = ends[0];
    if (failed == 0)
        return KVC_OK;
    close(ends[0]);
    errno = failed;
    return kvc_fail_errno(err, "--flamegraph on: cannot run `lmcache tool flamegraph`");
}

static kvc_status start_one(const struct kvc_flamegraph_flags *flags, struct kvc_str mode,
                            struct kvc_recorder *recorder, struct kvc_error *err)
{
    char pid[24], mode_text[16];
    snprintf(pid, sizeof(pid), "%lld", (long long)flags->pid);
    snprintf(mode_text, sizeof(mode_text), KVC_STR_FMT, KVC_STR_ARG(mode));
    recorder->path =
        flags->output != NULL
            ? kvc_strdup(flags->output)
            : kvc_format("/tmp/lmcache_bench_flames/server-pid%s.%s.svg", pid, mode_text);
    const char *arguments[] = {/* what it prints is to be seen at once */
                               "env",
                               "PYTHONUNBUFFERED=1",
                               "lmcache",
                               "tool",
                               "flamegraph",
                               "--pid",
                               pid,
                               "--mode",
                               mode_text,
                               "--duration",
                               "0",
                               "--output",
                               recorder->path,
                               flags->scripts_dir != NULL ? "--flamegraph-scripts-dir" : NULL,
                               flags->scripts_dir,
                               NULL};
    const kvc_status status = spawn((char *const *)(uintptr_t)arguments, recorder, err);
    if (status != KVC_OK)
        free(recorder->path);
    return status;
}

/* Takes in what the recorder prints until it is there, or the recorder ends, or time is up. */
static bool read_until(const struct kvc_recorder *recorder, const char *wanted, int64_t limit_ms,
                       struct kvc_buffer *printed)
{
    const int64_t deadline = kvc_now_ms() + limit_ms;
    while (wanted == NULL || strstr(kvc_buffer_text(printed), wanted) == NULL) {
        struct pollfd news = {.fd = recorder->output, .events = POLLIN};
        if (kvc_now_ms() >= deadline)
            return false;
        if (poll(&news, 1, LOOK_MS) <= 0)
            continue;
        char piece[1024];
        const ssize_t size = read(recorder->output, piece, sizeof(piece));
        if (size <= 0)
            return wanted == NULL;
        kvc_buffer_append(printed, piece, (size_t)size);
    }
    return true;
}

/* The last line that a recorder printed says best what is wrong. */
static kvc_status recorder_failed(struct kvc_buffer *printed, struct kvc_error *err)
{
    const char *text = kvc_buffer_text(printed);
    size_t end = strlen(text);
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
        end--;
    size_t begin = end;
    while (begin > 0 && text[begin - 1] != '\n')
        begin--;
    return kvc_fail(err, KVC_ESYSTEM, "--flamegraph on: nothing is recorded: %s",
                    end == 0 ? "the tool says nothing"
                             : kvc_text_show((struct kvc_str){text + begin, end - begin}).text);
}

/* ---- all of them ---- */

kvc_status kvc_flamegraph_start(const struct kvc_flamegraph_flags *flags,
                                struct kvc_flamegraph *flamegraph, struct kvc_error *err)
{
    *flamegraph = (struct kvc_flamegraph){0};
    for (const char *rest = is_on(flags) ? flags->modes : NULL; rest != NULL;) {
        struct kvc_recorder *recorder = &flamegraph->recorders[flamegraph->count];
        KVC_GUARD(start_one(flags, next_mode(&rest), recorder, err));
        flamegraph->count++;
        struct kvc_buffer printed = {0};
        const bool records = read_until(recorder, recording, START_MS, &printed);
        const kvc_status status = records ? KVC_OK : recorder_failed(&printed, err);
        kvc_buffer_clear(&printed);
        KVC_GUARD(status);
    }
    return KVC_OK;
}

static kvc_status stop_one(struct kvc_recorder *recorder, FILE *progress, struct kvc_error *err)
{
    struct kvc_buffer printed = {0};
    kill(-recorder->pid, SIGINT);
    if (!read_until(recorder, NULL, STOP_MS, &printed))
        kill(-recorder->pid, SIGKILL);
    close(recorder->output);
    int ended = 0;
    kvc_status status = KVC_OK;
    if (waitpid(recorder->pid, &ended, 0) < 0 || !WIFEXITED(ended) || WEXITSTATUS(ended) != 0 ||
        access(recorder->path, R_OK) != 0)
        status = recorder_failed(&printed, err);
    else if (progress != NULL)
        fprintf(progress, "Flame graph: %s\n", recorder->path);
    kvc_buffer_clear(&printed);
    free(recorder->path);
    return status;
}

kvc_status kvc_flamegraph_stop(struct kvc_flamegraph *flamegraph, FILE *progress,
                               struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < flamegraph->count; i++) {
        const kvc_status stopped =
            stop_one(&flamegraph->recorders[i], progress, status == KVC_OK ? err : NULL);
        status = status == KVC_OK ? stopped : status;
    }
    flamegraph->count = 0;
    return status;
}
