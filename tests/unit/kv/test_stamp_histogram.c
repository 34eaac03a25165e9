#include <criterion/criterion.h>

#include "tests/unit/kv/stamped.h"

/* K or V of one layer's block, by the block's index. */
struct spot {
    int64_t layer, kv, index;
};

static uint8_t *block_at(const struct kvc_paged *paged, struct spot spot)
{
    return paged->tensors[spot.layer].data +
           kvc_group_element_offset(&paged->geometry.groups[0], spot.kv, block_ids[spot.index], 0,
                                    0, 0);
}

static size_t block_size(const struct kvc_paged *paged)
{
    return (size_t)kvc_group_block_bytes(&paged->geometry.groups[0]) / 2;
}

static void copy_block(struct kvc_paged *paged, struct spot to, struct spot from)
{
    memcpy(block_at(paged, to), block_at(paged, from), block_size(paged));
}

static void assert_what(struct kvc_paged *paged, const char *what)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(check(paged, &err), KVC_EMISMATCH);
    const char *histogram = strchr(err.what, ';');
    cr_assert_not_null(histogram);
    cr_assert_str_eq(histogram, what, "%s: %s", paged->geometry.groups[0].dtype->name, err.what);
    kvc_paged_close(paged);
}

Test(stamp_histogram, counts_what_came_from_where)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        struct kvc_paged paged = stamped_cache(dtypes[d]);
        copy_block(&paged, (struct spot){1, 0, 0}, (struct spot){2, 0, 0});
        copy_block(&paged, (struct spot){1, 0, 1}, (struct spot){2, 0, 1});
        memset(block_at(&paged, (struct spot){0, 1, 2}), 0x7f, block_size(&paged));
        assert_what(&paged, "; 264 hold layer 2 where layer 1 belongs, 132 hold poison 0x7f");
    }
}

Test(stamp_histogram, puts_together_what_went_the_same_way)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        struct kvc_paged paged = stamped_cache(dtypes[d]);
        for (int64_t layer = 0; layer < 3; layer++)
            for (int64_t i = 0; i < BLOCKS; i++)
                copy_block(&paged, (struct spot){layer, 1, i}, (struct spot){layer, 0, i});
        assert_what(&paged, "; all hold K where V belongs");
        paged = stamped_cache(dtypes[d]);
        for (int64_t i = BLOCKS - 1; i > 0; i--)
            copy_block(&paged, (struct spot){2, 0, i}, (struct spot){2, 0, i - 1});
        assert_what(&paged, "; all hold the token 4 before");
        paged = stamped_cache(dtypes[d]);
        copy_block(&paged, (struct spot){0, 0, 3}, (struct spot){1, 0, 3});
        copy_block(&paged, (struct spot){1, 0, 3}, (struct spot){2, 0, 3});
        assert_what(&paged, "; all hold another layer");
        paged = stamped_cache(dtypes[d]);
        copy_block(&paged, (struct spot){0, 0, 1}, (struct spot){1, 1, 3});
        assert_what(&paged, "; all hold layer 1 where layer 0 belongs and V where K belongs and "
                            "the token 8 after");
    }
}

Test(stamp_histogram, names_other_requests_and_what_is_left)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        struct kvc_paged paged = stamped_cache(dtypes[d]);
        kvc_stamp_blocks(&paged, other, FIRST_TOKEN + 4, block_ids + 1, 1);
        for (size_t i = 0; i < block_size(&paged); i++)
            block_at(&paged, (struct spot){0, 0, 2})[i] = (uint8_t)(i * 37 + i / 7);
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(check(&paged, &err), KVC_EMISMATCH);
        cr_assert_not_null(strstr(err.what, "; 792 hold data of request 9, "), "%s", err.what);
        cr_assert_not_null(strstr(err.what, " hold what cannot be told"), "%s", err.what);
        kvc_paged_close(&paged);
    }
}

/* Rows of two bytes are too short to tell where they come from: nothing is claimed. */
Test(stamp_histogram, claims_nothing_of_short_rows)
{
    struct kvc_geometry geometry;
    struct kvc_paged paged;
    kvc_geometry_parse("(2,10,4,3,2):uint8:3", &geometry, NULL);
    cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
    kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
    copy_block(&paged, (struct spot){1, 0, 0}, (struct spot){2, 0, 0});
    assert_what(&paged, "; all hold what cannot be told");
}
