#include "src/bench/engine_settings.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/client.h"
#include "src/run/nearest.h"

static void *place_of(const struct kvc_bench_engine_settings *settings, size_t index)
{
    return (char *)settings + kvc_bench_engine_setting_table[index].offset;
}

static kvc_status refuse(const char *text, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted", kvc_text_show(kvc_str_of(text)).text);
}

static kvc_status read_number(const struct kvc_bench_engine_setting *setting, const char *text,
                              int64_t *value, struct kvc_error *err)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && (double)number >= setting->minimum &&
        (double)number <= setting->maximum) {
        *value = number;
        return KVC_OK;
    }
    refuse(text, err);
    return kvc_error_set_expected(err, "a whole number from %.0f to %.0f", setting->minimum,
                                  setting->maximum);
}

static kvc_status read_decimal(const struct kvc_bench_engine_setting *setting, const char *text,
                               double *value, struct kvc_error *err)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    if (end != text && *end == '\0' && number > setting->minimum && number < setting->maximum) {
        *value = number;
        return KVC_OK;
    }
    refuse(text, err);
    return kvc_error_set_expected(err, "a number above %g and below %g", setting->minimum,
                                  setting->maximum);
}

static kvc_status read_choice(const struct kvc_bench_engine_setting *setting, const char *text,
                              const char **value, struct kvc_error *err)
{
    struct kvc_buffer accepted = {0};
    for (const struct kvc_bench_engine_choice *choice = setting->choices; choice->value != NULL;
         choice++) {
        if (strcmp(choice->value, text) == 0) {
            *value = choice->value;
            kvc_buffer_clear(&accepted);
            return KVC_OK;
        }
        kvc_buffer_printf(&accepted, "%s%s", accepted.size > 0 ? ", " : "", choice->value);
    }
    refuse(text, err);
    kvc_error_set_expected(err, "one of %s", kvc_buffer_text(&accepted));
    kvc_buffer_clear(&accepted);
    return KVC_EUSAGE;
}

static kvc_status read_switch(const char *text, bool *value, struct kvc_error *err)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *value = text[0] == 't';
        return KVC_OK;
    }
    refuse(text, err);
    return kvc_error_set_expected(err, "true or false");
}

/* An empty text is none: the default, where there is one. */
static void read_text(struct kvc_arena *texts, const char *text, const char **value)
{
    *value = text[0] == '\0' ? NULL : kvc_arena_copy_str(texts, kvc_str_of(text)).data;
}

static kvc_status read_url(struct kvc_arena *texts, const char *text, const char **value,
                           struct kvc_error *err)
{
    char *url = NULL;
    KVC_GUARD(kvc_engine_base_url(text, false, &url, err));
    read_text(texts, url, value);
    free(url);
    return KVC_OK;
}

static kvc_status read_value(struct kvc_bench_engine_settings *settings, size_t index,
                             const char *text, struct kvc_error *err)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    void *place = place_of(settings, index);
    switch (setting->kind) {
    case KVC_BENCH_ENGINE_TEXT:
        read_text(&settings->texts, text, place);
        return KVC_OK;
    case KVC_BENCH_ENGINE_URL:
        return read_url(&settings->texts, text, place, err);
    case KVC_BENCH_ENGINE_CHOICE:
        return read_choice(setting, text, place, err);
    case KVC_BENCH_ENGINE_NUMBER:
        return read_number(setting, text, place, err);
    case KVC_BENCH_ENGINE_DECIMAL:
        return read_decimal(setting, text, place, err);
    case KVC_BENCH_ENGINE_SWITCH:
        return read_switch(text, place, err);
    }
    return KVC_OK;
}

kvc_status kvc_bench_engine_setting_set(struct kvc_bench_engine_settings *settings, size_t index,
                                        const char *text, struct kvc_error *err)
{
    KVC_GUARD(read_value(settings, index, text, err));
    settings->is_set[index] = true;
    return KVC_OK;
}

void kvc_bench_engine_setting_unset(struct kvc_bench_engine_settings *settings, size_t index)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    settings->is_set[index] = false;
    if (setting->initial != NULL)
        read_value(settings, index, setting->initial, NULL);
    else if (setting->kind == KVC_BENCH_ENGINE_NUMBER)
        *(int64_t *)place_of(settings, index) = 0;
    else
        *(const char **)place_of(settings, index) = NULL;
}

void kvc_bench_engine_settings_init(struct kvc_bench_engine_settings *settings)
{
    *settings = (struct kvc_bench_engine_settings){0};
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++)
        kvc_bench_engine_setting_unset(settings, i);
}

void kvc_bench_engine_settings_clear(struct kvc_bench_engine_settings *settings)
{
    kvc_arena_clear(&settings->texts);
}

/* ---- configuration files ---- */

/* With as few digits as give the same number, and a point, without an exponent where that will do. */
static void write_decimal(double value, struct kvc_buffer *out)
{
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value && strchr(text, 'e') == NULL)
            break;
    }
    kvc_buffer_printf(out, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
}

