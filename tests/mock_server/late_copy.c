#include "tests/mock_server/late_copy.h"

#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/block_copy.h"

enum { LATE_MS = 200 };

struct mock_late_copy {
    uint8_t arguments[KVC_BLAKE3_SIZE]; /* of the instance's registration */
    int64_t *ids[KVC_MAX_GROUPS];       /* of the objects' blocks, one object after the other */
};

void mock_late_copy_free(struct mock_late_copy *late)
{
    for (size_t g = 0; late != NULL && g < KVC_MAX_GROUPS; g++)
        free(late->ids[g]);
    free(late);
}

void mock_late_copy_begin(const struct mock_window *window, const struct mock_instance *instance,
                          const struct kvc_ints *lists, struct mock_transfer *transfer)
{
    struct mock_late_copy *late = kvc_alloc_zero(1, sizeof(*late));
    memcpy(late->arguments, instance->arguments, sizeof(late->arguments));
    for (size_t g = 0; g < instance->group_count; g++) {
        const size_t count = (size_t)instance->groups[g].blocks_per_chunk;
        late->ids[g] = kvc_alloc_zero(transfer->object_count * count + 1, sizeof(int64_t));
        int64_t chunk = 0;
        for (size_t k = 0; k < transfer->object_count; k++, chunk++) {
            while (mock_window_object(window, chunk) != transfer->objects[k])
                chunk++;
            memcpy(late->ids[g] + k * count, lists[g].items + (size_t)chunk * count,
                   count * sizeof(int64_t));
        }
    }
    transfer->late = late;
    transfer->end_ms = window->mock->now_ms + LATE_MS;
}

/* The instance whose memory is read: the one that stored, or, with the other defect, the next one of its
 * id, if it came with other memory of the same form. NULL: none. */
static const struct mock_instance *read_instance(struct mock *mock,
                                                 const struct mock_transfer *transfer)
{
    const struct mock_instance *instance =
        mock_registry_find(&mock->registry, MOCK_LMCACHE_DRIVEN, transfer->instance_id);
    if (instance == NULL)
        return NULL;
    const bool is_same =
        memcmp(instance->arguments, transfer->late->arguments, sizeof(instance->arguments)) == 0;
    if (mock_has(mock, MOCK_DEFECT_STORE_READS_LATE))
        return is_same ? instance : NULL;
    const bool fits = transfer->object_count > 0 &&
                      mock_object_fits(mock, transfer->objects[0], &instance->layout);
    return !is_same && fits ? instance : NULL;
}

static void make(struct mock *mock, const struct mock_transfer *transfer)
{
    const struct mock_instance *instance = read_instance(mock, transfer);
    if (instance == NULL)
        return;
    struct kvc_arena arena = {0};
    struct mock_call call = {.mock = mock, .arena = &arena};
    struct kvc_ints lists[KVC_MAX_GROUPS] = {0};
    for (size_t g = 0; g < instance->group_count; g++)
        lists[g].items = transfer->late->ids[g];
    for (size_t k = 0; k < transfer->object_count; k++)
        mock_gather(&call, instance, lists, (int64_t)k,
                    mock_object_data(&mock->store, transfer->objects[k]));
    kvc_arena_clear(&arena);
}

void mock_late_copies_make(struct mock *mock)
{
    const struct mock_transfer *transfer;
    LIST_FOREACH(transfer, &mock->transfers.list, in_list)
    {
        if (transfer->late != NULL && mock->now_ms >= transfer->end_ms)
            make(mock, transfer);
    }
}
