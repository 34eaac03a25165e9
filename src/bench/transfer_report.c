#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "src/bench/machine.h"
#include "src/bench/transfer.h"

static const char *order_name(const struct kvc_transfer_case *bench_case)
{
    return bench_case->shuffled ? "shuffled" : "sequential";
}

static const char *clock_name(const struct kvc_transfer_options *options)
{
    return options->clock == KVC_TEAM_CPU ? "cpu" : "wall";
}

/* ---- text ---- */

static void append_bytes(int64_t bytes, struct kvc_buffer *out)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes % 1024 == 0 && bytes > 0 && unit + 1 < KVC_COUNT_OF(units)) {
        bytes /= 1024;
        unit++;
    }
    kvc_buffer_printf(out, "%" PRId64 " %s", bytes, units[unit]);
}

static void write_case(const struct kvc_transfer_case *bench_case, const char *device,
                       struct kvc_buffer *out)
{
    const struct kvc_group *group = &bench_case->group;
    kvc_buffer_printf(out, "%s %s: %" PRId64 " layers of %" PRId64 " x %" PRId64 " %s, ", device,
                      kvc_layout_name(group->layout), group->num_layers, group->num_heads,
                      group->head_size, group->dtype->name);
    append_bytes(kvc_transfer_case_bytes(bench_case), out);
    kvc_buffer_printf(out,
                      " in %" PRId64 " chunks of %" PRId64 " tokens, blocks of %" PRId64
                      " %s, %" PRId64 " thread%s\n",
                      bench_case->chunk_count, bench_case->chunk_tokens, group->block_size,
                      order_name(bench_case), bench_case->threads,
                      bench_case->threads == 1 ? "" : "s");
}

static void write_row(const struct kvc_transfer_row *row, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "  %-17s %-6s %7.2f GB/s  %5.2f x %s (%.2f to %.2f)\n",
                      row->measure->operation, row->measure->version, row->speed, row->ratio.median,
                      row->measure->baseline, row->lower, row->upper);
}

void kvc_transfer_write_text(const struct kvc_transfer_options *options,
                             const struct kvc_transfer_result *result, struct kvc_buffer *out)
{
    kvc_buffer_printf(out,
                      "Speed, and its ratio to that of memcpy, memcmp or MD5 of as many bytes: "
                      "median of %" PRId64 " rounds (their middle half), %s time\n",
                      options->repeat, clock_name(options));
    if (options->device != &kvc_transfer_cpu)
        kvc_buffer_printf(out, "Device %s: %s\n", options->device->name, result->about.text);
    for (size_t i = 0; i < result->row_count; i++) {
        const struct kvc_transfer_row *row = &result->rows[i];
        if (i == 0 || row->bench_case != result->rows[i - 1].bench_case)
            write_case(row->bench_case, options->device->name, out);
        write_row(row, out);
    }
    if (result->interrupted)
        kvc_buffer_append_text(out, "interrupted: what was under way is left out\n");
}

/* ---- JSON ---- */

static json_t *machine_value(void)
{
    struct kvc_machine machine;
    kvc_machine_read(&machine);
    return json_pack("{s:I, s:s, s:I, s:s}", "cores", (json_int_t)machine.cores, "cpu", machine.cpu,
                     "memory_bytes", (json_int_t)machine.memory_bytes, "kernel", machine.kernel);
}

static void set_case(const struct kvc_transfer_case *bench_case, json_t *object)
{
    const struct kvc_group *group = &bench_case->group;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"num_heads", group->num_heads},
        {"head_size", group->head_size},
        {"block_size", group->block_size},
        {"num_layers", group->num_layers},
        {"chunk_tokens", bench_case->chunk_tokens},
        {"chunks", bench_case->chunk_count},
        {"bytes", kvc_transfer_case_bytes(bench_case)},
        {"threads", bench_case->threads},
    };
    json_object_set_new(object, "layout", json_string(kvc_layout_name(group->layout)));
    json_object_set_new(object, "dtype", json_string(group->dtype->name));
    for (size_t i = 0; i < KVC_COUNT_OF(numbers); i++)
        json_object_set_new(object, numbers[i].name, json_integer(numbers[i].value));
    json_object_set_new(object, "block_order", json_string(order_name(bench_case)));
}

