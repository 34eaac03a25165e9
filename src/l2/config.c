#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/l2/l2.h"

static const struct kvc_l2_adapter *const adapters[] = {
    &kvc_l2_fs,   &kvc_l2_raw_block, &kvc_l2_s3, &kvc_l2_mock, &kvc_l2_defective,
#ifdef KVC_WITH_HIREDIS
    &kvc_l2_resp,
#endif
};

/* Members that LMCache takes for every type. */
static const struct kvc_l2_field common[] = {
    {.name = "type", .kind = KVC_L2_NO_MATTER},
    {.name = "affinity_tag", .kind = KVC_L2_NO_MATTER},
    {.name = "shared", .kind = KVC_L2_NO_MATTER},
    {.name = "eviction", .kind = KVC_L2_NO_MATTER},
    {.name = "persist_enabled", .kind = KVC_L2_NO_MATTER},
    {.name = "serde", .kind = KVC_L2_ONLY, .only = "null"},
};

void kvc_l2_append_types(struct kvc_buffer *out)
{
    for (size_t i = 0; i < KVC_COUNT_OF(adapters); i++)
        kvc_buffer_printf(out, "%s%s", i == 0 ? "" : ", ", adapters[i]->type);
}

static const struct kvc_l2_field *find_field(const struct kvc_l2_field *fields, size_t count,
                                             const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

/* ---- one member ---- */

static kvc_status refuse(const struct kvc_l2_field *field, const json_t *value,
                         struct kvc_error *err)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    kvc_fail(err, KVC_EUSAGE, "%s is not accepted",
             kvc_text_show(kvc_str_of(text == NULL ? "this" : text)).text);
    free(text);
    if (field->kind == KVC_L2_ONLY)
        return kvc_error_set_expected(err, "%s: this program does nothing else", field->only);
    return kvc_error_set_expected(err, "%s", field->accepted);
}

static bool set_text(const struct kvc_l2_field *field, const json_t *value, struct kvc_arena *arena,
                     const char **place)
{
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value) ||
        (field->required && text[0] == '\0'))
        return false;
    *place = kvc_arena_copy_str(arena, kvc_str_of(text)).data;
    return true;
}

static bool is_only(const struct kvc_l2_field *field, const json_t *value)
{
    json_t *only = json_loads(field->only, JSON_DECODE_ANY, NULL);
    const bool same = json_equal(only, value) != 0;
    json_decref(only);
    return same;
}

static bool is_in_range(const struct kvc_l2_field *field, double number)
{
    return number >= field->minimum && (field->maximum == 0 || number <= field->maximum);
}

static bool set_member(const struct kvc_l2_field *field, const json_t *value,
                       struct kvc_arena *arena, uint8_t *place)
{
    switch (field->kind) {
    case KVC_L2_TEXT:
        return set_text(field, value, arena, (const char **)(void *)place);
    case KVC_L2_BOOL:
        if (!json_is_boolean(value))
            return false;
        *(bool *)place = json_is_true(value);
        return true;
    case KVC_L2_INTEGER:
        if (!json_is_integer(value) || !is_in_range(field, (double)json_integer_value(value)))
            return false;
        *(int64_t *)(void *)place = json_integer_value(value);
        return true;
    case KVC_L2_NUMBER:
        if (!json_is_number(value) || !is_in_range(field, json_number_value(value)))
            return false;
        *(double *)(void *)place = json_number_value(value);
        return true;
    case KVC_L2_ONLY:
        return is_only(field, value);
    case KVC_L2_INNER:
    case KVC_L2_NO_MATTER:
        break;
    }
    return true;
}

/* ---- the object ---- */

static kvc_status refuse_name(const struct kvc_l2_adapter *adapter, struct kvc_error *err)
{
    struct kvc_buffer known = {0};
    for (size_t i = 0; i < adapter->field_count; i++)
        kvc_buffer_printf(&known, "%s%s", i == 0 ? "" : ", ", adapter->fields[i].name);
    kvc_fail(err, KVC_EUSAGE, "no such member for type \"%s\"", adapter->type);
    kvc_error_set_expected(err, "%s", kvc_buffer_text(&known));
    kvc_buffer_clear(&known);
    return KVC_EUSAGE;
}

static kvc_status set_inner(const struct kvc_l2_field *field, const json_t *value,
                            struct kvc_l2_config *config, struct kvc_error *err)
{
    char *json = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    config->inner = kvc_arena_alloc(&config->arena, sizeof(*config->inner));
    const kvc_status status = kvc_l2_config_parse(json == NULL ? "" : json, config->inner, err);
    free(json);
    if (status != KVC_OK) {
        kvc_error_prepend_where(err, "%s", err->where[0] == '\0' ? "" : ": ");
        return status;
    }
    memcpy((uint8_t *)config->values + field->offset, &config->inner, sizeof(config->inner));
    return KVC_OK;
}

