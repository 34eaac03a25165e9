#include "src/driver/mode.h"

#include <stdio.h>
#include <strings.h>

enum { MAX_SHOWN = 60 };

static const char *const mode_names[] = {
    [KVC_MODE_AUTO] = "auto",
    [KVC_MODE_ENGINE_DRIVEN] = "engine_driven",
    [KVC_MODE_LMCACHE_DRIVEN] = "lmcache_driven",
};

static const char *const path_names[KVC_PATH_COUNT] = {
    [KVC_PATH_ENGINE_DRIVEN] = "engine_driven",
    [KVC_PATH_ENGINE_DRIVEN_INLINE] = "engine_driven_inline",
    [KVC_PATH_LMCACHE_DRIVEN] = "lmcache_driven",
};

const char *kvc_mode_name(enum kvc_transfer_mode mode)
{
    return mode_names[mode];
}

const char *kvc_path_name(enum kvc_path path)
{
    return path_names[path];
}

/* LMCache takes modes in any case. */
kvc_status kvc_mode_parse(struct kvc_str text, enum kvc_transfer_mode *mode, struct kvc_error *err)
{
    for (size_t i = 0; i < KVC_COUNT_OF(mode_names); i++) {
        const struct kvc_str name = kvc_str_of(mode_names[i]);
        if (name.size == text.size && strncasecmp(name.data, text.data, name.size) == 0) {
            *mode = (enum kvc_transfer_mode)i;
            return KVC_OK;
        }
    }
    struct kvc_buffer shown = {0};
    if (text.size > MAX_SHOWN)
        text.size = MAX_SHOWN;
    kvc_text_escape(text, &shown);
    kvc_fail(err, KVC_EUSAGE, "\"%s\" is no transfer mode", kvc_buffer_text(&shown));
    kvc_error_set_expected(err, "auto, engine_driven or lmcache_driven");
    kvc_buffer_clear(&shown);
    return KVC_EUSAGE;
}

/* LMCache's devices declare it: the CPU worker copies for itself, a GPU's memory is mapped. */
static enum kvc_transfer_mode default_of(const struct kvc_device *device)
{
    return device == &kvc_device_cpu ? KVC_MODE_ENGINE_DRIVEN : KVC_MODE_LMCACHE_DRIVEN;
}

kvc_status kvc_mode_choose(const char *flag, const char *environment,
                           const struct kvc_device *device, struct kvc_mode_choice *choice,
                           struct kvc_error *err)
{
    const bool by_environment = flag == NULL && environment != NULL && environment[0] != '\0';
    const char *source = flag != NULL     ? "--transfer-mode"
                         : by_environment ? KVC_MODE_ENVIRONMENT
                                          : "default";
    const char *text = flag != NULL ? flag : by_environment ? environment : "auto";

    enum kvc_transfer_mode asked;
    if (kvc_mode_parse(kvc_str_of(text), &asked, err) != KVC_OK) {
        kvc_error_set_where(err, "%s", source);
        return KVC_EUSAGE;
    }
    const bool is_auto = asked == KVC_MODE_AUTO;
    choice->mode = is_auto ? default_of(device) : asked;
    if (choice->mode == KVC_MODE_LMCACHE_DRIVEN && !device->can_share_handle) {
        kvc_fail(err, KVC_EUSAGE,
                 "lmcache_driven is not supported for device %s: a server cannot map its memory",
                 device->name);
        kvc_error_set_where(err, "%s", source);
        kvc_error_set_expected(err, "engine_driven");
        return KVC_EUSAGE;
    }
    if (is_auto)
        snprintf(choice->reason, sizeof(choice->reason), "%s: auto, and a %s worker is %s", source,
                 device->name, kvc_mode_name(choice->mode));
    else
        snprintf(choice->reason, sizeof(choice->reason), "%s: %s", source,
                 kvc_mode_name(choice->mode));
    return KVC_OK;
}

enum kvc_path kvc_path_from_pool(struct kvc_str shm_name, int64_t pool_size, bool force_inline,
                                 char *reason, size_t reason_size)
{
    if (force_inline) {
        snprintf(reason, reason_size, "inline was asked for");
        return KVC_PATH_ENGINE_DRIVEN_INLINE;
    }
    if (shm_name.size == 0 || pool_size <= 0) {
        snprintf(reason, reason_size, "the server offers no shared-memory pool");
        return KVC_PATH_ENGINE_DRIVEN_INLINE;
    }
    if (shm_name.size > MAX_SHOWN)
        shm_name.size = MAX_SHOWN;
    struct kvc_buffer shown = {0};
    kvc_text_escape(shm_name, &shown);
    snprintf(reason, reason_size, "the server offers pool %s of %lld bytes",
             kvc_buffer_text(&shown), (long long)pool_size);
    kvc_buffer_clear(&shown);
    return KVC_PATH_ENGINE_DRIVEN;
}
