#include "src/bench/saved.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct kvc_saved_kind kinds[] = {
    {.name = "run --json", .marker = "kind", .marked = "run", .version = "schema", .newest = 1},
    {.name = "bench server --format json",
     .marker = "title",
     .marked = "Server Bench Result",
     .version = "schema_version",
     .newest = 1,
     .limit = "*.p50 > 1.10",
     .config_place = "metrics.config.",
     .read = kvc_saved_read_server},
    {.name = "bench engine --json",
     .marker = "title",
     .marked = "Engine Benchmark Result",
     .version = "schema_version",
     .newest = 1,
     .limit = "*.p50 > 1.10",
     .config_place = "",
     .read = kvc_saved_read_engine},
    {.name = "bench l2 --format json",
     .marker = "title",
     .marked = "L2 Adapter Benchmark Result",
     .version = "schema_version",
     .newest = 1,
     .limit = "*.p50 > 1.10",
     .config_place = "metrics.config.",
     .read = kvc_saved_read_l2},
    {.name = "bench transfer --format json",
     .marker = "kind",
     .marked = "bench-transfer",
     .version = "schema",
     .newest = 1,
     .limit = "*.ratio < 0.90",
     .config_place = "",
     .read = kvc_saved_read_transfer},
};

static kvc_status read_file(const char *path, struct kvc_buffer *text, struct kvc_error *err)
{
    if (!kvc_buffer_read_file(path, KVC_SAVED_MAX_SIZE, text))
        return kvc_fail(err, KVC_EUSAGE, "cannot be read: %s", strerror(errno));
    if (text->size > KVC_SAVED_MAX_SIZE)
        return kvc_fail(err, KVC_EUSAGE, "is larger than %d MiB: no report is",
                        KVC_SAVED_MAX_SIZE >> 20);
    return KVC_OK;
}

static kvc_status parse(const char *path, json_t **root, struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    json_error_t json_error;
    kvc_status status = read_file(path, &text, err);
    if (status == KVC_OK) {
        *root = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &json_error);
        if (*root == NULL) {
            status = kvc_fail(err, KVC_EUSAGE, "is not JSON: %s", json_error.text);
            kvc_error_set_where(err, "line %d", json_error.line);
        }
    }
    kvc_buffer_clear(&text);
    return status;
}

static kvc_status recognise(struct kvc_saved *saved, struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_COUNT_OF(kinds); i++) {
        const char *marked = json_string_value(json_object_get(saved->root, kinds[i].marker));
        const json_t *version = json_object_get(saved->root, kinds[i].version);
        if (marked == NULL || strcmp(marked, kinds[i].marked) != 0 || !json_is_integer(version))
            continue;
        const json_int_t number = json_integer_value(version);
        saved->kind = &kinds[i];
        if (number >= 1 && number <= kinds[i].newest)
            return KVC_OK;
        return kvc_fail(err, KVC_EUSAGE,
                        "is a report of '%s', version %lld; this program reads version %lld",
                        kinds[i].name, (long long)number, (long long)kinds[i].newest);
    }
    kvc_fail(err, KVC_EUSAGE, "is no report that can be compared");
    struct kvc_buffer names = {0};
    for (size_t i = 0; i < KVC_COUNT_OF(kinds); i++)
        kvc_buffer_printf(&names, "%s`kvconform %s`", i == 0 ? "" : ", ", kinds[i].name);
    kvc_error_set_expected(err, "what one of these wrote: %s", kvc_buffer_text(&names));
    kvc_buffer_clear(&names);
    return KVC_EUSAGE;
}

/* The error's place begins with the file. */
static kvc_status read_bench(struct kvc_saved *saved, struct kvc_error *err)
{
    return saved->kind->read == NULL ? KVC_OK : saved->kind->read(saved, &saved->bench, err);
}

kvc_status kvc_saved_open(const char *path, struct kvc_saved *saved, struct kvc_error *err)
{
    *saved = (struct kvc_saved){.path = path};
    kvc_status status = parse(path, &saved->root, err);
    if (status == KVC_OK)
        status = recognise(saved, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, "%s%s", path,
                                err != NULL && err->where[0] != '\0' ? ": " : "");
    else
        status = read_bench(saved, err);
    if (status != KVC_OK)
        kvc_saved_close(saved);
    return status;
}

void kvc_saved_close(struct kvc_saved *saved)
{
    json_decref(saved->bench.config);
    json_decref(saved->bench.operations);
    json_decref(saved->root);
    saved->bench = (struct kvc_saved_bench){0};
    saved->root = NULL;
}

static json_t *find(const struct kvc_saved *saved, const char *place)
{
    json_t *value = saved->root;
    while (value != NULL && *place != '\0') {
        char name[64];
        const size_t size = strcspn(place, ".");
        snprintf(name, sizeof(name), "%.*s", (int)size, place);
        value = json_object_get(value, name);
        place += size + (place[size] == '.');
    }
    return value;
}

static const char *type_name(json_type type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a text"};
    return (size_t)type < KVC_COUNT_OF(names) ? names[type] : "true or false";
}

kvc_status kvc_saved_get(const struct kvc_saved *saved, const char *place, json_type type,
                         json_t **value, struct kvc_error *err)
{
    *value = find(saved, place);
    /* true and false are types of their own to jansson */
    const bool fits =
        type == JSON_TRUE ? json_is_boolean(*value) : *value != NULL && json_typeof(*value) == type;
    if (fits)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE, *value == NULL ? "is missing" : "is of another type");
    kvc_error_set_where(err, "%s: %s", saved->path, place);
    return kvc_error_set_expected(err, "%s", type_name(type));
}

const char *kvc_saved_text(const struct kvc_saved *saved, const char *place)
{
    const char *text = json_string_value(find(saved, place));
    return text == NULL ? "" : text;
}

bool kvc_saved_is_true(const struct kvc_saved *saved, const char *place)
{
    return json_is_true(find(saved, place));
}

kvc_status kvc_saved_read_verdict(const struct kvc_saved *saved, const char *valid_place,
                                  const char *verdict_place, const char *problem,
                                  struct kvc_saved_bench *bench, struct kvc_error *err)
{
    const char *verdict = kvc_saved_text(saved, verdict_place);
    json_t *valid;
    KVC_GUARD(kvc_saved_get(saved, valid_place, JSON_TRUE, &valid, err));
    bench->valid = json_is_true(valid);
    snprintf(bench->why, sizeof(bench->why), "%.120s%s%.240s",
             verdict[0] == '\0' ? "not valid" : verdict,
             problem == NULL || problem[0] == '\0' ? "" : ": ", problem == NULL ? "" : problem);
    return KVC_OK;
}
