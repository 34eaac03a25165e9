/* Gather and scatter against their plain versions: shapes, block orders, skips and alignments at
 * random. KVC_TEST_SEED=N repeats a failure; KVC_TEST_SEED=random draws a seed and names it. */
#include <criterion/criterion.h>

#include "src/kv/paged.h"
#include "src/kv/transfer.h"
#include "tests/unit/kv/at_random.h"
#include "tests/unit/kv/samples.h"

enum { CASES = 250, GUARD = 256, MOST_BLOCKS = 512, MOST_LAYERS = 8 };
enum { POISON = 0x5a, GUARD_BYTE = 0xc3 };

struct sample {
    struct kvc_geometry geometry;
    int64_t chunk_tokens;
    int64_t skip_blocks;
    int64_t block_ids[MOST_BLOCKS];
    size_t misaligned; /* bytes by which the chunk misses a cache line */
};

static void draw_group(struct kvc_random *random, struct kvc_group *group)
{
    static const int64_t block_sizes[] = {1, 2, 4, 7, 16, 16, 32, 64};
    static const int64_t heads[] = {1, 1, 2, 3, 4, 8, 8, 12};
    static const int64_t head_sizes[] = {1,  2,  3,  4,  5,  7,  8,  11, 12,
                                         16, 20, 24, 25, 32, 40, 64, 80, 128};
    static const char *const dtypes[] = {"uint8", "bfloat16", "float32", "complex64"};
    *group = sample_group((enum kvc_layout)kvc_random_below(random, KVC_LAYOUT_COUNT),
                          dtypes[kvc_random_below(random, KVC_COUNT_OF(dtypes))]);
    group->block_size = pick(random, block_sizes, KVC_COUNT_OF(block_sizes));
    group->num_heads = pick(random, heads, KVC_COUNT_OF(heads));
    group->head_size = pick(random, head_sizes, KVC_COUNT_OF(head_sizes));
    group->num_layers = 1 + (int64_t)kvc_random_below(random, MOST_LAYERS);
}

/* Distinct ids: in any order, or ascending from somewhere, or runs of neighbours. */
static void draw_blocks(struct kvc_random *random, int64_t num_blocks, int64_t count, int64_t *ids)
{
    int64_t all[MOST_BLOCKS];
    for (int64_t i = 0; i < num_blocks; i++)
        all[i] = i;
    const uint64_t run = 1 + kvc_random_below(random, 4);
    for (int64_t i = num_blocks - 1; i > 0 && run != 1; i--) {
        const int64_t other = (int64_t)kvc_random_below(random, (uint64_t)i + 1);
        if (i % (int64_t)run != 0)
            continue;
        const int64_t id = all[i];
        all[i] = all[other];
        all[other] = id;
    }
    const int64_t first = (int64_t)kvc_random_below(random, (uint64_t)(num_blocks - count) + 1);
    memcpy(ids, all + first, (size_t)count * sizeof(*ids));
}

static void draw(struct kvc_random *random, struct sample *sample)
{
    *sample = (struct sample){.geometry.group_count = 1};
    struct kvc_group *group = &sample->geometry.groups[0];
    draw_group(random, group);
    int64_t blocks = 1 + (int64_t)kvc_random_below(random, 12);
    /* One in three is large enough to be written past the caches. */
    const int64_t block_bytes = kvc_group_block_bytes(group) * group->num_layers;
    if (kvc_random_below(random, 3) == 0 && block_bytes > (2 << 20) / MOST_BLOCKS)
        blocks = (1 << 20) / block_bytes + 1;
    group->num_blocks = blocks + (int64_t)kvc_random_below(random, 4);
    group->num_blocks = group->num_blocks < MOST_BLOCKS ? group->num_blocks : MOST_BLOCKS;
    sample->chunk_tokens = blocks * group->block_size;
    sample->skip_blocks = kvc_random_below(random, 2) == 0
                              ? 0
                              : (int64_t)kvc_random_below(random, (uint64_t)blocks + 1);
    draw_blocks(random, group->num_blocks, blocks, sample->block_ids);
    sample->misaligned = kvc_random_below(random, 4) == 0 ? kvc_random_below(random, 64) : 0;
}

static void fill_at_random(struct kvc_random *random, uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size; at += sizeof(uint64_t)) {
        const uint64_t word = kvc_random_next(random);
        memcpy(data + at, &word, size - at < sizeof(word) ? size - at : sizeof(word));
    }
}

