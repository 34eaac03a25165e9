/* The kernels' lines, run by the stand-in driver, against the gather and scatter of src/kv. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/kv/transfer.h"
#include "tests/unit/device/cuda_sample.h"

enum { CHUNKS = 3, MAX_LAYERS = 3, MAX_BLOCKS = 40, ROUNDS = 60 };

static const char *const dtypes[] = {"uint8", "float16", "bfloat16", "float32"};

/* One worker's cache on both sides, and chunks on both. */
struct scene {
    struct kvc_random random;
    struct kvc_group group;
    int64_t chunk_tokens;
    uint8_t *host[MAX_LAYERS], *gpu[MAX_LAYERS];
    uint8_t *host_chunks[CHUNKS], *gpu_chunks[CHUNKS];
    int64_t block_ids[CHUNKS][MAX_BLOCKS];
    struct kvc_cuda_chunk chunks[CHUNKS];
    struct kvc_cuda_queue *queue;
};

static int64_t below(struct scene *scene, uint64_t limit)
{
    return (int64_t)kvc_random_below(&scene->random, limit);
}

static uint8_t *random_bytes(struct scene *scene, size_t size)
{
    uint8_t *bytes = kvc_alloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)kvc_random_next(&scene->random);
    return bytes;
}

static struct kvc_group random_group(struct scene *scene)
{
    struct kvc_group group = {
        .kv_size = 2,
        .block_size = 1 + below(scene, 9),
        .num_heads = 1 + below(scene, 4),
        .head_size = 1 + below(scene, 40),
        .num_layers = 1 + below(scene, MAX_LAYERS),
        .dtype = kvc_dtype_find(kvc_str_of(dtypes[below(scene, KVC_COUNT_OF(dtypes))])),
        .layout = (enum kvc_layout)below(scene, KVC_LAYOUT_COUNT),
    };
    if (below(scene, 2) == 0)
        group.head_size *= 16; /* rows of whole units of 16 bytes */
    if (group.layout == KVC_LAYOUT_MLA) {
        group.kv_size = 1;
        group.num_heads = 1;
    }
    group.num_blocks = 1 + below(scene, MAX_BLOCKS);
    return group;
}

static void open_scene(struct scene *scene, uint64_t seed)
{
    *scene = (struct scene){.random = {seed}};
    scene->group = random_group(scene);
    const struct kvc_group *group = &scene->group;
    const int64_t blocks = 1 + below(scene, 6);
    scene->chunk_tokens = blocks * group->block_size;
    const size_t tensor_size = (size_t)kvc_group_tensor_bytes(group);
    const size_t chunk_size = (size_t)kvc_group_chunk_bytes(group, scene->chunk_tokens);
    for (int64_t layer = 0; layer < group->num_layers; layer++) {
        scene->host[layer] = random_bytes(scene, tensor_size);
        scene->gpu[layer] = sample_on_gpu(scene->host[layer], tensor_size);
    }
    for (size_t i = 0; i < CHUNKS; i++) {
        scene->host_chunks[i] = random_bytes(scene, chunk_size);
        scene->gpu_chunks[i] = sample_on_gpu(scene->host_chunks[i], chunk_size);
        for (int64_t block = 0; block < blocks; block++)
            scene->block_ids[i][block] = below(scene, (uint64_t)group->num_blocks);
        scene->chunks[i] =
            (struct kvc_cuda_chunk){.data = scene->gpu_chunks[i], .block_ids = scene->block_ids[i]};
    }
    cr_assert_eq(kvc_cuda_queue_open(&scene->queue, NULL), KVC_OK);
}

static void close_scene(struct scene *scene)
{
    kvc_cuda_queue_close(scene->queue);
    for (size_t i = 0; i < CHUNKS; i++) {
        free(scene->host_chunks[i]);
        kvc_device_cuda.free(scene->gpu_chunks[i]);
    }
    for (int64_t layer = 0; layer < scene->group.num_layers; layer++) {
        free(scene->host[layer]);
        kvc_device_cuda.free(scene->gpu[layer]);
    }
}

