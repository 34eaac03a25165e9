/* What `bench server --format json` wrote, in the form in which benches are compared. */
#include <string.h>

#include "src/bench/saved.h"

/* What may differ between runs that measure the same. */
static const char *const free_members[] = {"rpc_url", "transfer_mode", "transfer_path_reason",
                                           "seed"};

/* Members of metrics that are no operation. */
static const char *const sections[] = {"config", "results"};

static bool is_section(const char *name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(sections); i++)
        if (strcmp(name, sections[i]) == 0)
            return true;
    return false;
}

/* A figure is a number whose name begins with that of its operation; how often it was measured is none. */
static json_t *figures_of(const char *operation, json_t *members)
{
    const size_t size = strlen(operation);
    json_t *figures = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(members, name, value)
    {
        if (json_is_number(value) && strncmp(name, operation, size) == 0 && name[size] == '_' &&
            strcmp(name + size, "_count") != 0)
            json_object_set(figures, name + size + 1, value);
    }
    return figures;
}

kvc_status kvc_saved_read_server(const struct kvc_saved *saved, struct kvc_saved_bench *bench,
                                 struct kvc_error *err)
{
    json_t *metrics, *config, *value;
    KVC_GUARD(kvc_saved_get(saved, "metrics", JSON_OBJECT, &metrics, err));
    KVC_GUARD(kvc_saved_get(saved, "metrics.config", JSON_OBJECT, &config, err));
    bench->config = json_copy(config);
    for (size_t i = 0; i < KVC_COUNT_OF(free_members); i++)
        json_object_del(bench->config, free_members[i]);
    bench->operations = json_object();
    const char *name;
    json_object_foreach(metrics, name, value)
    {
        if (json_is_object(value) && !is_section(name))
            json_object_set_new(bench->operations, name, figures_of(name, value));
    }
    return kvc_saved_read_verdict(saved, "metrics.results.valid", "metrics.results.verdict",
                                  kvc_saved_text(saved, "metrics.results.first_problem"), bench,
                                  err);
}
