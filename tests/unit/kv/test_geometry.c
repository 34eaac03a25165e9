#include <criterion/criterion.h>

#include "src/kv/geometry.h"
#include "tests/unit/kv/samples.h"

/* How torch spells them, and their size there. */
static const struct {
    const char *name;
    const char *canonical;
    size_t size;
} known_dtypes[] = {
    {"float16", "float16", 2},
    {"half", "float16", 2},
    {"bfloat16", "bfloat16", 2},
    {"float32", "float32", 4},
    {"float", "float32", 4},
    {"float64", "float64", 8},
    {"float8_e4m3fn", "float8_e4m3fn", 1},
    {"float8_e5m2", "float8_e5m2", 1},
    {"uint8", "uint8", 1},
    {"int8", "int8", 1},
    {"bool", "bool", 1},
    {"long", "int64", 8},
    {"int64", "int64", 8},
    {"complex64", "complex64", 8},
};

Test(dtype, knows_torch_names)
{
    for (size_t i = 0; i < KVC_COUNT_OF(known_dtypes); i++) {
        const struct kvc_dtype *dtype = kvc_dtype_find(kvc_str_of(known_dtypes[i].name));
        cr_assert_not_null(dtype, "%s", known_dtypes[i].name);
        cr_assert_str_eq(dtype->name, known_dtypes[i].canonical);
        cr_assert_eq(dtype->size, known_dtypes[i].size, "%s", known_dtypes[i].name);
        /* numpy's string ends in the size, whatever the type is viewed as. */
        cr_assert_eq(dtype->numpy[2] - '0', (int)dtype->size, "%s", known_dtypes[i].name);
    }
}

Test(dtype, refuses_other_names)
{
    const char *const names[] = {"", "torch.float16", "Float16", "float1", "float160", "fp8"};
    for (size_t i = 0; i < KVC_COUNT_OF(names); i++)
        cr_assert_null(kvc_dtype_find(kvc_str_of(names[i])), "\"%s\"", names[i]);
}

static const struct {
    const char *spec;
    const char *read; /* by LMCache */
} specs[] = {
#include "tests/unit/kv/shape_specs.inc"
};

/* What LMCache's parser takes and we refuse, and the words with which we do. */
static const struct {
    const char *spec;
    const char *why;
} unusable[] = {
    {"(2,4,4,2,8):float16:1;(2,5,4,2,8):float16:1", "same NB and BS"},
    {"(2,4,4,2,8):float16:1;(2,4,5,2,8):float16:1", "same NB and BS"},
    {"(2,0,4,2,8):float16:1", "NB (blocks) is out of range"},
    {"(2,4,0,2,8):float16:1", "BS (tokens a block) is out of range"},
    {"(2,-1,4,2,8):float16:1", "NB (blocks) is out of range"},
    {"(3,4,4,2,8):float16:1", "kv_size is out of range"},
    {"(0,4,4,2,8):float16:1", "kv_size is out of range"},
    {"(2,4,4,0,8):float16:1", "NH (heads) is out of range"},
    {"(2,4,4,2,0):float16:1", "HS (head size) is out of range"},
    {"(2,4,4,2,8):float16:0", "layers is out of range"},
    {"(2,4,4,2,8):float16:1048577", "layers is out of range"},
    {"(2,4,4,2,8):float16:-1", "layers is out of range"},
    {"(2,2147483647,2147483647,1,1):uint8:1", "more memory"},
    {"(2,4,4,2,\xd9\xa8):float16:1", "HS (head size) is not a whole number"},
};

static const char *why_unusable(const char *spec)
{
    for (size_t i = 0; i < KVC_COUNT_OF(unusable); i++) {
        if (strcmp(spec, unusable[i].spec) == 0)
            return unusable[i].why;
    }
    return NULL;
}

Test(shape_spec, takes_and_refuses_what_lmcache_does)
{
    size_t refused_by_us = 0;
    for (size_t i = 0; i < KVC_COUNT_OF(specs); i++) {
        struct kvc_geometry geometry;
        struct kvc_error err = KVC_ERROR_INIT;
        const kvc_status status = kvc_geometry_parse(specs[i].spec, &geometry, &err);
        const char *why = why_unusable(specs[i].spec);
        if (specs[i].read == NULL || why != NULL) {
            cr_assert_eq(status, KVC_EUSAGE, "\"%s\" was taken", specs[i].spec);
            cr_assert(why == NULL || strstr(err.what, why) != NULL, "\"%s\": %s", specs[i].spec,
                      err.what);
            cr_assert(err.where[0] != '\0' && err.expected[0] != '\0', "\"%s\"", specs[i].spec);
            refused_by_us += why != NULL;
            continue;
        }
        cr_assert_eq(status, KVC_OK, "\"%s\": %s", specs[i].spec, err.what);
        struct kvc_buffer text = {0};
        kvc_geometry_format(&geometry, &text);
        cr_assert_str_eq(kvc_buffer_text(&text), specs[i].read);
        kvc_buffer_clear(&text);
    }
    cr_assert_eq(refused_by_us, KVC_COUNT_OF(unusable), "the two tables differ");
}

Test(shape_spec, names_the_place)
{
    struct kvc_geometry geometry;
    struct kvc_error err = KVC_ERROR_INIT;
    char line[1200];
    kvc_geometry_parse("(2,4,4,2,8):float16:1; (2,4,4,2,8):half:1", &geometry, &err);
    kvc_error_line(&err, line, sizeof(line));
    cr_assert_str_eq(line, "character 36: shape spec: unknown dtype; expected float16, float32, "
                           "bfloat16, uint8, int8; got \"half\"");
}

