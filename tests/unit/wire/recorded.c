#include "tests/unit/wire/recorded.h"

#include <criterion/criterion.h>
#include <stdio.h>

const struct recorded_file recorded_files[] = {
    {"0.5.1-engine_driven", "0.5.1"},
    {"0.5.1-lmcache_driven", "0.5.1"},
    {"0.5.1-lmcache_driven-two-groups", "0.5.1"},
    {"0.5.6-engine_driven", "0.5.6"},
    {"0.5.6-engine_driven-pool", "0.5.6"},
    {"0.5.6-lmcache_driven", "0.5.6"},
    {"0.5.6-lmcache_driven-mla-tp2", "0.5.6"},
    {"0.5.6-lmcache_driven-two-groups", "0.5.6"},
};
const size_t recorded_file_count = KVC_COUNT_OF(recorded_files);

void recorded_load(size_t index, struct kvc_recording *recording)
{
    struct kvc_error err = KVC_ERROR_INIT;
    char path[512];
    snprintf(path, sizeof(path), "%s/%s.json", FRAMES_FOLDER, recorded_files[index].name);
    const kvc_status status = kvc_recording_load(path, recording, &err);
    cr_assert_eq(status, KVC_OK, "%s: %s", err.where, err.what);
}

const struct kvc_dialect *recorded_dialect(size_t index)
{
    return kvc_dialect_find(kvc_str_of(recorded_files[index].release));
}
