#include "src/cli/flamegraph.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/tmp/lmcache_bench_flames"

const char *const kvc_flamegraph_switch[] = {"on", "off", NULL};

static bool is_on(const struct kvc_flamegraph_flags *flags)
{
    return strcmp(flags->on, "on") == 0;
}

/* ---- what is wanted ---- */

/* The next of "gil,wall"; *rest moves on, NULL after the last. */
static struct kvc_str next_mode(const char **rest)
{
    const size_t size = strcspn(*rest, ",");
    const struct kvc_str mode = {*rest, size};
    *rest = (*rest)[size] == ',' ? *rest + size + 1 : NULL;
    return mode;
}

static bool is_among(const struct kvc_flames *flames, enum kvc_flame_mode mode)
{
    size_t i = 0;
    while (i < flames->count && flames->modes[i] != mode)
        i++;
    return i < flames->count;
}

/* Each mode once, in the order given. */
static kvc_status parse_modes(const struct kvc_flamegraph_flags *flags, struct kvc_flames *flames,
                              struct kvc_error *err)
{
    for (const char *rest = flags->modes; rest != NULL;) {
        enum kvc_flame_mode mode;
        if (kvc_flame_mode_parse(next_mode(&rest), &mode, err) != KVC_OK)
            return kvc_error_set_where(err, "--flamegraph-mode");
        if (!is_among(flames, mode))
            flames->modes[flames->count++] = mode;
    }
    return flames->count > 1 && flags->output != NULL
               ? kvc_fail(err, KVC_EUSAGE,
                          "--flamegraph-output names one picture, --flamegraph-mode asks for %zu",
                          flames->count)
               : KVC_OK;
}

static kvc_status check_process(const struct kvc_flamegraph_flags *flags,
                                const struct kvc_flamegraph_subject *subject, struct kvc_error *err)
{
    if (subject->pid_flag == NULL || (flags->pid <= 0 && subject->is_started_here))
        return KVC_OK;
    if (flags->pid <= 0)
        return kvc_fail(err, KVC_EUSAGE, "--flamegraph on needs %s, the process to look at",
                        subject->pid_flag);
    return flags->pid <= INT32_MAX && kill((pid_t)flags->pid, 0) == 0
               ? KVC_OK
               : kvc_fail(err, KVC_EUSAGE, "%s %lld: %s", subject->pid_flag, (long long)flags->pid,
                          strerror(flags->pid <= INT32_MAX ? errno : ESRCH));
}

kvc_status kvc_flamegraph_check(const struct kvc_flamegraph_flags *flags,
                                const struct kvc_flamegraph_subject *subject, struct kvc_error *err)
{
    struct kvc_flames flames = {0};
    if (!is_on(flags))
        return KVC_OK;
    KVC_GUARD(parse_modes(flags, &flames, err));
    KVC_GUARD(check_process(flags, subject, err));
    for (size_t i = 0; i < flames.count; i++) {
        const enum kvc_flame_mode mode = flames.modes[i];
        if (subject->pid_flag == NULL && kvc_flame_mode_is_python(mode))
            return kvc_fail(err, KVC_EUSAGE,
                            "--flamegraph-mode %s: is for Python, and this program is none",
                            kvc_flame_mode_name(mode));
        if (kvc_flame_mode_check(mode, err) != KVC_OK)
            return kvc_error_set_where(err, "--flamegraph on");
    }
    return KVC_OK;
}

/* ---- the process ---- */

/* The target of a link in /proc; "" if it cannot be read. */
static void read_program(const char *process, char *program, size_t size)
{
    char *path = kvc_format("/proc/%s/exe", process);
    const ssize_t got = readlink(path, program, size - 1);
    program[got > 0 ? got : 0] = '\0';
    free(path);
}

