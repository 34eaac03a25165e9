#include <criterion/criterion.h>

#include "src/kv/stamp.h"
#include "src/kv/transfer.h"
#include "tests/unit/kv/stamped.h"

/* ---- values ---- */

/* Bits of a float's mantissa; the exponent is what is left beside the sign. */
static const struct {
    const char *dtype;
    unsigned mantissa;
} floats[] = {{"float16", 10}, {"bfloat16", 7},      {"float32", 23},
              {"float64", 52}, {"float8_e4m3fn", 3}, {"float8_e5m2", 2}};

Test(stamp_value, is_a_normal_float)
{
    for (size_t i = 0; i < KVC_COUNT_OF(floats); i++) {
        const struct kvc_group group = sample_group(KVC_LAYOUT_NHD, floats[i].dtype);
        const unsigned exponent_bits = 8 * (unsigned)group.dtype->size - 1 - floats[i].mantissa;
        const uint64_t all_ones = ((uint64_t)1 << exponent_bits) - 1;
        for (int64_t n = 0; n < 20000; n++) {
            const uint64_t value =
                kvc_stamp_value(source, &group, 0, n % 2, n / 2 % 2, n / 4, n % 7, n % 13);
            const uint64_t exponent = value >> floats[i].mantissa & all_ones;
            cr_assert(exponent != 0 && exponent != all_ones, "%s 0x%llx", floats[i].dtype,
                      (unsigned long long)value);
        }
    }
}

struct position {
    uint64_t request;
    int64_t layer, kv, token, head;
};

static const struct position here = {7, 3, 0, 257, 1};

/* Positions that bytes could come from by mistake; each element there must be another one. */
static const struct position mistakes[] = {
    {7, 3, 1, 257, 1}, {7, 2, 0, 257, 1},   {7, 4, 0, 257, 1},  {7, 3, 0, 256, 1},
    {7, 3, 0, 258, 1}, {7, 3, 0, 273, 1},   {7, 3, 0, 513, 1},  {7, 3, 0, 1, 1},
    {7, 3, 0, 129, 1}, {7, 3, 0, 257, 0},   {7, 3, 0, 257, 2},  {8, 3, 0, 257, 1},
    {6, 3, 0, 257, 1}, {9, 3, 0, 257, 1},   {7, 63, 0, 257, 1}, {7, 3, 0, 257, 9},
    {7, 3, 0, 261, 1}, {7, 3, 0, 16641, 1},
};

static uint64_t value_at(const struct kvc_group *group, struct position at, int64_t element)
{
    const struct kvc_stamp_source whose = {.seed = 42, .request = at.request};
    return kvc_stamp_value(whose, group, 0, at.layer, at.kv, at.token, at.head, element);
}

Test(stamp_value, differs_in_every_element_from_its_neighbours)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        const struct kvc_group group = sample_group(KVC_LAYOUT_NHD, dtypes[d]);
        for (size_t i = 0; i < KVC_COUNT_OF(mistakes); i++) {
            for (int64_t element = 0; element < 16; element++)
                cr_assert_neq(value_at(&group, here, element),
                              value_at(&group, mistakes[i], element), "%s mistake %zu element %d",
                              dtypes[d], i, (int)element);
        }
    }
}

static int compare_words(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Eight bytes of a row stand for nothing else among all rows of a cache of one-byte elements. */
Test(stamp_value, is_unique_in_a_run_of_eight_bytes)
{
    enum { LAYERS = 4, TOKENS = 600, HEADS = 4, ROWS = LAYERS * 2 * TOKENS * HEADS };
    const char *const narrow[] = {"uint8", "float8_e4m3fn"};
    for (size_t d = 0; d < KVC_COUNT_OF(narrow); d++) {
        const struct kvc_group group = sample_group(KVC_LAYOUT_NHD, narrow[d]);
        uint64_t *rows = kvc_alloc_zero(ROWS, sizeof(*rows));
        for (size_t i = 0; i < ROWS; i++) {
            const int64_t n = (int64_t)i;
            const struct position at = {7, n % LAYERS, n / LAYERS % 2, n / LAYERS / 2 % TOKENS,
                                        n / LAYERS / 2 / TOKENS};
            for (int64_t element = 0; element < 8; element++)
                rows[i] = rows[i] << 8 | value_at(&group, at, element);
        }
        qsort(rows, ROWS, sizeof(*rows), compare_words);
        for (size_t i = 1; i < ROWS; i++)
            cr_assert_neq(rows[i], rows[i - 1], "%s", narrow[d]);
        free(rows);
    }
}

/* ---- writing ---- */

Test(stamp, writes_each_element_where_it_belongs)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
            struct kvc_paged paged = open_cache(layout, dtypes[d]);
            const struct kvc_group *g = &paged.geometry.groups[0];
            kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
            for (int64_t i = 0; i < 3 * g->kv_size * BLOCKS * 4 * 3 * 11; i++) {
                const int64_t element = i % 11, head = i / 11 % 3, slot = i / 33 % 4;
                const int64_t block = i / 132 % BLOCKS, row = i / 132 / BLOCKS;
                const int64_t layer = row / g->kv_size, kv = row % g->kv_size;
                const uint64_t expected = kvc_stamp_value(
                    source, g, 0, layer, kv, FIRST_TOKEN + block * 4 + slot, head, element);
                const uint8_t *at =
                    paged.tensors[layer].data +
                    kvc_group_element_offset(g, kv, block_ids[block], slot, head, element);
                cr_assert_eq(memcmp(at, &expected, g->dtype->size), 0, "%s %s",
                             kvc_layout_name(layout), dtypes[d]);
            }
            cr_assert_eq(check(&paged, NULL), KVC_OK);
            cr_assert_eq(kvc_paged_check_block_is(&paged, 1, 0x5a, NULL), KVC_OK);
            cr_assert_eq(kvc_paged_check_guards(&paged, NULL), KVC_OK);
            kvc_paged_close(&paged);
        }
    }
}

