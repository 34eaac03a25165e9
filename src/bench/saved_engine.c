/* What `bench engine --json` wrote, in the form in which benches are compared. */
#include <string.h>

#include "src/bench/saved.h"

static const struct {
    const char *member, *operation, *figure;
} figures[] = {
    {"mean_ttft_ms", "ttft", "mean"},
    {"p50_ttft_ms", "ttft", "p50"},
    {"p90_ttft_ms", "ttft", "p90"},
    {"p99_ttft_ms", "ttft", "p99"},
    {"mean_inter_token_ms", "inter_token", "mean"},
    {"p50_inter_token_ms", "inter_token", "p50"},
    {"p90_inter_token_ms", "inter_token", "p90"},
    {"p99_inter_token_ms", "inter_token", "p99"},
    {"mean_request_latency_ms", "request_latency", "mean"},
    {"p50_request_latency_ms", "request_latency", "p50"},
    {"p90_request_latency_ms", "request_latency", "p90"},
    {"p99_request_latency_ms", "request_latency", "p99"},
    {"mean_decode_speed", "decode", "tokens_per_second_mean"},
    {"p50_decode_speed", "decode", "tokens_per_second_p50"},
    {"p90_decode_speed", "decode", "tokens_per_second_p90"},
    {"p99_decode_speed", "decode", "tokens_per_second_p99"},
    {"input_throughput", "input", "tokens_per_second"},
    {"output_throughput", "output", "tokens_per_second"},
    {"request_throughput", "requests", "requests_per_second"},
};

/* Where the engine is and what is written where may differ between runs that measure the same. */
static const char *const free_members[] = {"engine_url",  "output_dir", "export_csv",
                                           "export_json", "quiet",      "seed"};

static bool is_free(const char *name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(free_members); i++)
        if (strcmp(name, free_members[i]) == 0)
            return true;
    return false;
}

static kvc_status add_config(const struct kvc_saved *saved, const char *place,
                             struct kvc_saved_bench *bench, struct kvc_error *err)
{
    json_t *members, *value;
    const char *name;
    KVC_GUARD(kvc_saved_get(saved, place, JSON_OBJECT, &members, err));
    json_object_foreach(members, name, value)
    {
        char key[96];
        snprintf(key, sizeof(key), "%s.%s", place, name);
        if (!is_free(name) && !json_is_object(value))
            json_object_set(bench->config, key, value);
    }
    return KVC_OK;
}

/* What was not measured is null. */
static void add_figures(const json_t *results, json_t *operations)
{
    for (size_t i = 0; i < KVC_COUNT_OF(figures); i++) {
        json_t *value = json_object_get(results, figures[i].member);
        if (!json_is_number(value))
            continue;
        json_t *operation = json_object_get(operations, figures[i].operation);
        if (operation == NULL) {
            operation = json_object();
            json_object_set_new(operations, figures[i].operation, operation);
        }
        json_object_set(operation, figures[i].figure, value);
    }
}

kvc_status kvc_saved_read_engine(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                 struct kvc_error *err)
{
    json_t *results;
    bench->config = json_object();
    bench->operations = json_object();
    KVC_GUARD(add_config(saved, "config", bench, err));
    KVC_GUARD(add_config(saved, "config.settings", bench, err));
    KVC_GUARD(kvc_saved_get(saved, "results", JSON_OBJECT, &results, err));
    /* Prompts that were not brought to their length are other prompts. */
    json_object_set(bench->config, "results.calibration_problem",
                    json_object_get(results, "calibration_problem"));
    add_figures(results, bench->operations);
    const char *reason = json_string_value(
        json_object_get(json_array_get(json_object_get(results, "failures"), 0), "reason"));
    return kvc_saved_read_verdict(saved, "results.valid", "results.run", reason, bench, err);
}