void kvc_bench_engine_setting_write(const struct kvc_bench_engine_settings *settings, size_t index,
                                    struct kvc_buffer *out)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    const void *place = place_of(settings, index);
    if (setting->kind == KVC_BENCH_ENGINE_DECIMAL)
        write_decimal(*(const double *)place, out);
    else if (setting->kind == KVC_BENCH_ENGINE_SWITCH)
        kvc_buffer_append_text(out, *(const bool *)place ? "true" : "false");
    else if (setting->kind != KVC_BENCH_ENGINE_NUMBER)
        kvc_buffer_append_text(
            out, *(const char *const *)place == NULL ? "" : *(const char *const *)place);
    else if (setting->initial != NULL || settings->is_set[index])
        kvc_buffer_printf(out, "%lld", (long long)*(const int64_t *)place);
}

static kvc_status unknown_key(const char *key, struct kvc_error *err)
{
    const char *keys[KVC_BENCH_ENGINE_SETTING_COUNT];
    struct kvc_buffer nearest = {0};
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++)
        keys[i] = kvc_bench_engine_setting_table[i].key;
    kvc_nearest_append(key, keys, KVC_COUNT_OF(keys), &nearest);
    kvc_fail(err, KVC_EUSAGE, "there is no setting '%s'%s%s", kvc_text_show(kvc_str_of(key)).text,
             nearest.size > 0 ? "; nearest: " : "", kvc_buffer_text(&nearest));
    kvc_buffer_clear(&nearest);
    return KVC_EUSAGE;
}

static kvc_status wrong_kind(const json_t *value, struct kvc_error *err)
{
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",  [JSON_STRING] = "text",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",
    };
    return kvc_fail(err, KVC_EUSAGE, "%s is not accepted here", kinds[json_typeof(value)]);
}

/* Whether a JSON value is of the kind that the setting wants: "7" is no number. */
static bool kind_fits(enum kvc_bench_engine_setting_kind kind, const json_t *value)
{
    if (kind == KVC_BENCH_ENGINE_NUMBER)
        return json_is_integer(value);
    if (kind == KVC_BENCH_ENGINE_DECIMAL)
        return json_is_number(value);
    if (kind == KVC_BENCH_ENGINE_SWITCH)
        return json_is_boolean(value);
    return json_is_string(value);
}

static kvc_status load_value(struct kvc_bench_engine_settings *settings, const char *key,
                             const json_t *value, struct kvc_error *err)
{
    size_t index = 0;
    while (index < KVC_BENCH_ENGINE_SETTING_COUNT &&
           strcmp(kvc_bench_engine_setting_table[index].key, key) != 0)
        index++;
    if (index == KVC_BENCH_ENGINE_SETTING_COUNT)
        return unknown_key(key, err);
    if (json_is_null(value))
        return KVC_OK;
    if (!kind_fits(kvc_bench_engine_setting_table[index].kind, value))
        return wrong_kind(value, err);
    if (json_is_string(value))
        return kvc_bench_engine_setting_set(settings, index, json_string_value(value), err);
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    const kvc_status status = kvc_bench_engine_setting_set(settings, index, text, err);
    free(text);
    return status;
}

kvc_status kvc_bench_engine_settings_load(struct kvc_bench_engine_settings *settings,
                                          const char *path, struct kvc_error *err)
{
    json_error_t problem;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL && problem.line < 0)
        return kvc_fail(err, KVC_EUSAGE, "cannot read '%s': %s", path, strerror(errno));
    if (root == NULL) {
        kvc_fail(err, KVC_EUSAGE, "no JSON: %s", problem.text);
        return kvc_error_set_where(err, "%s:%d", path, problem.line);
    }
    kvc_status status = KVC_OK;
    if (!json_is_object(root)) {
        status = kvc_fail(err, KVC_EUSAGE, "a configuration is a JSON object");
        kvc_error_set_where(err, "%s", path);
    }
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        status = load_value(settings, key, value, err);
        if (status != KVC_OK) {
            kvc_error_set_where(err, "%s: %s", path, kvc_text_show(kvc_str_of(key)).text);
            break;
        }
    }
    json_decref(root);
    return status;
}

static void write_json_value(const struct kvc_bench_engine_settings *settings, size_t index,
                             struct kvc_buffer *out)
{
    const enum kvc_bench_engine_setting_kind kind = kvc_bench_engine_setting_table[index].kind;
    struct kvc_buffer text = {0};
    kvc_bench_engine_setting_write(settings, index, &text);
    if (kind == KVC_BENCH_ENGINE_TEXT || kind == KVC_BENCH_ENGINE_URL ||
        kind == KVC_BENCH_ENGINE_CHOICE) {
        json_t *string = json_string(kvc_buffer_text(&text));
        char *quoted = json_dumps(string, JSON_ENCODE_ANY);
        kvc_buffer_append_text(out, quoted == NULL ? "\"\"" : quoted);
        free(quoted);
        json_decref(string);
    } else {
        kvc_buffer_append(out, text.data, text.size);
    }
    kvc_buffer_clear(&text);
}

void kvc_bench_engine_settings_export(const struct kvc_bench_engine_settings *settings,
                                      struct kvc_buffer *out)
{
    const char *before = "{\n";
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[i];
        if (!setting->is_portable || !kvc_bench_engine_setting_applies(setting, settings))
            continue;
        kvc_buffer_printf(out, "%s  \"%s\": ", before, setting->key);
        write_json_value(settings, i, out);
        before = ",\n";
    }
    kvc_buffer_append_text(out, "\n}\n");
}
