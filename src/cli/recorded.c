#include "src/cli/recorded.h"

#include "src/cli/cli.h"
#include "src/wire/message.h"

static size_t count_readable(const struct kvc_recording *recording,
                             const struct kvc_dialect *dialect)
{
    size_t count = 0;
    for (size_t i = 0; i < recording->count; i++) {
        struct kvc_arena arena = {0};
        struct kvc_request request;
        if (!recording->messages[i].from_server &&
            kvc_request_decode(dialect, &recording->messages[i].frames, &arena, &request, NULL) ==
                KVC_OK)
            count++;
        kvc_arena_clear(&arena);
    }
    return count;
}

static const struct kvc_dialect *guess_dialect(const struct kvc_recording *recording)
{
    const struct kvc_dialect *best = NULL;
    size_t best_count = 0;
    for (size_t i = 0; i < kvc_dialect_count; i++) {
        const size_t count = count_readable(recording, kvc_dialects[i]);
        if (best == NULL || count >= best_count) {
            best = kvc_dialects[i];
            best_count = count;
        }
    }
    return best;
}

kvc_status kvc_recorded_load(const char *path, const char *dialect_text,
                             struct kvc_recording *recording, const struct kvc_dialect **dialect,
                             struct kvc_error *err)
{
    *recording = (struct kvc_recording){0};
    KVC_GUARD(kvc_dialect_flag_resolve(dialect_text, dialect, err));
    KVC_GUARD(kvc_recording_load(path, recording, err));
    if (*dialect == NULL)
        *dialect = guess_dialect(recording);
    return KVC_OK;
}
