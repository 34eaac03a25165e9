#include <criterion/criterion.h>
#include <string.h>

#include "src/bench/engine_settings.h"

static size_t count_keys(const char *key)
{
    size_t count = 0;
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++)
        count += strcmp(kvc_bench_engine_setting_table[i].key, key) == 0;
    return count;
}

Test(settings, keys_are_there_once_and_defaults_are_accepted)
{
    struct kvc_bench_engine_settings settings;
    kvc_bench_engine_settings_init(&settings);
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[i];
        cr_assert_eq(count_keys(setting->key), 1, "%s", setting->key);
        if (setting->initial != NULL)
            cr_assert_eq(kvc_bench_engine_setting_set(&settings, i, setting->initial, NULL), KVC_OK,
                         "%s", setting->key);
    }
    kvc_bench_engine_settings_clear(&settings);
}

/* Expected: repr() of Python. */
Test(settings, decimals_as_python_writes_them)
{
    static const char *const texts[] = {"100.0",      "0.8", "1.0",   "0.3",
                                        "123456.789", "0.1", "2500.5"};
    const size_t index = kvc_bench_engine_setting_index("kv_cache_volume");
    for (size_t i = 0; i < KVC_COUNT_OF(texts); i++) {
        struct kvc_bench_engine_settings settings;
        struct kvc_buffer written = {0};
        kvc_bench_engine_settings_init(&settings);
        cr_assert_eq(kvc_bench_engine_setting_set(&settings, index, texts[i], NULL), KVC_OK);
        kvc_bench_engine_setting_write(&settings, index, &written);
        cr_assert_str_eq(kvc_buffer_text(&written), texts[i]);
        kvc_buffer_clear(&written);
        kvc_bench_engine_settings_clear(&settings);
    }
}

Test(settings, what_is_refused_changes_nothing)
{
    const size_t index = kvc_bench_engine_setting_index("mrc_qps");
    struct kvc_bench_engine_settings settings;
    kvc_bench_engine_settings_init(&settings);
    cr_assert_eq(kvc_bench_engine_setting_set(&settings, index, "4", NULL), KVC_OK);
    static const char *const bad[] = {"", "0", "-1", "inf", "nan", "4x", "1e6"};
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++)
        cr_assert_eq(kvc_bench_engine_setting_set(&settings, index, bad[i], NULL), KVC_EUSAGE, "%s",
                     bad[i]);
    cr_assert_float_eq(settings.mrc_qps, 4, 0);
    kvc_bench_engine_setting_unset(&settings, index);
    cr_assert_float_eq(settings.mrc_qps, 1, 0);
    cr_assert_not(settings.is_set[index]);
    kvc_bench_engine_settings_clear(&settings);
}
