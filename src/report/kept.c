#include "src/report/kept.h"

#include <stdlib.h>
#include <string.h>

static const char *keep(struct kvc_kept_run *kept, const char *text)
{
    return kvc_arena_copy_str(&kept->arena, kvc_str_of(text)).data;
}

static const char *const *keep_list(struct kvc_kept_run *kept, const char *const *texts)
{
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL)
        count++;
    const char **copy = kvc_arena_alloc_array(&kept->arena, count + 1, sizeof(copy[0]));
    for (size_t i = 0; i < count; i++)
        copy[i] = keep(kept, texts[i]);
    return copy;
}

void kvc_kept_begin(struct kvc_kept_run *kept, const struct kvc_run_info *info)
{
    kept->info = (struct kvc_run_info){
        .suite_version = keep(kept, info->suite_version),
        .target = keep(kept, info->target),
        .rpc_url = keep(kept, info->rpc_url),
        .dialect = keep(kept, info->dialect),
        .server_version = keep(kept, info->server_version),
        .how = keep(kept, info->how),
        .client = info->client != NULL ? keep(kept, info->client) : NULL,
        .paths = keep(kept, info->paths),
        .seed = info->seed,
        .started = keep(kept, info->started),
        .defects = keep_list(kept, info->defects),
        .stand_in = info->stand_in,
        .device = keep(kept, info->device),
    };
}

void kvc_kept_add(struct kvc_kept_run *kept, const struct kvc_result *result)
{
    kept->results = kvc_realloc(kept->results, (kept->count + 1) * sizeof(kept->results[0]));
    struct kvc_result *copy = &kept->results[kept->count++];
    *copy = *result;
    copy->message = kvc_strdup(result->message);
    copy->expected = kvc_strdup(result->expected);
    copy->got = kvc_strdup(result->got);
    copy->details = kvc_strdup(result->details);
    copy->reason = kvc_strdup(result->reason);
    copy->reproduce = kvc_strdup(result->reproduce);
}

static int compare_results(const void *a, const void *b)
{
    const struct kvc_result *left = a, *right = b;
    return strcmp(left->instance->id, right->instance->id);
}

void kvc_kept_sort(struct kvc_kept_run *kept)
{
    if (kept->count > 0)
        qsort(kept->results, kept->count, sizeof(kept->results[0]), compare_results);
}

void kvc_kept_clear(struct kvc_kept_run *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        kvc_result_clear(&kept->results[i]);
    free(kept->results);
    kvc_arena_clear(&kept->arena);
    *kept = (struct kvc_kept_run){0};
}