Test(stamp, of_a_chunk_is_what_gather_makes_of_blocks)
{
    struct kvc_geometry geometry;
    struct kvc_paged paged;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_geometry_parse("(2,10,4,3,11):float16:2;(1,10,4,1,5):uint8:3", &geometry, NULL);
    geometry.groups[0].layout = KVC_LAYOUT_FLASHINFER_HND;
    cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
    const size_t size = (size_t)kvc_geometry_chunk_bytes(&geometry, 16);
    const size_t first = (size_t)kvc_group_chunk_bytes(&geometry.groups[0], 16);
    uint8_t *stamped = kvc_alloc(size), *gathered = kvc_alloc(size), *tensors[5];
    for (size_t i = 0; i < 5; i++)
        tensors[i] = paged.tensors[i].data;
    kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
    kvc_gather_chunk(&geometry.groups[0], tensors, block_ids, 16, gathered);
    kvc_gather_chunk(&geometry.groups[1], tensors + 2, block_ids, 16, gathered + first);
    kvc_stamp_chunk(&geometry, source, FIRST_TOKEN, 16, stamped);
    cr_assert_eq(memcmp(stamped, gathered, size), 0);
    cr_assert_eq(
        kvc_stamp_check_chunk(&geometry, source, FIRST_TOKEN, 16, gathered, &other, 1, &err),
        KVC_OK);
    /* The second group's first element gets what belongs to the layer after it. */
    memcpy(stamped + first, stamped + first + 16 * 5, 5);
    cr_assert_eq(
        kvc_stamp_check_chunk(&geometry, source, FIRST_TOKEN, 16, stamped, &other, 1, &err),
        KVC_EMISMATCH);
    cr_assert_str_eq(err.what,
                     "5 of 2352 elements are wrong, the first is group 1 layer 0 "
                     "token 256 head 0 element 0; all hold layer 1 where layer 0 belongs");
    cr_assert_eq(strncmp(err.got, "group 1 layer 1 token 256 head 0 element 0 (", 44), 0, "%s",
                 err.got);
    free(stamped);
    free(gathered);
    kvc_paged_close(&paged);
}

/* ---- naming mistakes ---- */

/* Copies the row of one place (layer, kv, block's index, slot, head) to another. */
static void copy_row(struct kvc_paged *paged, const int64_t to[5], const int64_t from[5])
{
    const struct kvc_group *g = &paged->geometry.groups[0];
    const uint8_t *source_row =
        paged->tensors[from[0]].data +
        kvc_group_element_offset(g, from[1], block_ids[from[2]], from[3], from[4], 0);
    memcpy(paged->tensors[to[0]].data +
               kvc_group_element_offset(g, to[1], block_ids[to[2]], to[3], to[4], 0),
           source_row, (size_t)g->head_size * g->dtype->size);
}

