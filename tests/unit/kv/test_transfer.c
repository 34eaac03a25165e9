#include <criterion/criterion.h>

#include "src/kv/paged.h"
#include "src/kv/transfer.h"
#include "tests/unit/kv/samples.h"

enum { TOKENS = 4 };
static const int64_t golden_blocks[] = {2, 0};

/* Made by torch: what permuting and reshaping gives. */
static const struct {
    enum kvc_layout layout;
    const char *dtype;
    uint64_t factor;
    const char *chunk;
} golden[] = {
#include "tests/unit/kv/golden_chunks.inc"
};

static void free_tensors(uint8_t *tensors[2])
{
    free(tensors[0]);
    free(tensors[1]);
}

Test(gather, equals_torch)
{
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        const struct kvc_group group = sample_group(golden[i].layout, golden[i].dtype);
        uint8_t *tensors[2] = {sample_tensor(&group, 0, golden[i].factor),
                               sample_tensor(&group, 1, golden[i].factor)};
        const size_t size = (size_t)kvc_group_chunk_bytes(&group, TOKENS);
        uint8_t *chunk = kvc_alloc(size);
        struct kvc_buffer hex = {0};
        kvc_gather_chunk(&group, tensors, golden_blocks, TOKENS, chunk);
        kvc_hex_encode((struct kvc_bytes){chunk, size}, &hex);
        cr_assert_str_eq(kvc_buffer_text(&hex), golden[i].chunk, "%s %s",
                         kvc_layout_name(golden[i].layout), golden[i].dtype);
        kvc_buffer_clear(&hex);
        free(chunk);
        free_tensors(tensors);
    }
}

Test(scatter, puts_torchs_chunk_back)
{
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        const struct kvc_group group = sample_group(golden[i].layout, golden[i].dtype);
        const size_t bytes = (size_t)kvc_group_tensor_bytes(&group);
        struct kvc_buffer chunk = {0};
        kvc_hex_decode(kvc_str_of(golden[i].chunk), &chunk, NULL);
        uint8_t *tensors[2] = {kvc_alloc_zero(bytes, 1), kvc_alloc_zero(bytes, 1)};
        kvc_scatter_chunk(&group, tensors, golden_blocks, TOKENS, 0, chunk.data);
        for (int64_t layer = 0; layer < 2; layer++) {
            uint8_t *expected = sample_tensor(&group, layer, golden[i].factor);
            /* Block 1 is not among the blocks: it stays as it was. */
            for (int64_t kv = 0; kv < group.kv_size; kv++)
                memset(expected + kvc_group_element_offset(&group, kv, 1, 0, 0, 0), 0,
                       (size_t)(kvc_group_block_bytes(&group) / group.kv_size));
            cr_assert_eq(memcmp(tensors[layer], expected, bytes), 0, "%s %s layer %d",
                         kvc_layout_name(golden[i].layout), golden[i].dtype, (int)layer);
            free(expected);
        }
        kvc_buffer_clear(&chunk);
        free_tensors(tensors);
    }
}

/* Element by element, by the two offset functions alone. */
static void gather_slowly(const struct kvc_group *g, uint8_t *const *tensors,
                          const int64_t *block_ids, int64_t tokens, uint8_t *chunk)
{
    for (int64_t kv = 0; kv < g->kv_size; kv++) {
        for (int64_t layer = 0; layer < g->num_layers; layer++) {
            for (int64_t i = 0; i < tokens * kvc_group_hidden(g); i++) {
                const int64_t token = i / kvc_group_hidden(g);
                const int64_t head = i / g->head_size % g->num_heads, element = i % g->head_size;
                memcpy(chunk + kvc_group_chunk_offset(g, tokens, kv, layer, token, head, element),
                       tensors[layer] +
                           kvc_group_element_offset(g, kv, block_ids[token / g->block_size],
                                                    token % g->block_size, head, element),
                       g->dtype->size);
            }
        }
    }
}

/* Shapes with rows of all kinds: short, odd, long, one head, one token a block. */
static const struct {
    int64_t block_size, num_heads, head_size;
} forms[] = {{16, 8, 64}, {4, 3, 5}, {1, 2, 128}, {8, 1, 80}, {2, 2, 576}, {16, 4, 1}};