/* Whoever only watches over another process: a shell, or a part of this program. */
static bool is_keeper(pid_t process)
{
    static const char *const shells[] = {"sh", "bash", "dash"};
    char program[4096], own[4096], number[16];
    snprintf(number, sizeof(number), "%d", (int)process);
    read_program(number, program, sizeof(program));
    read_program("self", own, sizeof(own));
    const char *name = strrchr(program, '/');
    bool found = name != NULL && strcmp(program, own) == 0;
    for (size_t i = 0; name != NULL && i < KVC_COUNT_OF(shells); i++)
        found |= strcmp(name + 1, shells[i]) == 0;
    return found;
}

/* Its only child; 0: it has none, or several. */
static pid_t only_child(pid_t process)
{
    char *path = kvc_format("/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *stream = fopen(path, "re");
    int child = 0, other = 0;
    const int count = stream == NULL ? 0 : fscanf(stream, "%d %d", &child, &other);
    if (stream != NULL)
        fclose(stream);
    free(path);
    return count == 1 ? child : 0;
}

pid_t kvc_flamegraph_worker(pid_t started)
{
    while (is_keeper(started)) {
        const pid_t child = only_child(started);
        if (child == 0)
            break;
        started = child;
    }
    return started;
}

/* ---- the pictures ---- */

kvc_status kvc_flamegraph_open(const struct kvc_flamegraph_flags *flags, pid_t process,
                               const char *label, struct kvc_flamegraph *flamegraph,
                               struct kvc_error *err)
{
    struct kvc_flames *flames = &flamegraph->flames;
    if (!is_on(flags))
        return KVC_OK;
    KVC_GUARD(parse_modes(flags, flames, err));
    flames->process = process;
    if (flags->output == NULL)
        mkdir(FOLDER, 0777);
    for (size_t i = 0; i < flames->count; i++) {
        flamegraph->paths[i] =
            flags->output != NULL
                ? kvc_strdup(flags->output)
                : kvc_format(FOLDER "/%s.%s.svg", label, kvc_flame_mode_tag(flames->modes[i]));
        if (kvc_report_file_open(flamegraph->paths[i], &flamegraph->files[i], err) != KVC_OK) {
            kvc_error_set_where(err, "--flamegraph-output");
            return KVC_EUSAGE;
        }
    }
    return KVC_OK;
}

static kvc_status draw_one(struct kvc_flamegraph *flamegraph, size_t index, const char *title,
                           struct kvc_error *err)
{
    const struct kvc_flames *flames = &flamegraph->flames;
    char *heading = kvc_format("%s, %s", title, kvc_flame_mode_name(flames->modes[index]));
    struct kvc_buffer svg = {0};
    kvc_status status = kvc_flames_draw(flames, index, heading, &svg, err);
    if (status == KVC_OK)
        status = kvc_report_file_commit(&flamegraph->files[index], kvc_buffer_view(&svg), err);
    else
        kvc_error_set_where(err, "--flamegraph on");
    kvc_buffer_clear(&svg);
    free(heading);
    return status;
}

kvc_status kvc_flamegraph_draw(struct kvc_flamegraph *flamegraph, const char *title, FILE *progress,
                               struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    /* A bench that ended before it measured has recorded nothing, and says so itself. */
    for (size_t i = 0; i < flamegraph->flames.started; i++) {
        const kvc_status drawn = draw_one(flamegraph, i, title, status == KVC_OK ? err : NULL);
        if (drawn == KVC_OK && progress != NULL)
            fprintf(progress, "Flame graph: %s\n", flamegraph->paths[i]);
        status = status == KVC_OK ? drawn : status;
    }
    return status;
}

void kvc_flamegraph_close(struct kvc_flamegraph *flamegraph)
{
    for (size_t i = 0; i < KVC_FLAME_MODE_COUNT; i++) {
        kvc_report_file_close(&flamegraph->files[i]);
        free(flamegraph->paths[i]);
        flamegraph->paths[i] = NULL;
    }
    kvc_flames_clear(&flamegraph->flames);
}