static struct kvc_cuda_transfer transfer_of(struct scene *scene)
{
    return (struct kvc_cuda_transfer){
        .group = &scene->group,
        .tensors = scene->gpu,
        .chunk_tokens = scene->chunk_tokens,
        .chunks = scene->chunks,
        .chunk_count = CHUNKS,
    };
}

typedef kvc_status move_func(struct kvc_cuda_queue *queue, const struct kvc_cuda_transfer *transfer,
                             struct kvc_error *err);

static void move(struct scene *scene, move_func *func)
{
    const struct kvc_cuda_transfer transfer = transfer_of(scene);
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(func(scene->queue, &transfer, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(kvc_cuda_queue_wait(scene->queue, &err), KVC_OK, "%s", err.what);
}

/* Chunk i as the CPU gathers it. */
static uint8_t *expected_chunk(struct scene *scene, size_t i)
{
    uint8_t *chunk = kvc_alloc((size_t)kvc_group_chunk_bytes(&scene->group, scene->chunk_tokens));
    kvc_gather_chunk(&scene->group, scene->host, scene->block_ids[i], scene->chunk_tokens, chunk);
    return chunk;
}

Test(cuda_transfer, gathers_as_the_cpu_does)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        open_scene(&scene, seed);
        move(&scene, kvc_cuda_gather);
        for (size_t i = 0; i < CHUNKS; i++) {
            uint8_t *expected = expected_chunk(&scene, i);
            cr_assert(
                sample_is_on_gpu(scene.gpu_chunks[i], expected,
                                 (size_t)kvc_group_chunk_bytes(&scene.group, scene.chunk_tokens)),
                "seed %d chunk %zu", (int)seed, i);
            free(expected);
        }
        close_scene(&scene);
    }
}

/* Ids may repeat from chunk to chunk; kernels then race. One chunk at a time is in order. */
static void scatter_each(struct scene *scene, move_func *func)
{
    for (size_t i = 0; i < CHUNKS; i++) {
        struct kvc_cuda_transfer transfer = transfer_of(scene);
        struct kvc_error err = KVC_ERROR_INIT;
        transfer.chunks += i;
        transfer.chunk_count = 1;
        cr_assert_eq(func(scene->queue, &transfer, &err), KVC_OK, "%s", err.what);
        cr_assert_eq(kvc_cuda_queue_wait(scene->queue, &err), KVC_OK, "%s", err.what);
    }
}

/* No block twice in one chunk: which of the two would be left is nobody's promise. */
static void make_ids_distinct(struct scene *scene)
{
    const int64_t blocks = scene->chunk_tokens / scene->group.block_size;
    if (blocks > scene->group.num_blocks)
        scene->chunk_tokens = scene->group.num_blocks * scene->group.block_size;
    for (size_t i = 0; i < CHUNKS; i++)
        for (int64_t block = 0; block < scene->chunk_tokens / scene->group.block_size; block++)
            scene->block_ids[i][block] =
                (block * 1 + scene->block_ids[i][0]) % scene->group.num_blocks;
}

static void expect_scattered(struct scene *scene, uint64_t seed)
{
    for (size_t i = 0; i < CHUNKS; i++)
        kvc_scatter_chunk(&scene->group, scene->host, scene->block_ids[i], scene->chunk_tokens,
                          scene->chunks[i].skip_blocks, scene->host_chunks[i]);
    for (int64_t layer = 0; layer < scene->group.num_layers; layer++)
        cr_assert(sample_is_on_gpu(scene->gpu[layer], scene->host[layer],
                                   (size_t)kvc_group_tensor_bytes(&scene->group)),
                  "seed %d layer %d", (int)seed, (int)layer);
}

Test(cuda_transfer, scatters_as_the_cpu_does)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct scene scene;
        open_scene(&scene, seed);
        make_ids_distinct(&scene);
        const int64_t blocks = scene.chunk_tokens / scene.group.block_size;
        for (size_t i = 0; i < CHUNKS; i++)
            scene.chunks[i].skip_blocks = below(&scene, (uint64_t)blocks + 1);
        scatter_each(&scene, kvc_cuda_scatter);
        expect_scattered(&scene, seed);
        close_scene(&scene);
    }
}