static const struct {
    const char *mistake;
    int64_t to[5];
    int64_t from[5];
    const char *where;
    const char *expected;
    const char *got;
} moves[] = {
    {"V for K",
     {1, 0, 2, 1, 2},
     {1, 1, 2, 1, 2},
     "block 5 slot 1",
     "layer 1 K token 265 head 2 element 0",
     "layer 1 V token 265 head 2 element 0"},
    {"another layer",
     {0, 1, 0, 0, 0},
     {2, 1, 0, 0, 0},
     "block 9 slot 0",
     "layer 0 V token 256 head 0 element 0",
     "layer 2 V token 256 head 0 element 0"},
    {"the next token",
     {2, 0, 3, 2, 1},
     {2, 0, 3, 3, 1},
     "block 4 slot 2",
     "layer 2 K token 270 head 1 element 0",
     "layer 2 K token 271 head 1 element 0"},
    {"another head",
     {0, 0, 1, 3, 0},
     {0, 0, 1, 3, 2},
     "block 0 slot 3",
     "layer 0 K token 263 head 0 element 0",
     "layer 0 K token 263 head 2 element 0"},
    {"another block",
     {0, 0, 1, 2, 1},
     {0, 0, 2, 2, 1},
     "block 0 slot 2",
     "layer 0 K token 262 head 1 element 0",
     "layer 0 K token 266 head 1 element 0"},
};

static void assert_starts(const char *text, const char *start)
{
    cr_assert_eq(strncmp(text, start, strlen(start)), 0, "\"%s\" instead of \"%s…\"", text, start);
}

Test(stamp_check, names_what_came_from_where)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        for (enum kvc_layout layout = KVC_LAYOUT_NHD; layout < KVC_LAYOUT_MLA; layout++) {
            for (size_t i = 0; i < KVC_COUNT_OF(moves); i++) {
                struct kvc_paged paged = open_cache(layout, dtypes[d]);
                struct kvc_error err = KVC_ERROR_INIT;
                kvc_stamp_blocks(&paged, source, FIRST_TOKEN, block_ids, BLOCKS);
                copy_row(&paged, moves[i].to, moves[i].from);
                cr_assert_eq(check(&paged, &err), KVC_EMISMATCH, "%s %s", moves[i].mistake,
                             dtypes[d]);
                cr_assert_str_eq(err.where, moves[i].where);
                assert_starts(err.expected, moves[i].expected);
                assert_starts(err.got, moves[i].got);
                cr_assert_null(strstr(err.got, "other places"), "%s", err.got);
                assert_starts(err.what, "11 of 3168 elements are wrong");
                kvc_paged_close(&paged);
            }
        }
    }
}

static uint8_t *row_at(const struct kvc_paged *paged, int64_t layer, int64_t block, int64_t slot)
{
    return paged->tensors[layer].data +
           kvc_group_element_offset(&paged->geometry.groups[0], 0, block, slot, 0, 0);
}

static void assert_got(struct kvc_paged *paged, const char *got)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(check(paged, &err), KVC_EMISMATCH);
    assert_starts(err.got, got);
    kvc_paged_close(paged);
}

Test(stamp_check, names_poison_and_zero)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        struct kvc_paged paged = stamped_cache(dtypes[d]);
        kvc_paged_fill_block(&paged, 5, 0x5a);
        assert_got(&paged, "poison 0x5a (");
        paged = stamped_cache(dtypes[d]);
        kvc_paged_fill_block(&paged, 9, 0);
        assert_got(&paged, "zero (");
    }
}

/* One element is little to go by: poison is told first, then the nearest of the places. */
Test(stamp_check, names_what_one_element_is_most_likely)
{
    struct kvc_paged paged = stamped_cache("float16");
    memset(row_at(&paged, 1, 0, 2), 0x5a, 2);
    assert_got(&paged, "poison 0x5a (0x5a5a)");
    paged = stamped_cache("uint8");
    const struct kvc_group *group = &paged.geometry.groups[0];
    row_at(&paged, 1, 0, 2)[0] =
        paged.tensors[1].data[kvc_group_element_offset(group, 0, 0, 3, 0, 0)];
    assert_got(&paged, "layer 1 K token 263 head 0 element 0, or one of ");
}

Test(stamp_check, names_another_request)
{
    for (size_t d = 0; d < KVC_COUNT_OF(dtypes); d++) {
        struct kvc_paged paged = stamped_cache(dtypes[d]);
        kvc_stamp_blocks(&paged, other, FIRST_TOKEN + 4, block_ids + 1, 1);
        assert_got(&paged, "request 9 layer 0 K token 260 head 0 element 0 (");
    }
}

Test(stamp_check, names_another_seed)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_stamp_source later = {.seed = 43, .request = source.request};
    struct kvc_paged paged = stamped_cache("float16");
    cr_assert_eq(
        kvc_stamp_check_blocks(&paged, later, FIRST_TOKEN, block_ids, BLOCKS, &source, 1, &err),
        KVC_EMISMATCH);
    assert_starts(err.got, "seed 42 layer 0 K token 256 head 0 element 0 (");
    kvc_paged_close(&paged);
}

