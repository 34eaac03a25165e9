/* What a run says while it lasts. */
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum { LINE_SIZE = 1024, USUAL_COLUMNS = 80 };

/* One line, whoever else writes; a line that is written again and again makes room for it. */
static void put_line(struct kvc_bench *bench, const char *line)
{
    if (bench->options->progress == NULL)
        return;
    fprintf(bench->options->progress, "%s%s\n", bench->live_shown ? "\r\x1b[K" : "", line);
    bench->live_shown = false;
}

void kvc_bench_line(struct kvc_bench *bench, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    pthread_mutex_lock(&bench->lock);
    put_line(bench, line);
    pthread_mutex_unlock(&bench->lock);
}

static bool shows_steps(const struct kvc_bench *bench)
{
    const struct kvc_bench_server_options *options = bench->options;
    return options->progress != NULL && !options->live && options->clients == 1 &&
           options->rate <= 0 && options->ramp == NULL;
}

void kvc_bench_step_line(struct kvc_bench *bench, const struct kvc_bench_request *request,
                         const char *format, ...)
{
    if (!shows_steps(bench))
        return;
    char text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    kvc_bench_line(bench, "[seq=%lld] %s", (long long)request->id.number, text);
}

void kvc_bench_problem(struct kvc_bench *bench, const struct kvc_bench_request *request,
                       const char *step, const char *text)
{
    char line[LINE_SIZE];
    if (request == NULL)
        snprintf(line, sizeof(line), "%s: %s", step, text);
    else
        snprintf(line, sizeof(line), "seq %lld, %s: %s", (long long)request->id.number, step, text);
    pthread_mutex_lock(&bench->lock);
    char *first = bench->result->first_problem;
    if (first[0] == '\0')
        snprintf(first, sizeof(bench->result->first_problem), "%.500s", line);
    put_line(bench, line);
    pthread_mutex_unlock(&bench->lock);
}

void kvc_bench_problem_error(struct kvc_bench *bench, const struct kvc_bench_request *request,
                             const char *step, const struct kvc_error *err)
{
    if (err->status == KVC_EINTERRUPTED)
        return;
    char line[400];
    kvc_error_line(err, line, sizeof(line));
    kvc_bench_problem(bench, request, step, line);
}

/* ---- the line that is written again and again ---- */

static void describe_operations(const struct kvc_bench_measurement *measurement, char *out,
                                size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT && used < size; i++) {
        const struct kvc_histogram *latency = &measurement->operations[i].latency;
        if (latency->count > 0)
            used +=
                (size_t)snprintf(out + used, size - used, "  %s %.2f", kvc_bench_operation_names[i],
                                 (double)kvc_histogram_percentile(latency, 0.99) / 1e6);
    }
}

/* A line that is wider than the terminal would leave its beginning behind. */
static int columns_of(FILE *terminal)
{
    struct winsize window;
    if (ioctl(fileno(terminal), TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return USUAL_COLUMNS - 1;
    return window.ws_col - 1;
}

void kvc_bench_live_show(struct kvc_bench *bench, const char *what)
{
    if (!bench->options->live || bench->options->progress == NULL)
        return;
    char operations[256] = "";
    if (bench->measuring != NULL)
        describe_operations(bench->measuring, operations, sizeof(operations));
    const int64_t seconds = (kvc_now_ns() - bench->phase->begin_ns) / 1000000000;
    char line[LINE_SIZE];
    snprintf(line, sizeof(line), "%s  %lld s  %s%s", what, (long long)seconds,
             operations[0] == '\0' ? "" : "p99 ms:", operations);
    pthread_mutex_lock(&bench->lock);
    fprintf(bench->options->progress, "\r\x1b[K%.*s", columns_of(bench->options->progress), line);
    fflush(bench->options->progress);
    bench->live_shown = true;
    pthread_mutex_unlock(&bench->lock);
}

void kvc_bench_live_clear(struct kvc_bench *bench)
{
    if (!bench->live_shown)
        return;
    fputs("\r\x1b[K", bench->options->progress);
    fflush(bench->options->progress);
    bench->live_shown = false;
}