Test(cuda_transfer, moves_chunks_in_memory_of_the_host)
{
    for (uint64_t seed = 1; seed <= ROUNDS / 4; seed++) {
        struct scene scene;
        open_scene(&scene, seed);
        make_ids_distinct(&scene);
        for (size_t i = 0; i < CHUNKS; i++)
            scene.chunks[i].data = scene.host_chunks[i];
        scatter_each(&scene, kvc_cuda_scatter_from_host);
        expect_scattered(&scene, seed);
        move(&scene, kvc_cuda_gather_to_host);
        for (size_t i = 0; i < CHUNKS; i++) {
            uint8_t *expected = expected_chunk(&scene, i);
            cr_assert_eq(memcmp(scene.host_chunks[i], expected,
                                (size_t)kvc_group_chunk_bytes(&scene.group, scene.chunk_tokens)),
                         0, "seed %d chunk %zu", (int)seed, i);
            free(expected);
        }
        close_scene(&scene);
    }
}

/* Where nothing is aligned, bytes are copied one by one. */
Test(cuda_transfer, finds_its_way_from_any_address)
{
    enum { SIZE = 2 * 3 * 4 * 2 * 8 };
    const struct kvc_group group = {.kv_size = 2,
                                    .num_blocks = 3,
                                    .block_size = 4,
                                    .num_heads = 2,
                                    .head_size = 8,
                                    .num_layers = 1,
                                    .dtype = kvc_dtype_find(KVC_STR("uint8")),
                                    .layout = KVC_LAYOUT_HND};
    uint8_t bytes[SIZE + 64], expected[2 * 4 * 2 * 8], got[sizeof(expected)];
    const int64_t block_ids[] = {2};
    struct kvc_cuda_queue *queue;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7);
    uint8_t *memory = sample_on_gpu(bytes, sizeof(bytes));
    uint8_t *chunk = sample_on_gpu(bytes, sizeof(expected) + 64);
    cr_assert_eq(kvc_cuda_queue_open(&queue, NULL), KVC_OK);
    for (size_t offset = 0; offset <= 17; offset++) {
        uint8_t *tensor = bytes + offset, *on_gpu = memory + offset;
        const struct kvc_cuda_chunk to = {.data = chunk + 17 - offset, .block_ids = block_ids};
        const struct kvc_cuda_transfer transfer = {&group, &on_gpu, 4, &to, 1};
        kvc_gather_chunk(&group, &tensor, block_ids, 4, expected);
        cr_assert_eq(kvc_cuda_gather(queue, &transfer, NULL), KVC_OK);
        cr_assert_eq(kvc_cuda_queue_wait(queue, NULL), KVC_OK);
        cr_assert_eq(kvc_device_cuda.copy_out(got, to.data, sizeof(got), NULL), KVC_OK);
        cr_assert_eq(memcmp(got, expected, sizeof(got)), 0, "offset %zu", offset);
    }
    kvc_cuda_queue_close(queue);
    kvc_device_cuda.free(chunk);
    kvc_device_cuda.free(memory);
}

Test(cuda_transfer, refuses_what_no_kernel_can_count)
{
    struct kvc_group group = {.kv_size = 2,
                              .num_blocks = 1,
                              .block_size = (int64_t)1 << 31,
                              .num_heads = 1,
                              .head_size = 16,
                              .num_layers = 1,
                              .dtype = kvc_dtype_find(KVC_STR("uint8")),
                              .layout = KVC_LAYOUT_NHD};
    const int64_t block_ids[] = {0};
    uint8_t *tensor = NULL;
    const struct kvc_cuda_chunk to = {.data = NULL, .block_ids = block_ids};
    const struct kvc_cuda_transfer transfer = {&group, &tensor, group.block_size, &to, 1};
    struct kvc_cuda_queue *queue;
    cr_assert_eq(kvc_cuda_queue_open(&queue, NULL), KVC_OK);
    cr_assert_eq(kvc_cuda_gather(queue, &transfer, NULL), KVC_EUNSUPPORTED);
    kvc_cuda_queue_close(queue);
}
