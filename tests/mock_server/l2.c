#include "tests/mock_server/l2.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"

enum { IN_PLACE_MS = 200 }; /* a defect */

static bool has(const struct mock_l2 *l2, enum mock_defect defect)
{
    return l2->defects[defect];
}

/* ---- opening ---- */

static void note_folder(struct mock_l2 *l2)
{
    json_t *config = json_loads(l2->config.shown, 0, NULL);
    const char *path = json_string_value(json_object_get(config, "base_path"));
    snprintf(l2->folder, sizeof(l2->folder), "%s", path != NULL ? path : "");
    json_decref(config);
}

/* A defect. */
static void remove_files(const struct mock_l2 *l2)
{
    DIR *folder = opendir(l2->folder);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

kvc_status mock_l2_open(struct mock_l2 *l2, const char *json, const bool *defects,
                        struct mock_store *above, struct kvc_error *err)
{
    /* Chunks have the size and place that workers give them. */
    static const struct kvc_l2_memory memory = {.object_size = 1, .align = 1};
    l2->defects = defects;
    KVC_GUARD(kvc_l2_config_parse(json, &l2->config, err));
    const struct kvc_l2_adapter *adapter = l2->config.adapter;
    KVC_GUARD(adapter->open(l2->config.values, &memory, &l2->store, err));
    const kvc_status status = adapter->open_lane(l2->store, &l2->lane, err);
    if (status != KVC_OK) {
        adapter->close(l2->store, NULL);
        return status;
    }
    l2->is_open = true;
    above->below = l2;
    note_folder(l2);
    if (has(l2, MOCK_DEFECT_L2_EMPTIED_AT_START))
        remove_files(l2);
    return KVC_OK;
}

void mock_l2_close(struct mock_l2 *l2)
{
    if (l2->is_open) {
        l2->config.adapter->close_lane(l2->lane);
        l2->config.adapter->close(l2->store, NULL);
    }
    kvc_l2_config_clear(&l2->config);
    free(l2->last);
    *l2 = (struct mock_l2){0};
}

/* ---- one object ---- */

/* False when no such object can be below: the key is none of LMCache's. */
static bool make_item(const struct mock_l2 *l2, const struct mock_object_key *key, uint8_t *data,
                      int64_t size, struct kvc_l2_item *item)
{
    *item = (struct kvc_l2_item){
        .key = {.chunk_hash = {key->hash, sizeof(key->hash)},
                .model = key->model,
                .kv_rank = (uint32_t)key->kv_rank,
                .group = (uint32_t)key->group,
                .salt = key->salt},
        .data = data,
        .size = (size_t)size,
    };
    if (has(l2, MOCK_DEFECT_L2_RANK_NOT_IN_NAME))
        item->key.kv_rank = 0;
    if (has(l2, MOCK_DEFECT_L2_SALT_NOT_IN_NAME))
        item->key.salt = (struct kvc_str){0};
    if (has(l2, MOCK_DEFECT_L2_NAMES_CUT) && item->key.model.size > 64)
        item->key.model.size = 64;
    return kvc_l2_key_check(&item->key, NULL) == KVC_OK;
}

static enum kvc_l2_outcome run(const struct mock_l2 *l2, enum kvc_l2_operation operation,
                               struct kvc_l2_item *item)
{
    kvc_l2_run(l2->config.adapter, l2->lane, operation, item, 1, NULL);
    return item->outcome;
}

/* ---- writing, and how it can be wrong ---- */

/* The first half, and what was there, or zeros, behind it. */
static void store_half(const struct mock_l2 *l2, const struct kvc_l2_item *item, bool over)
{
    struct kvc_l2_item mixed = *item;
    mixed.data = kvc_alloc_zero(1, item->size);
    if (!over || run(l2, KVC_L2_LOAD, &mixed) == KVC_L2_DONE)
        memcpy(mixed.data, item->data, item->size / 2);
    else
        memcpy(mixed.data, item->data, item->size);
    run(l2, KVC_L2_STORE, &mixed);
    free(mixed.data);
}

/* A file beside the objects, named after the model. */
static void make_lock_file(const struct mock_l2 *l2, struct kvc_str model)
{
    char *path = kvc_format("%s/" KVC_STR_FMT ".lock", l2->folder, KVC_STR_ARG(model));
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0)
        close(file);
    free(path);
}

