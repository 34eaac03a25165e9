/* What `bench l2 --format json` wrote, in the form in which benches are compared. */
#include <ctype.h>
#include <string.h>

#include "src/bench/saved.h"

/* Of a round. */
static const struct {
    const char *member, *figure;
    bool is_of_bytes; /* a lookup moves none */
} figures[] = {
    {"duration_avg_ms", "mean", false},
    {"duration_min_ms", "min", false},
    {"duration_max_ms", "max", false},
    {"duration_p50_ms", "p50", false},
    {"duration_p99_ms", "p99", false},
    {"throughput_avg_mbps", "megabytes_per_second", true},
    {"ops_per_sec_avg", "keys_per_second", false},
};

/* "Store" is the operation store. */
static void add_operation(const json_t *section, json_t *operations)
{
    char name[16] = "";
    const char *title = json_string_value(json_object_get(section, "operation"));
    for (size_t i = 0; title != NULL && title[i] != '\0' && i < sizeof(name) - 1; i++)
        name[i] = (char)tolower((unsigned char)title[i]);
    json_t *values = json_object();
    for (size_t i = 0; i < KVC_COUNT_OF(figures); i++) {
        json_t *value = json_object_get(section, figures[i].member);
        if (json_is_number(value) && !(figures[i].is_of_bytes && strcmp(name, "lookup") == 0))
            json_object_set(values, figures[i].figure, value);
    }
    json_object_set_new(operations, name, values);
}

kvc_status kvc_saved_read_l2(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                             struct kvc_error *err)
{
    json_t *metrics, *config, *section;
    const char *name;
    KVC_GUARD(kvc_saved_get(saved, "metrics", JSON_OBJECT, &metrics, err));
    KVC_GUARD(kvc_saved_get(saved, "metrics.config", JSON_OBJECT, &config, err));
    bench->config = json_copy(config);
    /* The adapter's type counts; of what else it was told a difference is noted. */
    json_object_del(bench->config, "l2_adapter_json");
    bench->operations = json_object();
    json_object_foreach(metrics, name, section)
    {
        if (strncmp(name, "op_", 3) == 0)
            add_operation(section, bench->operations);
    }
    return kvc_saved_read_verdict(saved, "metrics.results.valid", "metrics.results.run",
                                  kvc_saved_text(saved, "metrics.results.first_problem"), bench,
                                  err);
}
