#include "src/bench/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/bench/flame_tree.h"

enum { START_MS = 5000, STOP_MS = 20000, SETTLE_MS = 300 };

static const struct {
    const char *name;
    const char *program;
    const char *package;
    const char *unit;
} modes[] = {
    [KVC_PROFILE_ON_CPU] = {"on-cpu", "perf", "linux-perf", "samples"},
    [KVC_PROFILE_OFF_CPU] = {"off-cpu", "offcputime-bpfcc", "bpfcc-tools", "microseconds"},
};

kvc_status kvc_profile_mode_parse(const char *text, enum kvc_profile_mode *mode,
                                  struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_COUNT_OF(modes); i++) {
        *mode = (enum kvc_profile_mode)i;
        if (strcmp(text, modes[i].name) == 0)
            return KVC_OK;
    }
    kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted", kvc_text_show(kvc_str_of(text)).text);
    return kvc_error_set_expected(err, "on-cpu or off-cpu");
}

static bool is_installed(const char *program)
{
    const char *path = getenv("PATH");
    bool found = false;
    char *copy = kvc_strdup(path == NULL ? "/usr/bin:/bin" : path);
    char *rest = NULL;
    for (char *folder = strtok_r(copy, ":", &rest); folder != NULL && !found;
         folder = strtok_r(NULL, ":", &rest)) {
        char *file = kvc_format("%s/%s", folder, program);
        found = access(file, X_OK) == 0;
        free(file);
    }
    free(copy);
    return found;
}

kvc_status kvc_profile_check(enum kvc_profile_mode mode, struct kvc_error *err)
{
    if (!is_installed(modes[mode].program)) {
        kvc_fail(err, KVC_EUSAGE, "%s is not installed", modes[mode].program);
        return kvc_error_set_expected(err, "it in PATH (Debian: %s)", modes[mode].package);
    }
    if (mode == KVC_PROFILE_OFF_CPU && geteuid() != 0) {
        kvc_fail(err, KVC_EUSAGE, "%s works for root only", modes[mode].program);
        return KVC_EUSAGE;
    }
    return KVC_OK;
}

/* ---- the profiler ---- */

