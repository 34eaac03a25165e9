#include "src/bench/flame_recorder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"

enum { STOP_MS = 60000, LOOK_MS = 5, MAX_ARGUMENTS = 20, MOST_PARANOID = 2 };

/* Stand for what is known only at the start. */
static const char process_place[] = "PID", file_place[] = "FILE";

/* What all modes of a profiler have in common. */
static const struct tool {
    const char *source; /* where it comes from */
    bool as_root;
    bool by_perf; /* its recording is read by `perf script`; else it is folded stacks */
    bool prints;  /* the recording, on stdout; else into FILE */
    bool is_python;
    /* It records when it holds a file of such a name open, or has said so, and in any case after so long. */
    const char *open_file, *says;
    int64_t start_ms;
} perf = {.source = "Debian: linux-perf",
          .by_perf = true,
          .open_file = "[perf_event]",
          .start_ms = 3000},
  bcc = {.source = "Debian: bpfcc-tools",
         .as_root = true,
         .prints = true,
         .open_file = "bpf-prog",
         .start_ms = 10000},
  py_spy = {.source = "pip install py-spy",
            .is_python = true,
            .says = "Sampling process",
            .start_ms = 10000};

static const struct {
    const char *name, *tag, *unit;
    const struct tool *tool;
    const char *arguments[MAX_ARGUMENTS]; /* the program first */
} modes[KVC_FLAME_MODE_COUNT] = {
    [KVC_FLAME_ON_CPU] = {"on-cpu",
                          "oncpu",
                          "samples",
                          &perf,
                          {"perf", "record", "-q", "-g", "-F", "499", "-o", file_place, "-p",
                           process_place}},
    [KVC_FLAME_OFF_CPU] = {"off-cpu",
                           "offcpu",
                           "microseconds",
                           &bcc,
                           {"offcputime-bpfcc", "-df", "-p", process_place}},
    [KVC_FLAME_WAKEUP] =
        {"wakeup", "wakeup", "microseconds", &bcc, {"wakeuptime-bpfcc", "-f", "-p", process_place}},
    [KVC_FLAME_OFFWAKE] = {"offwake",
                           "offwake",
                           "microseconds",
                           &bcc,
                           {"offwaketime-bpfcc", "-df", "-p", process_place}},
    [KVC_FLAME_WALL] = {"wall",
                        "wall",
                        "samples",
                        &py_spy,
                        {"py-spy", "record", "--pid", process_place, "--rate", "200", "--format",
                         "raw", "--threads", "--idle", "--nonblocking", "--output", file_place}},
    [KVC_FLAME_GIL] = {"gil",
                       "gil",
                       "samples",
                       &py_spy,
                       {"py-spy", "record", "--pid", process_place, "--rate", "200", "--format",
                        "raw", "--threads", "--gil", "--nonblocking", "--output", file_place}},
};

static const char *program_of(enum kvc_flame_mode mode)
{
    return modes[mode].arguments[0];
}

/* ---- modes ---- */

kvc_status kvc_flame_mode_parse(struct kvc_str name, enum kvc_flame_mode *mode,
                                struct kvc_error *err)
{
    struct kvc_buffer known = {0};
    for (size_t i = 0; i < KVC_FLAME_MODE_COUNT; i++) {
        *mode = (enum kvc_flame_mode)i;
        if (kvc_str_is(name, modes[i].name)) {
            kvc_buffer_clear(&known);
            return KVC_OK;
        }
        kvc_buffer_printf(&known, "%s%s", i == 0 ? "one of " : ", ", modes[i].name);
    }
    kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted", kvc_text_show(name).text);
    kvc_error_set_expected(err, "%s", kvc_buffer_text(&known));
    kvc_buffer_clear(&known);
    return KVC_EUSAGE;
}

const char *kvc_flame_mode_name(enum kvc_flame_mode mode)
{
    return modes[mode].name;
}

const char *kvc_flame_mode_tag(enum kvc_flame_mode mode)
{
    return modes[mode].tag;
}

const char *kvc_flame_mode_unit(enum kvc_flame_mode mode)
{
    return modes[mode].unit;
}

bool kvc_flame_mode_is_python(enum kvc_flame_mode mode)
{
    return modes[mode].tool->is_python;
}

/* The caller frees it; NULL: it is not installed. Tools for root may lie where only root looks. */
static char *find_program(const char *program)
{
    const char *path = getenv("PATH");
    char *folders = kvc_format("%s:/usr/sbin", path == NULL ? "/usr/bin:/bin" : path);
    char *found = NULL;
    char *rest = NULL;
    for (char *folder = strtok_r(folders, ":", &rest); folder != NULL && found == NULL;
         folder = strtok_r(NULL, ":", &rest)) {
        found = kvc_format("%s/%s", folder, program);
        if (access(found, X_OK) != 0) {
            free(found);
            found = NULL;
        }
    }
    free(folders);
    return found;
}

