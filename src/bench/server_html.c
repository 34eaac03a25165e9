/* `bench server --html`: one page, with plots, that needs nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/server_figures.h"
#include "src/bench/server_plots.h"
#include "src/report/html_page.h"
#include "src/report/html_plot.h"

static const char style[] =
    "thead th{white-space:normal}.bar{display:block;background:var(--c0);height:.7rem;min-width:1px}td.wide{width:14rem}\n";

/* A row of a list, of any format. */
static void row(struct kvc_buffer *out, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void row(struct kvc_buffer *out, const char *name, const char *format, ...)
{
    char value[512];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    kvc_html_row(out, name, value);
}

static void write_note(struct kvc_buffer *out, const char *text)
{
    kvc_buffer_append_text(out, "<p class=\"note\">");
    kvc_html_escape(text, out);
    kvc_buffer_append_text(out, "</p>\n");
}

/* ---- what was run ---- */

static void write_head(const struct kvc_bench_server_options *options,
                       const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    const bool valid = kvc_bench_server_is_valid(result);
    kvc_buffer_printf(out, "<h1 class=\"%s\">%s</h1>\n", valid ? "good" : "bad",
                      valid ? "Every byte came back right" : "The run is not valid");
    if (!valid)
        write_note(out, kvc_bench_server_verdict(result));
    if (result->first_problem[0] != '\0')
        write_note(out, result->first_problem);
    if (!kvc_bench_server_has_figures(result))
        write_note(out, "There are no figures: a run in which something failed has none.");
    kvc_buffer_append_text(out, "<dl>\n");
    row(out, "Server", "%s", options->rpc_url);
    row(out, "Dialect", "%s", result->dialect);
    row(out, "Path", "%s", result->path);
    row(out, "Chosen because", "%s", result->path_reason);
    row(out, "Still answers", "%s", result->server_answers ? "yes" : "no");
    row(out, "Started", "%s", result->started);
    row(out, "kvconform", "%s", KVC_VERSION);
    kvc_buffer_append_text(out, "</dl>\n");
}

static void tile(struct kvc_buffer *out, const char *class, const char *name, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

static void tile(struct kvc_buffer *out, const char *class, const char *name, const char *format,
                 ...)
{
    char value[64];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof(value), format, args);
    va_end(args);
    kvc_buffer_printf(out, "<li class=\"%s\"><b>%s</b>%s</li>\n", class, value, name);
}

/* A count that should be 0: shown when it is not. */
static void trouble(struct kvc_buffer *out, const char *name, int64_t count)
{
    if (count > 0)
        tile(out, "bad", name, "%lld", (long long)count);
}

static void write_tiles(const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    kvc_buffer_append_text(out, "<ul class=\"tiles\">\n");
    tile(out, "", "requests", "%lld", (long long)result->requests);
    tile(out, "", "GB verified", "%.3g", (double)result->bytes_verified / 1e9);
    if (kvc_bench_server_has_figures(result)) {
        tile(out, "", "requests/s", "%.4g", kvc_bench_rate_reached(measured));
        tile(out, "", "seconds", "%.4g", (double)measured->elapsed_ns / 1e9);
    }
    if (result->highest_rate > 0)
        tile(out, "good", "requests/s within the limit", "%.4g", result->highest_rate);
    trouble(out, "came back wrong", result->checksum_fail);
    trouble(out, "unexpected cold hits", result->cold_hits);
    trouble(out, "warm misses", result->warm_misses);
    trouble(out, "ended early", result->errors);
    trouble(out, "replies to nothing", result->strays);
    trouble(out, "due and never sent", measured->unserved);
    kvc_buffer_append_text(out, "</ul>\n");
}

static void write_options(const struct kvc_bench_server_options *options,
                          const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    const struct kvc_machine *machine = &result->machine;
    kvc_buffer_append_text(out, "<h2>Options</h2>\n<dl>\n");
    row(out, "Shape", "%s", options->shape_spec);
    row(out, "Mode", "%s", options->mode);
    row(out, "Transfer mode", "%s",
        options->transfer_mode == NULL ? "auto" : options->transfer_mode);
    row(out, "Tokens a request", "%lld", (long long)options->num_tokens);
    row(out, "Bytes a request", "%lld", (long long)result->request_bytes);
    row(out, "Chunk", "%lld tokens", (long long)result->chunk_size);
    row(out, "Ranks", "%lld%s", (long long)options->tp_size, options->use_mla ? ", MLA" : "");
    row(out, "Workload", "%s", options->workload);
    row(out, "Clients", "%lld", (long long)options->clients);
    if (options->ramp != NULL)
        row(out, "Loop", "open, ramp to %s", options->ramp->text);
    else if (options->rate > 0)
        row(out, "Loop", "open, %g requests/s", options->rate);
    else
        row(out, "Loop", "closed, %g s between passes", options->interval);
    row(out, "Warm-up", "%lld requests", (long long)options->warmup);
    row(out, "Seed", "%llu", (unsigned long long)options->seed);
    row(out, "HTTP checksums", "%s", result->http_checksums);
    kvc_buffer_append_text(out, "</dl>\n<h2>Machine</h2>\n<dl>\n");
    row(out, "Processor", "%s", machine->cpu);
    row(out, "Cores", "%lld", (long long)machine->cores);
    row(out, "Memory", "%.1f GiB", (double)machine->memory_bytes / (1 << 30));
    row(out, "Kernel", "%s", machine->kernel);
    if (result->memcpy_speed > 0)
        row(out, "memcpy", "%.2f GB/s, of as many bytes as a request has", result->memcpy_speed);
    kvc_buffer_append_text(out, "</dl>\n");
}

/* ---- figures ---- */

/* Three digits that count, and no exponent: 0.052, 1.73, 48.1, 1204. */
static void cell(struct kvc_buffer *out, double value)
{
    kvc_buffer_printf(out, "<td>%.*f</td>",
                      value >= 100  ? 0
                      : value >= 10 ? 1
                      : value >= 1  ? 2
                                    : 3,
                      value);
}

static void write_operation(const struct kvc_bench_server_result *result,
                            enum kvc_bench_operation operation, struct kvc_buffer *out)
{
    const struct kvc_bench_measurement *measured = &result->measured;
    const struct kvc_histogram *latency = &measured->operations[operation].latency;
    const double speed = kvc_bench_operation_speed(measured, operation);
    double values[KVC_BENCH_LATENCY_COUNT];
    kvc_bench_latencies(latency, values);
    kvc_buffer_printf(out, "<tr><th>%s</th><td>%llu</td>", kvc_bench_operation_titles[operation],
                      (unsigned long long)latency->count);
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        cell(out, values[i] / 1e6);
    cell(out, kvc_bench_tokens_per_second(measured, operation));
    if (measured->operations[operation].bytes > 0) {
        cell(out, kvc_bench_gigabytes_per_second(measured, operation));
        cell(out, speed);
    } else {
        kvc_buffer_append_text(out, "<td></td><td></td>");
    }
    if (measured->operations[operation].bytes > 0 && result->memcpy_speed > 0)
        cell(out, speed / result->memcpy_speed);
    else
        kvc_buffer_append_text(out, "<td></td>");
    kvc_buffer_append_text(out, "</tr>\n");
}

static void write_figures(const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "<h2>Latency, in milliseconds, and throughput</h2>\n<div "
                                "class=\"scroll\"><table>\n<thead><tr><th>operation</th>"
                                "<th>count</th>");
    for (size_t i = 0; i < KVC_BENCH_LATENCY_COUNT; i++)
        kvc_buffer_printf(out, "<th>%s</th>", kvc_bench_latency_names[i]);
    kvc_buffer_append_text(out, "<th>tokens/s</th><th>GB/s, all clients</th><th>GB/s, while it "
                                "lasts</th><th>of memcpy</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++)
        if (result->measured.operations[i].latency.count > 0)
            write_operation(result, (enum kvc_bench_operation)i, out);
    kvc_buffer_append_text(out, "</tbody></table></div>\n");
}

static void write_part(const char *name, int64_t nanoseconds, int64_t whole, struct kvc_buffer *out)
{
    const double percent = 100 * (double)nanoseconds / (double)whole;
    kvc_buffer_printf(out,
                      "<tr><th>%s</th><td>%.3f</td><td>%.1f %%</td><td class=\"wide\"><span "
                      "class=\"bar\" style=\"width:%.1f%%\"></span></td></tr>\n",
                      name, (double)nanoseconds / 1e9, percent, percent);
}

static void write_time_spent(const struct kvc_bench_measurement *measured, struct kvc_buffer *out)
{
    if (measured->whole_ns <= 0)
        return;
    kvc_buffer_append_text(out, "<h2>Where the clients’ time went</h2>\n<div class=\"scroll\">"
                                "<table>\n<thead><tr><th>part</th><th>seconds</th><th>share</th>"
                                "<th></th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < KVC_BENCH_PART_COUNT; i++)
        write_part(kvc_bench_part_names[i], measured->parts_ns[i], measured->whole_ns, out);
    write_part("other", kvc_bench_other_ns(measured), measured->whole_ns, out);
    kvc_buffer_append_text(out, "</tbody></table></div>\n");
}

static void write_steps(const struct kvc_bench_server_result *result, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "<h2>Rates tried</h2>\n<div class=\"scroll\"><table>\n<thead><tr>"
                                "<th>requests/s</th><th>reached</th><th>requests</th><th>the "
                                "limit’s figure, ms</th><th>limit</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < result->step_count; i++) {
        const struct kvc_bench_step *step = &result->steps[i];
        kvc_buffer_printf(out, "<tr><th>%.4g</th><td>%.4g</td><td>%lld</td><td>%.3f</td>",
                          step->rate, step->reached, (long long)step->requests,
                          (double)step->value_ns / 1e6);
        kvc_buffer_printf(out, "<td class=\"%s\">%s", step->met ? "good" : "bad",
                          step->met ? "met" : "not met: ");
        kvc_html_escape(step->reason, out);
        kvc_buffer_printf(out, "%s</td></tr>\n", step->decided ? "" : " (tried again)");
    }
    kvc_buffer_append_text(out, "</tbody></table></div>\n");
}

void kvc_bench_server_write_html(const struct kvc_bench_server_options *options,
                                 const struct kvc_bench_server_result *result,
                                 struct kvc_buffer *out)
{
    char *both = kvc_format("%s%s", kvc_plot_style, style);
    kvc_html_begin("kvconform bench server", both, out);
    free(both);
    write_head(options, result, out);
    write_tiles(result, out);
    if (kvc_bench_server_has_figures(result)) {
        write_figures(result, out);
        kvc_buffer_append_text(out, "<h2>Plots</h2>\n<div class=\"plots\">\n");
        kvc_bench_plot_distribution(&result->measured, out);
        kvc_bench_plot_time(&result->measured, out);
        if (options->ramp != NULL)
            kvc_bench_plot_ramp(options->ramp, result, out);
        kvc_buffer_append_text(out, "</div>\n");
        if (options->ramp != NULL)
            write_steps(result, out);
        write_time_spent(&result->measured, out);
    }
    write_options(options, result, out);
    kvc_html_end(out);
}
