#include "tests/mock_server/block_copy.h"

#include <string.h>

#include "src/kv/transfer.h"
#include "tests/mock_server/gpu.h"
#include "tests/mock_server/guard.h"

/* One chunk's copy. Memory that it needs is the call's, since a copy may end at any byte. */
struct copy {
    struct mock_call *call;
    const struct mock_instance *instance;
    const struct kvc_ints *lists;
    int64_t chunk;
    uint8_t *data;
    bool failed; /* on a GPU */
};

static const int64_t *ids_of(const struct copy *copy, size_t group)
{
    return copy->lists[group].items + copy->chunk * copy->instance->groups[group].blocks_per_chunk;
}

/* Copies one group's part of the chunk, to data or back. */
static void copy_out(struct copy *copy, size_t group, const int64_t *ids, uint8_t *data)
{
    const struct mock_kernel_group *from = &copy->instance->groups[group];
    if (copy->instance->on_gpu)
        copy->failed |= !mock_gpu_gather(copy->call->mock, from, ids, data);
    else
        kvc_gather_chunk(&from->shape, from->tensors, ids, from->chunk_slots, data);
}

static void copy_in(struct copy *copy, size_t group, const int64_t *ids, int64_t skip,
                    const uint8_t *data)
{
    const struct mock_kernel_group *to = &copy->instance->groups[group];
    if (copy->instance->on_gpu)
        copy->failed |= !mock_gpu_scatter(copy->call->mock, to, ids, skip, data);
    else
        kvc_scatter_chunk(&to->shape, to->tensors, ids, to->chunk_slots, skip, data);
}

/* The memory of a host may be cut short while it is used. */
static bool carry_out(void (*func)(void *arg), struct copy *copy)
{
    copy->failed = copy->instance->mapping_is_lost;
    if (copy->instance->on_gpu && !copy->failed)
        func(copy);
    if (copy->instance->on_gpu ? !copy->failed : mock_guard(func, copy))
        return true;
    mock_saw(copy->call, KVC_RULE_MEMORY_GONE, "of instance %lld", (long long)copy->instance->id);
    return false;
}

/* ---- STORE ---- */

/* A defect: the ids from the second one on, and the first one last. */
static const int64_t *rotated(const struct copy *copy, const int64_t *ids, int64_t count)
{
    int64_t *turned = kvc_arena_alloc_array(copy->call->arena, (size_t)count, sizeof(*turned));
    for (int64_t i = 0; i < count; i++)
        turned[i] = ids[(i + 1) % count];
    return turned;
}

/* A defect: wipes the last layer's K and V from one part of a chunk. */
static void lose_last_layer(const struct mock_part *part, uint8_t *data)
{
    const size_t layer = (size_t)(mock_part_bytes(part) / (part->kv * part->layers));
    for (int64_t kv = 1; kv <= part->kv; kv++)
        memset(data + (size_t)(kv * part->layers - 1) * layer, 0, layer);
}

static void gather(void *arg)
{
    struct copy *copy = arg;
    const struct mock *mock = copy->call->mock;
    uint8_t *data = copy->data;
    for (size_t g = 0; g < copy->instance->group_count; g++) {
        const struct mock_kernel_group *group = &copy->instance->groups[g];
        const struct mock_part *part = &copy->instance->layout.parts[g];
        const int64_t *ids = ids_of(copy, g);
        if (mock_has(mock, MOCK_DEFECT_BLOCKS_ROTATED))
            ids = rotated(copy, ids, group->blocks_per_chunk);
        copy_out(copy, g, ids, data);
        if (mock_has(mock, MOCK_DEFECT_LAST_LAYER_LOST))
            lose_last_layer(part, data);
        data += mock_part_bytes(part);
    }
}

bool mock_gather(struct mock_call *call, const struct mock_instance *instance,
                 const struct kvc_ints *lists, int64_t chunk, uint8_t *data)
{
    struct copy copy = {call, instance, lists, chunk, data, false};
    return carry_out(gather, &copy);
}