Test(shape_spec, gives_layout_by_kv_size)
{
    struct kvc_geometry geometry;
    cr_assert_eq(kvc_geometry_parse("(2,4,4,2,8):float16:1;(1,4,4,2,8):uint8:3", &geometry, NULL),
                 KVC_OK);
    cr_assert_eq(geometry.groups[0].layout, KVC_LAYOUT_NHD);
    cr_assert_eq(geometry.groups[1].layout, KVC_LAYOUT_MLA);
    cr_assert_eq(kvc_geometry_layer_count(&geometry), 4);
}

Test(shape_spec, takes_defaults_for_blocks)
{
    struct kvc_geometry geometry;
    cr_assert_eq(kvc_geometry_parse_defaults("(2,0,-3,2,8):float16:1", 1024, 16, &geometry, NULL),
                 KVC_OK);
    cr_assert_eq(geometry.groups[0].num_blocks, 1024);
    cr_assert_eq(geometry.groups[0].block_size, 16);
    cr_assert_eq(kvc_geometry_parse_defaults("(0,4,4,2,8):float16:1", 1024, 16, &geometry, NULL),
                 KVC_EUSAGE);
}

Test(shape_spec, refuses_too_many_groups)
{
    struct kvc_geometry geometry;
    struct kvc_buffer spec = {0};
    for (size_t i = 0; i < KVC_MAX_GROUPS; i++)
        kvc_buffer_append_text(&spec, "(2,4,4,2,8):float16:1;");
    cr_assert_eq(kvc_geometry_parse(kvc_buffer_text(&spec), &geometry, NULL), KVC_OK);
    kvc_buffer_append_text(&spec, "(2,4,4,2,8):float16:1");
    cr_assert_eq(kvc_geometry_parse(kvc_buffer_text(&spec), &geometry, NULL), KVC_EUSAGE);
    kvc_buffer_clear(&spec);
}

Test(geometry, counts_bytes)
{
    struct kvc_geometry geometry;
    kvc_geometry_parse("(2,1024,16,8,128):float16:32;(1,1024,16,4,64):uint8:2", &geometry, NULL);
    const struct kvc_group *k_and_v = &geometry.groups[0], *mla = &geometry.groups[1];
    cr_assert_eq(kvc_group_hidden(k_and_v), 1024);
    cr_assert_eq(kvc_group_block_bytes(k_and_v), 2 * 16 * 8 * 128 * 2);
    cr_assert_eq(kvc_group_tensor_bytes(k_and_v), 1024 * 2 * 16 * 8 * 128 * 2);
    cr_assert_eq(kvc_group_chunk_bytes(k_and_v, 256), 2 * 32 * 256 * 1024 * 2);
    cr_assert_eq(kvc_group_chunk_bytes(mla, 256), 2 * 256 * 4 * 64);
    cr_assert_eq(kvc_geometry_chunk_bytes(&geometry, 256), 33554432 + 131072);
}

/* Shapes as protocol.md 6.1 spells the formats. */
static const struct {
    const char *name;
    const char *hint;
    size_t rank;
    int64_t shape[5];
} shapes[KVC_LAYOUT_COUNT] = {
    [KVC_LAYOUT_NHD] = {"nhd", "NHD", 5, {2, 7, 5, 3, 4}},
    [KVC_LAYOUT_HND] = {"hnd", "HND", 5, {2, 7, 3, 5, 4}},
    [KVC_LAYOUT_FLASHINFER_NHD] = {"flashinfer-nhd", "NHD", 5, {7, 2, 5, 3, 4}},
    [KVC_LAYOUT_FLASHINFER_HND] = {"flashinfer-hnd", "HND", 5, {7, 2, 3, 5, 4}},
    [KVC_LAYOUT_MLA] = {"mla", "NHD", 3, {7, 5, 12}},
};

Test(geometry, gives_the_registered_shape)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        struct kvc_group group = sample_group(layout, "float16");
        group.num_blocks = 7;
        group.block_size = 5;
        group.num_heads = 3;
        group.head_size = 4;
        int64_t shape[5], stride[5];
        cr_assert_str_eq(kvc_layout_name(layout), shapes[layout].name);
        cr_assert_str_eq(kvc_layout_hint(layout), shapes[layout].hint);
        cr_assert_eq(kvc_group_tensor_shape(&group, shape, stride), shapes[layout].rank);
        int64_t step = 1;
        for (size_t i = shapes[layout].rank; i-- > 0;) {
            cr_assert_eq(shape[i], shapes[layout].shape[i], "%s", shapes[layout].name);
            cr_assert_eq(stride[i], step, "%s", shapes[layout].name);
            step *= shape[i];
        }
        cr_assert_eq(step * 2, kvc_group_tensor_bytes(&group));
    }
}

Test(geometry, refuses_what_cannot_fit)
{
    struct kvc_geometry geometry = {.group_count = 1};
    geometry.groups[0] = sample_group(KVC_LAYOUT_NHD, "float32");
    cr_assert(kvc_geometry_fits(&geometry));
    geometry.groups[0].num_blocks = INT64_MAX / 2;
    cr_assert(!kvc_geometry_fits(&geometry));
    geometry.groups[0].num_blocks = 0;
    cr_assert(!kvc_geometry_fits(&geometry));
}