static kvc_status read_member(const char *name, const json_t *value, struct kvc_l2_config *config,
                              struct kvc_error *err)
{
    const struct kvc_l2_adapter *adapter = config->adapter;
    const struct kvc_l2_field *field = find_field(adapter->fields, adapter->field_count, name);
    if (field == NULL)
        field = find_field(common, KVC_COUNT_OF(common), name);
    if (field == NULL)
        return refuse_name(adapter, err);
    if (field->kind == KVC_L2_INNER)
        return set_inner(field, value, config, err);
    if ((json_is_null(value) && !field->required) ||
        set_member(field, value, &config->arena, (uint8_t *)config->values + field->offset))
        return KVC_OK;
    return refuse(field, value, err);
}

static kvc_status read_members(json_t *object, struct kvc_l2_config *config, struct kvc_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        const kvc_status status = read_member(name, value, config, err);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "%s", kvc_text_show(kvc_str_of(name)).text);
            return status;
        }
    }
    return KVC_OK;
}

static kvc_status check_required(json_t *object, const struct kvc_l2_adapter *adapter,
                                 struct kvc_error *err)
{
    for (size_t i = 0; i < adapter->field_count; i++) {
        const struct kvc_l2_field *field = &adapter->fields[i];
        if (!field->required || json_object_get(object, field->name) != NULL)
            continue;
        kvc_fail(err, KVC_EUSAGE, "type \"%s\" needs this member", adapter->type);
        kvc_error_set_where(err, "%s", field->name);
        return kvc_error_set_expected(err, "%s", field->accepted);
    }
    return KVC_OK;
}

/* For reports; changes the object when it holds secrets. */
static void set_shown(const char *json, json_t *object, struct kvc_l2_config *config)
{
    bool changed = false;
    for (size_t i = 0; i < config->adapter->field_count; i++) {
        const struct kvc_l2_field *field = &config->adapter->fields[i];
        if (field->secret && json_object_get(object, field->name) != NULL)
            changed = json_object_set_new(object, field->name, json_string("***")) == 0;
        if (field->kind == KVC_L2_INNER && config->inner != NULL)
            changed = json_object_set_new(object, field->name,
                                          json_loads(config->inner->shown, 0, NULL)) == 0;
    }
    char *masked = changed ? json_dumps(object, JSON_COMPACT) : NULL;
    config->shown =
        kvc_arena_copy_str(&config->arena, kvc_str_of(masked == NULL ? json : masked)).data;
    free(masked);
}

static kvc_status choose_adapter(json_t *object, struct kvc_l2_config *config,
                                 struct kvc_error *err)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    for (size_t i = 0; type != NULL && i < KVC_COUNT_OF(adapters); i++)
        if (strcmp(type, adapters[i]->type) == 0)
            config->adapter = adapters[i];
    if (config->adapter != NULL)
        return KVC_OK;
    struct kvc_buffer types = {0};
    kvc_l2_append_types(&types);
    if (type == NULL)
        kvc_fail(err, KVC_EUSAGE, "no type is given");
    else
        kvc_fail(err, KVC_EUSAGE, "no adapter is called '%s'",
                 kvc_text_show(kvc_str_of(type)).text);
    kvc_error_set_where(err, "type");
    kvc_error_set_expected(err, "one of %s", kvc_buffer_text(&types));
    kvc_buffer_clear(&types);
    return KVC_EUSAGE;
}

static kvc_status read_object(const char *json, json_t *object, struct kvc_l2_config *config,
                              struct kvc_error *err)
{
    if (!json_is_object(object)) {
        kvc_fail(err, KVC_EUSAGE, "this is no JSON object");
        return kvc_error_set_expected(err, "{\"type\": …, …}");
    }
    KVC_GUARD(choose_adapter(object, config, err));
    config->values = kvc_arena_alloc(&config->arena, config->adapter->config_size);
    memcpy(config->values, config->adapter->defaults, config->adapter->config_size);
    KVC_GUARD(read_members(object, config, err));
    KVC_GUARD(check_required(object, config->adapter, err));
    set_shown(json, object, config);
    return KVC_OK;
}

kvc_status kvc_l2_config_parse(const char *json, struct kvc_l2_config *config,
                               struct kvc_error *err)
{
    *config = (struct kvc_l2_config){0};
    json_error_t problem;
    json_t *object = json_loads(json, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) {
        kvc_fail(err, KVC_EUSAGE, "this is no JSON: column %d: %s", problem.column,
                 kvc_text_show(kvc_str_of(problem.text)).text);
        return kvc_error_set_expected(err, "{\"type\": …, …}");
    }
    const kvc_status status = read_object(json, object, config, err);
    json_decref(object);
    return status;
}

void kvc_l2_config_clear(struct kvc_l2_config *config)
{
    if (config->inner != NULL)
        kvc_l2_config_clear(config->inner);
    kvc_arena_clear(&config->arena);
    *config = (struct kvc_l2_config){0};
}