/* Above this, perf records nothing for whoever is not root. */
static kvc_status check_paranoid(struct kvc_error *err)
{
    FILE *stream = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    char text[16] = "";
    if (stream == NULL)
        return KVC_OK;
    const bool is_read = fgets(text, sizeof(text), stream) != NULL;
    fclose(stream);
    if (!is_read || geteuid() == 0 || strtol(text, NULL, 10) <= MOST_PARANOID)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, "perf may not be used: kernel.perf_event_paranoid is %ld",
             strtol(text, NULL, 10));
    return kvc_error_set_expected(err, "at most %d, or root", MOST_PARANOID);
}

kvc_status kvc_flame_mode_check(enum kvc_flame_mode mode, struct kvc_error *err)
{
    const struct tool *tool = modes[mode].tool;
    char *program = find_program(program_of(mode));
    const bool is_there = program != NULL;
    free(program);
    if (!is_there) {
        kvc_fail(err, KVC_EUSAGE, "%s is not installed, and mode %s needs it", program_of(mode),
                 modes[mode].name);
        return kvc_error_set_expected(err, "it in PATH (%s)", tool->source);
    }
    if (tool->as_root && geteuid() != 0)
        return kvc_fail(err, KVC_EUSAGE, "%s works for root only", program_of(mode));
    return tool->by_perf ? check_paranoid(err) : KVC_OK;
}

/* ---- starting ---- */

/* A process group of its own: an interrupt from the terminal is ours to pass on. It ends when we are killed. */
static _Noreturn void become_profiler(const struct kvc_flame_recorder *recorder,
                                      const char *program, char *const *arguments)
{
    const int words = open(recorder->words, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int out = modes[recorder->mode].tool->prints
                        ? open(recorder->recording, O_WRONLY | O_CREAT | O_TRUNC, 0600)
                        : words;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGINT);
    dup2(out, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    execv(program, arguments);
    _exit(127);
}

static kvc_status spawn(pid_t process, struct kvc_flame_recorder *recorder, struct kvc_error *err)
{
    const char *const *templates = modes[recorder->mode].arguments;
    const char *arguments[MAX_ARGUMENTS + 1] = {NULL};
    char *program = find_program(program_of(recorder->mode));
    char pid[16];
    if (program == NULL)
        return kvc_flame_mode_check(recorder->mode, err);
    snprintf(pid, sizeof(pid), "%d", (int)process);
    for (size_t i = 0; i < MAX_ARGUMENTS && templates[i] != NULL; i++)
        arguments[i] = templates[i] == process_place ? pid
                       : templates[i] == file_place  ? recorder->recording
                                                     : templates[i];
    recorder->profiler = fork();
    if (recorder->profiler == 0)
        become_profiler(recorder, program, (char *const *)(uintptr_t)arguments);
    free(program);
    return recorder->profiler > 0 ? KVC_OK : kvc_fail_errno(err, "cannot start a process");
}

/* Fails with the line that says best what is wrong: the first that has a message, of a traceback the last. */
static kvc_status fail_with_words(const struct kvc_flame_recorder *recorder, const char *what,
                                  struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    const char *best = "it says nothing";
    char *rest = NULL;
    bool is_traceback = false;
    (void)kvc_buffer_read_file(recorder->words, SIZE_MAX, &text); /* or it has said nothing */
    char *lines = kvc_strdup(kvc_buffer_text(&text));
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        if (line[0] == '\0' || strcmp(line, "Error:") == 0)
            continue;
        is_traceback |= strncmp(line, "Traceback", 9) == 0;
        best = line;
        if (!is_traceback)
            break;
    }
    kvc_fail(err, KVC_ESYSTEM, "%s %s: %s", program_of(recorder->mode), what,
             kvc_text_show(kvc_str_of(best)).text);
    free(lines);
    kvc_buffer_clear(&text);
    return KVC_ESYSTEM;
}

static bool holds_open(pid_t process, const char *wanted)
{
    char folder[32];
    bool found = false;
    snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)process);
    DIR *files = opendir(folder);
    for (struct dirent *file; !found && files != NULL && (file = readdir(files)) != NULL;) {
        char target[256] = "";
        found = readlinkat(dirfd(files), file->d_name, target, sizeof(target) - 1) > 0 &&
                strstr(target, wanted) != NULL;
    }
    if (files != NULL)
        closedir(files);
    return found;
}

static bool has_said(const struct kvc_flame_recorder *recorder, const char *wanted)
{
    struct kvc_buffer text = {0};
    (void)kvc_buffer_read_file(recorder->words, SIZE_MAX, &text);
    const bool found = strstr(kvc_buffer_text(&text), wanted) != NULL;
    kvc_buffer_clear(&text);
    return found;
}

