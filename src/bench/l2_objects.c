#include "src/bench/l2_objects.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = KVC_L2_OBJECT_KEYS };

struct kvc_l2_key kvc_l2_object_key(const struct kvc_l2_check_run *run, size_t index)
{
    static uint8_t hashes[MOST_KEYS][16];
    hashes[index][0] = (uint8_t)(index + 1);
    return (struct kvc_l2_key){.chunk_hash = {hashes[index], sizeof(hashes[index])},
                               .model = kvc_str_of(run->model),
                               .kv_rank = (uint32_t)index};
}

uint8_t *kvc_l2_object_make(const struct kvc_l2_check_run *run)
{
    const size_t align = run->options->align < 4096 ? 4096 : run->options->align;
    void *memory = NULL;
    if (posix_memalign(&memory, align, run->options->object_size + align) != 0)
        kvc_out_of_memory(run->options->object_size);
    memset(memory, KVC_L2_POISON, run->options->object_size + align);
    return memory;
}

enum kvc_l2_outcome kvc_l2_object_do(const struct kvc_l2_check_run *run,
                                     enum kvc_l2_operation operation, const struct kvc_l2_key *key,
                                     uint8_t *data, struct kvc_error *err)
{
    struct kvc_l2_item item = {.key = *key, .data = data, .size = run->options->object_size};
    *err = (struct kvc_error)KVC_ERROR_INIT;
    kvc_l2_run(run->adapter, run->lane, operation, &item, 1, err);
    return item.outcome;
}

struct kvc_l2_payload kvc_l2_object_payload(uint64_t version)
{
    return (struct kvc_l2_payload){KVC_L2_STAMPS, version, 0};
}

enum kvc_l2_outcome kvc_l2_object_store(const struct kvc_l2_check_run *run,
                                        const struct kvc_l2_key *key, uint32_t index,
                                        uint64_t version, struct kvc_error *err)
{
    const struct kvc_l2_payload payload = kvc_l2_object_payload(version);
    uint8_t *data = kvc_l2_object_make(run);
    kvc_l2_payload_write(&payload, index, data, run->options->object_size);
    const enum kvc_l2_outcome outcome = kvc_l2_object_do(run, KVC_L2_STORE, key, data, err);
    free(data);
    return outcome;
}

void kvc_l2_object_must_store(const struct kvc_l2_check_run *run, uint32_t index, uint64_t version)
{
    struct kvc_error err;
    const struct kvc_l2_key key = kvc_l2_object_key(run, index);
    if (kvc_l2_object_store(run, &key, index, version, &err) != KVC_L2_DONE)
        kvc_l2_check_fail(run, "object %u is not stored: %s", index, err.what);
}

/* The version that the key holds, from 1 to versions; 0: it is not there, or cannot be loaded. Anything
 * else ends the check. */
uint64_t kvc_l2_object_held(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key,
                            uint32_t index, uint64_t versions)
{
    struct kvc_error err, wrong = KVC_ERROR_INIT;
    const size_t size = run->options->object_size;
    uint8_t *data = kvc_l2_object_make(run);
    uint64_t found = 0;
    if (kvc_l2_object_do(run, KVC_L2_LOAD, key, data, &err) == KVC_L2_DONE) {
        for (uint64_t version = versions; version > 0 && found == 0; version--) {
            const struct kvc_l2_payload payload = kvc_l2_object_payload(version);
            if (kvc_l2_payload_check(&payload, index, data, size, &wrong) == KVC_OK)
                found = version;
        }
        if (found == 0)
            kvc_l2_check_fail(run, "loaded, but it is not what was stored: %s; expected %s; got %s",
                              wrong.what, wrong.expected, wrong.got);
        if (data[size] != KVC_L2_POISON)
            kvc_l2_check_fail(run, "the load wrote behind the object's end");
    }
    free(data);
    return found;
}

void kvc_l2_object_must_hold(const struct kvc_l2_check_run *run, uint32_t index, uint64_t version)
{
    struct kvc_error err;
    const struct kvc_l2_key key = kvc_l2_object_key(run, index);
    if (kvc_l2_object_do(run, KVC_L2_LOOKUP, &key, NULL, &err) != KVC_L2_DONE)
        kvc_l2_check_fail(run, "object %u was stored, and a lookup does not find it", index);
    if (kvc_l2_object_held(run, &key, index, version) != version)
        kvc_l2_check_fail(run, "object %u was stored, and does not load", index);
}

void kvc_l2_object_must_be_absent(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key,
                                  const char *what)
{
    struct kvc_error err;
    uint8_t *data = kvc_l2_object_make(run);
    if (kvc_l2_object_do(run, KVC_L2_LOOKUP, key, NULL, &err) != KVC_L2_ABSENT)
        kvc_l2_check_fail(run, "a lookup does not say that %s is absent", what);
    if (kvc_l2_object_do(run, KVC_L2_LOAD, key, data, &err) != KVC_L2_ABSENT)
        kvc_l2_check_fail(run, "a load does not say that %s is absent", what);
    if (data[0] != KVC_L2_POISON || memcmp(data, data + 1, run->options->object_size - 1) != 0)
        kvc_l2_check_fail(run, "a load of what is absent (%s) wrote into the buffer", what);
    free(data);
}

void kvc_l2_object_remove(const struct kvc_l2_check_run *run, const struct kvc_l2_key *key)
{
    struct kvc_error err;
    if (kvc_l2_object_do(run, KVC_L2_REMOVE, key, NULL, &err) == KVC_L2_FAILED)
        kvc_l2_check_fail(run, "an object cannot be removed: %s", err.what);
}

void kvc_l2_object_remove_all(const struct kvc_l2_check_run *run, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct kvc_l2_key key = kvc_l2_object_key(run, i);
        kvc_l2_object_remove(run, &key);
    }
}
