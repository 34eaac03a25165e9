#include <criterion/criterion.h>
#include <string.h>

#include "src/driver/mode.h"

static const struct kvc_device gpu = {.name = "cuda", .can_share_handle = true};
static const struct kvc_device other = {.name = "fpga", .can_share_handle = false};

static struct kvc_mode_choice choose(const char *flag, const char *environment,
                                     const struct kvc_device *device)
{
    struct kvc_mode_choice choice = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_mode_choose(flag, environment, device, &choice, &err), KVC_OK, "%s", err.what);
    cr_assert_neq(choice.mode, KVC_MODE_AUTO);
    return choice;
}

static struct kvc_error refusal(const char *flag, const char *environment,
                                const struct kvc_device *device)
{
    struct kvc_mode_choice choice;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_mode_choose(flag, environment, device, &choice, &err), KVC_EUSAGE);
    return err;
}

/* ---- the cases of LMCache's test_engine_driven_transfer.py, by their names there ---- */

Test(mode, create_transfer_context_uses_non_cuda_context_on_cpu)
{
    const struct kvc_mode_choice choice = choose(NULL, NULL, &kvc_device_cpu);
    cr_assert_eq(choice.mode, KVC_MODE_ENGINE_DRIVEN);
    cr_assert_str_eq(choice.reason, "default: auto, and a cpu worker is engine_driven");
}

Test(mode, resolve_extra_config_default_mp_transfer_mode_is_auto)
{
    cr_assert_eq(choose(NULL, NULL, &kvc_device_cpu).mode,
                 choose("auto", NULL, &kvc_device_cpu).mode);
    cr_assert_eq(choose(NULL, NULL, &gpu).mode, choose("auto", NULL, &gpu).mode);
}

Test(mode, resolve_extra_config_overrides_mp_transfer_mode)
{
    const struct kvc_mode_choice choice = choose("lmcache_driven", NULL, &kvc_device_cpu);
    cr_assert_eq(choice.mode, KVC_MODE_LMCACHE_DRIVEN);
    cr_assert_str_eq(choice.reason, "--transfer-mode: lmcache_driven");
}

Test(mode, extra_config_default_lets_env_var_select_mp_transfer_mode)
{
    const struct kvc_mode_choice choice = choose(NULL, "engine_driven", &gpu);
    cr_assert_eq(choice.mode, KVC_MODE_ENGINE_DRIVEN);
    cr_assert_str_eq(choice.reason, "LMCACHE_MP_TRANSFER_MODE: engine_driven");
}

Test(mode, create_transfer_context_force_lmcache_driven_mode)
{
    cr_assert_eq(choose("lmcache_driven", NULL, &kvc_device_cpu).mode, KVC_MODE_LMCACHE_DRIVEN);
}

Test(mode, create_transfer_context_force_engine_driven_mode_on_cpu)
{
    cr_assert_eq(choose("engine_driven", NULL, &kvc_device_cpu).mode, KVC_MODE_ENGINE_DRIVEN);
    cr_assert_eq(choose("engine_driven", NULL, &other).mode, KVC_MODE_ENGINE_DRIVEN,
                 "it needs nothing of the device");
}

Test(mode, create_transfer_context_invalid_mode_raises)
{
    const struct kvc_error err = refusal("bogus", NULL, &kvc_device_cpu);
    cr_assert_str_eq(err.what, "\"bogus\" is no transfer mode");
    cr_assert_str_eq(err.where, "--transfer-mode");
    cr_assert_str_eq(err.expected, "auto, engine_driven or lmcache_driven");
}

Test(mode, create_transfer_context_handle_mode_unsupported_device_raises)
{
    const struct kvc_error err = refusal("lmcache_driven", NULL, &other);
    cr_assert_not_null(strstr(err.what, "not supported for device fpga"), "%s", err.what);
    cr_assert_str_eq(err.expected, "engine_driven");
}

Test(mode, create_transfer_context_env_var_overrides_default)
{
    cr_assert_eq(choose(NULL, "lmcache_driven", &kvc_device_cpu).mode, KVC_MODE_LMCACHE_DRIVEN);
}

