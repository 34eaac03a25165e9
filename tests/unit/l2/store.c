#include "tests/unit/l2/store.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *make_folder(void)
{
    char *folder = kvc_strdup("/tmp/kvc-l2-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    return folder;
}

static int remove_one(const char *path, const struct stat *there, int kind, struct FTW *where)
{
    (void)there, (void)kind, (void)where;
    return remove(path);
}

void remove_folder(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

kvc_status store_try_open(struct store *store, const char *json, size_t object_size, size_t align)
{
    const struct kvc_l2_memory memory = {object_size, align};
    *store = (struct store){0};
    KVC_GUARD(kvc_l2_config_parse(json, &store->config, &store->err));
    const struct kvc_l2_adapter *adapter = store->config.adapter;
    KVC_GUARD(adapter->open(store->config.values, &memory, &store->opened, &store->err));
    return adapter->open_lane(store->opened, &store->lane, &store->err);
}

void store_open(struct store *store, const char *json)
{
    const kvc_status status = store_try_open(store, json, 4096, 4096);
    cr_assert_eq(status, KVC_OK, "%s", store->err.what);
}

void store_close(struct store *store)
{
    store->config.adapter->close_lane(store->lane);
    cr_assert_eq(store->config.adapter->close(store->opened, &store->err), KVC_OK);
    kvc_l2_config_clear(&store->config);
}

struct kvc_l2_key bench_key(uint32_t index)
{
    static uint8_t hashes[64][16];
    uint8_t *hash = hashes[index % 64];
    memset(hash, 0, 16);
    hash[15] = (uint8_t)index;
    return (struct kvc_l2_key){
        .chunk_hash = {hash, 16}, .model = KVC_STR("bench-model"), .kv_rank = index};
}

enum kvc_l2_outcome store_do(struct store *store, enum kvc_l2_operation operation,
                             const struct kvc_l2_key *key, void *data, size_t size)
{
    struct kvc_l2_item item = {.key = *key, .data = data, .size = size};
    store->err = (struct kvc_error)KVC_ERROR_INIT;
    const kvc_status status =
        kvc_l2_run(store->config.adapter, store->lane, operation, &item, 1, &store->err);
    cr_assert_eq(status == KVC_OK, item.outcome != KVC_L2_FAILED, "%s", store->err.what);
    return item.outcome;
}
