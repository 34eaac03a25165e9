/* What `bench transfer --format json` wrote, in the form in which benches are compared. */
#include <stdio.h>
#include <string.h>

#include "src/bench/saved.h"

/* What all measurements of a report have in common. */
static const struct {
    const char *name;
    bool of_each; /* of the members of results, not of the report */
} common[] = {
    {"device", false},    {"device_is", false},   {"clock", false},      {"num_layers", true},
    {"block_size", true}, {"chunk_tokens", true}, {"block_order", true},
};

/* What an operation's name is made of, in this order. */
static const char *const axes[] = {"operation", "version",   "layout", "dtype",
                                   "num_heads", "head_size", "bytes",  "threads"};

static const char *const figures[] = {"ratio", "gigabytes_per_second", "best_gigabytes_per_second",
                                      "baseline_gigabytes_per_second"};

static kvc_status refuse(const struct kvc_saved *saved, size_t number, const char *member,
                         const char *what, struct kvc_error *err)
{
    kvc_fail(err, KVC_EUSAGE, "%s", what);
    return kvc_error_set_where(err, "%s: results[%zu].%s", saved->path, number, member);
}

/* "gather/fast/nhd/float16/8/128/67108864/1" */
static kvc_status append_name(const struct kvc_saved *saved, size_t number, const json_t *row,
                              struct kvc_buffer *name, struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_COUNT_OF(axes); i++) {
        const json_t *value = json_object_get(row, axes[i]);
        if (!json_is_string(value) && !json_is_integer(value))
            return refuse(saved, number, axes[i], "is missing, or neither a text nor a number",
                          err);
        kvc_buffer_append_text(name, i == 0 ? "" : "/");
        if (json_is_string(value))
            kvc_buffer_append_text(name, json_string_value(value));
        else
            kvc_buffer_printf(name, "%lld", (long long)json_integer_value(value));
    }
    return KVC_OK;
}

static kvc_status add_row(const struct kvc_saved *saved, size_t number, const json_t *row,
                          struct kvc_saved_bench *bench, struct kvc_error *err)
{
    struct kvc_buffer name = {0};
    kvc_status status = append_name(saved, number, row, &name, err);
    if (status == KVC_OK && json_object_get(bench->operations, kvc_buffer_text(&name)) != NULL)
        status = refuse(saved, number, "operation", "was measured before under the same name", err);
    if (status == KVC_OK) {
        json_t *values = json_object();
        for (size_t i = 0; i < KVC_COUNT_OF(figures); i++) {
            json_t *value = json_object_get(row, figures[i]);
            if (json_is_number(value))
                json_object_set(values, figures[i], value);
        }
        json_object_set_new(bench->operations, kvc_buffer_text(&name), values);
    }
    kvc_buffer_clear(&name);
    return status;
}

static void read_config(const struct kvc_saved *saved, const json_t *first_row, json_t *config)
{
    for (size_t i = 0; i < KVC_COUNT_OF(common); i++)
        json_object_set(
            config, common[i].name,
            json_object_get(common[i].of_each ? first_row : saved->root, common[i].name));
}

kvc_status kvc_saved_read_transfer(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                   struct kvc_error *err)
{
    json_t *rows, *interrupted;
    KVC_GUARD(kvc_saved_get(saved, "results", JSON_ARRAY, &rows, err));
    KVC_GUARD(kvc_saved_get(saved, "interrupted", JSON_TRUE, &interrupted, err));
    bench->config = json_object();
    bench->operations = json_object();
    read_config(saved, json_array_get(rows, 0), bench->config);
    for (size_t i = 0; i < json_array_size(rows); i++)
        KVC_GUARD(add_row(saved, i, json_array_get(rows, i), bench, err));
    bench->valid = !json_is_true(interrupted) && json_array_size(rows) > 0;
    snprintf(bench->why, sizeof(bench->why), "%s",
             json_is_true(interrupted) ? "not valid: interrupted" : "not valid: it has no results");
    return KVC_OK;
}