static const char *const sizes[] = {"uint8", "bfloat16", "float32"};

/* Descending pairs, not contiguous, with the first and the last block. */
static void arbitrary_blocks(int64_t num_blocks, int64_t block_ids[4])
{
    const int64_t ids[4] = {num_blocks - 1, 0, 3, 2};
    memcpy(block_ids, ids, sizeof(ids));
}

static struct kvc_group form_group(enum kvc_layout layout, size_t form, size_t size)
{
    struct kvc_group group = sample_group(layout, sizes[size]);
    group.num_blocks = 6;
    group.block_size = forms[form].block_size;
    group.num_heads = forms[form].num_heads;
    group.head_size = forms[form].head_size;
    return group;
}

static void check_both_ways(const struct kvc_group *group)
{
    const int64_t tokens = 4 * group->block_size;
    const size_t size = (size_t)kvc_group_chunk_bytes(group, tokens);
    const size_t bytes = (size_t)kvc_group_tensor_bytes(group);
    int64_t block_ids[4];
    arbitrary_blocks(group->num_blocks, block_ids);
    uint8_t *tensors[2] = {sample_tensor(group, 0, 0x9e3779b1),
                           sample_tensor(group, 1, 0x9e3779b1)};
    uint8_t *chunk = kvc_alloc(size), *expected = kvc_alloc(size);
    kvc_gather_chunk(group, tensors, block_ids, tokens, chunk);
    gather_slowly(group, tensors, block_ids, tokens, expected);
    cr_assert_eq(memcmp(chunk, expected, size), 0, "%s", kvc_layout_name(group->layout));

    uint8_t *targets[2] = {kvc_alloc_zero(bytes, 1), kvc_alloc_zero(bytes, 1)};
    kvc_scatter_chunk(group, targets, block_ids, tokens, 0, chunk);
    memset(chunk, 0, size);
    gather_slowly(group, targets, block_ids, tokens, chunk);
    cr_assert_eq(memcmp(chunk, expected, size), 0, "%s", kvc_layout_name(group->layout));
    free(chunk);
    free(expected);
    free_tensors(tensors);
    free_tensors(targets);
}

Test(transfer, equals_element_by_element)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        for (size_t form = 0; form < KVC_COUNT_OF(forms); form++) {
            for (size_t size = 0; size < KVC_COUNT_OF(sizes); size++) {
                const struct kvc_group group = form_group(layout, form, size);
                check_both_ways(&group);
            }
        }
    }
}

/* A contiguous run of ascending ids may be copied as one; it must not run into the next block. */
Test(transfer, handles_neighbouring_blocks)
{
    const int64_t orders[][3] = {{0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {0, 2, 1}};
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        const struct kvc_group group = sample_group(layout, "float16");
        const size_t size = (size_t)kvc_group_chunk_bytes(&group, 6);
        uint8_t *tensors[2] = {sample_tensor(&group, 0, 251), sample_tensor(&group, 1, 251)};
        uint8_t *chunk = kvc_alloc(size), *expected = kvc_alloc(size);
        for (size_t i = 0; i < KVC_COUNT_OF(orders); i++) {
            kvc_gather_chunk(&group, tensors, orders[i], 6, chunk);
            gather_slowly(&group, tensors, orders[i], 6, expected);
            cr_assert_eq(memcmp(chunk, expected, size), 0, "%s", kvc_layout_name(layout));
        }
        free(chunk);
        free(expected);
        free_tensors(tensors);
    }
}