/* ---- RETRIEVE ---- */

/* Blocks of the chunk that skip_first_n_tokens leaves alone. */
static int64_t skipped_blocks(const struct copy *copy, const struct mock_kernel_group *group)
{
    const struct mock *mock = copy->call->mock;
    int64_t skip = copy->call->request->skip_first_n_tokens;
    int64_t chunk = copy->chunk;
    if (mock_has(mock, MOCK_DEFECT_SKIP_IGNORED))
        return 0;
    if (mock_has(mock, MOCK_DEFECT_SKIP_ROUNDED_UP) && skip > 0 &&
        skip < INT64_MAX - group->tokens_per_block)
        skip += group->tokens_per_block - 1;
    if (mock_has(mock, MOCK_DEFECT_SKIP_EVERY_CHUNK))
        chunk = 0;
    return kvc_skip_blocks(skip, chunk, mock->options.chunk_size, group->tokens_per_block);
}

/* A defect: the part of a chunk with planes (K and V) or layers exchanged. */
static const uint8_t *exchanged(const struct copy *copy, const struct mock_part *part,
                                const uint8_t *data)
{
    const size_t bytes = (size_t)mock_part_bytes(part);
    const size_t plane = bytes / (size_t)part->kv;
    const size_t layer = plane / (size_t)part->layers;
    const bool swap_kv = mock_has(copy->call->mock, MOCK_DEFECT_KV_SWAPPED) && part->kv == 2;
    const bool swap_layers =
        mock_has(copy->call->mock, MOCK_DEFECT_LAYERS_SWAPPED) && part->layers > 1;
    if (!swap_kv && !swap_layers)
        return data;
    uint8_t *wrong = kvc_arena_alloc(copy->call->arena, bytes);
    memcpy(wrong, data, bytes);
    if (swap_kv) {
        memcpy(wrong, data + plane, plane);
        memcpy(wrong + plane, data, plane);
    }
    for (size_t at = 0; swap_layers && at < bytes; at += plane) {
        memcpy(wrong + at, data + at + layer, layer);
        memcpy(wrong + at + layer, data + at, layer);
    }
    return wrong;
}

/* A defect: the window's last block, once more, in the block behind it. */
static void scatter_one_more(struct copy *copy, size_t g, const uint8_t *data)
{
    const struct mock_kernel_group *group = &copy->instance->groups[g];
    const struct kvc_ints ids = copy->lists[g];
    const int64_t count = group->blocks_per_chunk;
    if ((copy->chunk + 1) * count != (int64_t)ids.count)
        return;
    int64_t *beyond = kvc_arena_alloc_array(copy->call->arena, (size_t)count, sizeof(*beyond));
    beyond[count - 1] = (ids.items[ids.count - 1] + 1) % group->shape.num_blocks;
    copy_in(copy, g, beyond, count - 1, data);
}

static void scatter(void *arg)
{
    struct copy *copy = arg;
    const uint8_t *data = copy->data;
    for (size_t g = 0; g < copy->instance->group_count; g++) {
        const struct mock_kernel_group *group = &copy->instance->groups[g];
        const struct mock_part *part = &copy->instance->layout.parts[g];
        copy_in(copy, g, ids_of(copy, g), skipped_blocks(copy, group), exchanged(copy, part, data));
        if (mock_has(copy->call->mock, MOCK_DEFECT_SCATTER_ONE_MORE))
            scatter_one_more(copy, g, data);
        data += mock_part_bytes(part);
    }
}

bool mock_scatter(struct mock_call *call, const struct mock_instance *instance,
                  const struct kvc_ints *lists, int64_t chunk, const uint8_t *data)
{
    /* Scattering only reads the data. */
    struct copy copy = {call, instance, lists, chunk, (uint8_t *)data, false};
    return carry_out(scatter, &copy);
}
