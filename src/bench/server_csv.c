/* `bench server --csv`: a row an operation. docs/bench.md names the columns; they stay as they are. */
#include <string.h>

#include "src/bench/server_figures.h"

/* A text as one field: quoted where a reader would cut it otherwise. */
static void write_field(const char *text, struct kvc_buffer *out)
{
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    kvc_buffer_append_text(out, quoted ? "\"" : "");
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"')
            kvc_buffer_append_byte(out, '"');
        kvc_buffer_append_byte(out, (uint8_t)*c);
    }
    kvc_buffer_append_text(out, quoted ? "\"" : "");
}

static void write_head(struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "operation,count");
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        kvc_buffer_printf(out, ",%s_ms", kvc_bench_latency_names[i]);
    kvc_buffer_append_text(out, ",tokens_per_second,gigabytes_per_second,speed,memcpy_share,valid,"
                                "dialect,transfer_path,kvcache_shape_spec,num_tokens,workload,"
                                "clients,rate\n");
}

/* Operations that move no bytes have no speed: these fields are empty. */
static void write_speeds(const struct kvc_bench_server_result *result,
                         enum kvc_bench_operation operation, struct kvc_buffer *out)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    const double speed = kvc_bench_operation_speed(measured, operation);
    kvc_buffer_printf(out, ",%.3f", kvc_bench_tokens_per_second(measured, operation));
    if (measured->operations[operation].bytes > 0)
        kvc_buffer_printf(out, ",%.6f,%.6f", kvc_bench_gigabytes_per_second(measured, operation),
                          speed);
    else
        kvc_buffer_append_text(out, ",,");
    if (measured->operations[operation].bytes > 0 && result->memcpy_speed > 0)
        kvc_buffer_printf(out, ",%.6f", speed / result->memcpy_speed);
    else
        kvc_buffer_append_text(out, ",");
}

static void write_texts(const struct kvc_bench_server_options *options,
                        const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    const char *const texts[] = {result->dialect, result->path, options->shape_spec};
    kvc_buffer_append_text(out, kvc_bench_server_is_valid(result) ? ",true" : ",false");
    for (size_t i = 0; i < KVC_COUNT_OF(texts); i++) {
        kvc_buffer_append_byte(out, ',');
        write_field(texts[i], out);
    }
    kvc_buffer_printf(out, ",%lld,", (long long)options->num_tokens);
    write_field(options->workload, out);
    kvc_buffer_printf(out, ",%lld,", (long long)options->clients);
    if (result->measured.rate > 0)
        kvc_buffer_printf(out, "%.6g", result->measured.rate);
    kvc_buffer_append_byte(out, '\n');
}

static void write_row(const struct kvc_bench_server_options *options,
                      const struct kvc_bench_server_result *result,
                      enum kvc_bench_operation operation, struct kvc_buffer *out)
{
    const struct kvc_histogram *latency = &result->measured.operations[operation].latency;
    double values[KVC_BENCH_LATENCY_COUNT];
    kvc_bench_latencies(latency, values);
    kvc_buffer_printf(out, "%s,%llu", kvc_bench_operation_names[operation],
                      (unsigned long long)latency->count);
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        kvc_buffer_printf(out, ",%.6f", values[i] / 1e6);
    write_speeds(result, operation, out);
    write_texts(options, result, out);
}

void kvc_bench_server_write_csv(const struct kvc_bench_server_options *options,
                                const struct kvc_bench_server_result *result,
                                struct kvc_buffer *out)
{
    write_head(out);
    for (size_t i = 0; kvc_bench_server_has_figures(result) && i < KVC_BENCH_OPERATION_COUNT; i++)
        if (result->measured.operations[i].latency.count > 0)
            write_row(options, result, (enum kvc_bench_operation)i, out);
}
