/* Stamps of shapes at random: each element against its definition, each mistake found.
 * KVC_TEST_SEED as in test_transfer_random.c. */
#include <criterion/criterion.h>

#include "src/kv/stamp.h"
#include "tests/unit/kv/at_random.h"
#include "tests/unit/kv/samples.h"

enum { CASES = 60, BLOCKS = 5, FIRST_TOKEN = 100, POISON = 0x5a };
static const int64_t block_ids[BLOCKS] = {6, 0, 3, 4, 1};
static const struct kvc_stamp_source source = {.seed = 3, .request = 4};

static void draw_geometry(struct kvc_random *random, struct kvc_geometry *geometry)
{
    static const int64_t block_sizes[] = {1, 3, 16, 16, 64};
    static const int64_t heads[] = {1, 2, 3, 8};
    static const int64_t head_sizes[] = {1, 3, 4, 8, 10, 12, 16, 20, 24, 32, 64, 128, 600};
    static const char *const dtypes[] = {"uint8", "bfloat16", "float32", "float64"};
    *geometry = (struct kvc_geometry){.group_count = 1};
    struct kvc_group *group = &geometry->groups[0];
    *group = sample_group((enum kvc_layout)kvc_random_below(random, KVC_LAYOUT_COUNT),
                          dtypes[kvc_random_below(random, KVC_COUNT_OF(dtypes))]);
    group->num_blocks = 7;
    group->block_size = pick(random, block_sizes, KVC_COUNT_OF(block_sizes));
    group->num_heads = pick(random, heads, KVC_COUNT_OF(heads));
    group->head_size = pick(random, head_sizes, KVC_COUNT_OF(head_sizes));
}

static void assert_each_element(const struct kvc_paged *paged, const char *name)
{
    const struct kvc_group *g = &paged->geometry.groups[0];
    const int64_t hidden = kvc_group_hidden(g), tokens = BLOCKS * g->block_size;
    for (int64_t i = 0; i < g->num_layers * g->kv_size * tokens * hidden; i++) {
        const int64_t element = i % g->head_size, head = i / g->head_size % g->num_heads;
        const int64_t token = i / hidden % tokens, row = i / hidden / tokens;
        const int64_t layer = row / g->kv_size, kv = row % g->kv_size;
        const uint64_t expected =
            kvc_stamp_value(source, g, 0, layer, kv, FIRST_TOKEN + token, head, element);
        const int64_t block = block_ids[token / g->block_size], slot = token % g->block_size;
        const uint8_t *at = paged->tensors[layer].data +
                            kvc_group_element_offset(g, kv, block, slot, head, element);
        if (memcmp(at, &expected, g->dtype->size) != 0)
            cr_assert_fail("%s", name);
    }
}

static void assert_mistake_is_found(struct kvc_random *random, struct kvc_paged *paged,
                                    const char *name)
{
    const struct kvc_group *g = &paged->geometry.groups[0];
    const int64_t offset =
        kvc_group_element_offset(g, (int64_t)kvc_random_below(random, (uint64_t)g->kv_size),
                                 block_ids[kvc_random_below(random, BLOCKS)],
                                 (int64_t)kvc_random_below(random, (uint64_t)g->block_size),
                                 (int64_t)kvc_random_below(random, (uint64_t)g->num_heads),
                                 (int64_t)kvc_random_below(random, (uint64_t)g->head_size));
    uint8_t *at = paged->tensors[kvc_random_below(random, paged->tensor_count)].data + offset +
                  kvc_random_below(random, g->dtype->size);
    *at ^= (uint8_t)(1u << kvc_random_below(random, 8));
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        kvc_stamp_check_blocks(paged, source, FIRST_TOKEN, block_ids, BLOCKS, NULL, 0, &err),
        KVC_EMISMATCH, "%s", name);
    cr_assert_eq(strncmp(err.what, "1 of ", 5), 0, "%s: %s", name, err.what);
}

Test(stamp, of_any_shape_is_what_it_is_defined_to_be)
{
    const uint64_t seed = chosen_seed();
    for (uint64_t i = 0; i < CASES; i++) {
        struct kvc_random random = {.state = kvc_mix(seed) + i};
        struct kvc_geometry geometry;
        struct kvc_paged paged;
        struct kvc_buffer name = {0};
        draw_geometry(&random, &geometry);
        kvc_buffer_printf(&name, "KVC_TEST_SEED=%llu case %llu: %s ", (unsigned long long)seed,
                          (unsigned long long)i, kvc_layout_name(geometry.groups[0].layout));
        kvc_geometry_format(&geometry, &name);
        cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
        kvc_paged_fill(&paged, POISON);
        kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
        assert_each_element(&paged, kvc_buffer_text(&name));
        cr_assert_eq(kvc_paged_check_block_is(&paged, 2, POISON, NULL), KVC_OK);
        cr_assert_eq(kvc_paged_check_guards(&paged, NULL), KVC_OK);
        cr_assert_eq(
            kvc_stamp_check_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS, NULL, 0, NULL),
            KVC_OK, "%s", kvc_buffer_text(&name));
        assert_mistake_is_found(&random, &paged, kvc_buffer_text(&name));
        kvc_buffer_clear(&name);
        kvc_paged_close(&paged);
    }
}
