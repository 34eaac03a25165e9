/* Checks of what a store keeps, and the table of all of them. */
#include <stdlib.h>
#include <string.h>

#include "src/bench/l2_objects.h"

static void round_trip(struct kvc_l2_check_run *run)
{
    enum { COUNT = 16 };
    for (uint32_t i = 0; i < COUNT; i++)
        kvc_l2_object_must_store(run, i, 1);
    for (uint32_t i = COUNT; i-- > 0;)
        kvc_l2_object_must_hold(run, i, 1);
    kvc_l2_check_close(run);
    kvc_l2_check_open(run);
    const bool is_kept = strcmp(run->adapter->type, "mock") != 0;
    for (uint32_t i = 0; is_kept && i < COUNT; i++)
        kvc_l2_object_must_hold(run, i, 1);
    kvc_l2_object_remove_all(run, COUNT);
}

/* Neighbours of a key that is there: each differs in one part. */
static void miss(struct kvc_l2_check_run *run)
{
    static const uint8_t longer[17] = {1};
    const struct kvc_l2_key there = kvc_l2_object_key(run, 0);
    struct kvc_l2_key others[] = {there, there, there, there, there, kvc_l2_object_key(run, 1)};
    others[0].kv_rank ^= 1u << 24;
    others[1].group = 1;
    others[2].salt = KVC_STR("salt");
    others[3].model.size--;
    others[4].chunk_hash = (struct kvc_bytes){longer, sizeof(longer)};
    for (size_t i = 0; i < KVC_COUNT_OF(others); i++)
        kvc_l2_object_must_be_absent(run, &others[i], "a key that nobody stored");
    kvc_l2_object_must_store(run, 0, 1);
    for (size_t i = 0; i < KVC_COUNT_OF(others); i++)
        kvc_l2_object_must_be_absent(run, &others[i], "the neighbour of a key that is there");
    kvc_l2_object_remove_all(run, 1);
}

static void overwrite(struct kvc_l2_check_run *run)
{
    const struct kvc_l2_key key = kvc_l2_object_key(run, 0);
    for (uint64_t version = 1; version <= 3; version++) {
        kvc_l2_object_must_store(run, 0, version);
        if (kvc_l2_object_held(run, &key, 0, version) == 0)
            kvc_l2_check_fail(run, "after a second store the object does not load");
    }
    kvc_l2_object_remove_all(run, 1);
}

static void removed(struct kvc_l2_check_run *run)
{
    const struct kvc_l2_key key = kvc_l2_object_key(run, 0);
    kvc_l2_object_must_store(run, 0, 1);
    kvc_l2_object_must_store(run, 1, 1);
    kvc_l2_object_remove(run, &key);
    kvc_l2_object_must_be_absent(run, &key, "a key that was removed");
    kvc_l2_object_must_hold(run, 1, 1);
    kvc_l2_object_must_store(run, 0, 2);
    kvc_l2_object_must_hold(run, 0, 2);
    kvc_l2_object_remove_all(run, 2);
}

/* Of several loads in one go every other key is absent. */
static void partial(struct kvc_l2_check_run *run)
{
    enum { COUNT = 8 };
    struct kvc_l2_item items[COUNT];
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_l2_payload payload = kvc_l2_object_payload(1);
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = (struct kvc_l2_item){.key = kvc_l2_object_key(run, i),
                                        .data = kvc_l2_object_make(run),
                                        .size = run->options->object_size};
        if (i % 2 == 0)
            kvc_l2_object_must_store(run, i, 1);
    }
    kvc_l2_run(run->adapter, run->lane, KVC_L2_LOAD, items, COUNT, &err);
    for (uint32_t i = 0; i < COUNT; i++) {
        const enum kvc_l2_outcome expected = i % 2 == 0 ? KVC_L2_DONE : KVC_L2_ABSENT;
        if (items[i].outcome != expected)
            kvc_l2_check_fail(run,
                              "of eight keys loaded together, every other one absent, key %u is "
                              "said to be %s",
                              i, items[i].outcome == KVC_L2_DONE ? "loaded" : "absent or failed");
        if (expected == KVC_L2_DONE &&
            kvc_l2_payload_check(&payload, i, items[i].data, items[i].size, &err) != KVC_OK)
            kvc_l2_check_fail(run, "%s; got %s", err.what, err.got);
        free(items[i].data);
    }
    kvc_l2_object_remove_all(run, COUNT);
}