void mock_l2_keep(struct mock_l2 *l2, const struct mock_object *object, const uint8_t *data)
{
    struct kvc_l2_item item;
    if (!make_item(l2, &object->key, (uint8_t *)data, object->layout.bytes, &item))
        return;
    if (has(l2, MOCK_DEFECT_L2_LOCK_FILES))
        make_lock_file(l2, object->key.model);
    if (has(l2, MOCK_DEFECT_L2_NEVER_REPLACED) && run(l2, KVC_L2_LOOKUP, &item) == KVC_L2_DONE)
        return;
    if (has(l2, MOCK_DEFECT_L2_HALF_REPLACED)) {
        store_half(l2, &item, true);
        return;
    }
    if (has(l2, MOCK_DEFECT_L2_STORED_IN_PLACE)) {
        store_half(l2, &item, false);
        kvc_sleep_ms(IN_PLACE_MS);
    }
    if (run(l2, KVC_L2_STORE, &item) != KVC_L2_DONE)
        l2->has_failed = true;
}

/* ---- fetching, and how it can be wrong ---- */

/* What is twice as long is read as far as there is room. */
static bool load_first_half(const struct mock_l2 *l2, const struct kvc_l2_item *item)
{
    struct kvc_l2_item longer = *item;
    longer.size = 2 * item->size;
    longer.data = kvc_alloc(longer.size);
    const bool loaded = run(l2, KVC_L2_LOAD, &longer) == KVC_L2_DONE;
    if (loaded)
        memcpy(item->data, longer.data, item->size);
    free(longer.data);
    return loaded;
}

/* Exchanges what was loaded for what was loaded before, if that has its size. */
static void swap_with_last(struct mock_l2 *l2, uint8_t *data, int64_t size)
{
    uint8_t *loaded = kvc_alloc((size_t)size);
    memcpy(loaded, data, (size_t)size);
    if (l2->last != NULL && l2->last_size == size)
        memcpy(data, l2->last, (size_t)size);
    free(l2->last);
    l2->last = loaded;
    l2->last_size = size;
}

static bool load(struct mock_l2 *l2, struct kvc_l2_item *item)
{
    if (run(l2, KVC_L2_LOAD, item) == KVC_L2_DONE)
        return true;
    if (has(l2, MOCK_DEFECT_L2_LONGER_SERVED) && load_first_half(l2, item))
        return true;
    return has(l2, MOCK_DEFECT_L2_FAILED_LOAD_SERVED) &&
           run(l2, KVC_L2_LOOKUP, item) == KVC_L2_DONE;
}

struct mock_object *mock_l2_fetch(struct mock_l2 *l2, struct mock_store *above,
                                  const struct mock_object_key *key,
                                  const struct mock_chunk_layout *layout, int64_t now_ms)
{
    struct kvc_l2_item item;
    if (layout->bytes == 0 || has(l2, MOCK_DEFECT_L2_NOT_ASKED) ||
        !make_item(l2, key, NULL, layout->bytes, &item) ||
        run(l2, KVC_L2_LOOKUP, &item) != KVC_L2_DONE)
        return NULL;
    struct mock_object *object = mock_store_reserve(above, key, layout, now_ms);
    if (object == NULL)
        return NULL;
    item.data = mock_object_data(above, object);
    if (!load(l2, &item)) {
        mock_store_remove(above, object);
        return NULL;
    }
    if (has(l2, MOCK_DEFECT_L2_PREVIOUS_SERVED))
        swap_with_last(l2, item.data, layout->bytes);
    object->is_below = true;
    mock_store_publish(above, object);
    return object;
}

bool mock_l2_has(const struct mock_l2 *l2, const struct mock_object_key *key)
{
    struct kvc_l2_item item;
    return make_item(l2, key, NULL, 0, &item) && run(l2, KVC_L2_LOOKUP, &item) == KVC_L2_DONE;
}

bool mock_l2_is_in_trouble(const struct mock_l2 *l2)
{
    if (!l2->is_open)
        return false;
    return (l2->has_failed && has(l2, MOCK_DEFECT_L2_FAILURE_KILLS)) ||
           (has(l2, MOCK_DEFECT_L2_FOLDER_WATCHED) && access(l2->folder, F_OK) != 0);
}