static kvc_status wait_until_it_records(struct kvc_flame_recorder *recorder, struct kvc_error *err)
{
    enum { SETTLE_MS = 300 }; /* from the first sign on, until it has all threads */
    const struct tool *tool = modes[recorder->mode].tool;
    int64_t until = kvc_now_ms() + tool->start_ms;
    bool is_seen = false;
    while (kvc_now_ms() < until) {
        if (waitpid(recorder->profiler, NULL, WNOHANG) != 0) {
            recorder->profiler = 0;
            return fail_with_words(recorder, "ended at once", err);
        }
        if (!is_seen && (tool->open_file != NULL ? holds_open(recorder->profiler, tool->open_file)
                                                 : has_said(recorder, tool->says))) {
            is_seen = true;
            until = kvc_now_ms() + SETTLE_MS;
        }
        kvc_sleep_ms(LOOK_MS);
    }
    return KVC_OK;
}

kvc_status kvc_flame_recorder_start(enum kvc_flame_mode mode, pid_t process,
                                    struct kvc_flame_recorder *recorder, struct kvc_error *err)
{
    char folder[] = "/tmp/kvconform-XXXXXX";
    *recorder = (struct kvc_flame_recorder){.mode = mode};
    if (mkdtemp(folder) == NULL)
        return kvc_fail_errno(err, "cannot make a folder for the profiler");
    recorder->folder = kvc_strdup(folder);
    recorder->recording = kvc_format("%s/recording", folder);
    recorder->words = kvc_format("%s/words", folder);
    KVC_GUARD(spawn(process, recorder, err));
    return wait_until_it_records(recorder, err);
}

/* ---- the end ---- */

void kvc_flame_recorder_stop(struct kvc_flame_recorder *recorder)
{
    if (recorder->profiler <= 0)
        return;
    const int64_t deadline = kvc_now_ms() + STOP_MS;
    kill(recorder->profiler, SIGINT);
    while (waitpid(recorder->profiler, NULL, WNOHANG) == 0) {
        if (kvc_now_ms() > deadline)
            kill(recorder->profiler, SIGKILL);
        kvc_sleep_ms(LOOK_MS);
    }
    recorder->profiler = 0;
}

/* Piece by piece, as the text of a long recording is many times as large as its tree. */
static kvc_status add_perf_script(FILE *stream, struct kvc_flame_tree *tree, struct kvc_error *err)
{
    struct kvc_buffer sample = {0};
    char *line = NULL;
    size_t room = 0;
    if (stream == NULL)
        return kvc_fail_errno(err, "cannot run perf script");
    while (getline(&line, &room, stream) > 0) {
        kvc_buffer_append_text(&sample, line);
        if (line[0] != '\n')
            continue;
        kvc_flame_tree_add_perf(tree, (struct kvc_str){(const char *)sample.data, sample.size});
        sample.size = 0;
    }
    kvc_flame_tree_add_perf(tree, (struct kvc_str){(const char *)sample.data, sample.size});
    free(line);
    kvc_buffer_clear(&sample);
    return KVC_OK;
}

static kvc_status add_perf(const struct kvc_flame_recorder *recorder, struct kvc_flame_tree *tree,
                           struct kvc_error *err)
{
    char *command =
        kvc_format("perf script -F comm,ip,sym -i '%s' 2>/dev/null", recorder->recording);
    FILE *stream = popen(command, "re");
    const kvc_status status = add_perf_script(stream, tree, err);
    if (stream != NULL)
        pclose(stream);
    free(command);
    return status;
}

static kvc_status add_folded(const struct kvc_flame_recorder *recorder, struct kvc_flame_tree *tree,
                             struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    kvc_status status = KVC_OK;
    if (!kvc_buffer_read_file(recorder->recording, SIZE_MAX, &text) &&
        errno != ENOENT) /* it saw nothing */
        status = kvc_fail_errno(err, "cannot read what the profiler wrote");
    kvc_flame_tree_add_folded(tree, (struct kvc_str){(const char *)text.data, text.size});
    kvc_buffer_clear(&text);
    return status;
}

kvc_status kvc_flame_recorder_read(const struct kvc_flame_recorder *recorder,
                                   struct kvc_flame_tree *tree, struct kvc_error *err)
{
    KVC_GUARD(modes[recorder->mode].tool->by_perf ? add_perf(recorder, tree, err)
                                                  : add_folded(recorder, tree, err));
    if (tree->root.weight > 0)
        return KVC_OK;
    return fail_with_words(recorder, "saw nothing (a longer run may help)", err);
}

void kvc_flame_recorder_clear(struct kvc_flame_recorder *recorder)
{
    kvc_flame_recorder_stop(recorder);
    if (recorder->folder != NULL) {
        unlink(recorder->recording);
        unlink(recorder->words);
        rmdir(recorder->folder);
    }
    free(recorder->recording);
    free(recorder->words);
    free(recorder->folder);
    *recorder = (struct kvc_flame_recorder){0};
}