/* A chunk between guards. */
struct chunk {
    uint8_t *memory;
    uint8_t *data;
    size_t size;
};

static struct chunk open_chunk(const struct sample *sample)
{
    const size_t size =
        (size_t)kvc_group_chunk_bytes(&sample->geometry.groups[0], sample->chunk_tokens);
    struct chunk chunk = {.memory = kvc_alloc(size + 3 * GUARD), .size = size};
    memset(chunk.memory, GUARD_BYTE, size + 3 * GUARD);
    chunk.data = chunk.memory + GUARD + 64 - (uintptr_t)chunk.memory % 64 + sample->misaligned;
    memset(chunk.data, POISON, size);
    return chunk;
}

static bool guards_are_whole(const struct chunk *chunk)
{
    for (size_t i = 1; i <= GUARD; i++) {
        if (chunk->data[-(ptrdiff_t)i] != GUARD_BYTE ||
            chunk->data[chunk->size + i - 1] != GUARD_BYTE)
            return false;
    }
    return true;
}

static struct kvc_paged open_paged(const struct sample *sample, uint8_t *tensors[MOST_LAYERS])
{
    struct kvc_paged paged;
    cr_assert_eq(kvc_paged_open(&sample->geometry, false, &paged, NULL), KVC_OK);
    kvc_paged_fill(&paged, POISON);
    for (size_t i = 0; i < paged.tensor_count; i++)
        tensors[i] = paged.tensors[i].data;
    return paged;
}

static void assert_gathers_alike(struct kvc_random *random, const struct sample *sample,
                                 const char *name)
{
    const struct kvc_group *group = &sample->geometry.groups[0];
    uint8_t *tensors[MOST_LAYERS];
    struct kvc_paged paged = open_paged(sample, tensors);
    struct chunk plain = open_chunk(sample), fast = open_chunk(sample);
    for (size_t i = 0; i < paged.tensor_count; i++)
        fill_at_random(random, tensors[i], (size_t)paged.tensors[i].bytes);
    kvc_gather_chunk_plain(group, tensors, sample->block_ids, sample->chunk_tokens, plain.data);
    kvc_gather_chunk(group, tensors, sample->block_ids, sample->chunk_tokens, fast.data);
    cr_assert_eq(memcmp(plain.data, fast.data, plain.size), 0, "gather: %s", name);
    cr_assert(guards_are_whole(&fast), "gather: guard: %s", name);
    free(plain.memory);
    free(fast.memory);
    kvc_paged_close(&paged);
}

static void assert_scatters_alike(struct kvc_random *random, const struct sample *sample,
                                  const char *name)
{
    const struct kvc_group *group = &sample->geometry.groups[0];
    uint8_t *plain_tensors[MOST_LAYERS], *fast_tensors[MOST_LAYERS];
    struct kvc_paged plain = open_paged(sample, plain_tensors);
    struct kvc_paged fast = open_paged(sample, fast_tensors);
    struct chunk chunk = open_chunk(sample);
    fill_at_random(random, chunk.data, chunk.size);
    kvc_scatter_chunk_plain(group, plain_tensors, sample->block_ids, sample->chunk_tokens,
                            sample->skip_blocks, chunk.data);
    kvc_scatter_chunk(group, fast_tensors, sample->block_ids, sample->chunk_tokens,
                      sample->skip_blocks, chunk.data);
    for (size_t i = 0; i < plain.tensor_count; i++)
        cr_assert_eq(memcmp(plain_tensors[i], fast_tensors[i], (size_t)plain.tensors[i].bytes), 0,
                     "scatter: %s", name);
    cr_assert_eq(kvc_paged_check_guards(&fast, NULL), KVC_OK, "scatter: %s", name);
    free(chunk.memory);
    kvc_paged_close(&plain);
    kvc_paged_close(&fast);
}

Test(transfer, equals_its_plain_version)
{
    const uint64_t seed = chosen_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct kvc_random random = {.state = kvc_mix(seed) + i};
        struct sample sample;
        draw(&random, &sample);
        struct kvc_buffer name = {0};
        kvc_buffer_printf(&name, "KVC_TEST_SEED=%llu case %llu: %s ", (unsigned long long)seed,
                          (unsigned long long)i, kvc_layout_name(sample.geometry.groups[0].layout));
        kvc_geometry_format(&sample.geometry, &name);
        assert_gathers_alike(&random, &sample, kvc_buffer_text(&name));
        assert_scatters_alike(&random, &sample, kvc_buffer_text(&name));
        kvc_buffer_clear(&name);
    }
}
