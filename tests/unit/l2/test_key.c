/* Names against those that LMCache's own adapters give (generate.py). */
#include <criterion/criterion.h>
#include <string.h>

#include "src/l2/key.h"

static const struct {
    const char *model;
    uint32_t kv_rank, group;
    const char *hash, *salt;
    const char *file_name, *name, *encoded;
    uint64_t identity;
} golden[] = {
#include "tests/unit/l2/golden_keys.inc"
};

Test(l2_key, the_names_are_those_of_lmcache)
{
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_buffer hash = {0}, file_name = {0}, name = {0}, encoded = {0};
        kvc_hex_decode(kvc_str_of(golden[i].hash), &hash, NULL);
        const struct kvc_l2_key key = {kvc_buffer_view(&hash), kvc_str_of(golden[i].model),
                                       golden[i].kv_rank, golden[i].group,
                                       kvc_str_of(golden[i].salt)};
        cr_assert_eq(kvc_l2_key_check(&key, &err), KVC_OK, "%s", err.what);
        cr_assert_eq(kvc_l2_key_append_file_name(&key, &file_name, &err), KVC_OK, "%s", err.what);
        kvc_l2_key_append(&key, &name);
        kvc_l2_key_append_encoded(&key, &encoded);
        cr_assert_str_eq(kvc_buffer_text(&file_name), golden[i].file_name);
        cr_assert_str_eq(kvc_buffer_text(&name), golden[i].name);
        cr_assert_str_eq(kvc_buffer_text(&encoded), golden[i].encoded);
        kvc_buffer_clear(&hash);
        kvc_buffer_clear(&file_name);
        kvc_buffer_clear(&name);
        kvc_buffer_clear(&encoded);
    }
}

static const uint8_t a_hash[] = {1};

static struct kvc_l2_key key_of(struct kvc_str model, struct kvc_str salt)
{
    return (struct kvc_l2_key){.chunk_hash = {a_hash, 1}, .model = model, .salt = salt};
}

Test(l2_key, what_no_lmcache_makes_is_refused)
{
    char long_salt[KVC_L2_MAX_SALT + 1];
    memset(long_salt, 'x', sizeof(long_salt));
    const struct kvc_l2_key bad[] = {
        key_of(KVC_STR(""), KVC_STR("")),
        key_of(KVC_STR("a@b"), KVC_STR("")),
        key_of(KVC_STR("a\0b"), KVC_STR("")),
        key_of(KVC_STR("m"), KVC_STR("a/b")),
        key_of(KVC_STR("m"), KVC_STR("a\\b")),
        key_of(KVC_STR("m"), KVC_STR("a@b")),
        key_of(KVC_STR("m"), KVC_STR("a\0b")),
        key_of(KVC_STR("m"), ((struct kvc_str){long_salt, sizeof(long_salt)})),
        {.model = KVC_STR("m")},
        {.model = KVC_STR("m"), .chunk_hash = {a_hash, KVC_L2_MAX_HASH + 1}},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++)
        cr_assert_eq(kvc_l2_key_check(&bad[i], NULL), KVC_EUSAGE, "key %zu", i);
    const struct kvc_l2_key longest =
        key_of(KVC_STR("m"), ((struct kvc_str){long_salt, KVC_L2_MAX_SALT}));
    cr_assert_eq(kvc_l2_key_check(&longest, NULL), KVC_OK);
}

Test(l2_key, two_models_never_share_a_file)
{
    struct kvc_buffer name = {0};
    const struct kvc_l2_key alias = key_of(KVC_STR("a-SEP-b"), KVC_STR(""));
    cr_assert_eq(kvc_l2_key_append_file_name(&alias, &name, NULL), KVC_EUSAGE);
    kvc_buffer_clear(&name);
}

Test(l2_key, a_name_of_255_bytes_is_the_longest)
{
    char model[256];
    memset(model, 'm', sizeof(model));
    const size_t rest = strlen("@0x00000000@0@01.data");
    struct kvc_buffer name = {0};
    const struct kvc_l2_key fits = key_of((struct kvc_str){model, 255 - rest}, KVC_STR(""));
    const struct kvc_l2_key too_long = key_of((struct kvc_str){model, 256 - rest}, KVC_STR(""));
    cr_assert_eq(kvc_l2_key_append_file_name(&fits, &name, NULL), KVC_OK);
    cr_assert_eq(name.size, 255);
    cr_assert_eq(kvc_l2_key_append_file_name(&too_long, &name, NULL), KVC_EUSAGE);
    kvc_buffer_clear(&name);
}