/* Tokens that were never asked for: the chunk before, and the one behind. */
Test(stamp_check, names_tokens_of_other_chunks)
{
    for (int64_t first = 0; first <= 512; first += 512) {
        struct kvc_paged paged = stamped_cache("bfloat16");
        struct kvc_buffer got = {0};
        kvc_stamp_blocks(&paged, source, first, block_ids, 1);
        kvc_buffer_printf(&got, "layer 0 K token %d head 0 element 0 (", (int)first);
        assert_got(&paged, kvc_buffer_text(&got));
        kvc_buffer_clear(&got);
    }
}

Test(stamp_check, names_a_shift_by_elements_and_bytes)
{
    struct kvc_paged paged = stamped_cache("float16");
    memmove(row_at(&paged, 0, 5, 0), row_at(&paged, 0, 5, 0) + 2, 16);
    assert_got(&paged, "layer 0 K token 264 head 0 element 1 (");
    paged = stamped_cache("float32");
    memmove(row_at(&paged, 0, 5, 0), row_at(&paged, 0, 5, 0) + 7, 16);
    assert_got(&paged, "layer 0 K token 264 head 0 element 1 from its byte 3 on (");
    paged = stamped_cache("float16");
    memmove(row_at(&paged, 0, 5, 0) + 2, row_at(&paged, 0, 5, 0), 20);
    memset(row_at(&paged, 0, 5, 0), 0x77, 2);
    assert_got(&paged,
               "nothing we wrote here; 4 elements on, layer 0 K token 264 head 0 element 3 (");
}

Test(stamp_check, says_when_it_is_nothing_of_ours)
{
    struct kvc_paged paged = stamped_cache("float64");
    for (size_t i = 0; i < 4 * 3 * 11 * 8; i++)
        row_at(&paged, 1, 0, 0)[i] = (uint8_t)(i * 37);
    assert_got(&paged, "nothing we wrote (0x");
}

Test(stamp_check, finds_one_wrong_element_anywhere)
{
    const char *const some[] = {"uint8", "float16", "float32"};
    for (size_t d = 0; d < KVC_COUNT_OF(some); d++) {
        struct kvc_paged paged = stamped_cache(some[d]);
        const size_t row = 11 * paged.geometry.groups[0].dtype->size;
        for (size_t i = 0; i < row; i++) {
            struct kvc_error err = KVC_ERROR_INIT;
            row_at(&paged, 2, 4, 3)[i] ^= 0x10;
            cr_assert_eq(check(&paged, &err), KVC_EMISMATCH, "%s byte %zu", some[d], i);
            assert_starts(err.what,
                          "1 of 3168 elements are wrong, the first is layer 2 K token 271 ");
            row_at(&paged, 2, 4, 3)[i] ^= 0x10;
        }
        cr_assert_eq(check(&paged, NULL), KVC_OK);
        kvc_paged_close(&paged);
    }
}

/* ---- hex ---- */

static void assert_diff(const uint8_t *expected, const uint8_t *actual, size_t size,
                        size_t max_lines, const char *text)
{
    struct kvc_buffer out = {0};
    kvc_stamp_hex_diff(expected, actual, size, max_lines, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), text);
    kvc_buffer_clear(&out);
}

Test(hex_diff, shows_the_lines_around_the_first_difference)
{
    uint8_t expected[70], actual[70];
    for (size_t i = 0; i < sizeof(expected); i++)
        expected[i] = actual[i] = (uint8_t)i;
    assert_diff(expected, actual, sizeof(expected), 8, "");
    actual[33] = 0xff;
    assert_diff(expected, actual, sizeof(expected), 8,
                "00000010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  |"
                " .. .. .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n"
                "00000020  20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  |"
                " .. ff .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n");
    actual[69] = 0;
    assert_diff(expected, actual, sizeof(expected), 8,
                "00000010  10 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f  |"
                " .. .. .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n"
                "00000020  20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  |"
                " .. ff .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n"
                "00000030  30 31 32 33 34 35 36 37 38 39 3a 3b 3c 3d 3e 3f  |"
                " .. .. .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n"
                "00000040  40 41 42 43 44 45                                |"
                " .. .. .. .. .. 00\n");
    assert_diff(expected, actual, sizeof(expected), 2,
                "00000020  20 21 22 23 24 25 26 27 28 29 2a 2b 2c 2d 2e 2f  |"
                " .. ff .. .. .. .. .. .. .. .. .. .. .. .. .. ..\n"
                "00000030  ... 1 more bytes differ\n");
    assert_diff(expected, actual, sizeof(expected), 0, "");
}