static _Noreturn void become_profiler(const struct kvc_profile *graph, int words)
{
    char pid[16];
    snprintf(pid, sizeof(pid), "%d", (int)getppid());
    setpgid(0, 0); /* an interrupt from the terminal is ours to pass on */
    if (graph->mode == KVC_PROFILE_ON_CPU) {
        dup2(words, STDOUT_FILENO);
        dup2(words, STDERR_FILENO);
        execlp("perf", "perf", "record", "-q", "-g", "-F", "997", "-o", graph->recording, "-p", pid,
               (char *)NULL);
    } else {
        const int out = open(graph->recording, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(words, STDERR_FILENO);
        execlp("offcputime-bpfcc", "offcputime-bpfcc", "-df", "-p", pid, (char *)NULL);
    }
    _exit(127);
}

static kvc_status profiler_ended(struct kvc_profile *graph, int words, struct kvc_error *err)
{
    char text[256] = "";
    const ssize_t got = read(words, text, sizeof(text) - 1);
    const struct kvc_str said = {text, got > 0 ? (size_t)got : 0};
    graph->profiler = 0;
    return kvc_fail(err, KVC_ESYSTEM, "%s ended at once: %s", modes[graph->mode].program,
                    kvc_text_show(said).text);
}

/* It records when its file is there; then it still has to find the threads. */
static kvc_status wait_for_profiler(struct kvc_profile *graph, int words, struct kvc_error *err)
{
    const int64_t deadline = kvc_now_ms() + START_MS;
    struct stat there;
    while (stat(graph->recording, &there) != 0 && kvc_now_ms() < deadline) {
        if (waitpid(graph->profiler, NULL, WNOHANG) != 0)
            return profiler_ended(graph, words, err);
        kvc_sleep_ms(5);
    }
    kvc_sleep_ms(SETTLE_MS);
    if (waitpid(graph->profiler, NULL, WNOHANG) != 0)
        return profiler_ended(graph, words, err);
    return KVC_OK;
}

kvc_status kvc_profile_start(enum kvc_profile_mode mode, struct kvc_profile *graph,
                             struct kvc_error *err)
{
    int words[2];
    *graph = (struct kvc_profile){.mode = mode, .folder = kvc_strdup("/tmp/kvconform-XXXXXX")};
    if (mkdtemp(graph->folder) == NULL || pipe2(words, O_CLOEXEC | O_NONBLOCK) != 0) {
        free(graph->folder);
        return kvc_fail_errno(err, "cannot make a folder for the profiler");
    }
    graph->recording = kvc_format("%s/recording", graph->folder);
    graph->profiler = fork();
    if (graph->profiler == 0)
        become_profiler(graph, words[1]);
    close(words[1]);
    const kvc_status status = graph->profiler < 0 ? kvc_fail_errno(err, "cannot start a process")
                                                  : wait_for_profiler(graph, words[0], err);
    close(words[0]);
    if (status != KVC_OK)
        kvc_profile_stop(graph, NULL, NULL, NULL);
    return status;
}

static void end_profiler(struct kvc_profile *graph)
{
    if (graph->profiler <= 0)
        return;
    const int64_t deadline = kvc_now_ms() + STOP_MS;
    kill(graph->profiler, SIGINT);
    while (waitpid(graph->profiler, NULL, WNOHANG) == 0) {
        if (kvc_now_ms() > deadline)
            kill(graph->profiler, SIGKILL);
        kvc_sleep_ms(5);
    }
    graph->profiler = 0;
}

/* ---- the graph ---- */

static kvc_status read_stream(FILE *stream, struct kvc_buffer *text, struct kvc_error *err)
{
    char part[65536];
    size_t got;
    if (stream == NULL)
        return kvc_fail_errno(err, "cannot read what the profiler recorded");
    while ((got = fread(part, 1, sizeof(part), stream)) > 0)
        kvc_buffer_append(text, part, got);
    return KVC_OK;
}

static kvc_status read_recording(const struct kvc_profile *graph, struct kvc_flame_tree *tree,
                                 struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    char *command = kvc_format("perf script -F comm,ip,sym -i '%s' 2>/dev/null", graph->recording);
    const bool by_perf = graph->mode == KVC_PROFILE_ON_CPU;
    FILE *stream = by_perf ? popen(command, "re") : fopen(graph->recording, "re");
    const kvc_status status = read_stream(stream, &text, err);
    const struct kvc_str seen = {(const char *)text.data, text.size};
    if (by_perf)
        kvc_flame_tree_add_perf(tree, seen);
    else
        kvc_flame_tree_add_folded(tree, seen);
    if (stream != NULL && by_perf)
        pclose(stream);
    else if (stream != NULL)
        fclose(stream);
    free(command);
    kvc_buffer_clear(&text);
    if (status == KVC_OK && tree->root.weight == 0)
        return kvc_fail(err, KVC_EREFUSED, "%s saw nothing: a longer run (--rounds) helps",
                        modes[graph->mode].program);
    return status;
}

static kvc_status write_file(const char *path, struct kvc_bytes text, struct kvc_error *err)
{
    FILE *stream = fopen(path, "we");
    if (stream == NULL)
        return kvc_fail_errno(err, "cannot write '%s'", path);
    const bool whole = fwrite(text.data, 1, text.size, stream) == text.size;
    if (fclose(stream) != 0 || !whole)
        return kvc_fail_errno(err, "cannot write '%s'", path);
    return KVC_OK;
}

kvc_status kvc_profile_stop(struct kvc_profile *graph, const char *title, const char *output,
                            struct kvc_error *err)
{
    struct kvc_flame_tree tree = {0};
    struct kvc_buffer svg = {0};
    kvc_status status = KVC_OK;
    end_profiler(graph);
    if (output != NULL) {
        status = read_recording(graph, &tree, err);
        kvc_flame_tree_draw(&tree, title, modes[graph->mode].unit, &svg);
        if (status == KVC_OK)
            status = write_file(output, kvc_buffer_view(&svg), err);
    }
    unlink(graph->recording);
    rmdir(graph->folder);
    free(graph->recording);
    free(graph->folder);
    *graph = (struct kvc_profile){0};
    kvc_buffer_clear(&svg);
    kvc_flame_tree_clear(&tree);
    return status;
}