/* A chunk of a MiB, with rows of whole cache lines, takes another way through memory. */
Test(transfer, of_a_large_chunk_equals_element_by_element)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        struct kvc_geometry geometry = {.group_count = 1};
        struct kvc_group *group = &geometry.groups[0];
        *group = form_group(layout, 0, 2);
        group->num_layers = layout == KVC_LAYOUT_MLA ? 8 : 4;
        const int64_t tokens = 4 * group->block_size;
        const size_t size = (size_t)kvc_group_chunk_bytes(group, tokens);
        int64_t block_ids[4];
        arbitrary_blocks(group->num_blocks, block_ids);
        struct kvc_paged paged;
        cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
        uint8_t *tensors[8], *chunk = aligned_alloc(64, size), *expected = kvc_alloc(size);
        cr_assert_geq(size, 1 << 20);
        for (int64_t i = 0; i < group->num_layers; i++) {
            uint8_t *sample = sample_tensor(group, i, 0x9e3779b1);
            tensors[i] = paged.tensors[i].data;
            memcpy(tensors[i], sample, (size_t)paged.tensors[i].bytes);
            free(sample);
        }
        kvc_gather_chunk(group, tensors, block_ids, tokens, chunk);
        gather_slowly(group, tensors, block_ids, tokens, expected);
        cr_assert_eq(memcmp(chunk, expected, size), 0, "%s", kvc_layout_name(layout));

        kvc_paged_fill(&paged, 0x5a);
        kvc_scatter_chunk(group, tensors, block_ids, tokens, 1, chunk);
        cr_assert_eq(kvc_paged_check_block_is(&paged, block_ids[0], 0x5a, NULL), KVC_OK);
        cr_assert_eq(kvc_paged_check_block_is(&paged, 1, 0x5a, NULL), KVC_OK);
        cr_assert_eq(kvc_paged_check_guards(&paged, NULL), KVC_OK);
        kvc_scatter_chunk(group, tensors, block_ids, tokens, 0, chunk);
        gather_slowly(group, tensors, block_ids, tokens, chunk);
        cr_assert_eq(memcmp(chunk, expected, size), 0, "%s", kvc_layout_name(layout));
        free(chunk);
        free(expected);
        kvc_paged_close(&paged);
    }
}

Test(scatter, leaves_skipped_blocks_alone)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        for (int64_t skip = 0; skip <= 3; skip++) {
            const struct kvc_group group = sample_group(layout, "uint8");
            const size_t bytes = (size_t)kvc_group_tensor_bytes(&group);
            const int64_t block_ids[] = {1, 2, 0};
            uint8_t *chunk = kvc_alloc((size_t)kvc_group_chunk_bytes(&group, 6));
            memset(chunk, 0x11, (size_t)kvc_group_chunk_bytes(&group, 6));
            uint8_t *tensors[2] = {kvc_alloc_zero(bytes, 1), kvc_alloc_zero(bytes, 1)};
            kvc_scatter_chunk(&group, tensors, block_ids, 6, skip, chunk);
            for (int64_t i = 0; i < 3; i++) {
                for (int64_t kv = 0; kv < group.kv_size; kv++) {
                    const uint8_t *at =
                        tensors[1] + kvc_group_element_offset(&group, kv, block_ids[i], 0, 0, 0);
                    cr_assert_eq(at[0], i < skip ? 0 : 0x11);
                    cr_assert_eq(at[11], i < skip ? 0 : 0x11);
                }
            }
            free(chunk);
            free_tensors(tensors);
        }
    }
}

/* skip_first_n_tokens, chunk, whole blocks of it that are left out; chunks of 16, blocks of 4. */
static const int64_t skips[][3] = {
    {0, 0, 0},  {-1, 0, 0}, {INT64_MIN, 2, 0}, {1, 0, 0},         {3, 0, 0},
    {4, 0, 1},  {7, 0, 1},  {8, 0, 2},         {15, 0, 3},        {16, 0, 4},
    {17, 0, 4}, {16, 1, 0}, {19, 1, 0},        {20, 1, 1},        {32, 1, 4},
    {33, 0, 4}, {33, 2, 0}, {1000, 2, 4},      {INT64_MAX, 2, 4},
};

Test(skip, rounds_down_to_blocks_of_a_chunk)
{
    for (size_t i = 0; i < KVC_COUNT_OF(skips); i++)
        cr_assert_eq(kvc_skip_blocks(skips[i][0], skips[i][1], 16, 4), skips[i][2],
                     "skip %lld in chunk %lld", (long long)skips[i][0], (long long)skips[i][1]);
}
