/* A paged cache with stamps in it, for the tests that spoil it. */
#ifndef KVC_TESTS_UNIT_KV_STAMPED_H
#define KVC_TESTS_UNIT_KV_STAMPED_H

#include <criterion/criterion.h>

#include "src/kv/stamp.h"
#include "tests/unit/kv/samples.h"

static const struct kvc_stamp_source source = {.seed = 42, .request = 7};
static const struct kvc_stamp_source other = {.seed = 42, .request = 9};

enum { FIRST_TOKEN = 256, BLOCKS = 4 };
static const int64_t block_ids[BLOCKS] = {9, 0, 5, 4};

static inline struct kvc_paged open_cache(enum kvc_layout layout, const char *dtype)
{
    struct kvc_geometry geometry = {.group_count = 1};
    struct kvc_paged paged;
    struct kvc_group *group = &geometry.groups[0];
    *group = sample_group(layout, dtype);
    group->num_blocks = 10;
    group->block_size = 4;
    group->num_heads = 3;
    group->head_size = 11;
    group->num_layers = 3;
    cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
    kvc_paged_fill(&paged, 0x5a);
    return paged;
}

static inline kvc_status check(const struct kvc_paged *paged, struct kvc_error *err)
{
    return kvc_stamp_check_blocks(paged, source, FIRST_TOKEN, block_ids, BLOCKS, &other, 1, err);
}

static const char *const dtypes[] = {"float16", "bfloat16",      "float32",     "float64", "uint8",
                                     "int8",    "float8_e4m3fn", "float8_e5m2", "int32"};

/* A cache that is right, to be spoiled. */
static inline struct kvc_paged stamped_cache(const char *dtype)
{
    struct kvc_paged paged = open_cache(KVC_LAYOUT_NHD, dtype);
    kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
    return paged;
}

#endif
