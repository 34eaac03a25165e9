#include "src/run/applies.h"

#include <string.h>

bool kvc_applies_to_dialect(const struct kvc_instance *instance, const struct kvc_dialect *dialect,
                            struct kvc_buffer *reason)
{
    const struct kvc_check *check = instance->check;
    if (!kvc_check_in_range(check, dialect)) {
        kvc_buffer_append_text(reason, "holds in dialects ");
        kvc_check_dialects_append(check, reason);
        kvc_buffer_printf(reason, "; the server speaks %s", dialect->name);
        return false;
    }
    if ((dialect->features & check->features) == check->features)
        return true;
    kvc_buffer_printf(reason, "dialect %s lacks what the clause is about", dialect->name);
    return false;
}

uint32_t kvc_needs_met(const struct kvc_target *target, const struct kvc_facts *facts)
{
    const struct {
        bool met;
        uint32_t need;
    } rows[] = {
        {facts->http_url != NULL, KVC_NEED_HTTP},
        {facts->offers_pool, KVC_NEED_POOL},
        {!facts->offers_pool, KVC_NEED_NO_POOL},
        {facts->has_status, KVC_NEED_STATUS},
        {facts->has_p2p, KVC_NEED_P2P},
        {facts->has_checksums, KVC_NEED_CHECKSUMS},
        {target->ops->can_restart, KVC_NEED_RESTART},
        {(facts->paths & KVC_PATHS_ENGINE_DRIVEN) != 0, KVC_NEED_ENGINE_DRIVEN},
        {(facts->paths & 1u << KVC_PATH_LMCACHE_DRIVEN) != 0, KVC_NEED_LMCACHE_DRIVEN},
        {facts->has_cuda, KVC_NEED_CUDA},
        {facts->l2_folder != NULL, KVC_NEED_L2},
    };
    uint32_t met = 0;
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++)
        met |= rows[i].met ? rows[i].need : 0;
    return met;
}

static bool needs_apply(const struct kvc_check *check, uint32_t met, struct kvc_buffer *reason)
{
    for (size_t i = 0; i < kvc_need_name_count; i++) {
        const struct kvc_flag_name *need = &kvc_need_names[i];
        if ((check->needs & need->bit) == 0 || (met & need->bit) != 0)
            continue;
        kvc_buffer_printf(reason, "needs %s", need->meaning);
        return false;
    }
    return true;
}

static bool path_applies(const struct kvc_instance *instance, const struct kvc_facts_record *record,
                         const struct kvc_applies_options *options, struct kvc_buffer *reason)
{
    if (instance->check->paths == 0)
        return true;
    const uint32_t bit = 1u << instance->path;
    if ((options->paths & bit) == 0) {
        kvc_buffer_printf(reason, "path %s left out: %s", kvc_path_name(instance->path),
                          options->paths_reason);
        return false;
    }
    if ((record->facts.paths & bit) == 0) {
        kvc_buffer_printf(reason, "path %s does not work on this server: %s",
                          kvc_path_name(instance->path), record->path_reasons[instance->path]);
        return false;
    }
    return true;
}

/* Where the check's workers have their caches. */
static bool device_applies(const struct kvc_instance *instance,
                           const struct kvc_facts_record *record,
                           const struct kvc_applies_options *options, struct kvc_buffer *reason)
{
    const struct kvc_check *check = instance->check;
    const bool on_gpu = (check->needs & KVC_NEED_CUDA) != 0;
    const bool is_mapped = (check->paths != 0 && instance->path == KVC_PATH_LMCACHE_DRIVEN) ||
                           (check->needs & KVC_NEED_LMCACHE_DRIVEN) != 0;
    if (on_gpu && options->cuda_skip != NULL)
        kvc_buffer_append_text(reason, options->cuda_skip);
    else if (!on_gpu && options->without_cpu)
        kvc_buffer_append_text(reason, "its KV cache is on the CPU, and --device is cuda");
    else if (on_gpu && is_mapped && !record->facts.maps_cuda)
        kvc_buffer_printf(reason, "the server does not map the GPU's memory: %s",
                          record->cuda_reason);
    else
        return true;
    return false;
}

bool kvc_applies(const struct kvc_instance *instance, const struct kvc_target *target,
                 const struct kvc_facts_record *record, const struct kvc_applies_options *options,
                 struct kvc_buffer *reason)
{
    const struct kvc_check *check = instance->check;
    if (!device_applies(instance, record, options, reason) ||
        !kvc_applies_to_dialect(instance, record->facts.dialect, reason) ||
        !path_applies(instance, record, options, reason) ||
        !needs_apply(check, kvc_needs_met(target, &record->facts), reason))
        return false;
    if ((check->flags & KVC_FLAG_DESTRUCTIVE) != 0 && !target->ops->is_private &&
        !options->destructive) {
        kvc_buffer_append_text(reason, "may harm a server that others use: --destructive runs it");
        return false;
    }
    return true;
}