static json_t *row_value(const struct kvc_transfer_row *row)
{
    json_t *object = json_object(), *ratios = json_array();
    for (size_t i = 0; i < row->ratio_count; i++)
        json_array_append_new(ratios, json_real(row->ratios[i]));
    set_case(row->bench_case, object);
    const struct {
        const char *name;
        double value;
    } figures[] = {
        {"gigabytes_per_second", row->speed},
        {"baseline_gigabytes_per_second", row->baseline_speed},
        {"best_gigabytes_per_second", row->best_speed},
        {"baseline_best_gigabytes_per_second", row->baseline_best_speed},
        {"ratio", row->ratio.median},
        {"ratio_lower_quartile", row->lower},
        {"ratio_upper_quartile", row->upper},
        {"ratio_min", row->ratio.min},
        {"ratio_max", row->ratio.max},
    };
    json_object_set_new(object, "operation", json_string(row->measure->operation));
    json_object_set_new(object, "version", json_string(row->measure->version));
    json_object_set_new(object, "baseline", json_string(row->measure->baseline));
    for (size_t i = 0; i < KVC_COUNT_OF(figures); i++)
        json_object_set_new(object, figures[i].name, json_real(figures[i].value));
    json_object_set_new(object, "ratios", ratios);
    return object;
}

void kvc_transfer_write_json(const struct kvc_transfer_options *options,
                             const struct kvc_transfer_result *result, struct kvc_buffer *out)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < result->row_count; i++)
        json_array_append_new(rows, row_value(&result->rows[i]));
    json_t *root = json_pack(
        "{s:i, s:s, s:s, s:o, s:s, s:s, s:s, s:I, s:b, s:o}", "schema", 1, "kind", "bench-transfer",
        "suite_version", KVC_VERSION, "machine", machine_value(), "device", options->device->name,
        "device_is", result->about.text, "clock", clock_name(options), "repeat",
        (json_int_t)options->repeat, "interrupted", (int)result->interrupted, "results", rows);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(root);
    kvc_buffer_printf(out, "%s\n", text == NULL ? "{}" : text);
    free(text);
}

/* ---- CSV ---- */

void kvc_transfer_write_csv(const struct kvc_transfer_options *options,
                            const struct kvc_transfer_result *result, struct kvc_buffer *out)
{
    kvc_buffer_append_text(
        out, "device,layout,dtype,num_heads,head_size,block_size,num_layers,chunk_tokens,chunks,"
             "bytes,threads,block_order,operation,version,baseline,gigabytes_per_second,"
             "baseline_gigabytes_per_second,ratio,ratio_lower_quartile,ratio_upper_quartile\r\n");
    for (size_t i = 0; i < result->row_count; i++) {
        const struct kvc_transfer_row *row = &result->rows[i];
        const struct kvc_transfer_case *bench_case = row->bench_case;
        const struct kvc_group *group = &bench_case->group;
        kvc_buffer_printf(
            out,
            "%s,%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
            ",%" PRId64 ",%" PRId64 ",%s,%s,%s,%s,%.3f,%.3f,%.3f,%.3f,%.3f\r\n",
            options->device->name, kvc_layout_name(group->layout), group->dtype->name,
            group->num_heads, group->head_size, group->block_size, group->num_layers,
            bench_case->chunk_tokens, bench_case->chunk_count, kvc_transfer_case_bytes(bench_case),
            bench_case->threads, order_name(bench_case), row->measure->operation,
            row->measure->version, row->measure->baseline, row->speed, row->baseline_speed,
            row->ratio.median, row->lower, row->upper);
    }
}