/* What a peer of another size stored must not pass for an object of this size. */
static void other_size(struct kvc_l2_check_run *run)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_l2_key key = kvc_l2_object_key(run, 0);
    const size_t step = run->options->align;
    uint8_t *data = kvc_l2_object_make(run);
    struct kvc_l2_item item = {.key = key, .data = data, .size = run->options->object_size - step};
    if (item.size == 0)
        kvc_l2_check_skip(run, "there is no smaller object with this alignment");
    kvc_l2_run(run->adapter, run->lane, KVC_L2_STORE, &item, 1, &err);
    if (item.outcome != KVC_L2_DONE)
        kvc_l2_check_fail(run, "an object of %zu bytes is not stored: %s", item.size, err.what);
    if (kvc_l2_object_do(run, KVC_L2_LOAD, &key, data, &err) == KVC_L2_DONE)
        kvc_l2_check_fail(run, "an object of %zu bytes was loaded as one of %zu", item.size,
                          run->options->object_size);
    free(data);
    kvc_l2_object_remove_all(run, 1);
}

/* ---- names ---- */

static void hostile_keys(struct kvc_l2_check_run *run)
{
    static const char *const tails[] = {
        "a/b",  "a-SEP-b", "a%2Fb", "a\\b", "a.b",    "a b",      "a\nb",     "..",
        "../x", "../../x", "a//b",  "/",    "%2e%2e", "\xff\xfe", "\xc3\xa4", "*?[a]",
        "a:b",  "a\"b",    "$a`b`", "-",    ".",      "a#b?c&d",  "a+b",
    };
    char *models[KVC_COUNT_OF(tails) + 1];
    bool kept[KVC_COUNT_OF(models)];
    size_t count = 0;
    for (size_t i = 0; i < KVC_COUNT_OF(tails); i++)
        models[i] = kvc_format("%s%s", run->model, tails[i]);
    models[KVC_COUNT_OF(tails)] = kvc_format("%s%0200d", run->model, 0);
    for (uint32_t i = 0; i < KVC_COUNT_OF(models); i++) {
        struct kvc_error err;
        struct kvc_l2_key key = kvc_l2_object_key(run, 0);
        key.model = kvc_str_of(models[i]);
        kept[i] = kvc_l2_object_store(run, &key, i, 1, &err) == KVC_L2_DONE;
        count += kept[i];
    }
    if (count < KVC_COUNT_OF(models) / 2)
        kvc_l2_check_fail(run, "only %zu of %zu names are taken", count, KVC_COUNT_OF(models));
    for (uint32_t i = 0; i < KVC_COUNT_OF(models); i++) {
        struct kvc_l2_key key = kvc_l2_object_key(run, 0);
        key.model = kvc_str_of(models[i]);
        if (kept[i] && kvc_l2_object_held(run, &key, i, 1) == 0)
            kvc_l2_check_fail(run,
                              "the object of model '%s' is gone after those of others were stored",
                              kvc_text_show(key.model).text);
        if (kept[i])
            kvc_l2_object_remove(run, &key);
    }
}

const struct kvc_l2_check kvc_l2_checks[] = {
    {"l2/round-trip", "What was stored comes back byte for byte, also from a store opened again.",
     round_trip},
    {"l2/miss", "A key that was not stored is absent, whatever its neighbours are.", miss},
    {"l2/overwrite", "A second store of a key leaves one whole object.", overwrite},
    {"l2/remove", "What was removed is absent, and can be stored again.", removed},
    {"l2/partial-failure", "Keys loaded together fail one by one.", partial},
    {"l2/other-size", "An object of another size than asked for is not loaded.", other_size},
    {"l2/interrupted-store", "A store that was killed leaves nothing that is found and not whole.",
     kvc_l2_check_interrupted},
    {"l2/two-writers", "Two stores of a key at a time leave one of the two objects, whole.",
     kvc_l2_check_two_writers},
    {"l2/hostile-key", "Keys with any characters are kept apart, or refused.", hostile_keys},
    {"l2/full", "A store without room fails, leaves nothing, and works again when there is room.",
     kvc_l2_check_full},
    {"l2/gone", "A store that vanishes fails what is asked of it, and works again when it is back.",
     kvc_l2_check_gone},
};
const size_t kvc_l2_check_count = KVC_COUNT_OF(kvc_l2_checks);
