#include "src/bench/engine_progress.h"

#include "src/base/clock.h"

enum { INTERVAL_MS = 200 };

/* Only what has ended since the last line is looked at. */
static void count_new(struct kvc_bench_engine_progress *progress,
                      const struct kvc_bench_engine_result *result)
{
    for (; progress->counted < result->count; progress->counted++) {
        const struct kvc_bench_engine_record *record = &result->records[progress->counted];
        if (!record->is_ok)
            continue;
        const double decode = kvc_bench_engine_decode_speed(record);
        progress->ok++;
        progress->ttft_ms += (double)(record->first_token_ns - record->due_ns) / 1e6;
        progress->input_tokens += record->prompt_tokens;
        progress->output_tokens += record->completion_tokens;
        if (decode >= 0) {
            progress->decode += decode;
            progress->decoded++;
        }
    }
}

static void write_figures(const struct kvc_bench_engine_progress *progress, double seconds,
                          FILE *stream)
{
    if (progress->ok > 0)
        fprintf(stream, " | TTFT %.1f ms", progress->ttft_ms / (double)progress->ok);
    if (progress->decoded > 0)
        fprintf(stream, " | decode %.1f tok/s", progress->decode / (double)progress->decoded);
    if (progress->ok > 0 && seconds > 0)
        fprintf(stream, " | %.0f in, %.0f out tok/s", (double)progress->input_tokens / seconds,
                (double)progress->output_tokens / seconds);
}

static void draw(struct kvc_bench_engine_progress *progress,
                 const struct kvc_bench_engine_result *result, size_t in_flight)
{
    const double seconds = (double)(progress->shown_ns - result->started_ns) / 1e9;
    fprintf(progress->stream, "\r\x1b[K%.0f s | ", seconds);
    if (result->planned == 0) {
        fprintf(progress->stream, "warm-up: %lld of %lld done, %lld failed",
                (long long)result->warmups, (long long)result->warmups_planned,
                (long long)result->warmup_failures);
    } else {
        fprintf(progress->stream, "%zu of %lld done, %zu in flight, %zu failed", result->count,
                (long long)result->planned, in_flight, result->failed);
        count_new(progress, result);
        write_figures(progress, seconds, progress->stream);
    }
    fflush(progress->stream);
}

void kvc_bench_engine_progress_show(struct kvc_bench_engine_progress *progress,
                                    const struct kvc_bench_engine_result *result, size_t in_flight)
{
    const int64_t now = kvc_now_ns();
    if (progress->stream == NULL || now - progress->shown_ns < INTERVAL_MS * INT64_C(1000000))
        return;
    progress->shown_ns = now;
    draw(progress, result, in_flight);
}

void kvc_bench_engine_progress_clear(struct kvc_bench_engine_progress *progress)
{
    if (progress->stream != NULL && progress->shown_ns != 0)
        fputs("\r\x1b[K", progress->stream);
    progress->shown_ns = 0;
}