Test(mode, engine_context_shm_pool_info)
{
    char reason[160];
    cr_assert_eq(kvc_path_from_pool(KVC_STR("lmcache_l1_pool_test_pool"), 1024, false, reason,
                                    sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN);
    cr_assert_str_eq(reason, "the server offers pool lmcache_l1_pool_test_pool of 1024 bytes");
    cr_assert_eq(kvc_path_from_pool(KVC_STR(""), 0, false, reason, sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN_INLINE);
}

Test(mode, create_engine_driven_context_falls_back_to_pickle_without_shm_info)
{
    char reason[160];
    cr_assert_eq(kvc_path_from_pool(KVC_STR(""), 0, false, reason, sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_str_eq(reason, "the server offers no shared-memory pool");
    cr_assert_eq(kvc_path_from_pool(KVC_STR("pool"), 0, false, reason, sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_eq(kvc_path_from_pool(KVC_STR("pool"), -1, false, reason, sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_eq(kvc_path_from_pool(KVC_STR(""), 4096, false, reason, sizeof(reason)),
                 KVC_PATH_ENGINE_DRIVEN_INLINE);
}

Test(mode, create_engine_driven_context_use_pickle_ignores_valid_shm_info)
{
    char reason[160];
    cr_assert_eq(
        kvc_path_from_pool(KVC_STR("lmcache_valid_shm"), 4096, true, reason, sizeof(reason)),
        KVC_PATH_ENGINE_DRIVEN_INLINE);
    cr_assert_str_eq(reason, "inline was asked for");
}

/* ---- beyond them ---- */

Test(mode, auto_on_a_gpu_is_lmcache_driven_wherever_auto_comes_from)
{
    cr_assert_eq(choose("auto", "engine_driven", &gpu).mode, KVC_MODE_LMCACHE_DRIVEN);
    cr_assert_eq(choose(NULL, "auto", &gpu).mode, KVC_MODE_LMCACHE_DRIVEN);
    cr_assert_eq(choose(NULL, NULL, &gpu).mode, KVC_MODE_LMCACHE_DRIVEN);
}

Test(mode, the_flag_wins_over_the_variable_even_when_that_is_invalid)
{
    cr_assert_eq(choose("engine_driven", "bogus", &kvc_device_cpu).mode, KVC_MODE_ENGINE_DRIVEN);
}

Test(mode, an_empty_variable_is_none)
{
    cr_assert_eq(choose(NULL, "", &kvc_device_cpu).mode, KVC_MODE_ENGINE_DRIVEN);
}

Test(mode, an_invalid_variable_is_named)
{
    cr_assert_str_eq(refusal(NULL, "gpu", &kvc_device_cpu).where, "LMCACHE_MP_TRANSFER_MODE");
}

Test(mode, an_empty_flag_is_invalid)
{
    cr_assert_str_eq(refusal("", NULL, &kvc_device_cpu).what, "\"\" is no transfer mode");
}

Test(mode, auto_on_a_device_that_cannot_share_is_refused_with_its_name)
{
    cr_assert_not_null(strstr(refusal(NULL, NULL, &other).what, "fpga"));
}

Test(mode, names_are_read_in_any_case_as_lmcache_does)
{
    enum kvc_transfer_mode mode;
    cr_assert_eq(kvc_mode_parse(KVC_STR("LMCache_Driven"), &mode, NULL), KVC_OK);
    cr_assert_eq(mode, KVC_MODE_LMCACHE_DRIVEN);
    cr_assert_eq(kvc_mode_parse(KVC_STR("AUTO"), &mode, NULL), KVC_OK);
    cr_assert_eq(mode, KVC_MODE_AUTO);
    cr_assert_eq(kvc_mode_parse(KVC_STR("auto "), &mode, NULL), KVC_EUSAGE);
    cr_assert_eq(kvc_mode_parse(KVC_STR("engine"), &mode, NULL), KVC_EUSAGE);
}

Test(mode, every_mode_and_path_has_the_name_it_is_known_by)
{
    cr_assert_str_eq(kvc_mode_name(KVC_MODE_AUTO), "auto");
    cr_assert_str_eq(kvc_mode_name(KVC_MODE_ENGINE_DRIVEN), "engine_driven");
    cr_assert_str_eq(kvc_mode_name(KVC_MODE_LMCACHE_DRIVEN), "lmcache_driven");
    cr_assert_str_eq(kvc_path_name(KVC_PATH_ENGINE_DRIVEN), "engine_driven");
    cr_assert_str_eq(kvc_path_name(KVC_PATH_ENGINE_DRIVEN_INLINE), "engine_driven_inline");
    cr_assert_str_eq(kvc_path_name(KVC_PATH_LMCACHE_DRIVEN), "lmcache_driven");
}

Test(mode, hostile_texts_stay_on_one_line)
{
    struct kvc_error err = KVC_ERROR_INIT;
    enum kvc_transfer_mode mode;
    cr_assert_eq(kvc_mode_parse(KVC_STR("a\nb\"\x1b"), &mode, &err), KVC_EUSAGE);
    cr_assert_null(strpbrk(err.what, "\n\x1b"));
    char reason[160];
    kvc_path_from_pool(KVC_STR("pool\n\xff"), 4096, false, reason, sizeof(reason));
    cr_assert_null(strpbrk(reason, "\n\xff"));
}
