#include <criterion/criterion.h>

#include "src/kv/paged.h"
#include "tests/unit/kv/samples.h"

static struct kvc_paged open_cache(bool shared)
{
    struct kvc_geometry geometry;
    struct kvc_paged paged;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_geometry_parse("(2,6,4,2,8):float16:2;(1,6,4,1,7):uint8:1", &geometry, NULL);
    geometry.groups[0].layout = KVC_LAYOUT_HND;
    cr_assert_eq(kvc_paged_open(&geometry, shared, &paged, &err), KVC_OK, "%s", err.what);
    return paged;
}

Test(paged, has_a_tensor_for_each_layer)
{
    for (int shared = 0; shared < 2; shared++) {
        struct kvc_paged paged = open_cache(shared != 0);
        cr_assert_eq(paged.tensor_count, 3);
        cr_assert_eq(paged.tensors[1].group, 0);
        cr_assert_eq(paged.tensors[1].layer, 1);
        cr_assert_eq(paged.tensors[1].bytes, 2 * 6 * 4 * 2 * 8 * 2);
        cr_assert_eq(paged.tensors[2].group, 1);
        cr_assert_eq(paged.tensors[2].layer, 0);
        cr_assert_eq(paged.tensors[2].bytes, 6 * 4 * 7);
        cr_assert_eq(kvc_paged_check_guards(&paged, NULL), KVC_OK);
        kvc_paged_close(&paged);
        kvc_paged_close(&paged);
    }
}

Test(paged, can_be_mapped_by_name_when_shared)
{
    struct kvc_paged paged = open_cache(true);
    struct kvc_segment other;
    paged.tensors[0].data[10] = 42;
    cr_assert_eq(paged.tensors[0].storage_offset, 0);
    cr_assert_eq(kvc_segment_open(paged.tensors[0].segment.name, (size_t)paged.tensors[0].bytes,
                                  &other, NULL),
                 KVC_OK);
    cr_assert_eq(other.data[10], 42);
    kvc_segment_close(&other);
    kvc_paged_close(&paged);
}

Test(paged, refuses_what_no_machine_holds)
{
    struct kvc_geometry geometry;
    struct kvc_paged paged;
    kvc_geometry_parse("(2,2147483647,16,1,1):uint8:16", &geometry, NULL);
    cr_assert_eq(kvc_paged_open(&geometry, true, &paged, NULL), KVC_ESYSTEM);
    geometry.groups[0].num_heads = INT64_MAX;
    cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_ENOMEM);
    geometry.group_count = 0;
    cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_ENOMEM);
}

Test(guards, catch_a_write_behind)
{
    for (int shared = 0; shared < 2; shared++) {
        struct kvc_paged paged = open_cache(shared != 0);
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_tensor *tensor = &paged.tensors[1];
        tensor->data[tensor->bytes - 1] ^= 1; /* the last byte of the tensor is none of it */
        cr_assert_eq(kvc_paged_check_guards(&paged, &err), KVC_OK);
        tensor->data[tensor->bytes] ^= 1;
        cr_assert_eq(kvc_paged_check_guards(&paged, &err), KVC_EMISMATCH);
        cr_assert_str_eq(err.where, "group 0 layer 1");
        cr_assert_str_eq(err.what,
                         "the guard behind the tensor was written: bytes 0 to 0 after its end");
        kvc_paged_close(&paged);
    }
}

Test(guards, catch_a_write_before)
{
    struct kvc_paged paged = open_cache(false);
    struct kvc_error err = KVC_ERROR_INIT;
    memset(paged.tensors[2].data - 8, 0x5a, 7);
    cr_assert_eq(kvc_paged_check_guards(&paged, &err), KVC_EMISMATCH);
    cr_assert_str_eq(err.where, "group 1 layer 0");
    cr_assert_str_eq(err.what,
                     "the guard before the tensor was written: 2 to 8 bytes before its start");
    kvc_paged_close(&paged);
}

Test(fill, is_seen_by_the_block_check)
{
    for (enum kvc_layout layout = 0; layout < KVC_LAYOUT_COUNT; layout++) {
        struct kvc_geometry geometry = {.group_count = 1};
        struct kvc_paged paged;
        struct kvc_error err = KVC_ERROR_INIT;
        geometry.groups[0] = sample_group(layout, "float16");
        cr_assert_eq(kvc_paged_open(&geometry, false, &paged, NULL), KVC_OK);
        kvc_paged_fill(&paged, 0x5a);
        kvc_paged_fill_block(&paged, 1, 0x33);
        cr_assert_eq(kvc_paged_check_block_is(&paged, 0, 0x5a, &err), KVC_OK, "%s", err.what);
        cr_assert_eq(kvc_paged_check_block_is(&paged, 1, 0x33, &err), KVC_OK, "%s", err.what);
        cr_assert_eq(kvc_paged_check_block_is(&paged, 2, 0x5a, &err), KVC_OK, "%s", err.what);
        cr_assert_eq(kvc_paged_check_block_is(&paged, 1, 0x5a, &err), KVC_EMISMATCH);
        cr_assert_eq(kvc_paged_check_guards(&paged, &err), KVC_OK, "%s", err.what);
        kvc_paged_close(&paged);
    }
}

/* The first and the last byte of each block's K and V are seen, and named. */
Test(fill, names_the_byte_that_changed)
{
    struct kvc_paged paged = open_cache(false);
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_group *group = &paged.geometry.groups[0];
    uint8_t *last = paged.tensors[1].data + kvc_group_element_offset(group, 1, 3, 3, 1, 7) + 1;
    kvc_paged_fill(&paged, 0x5a);
    *last = 0x5b;
    cr_assert_eq(kvc_paged_check_block_is(&paged, 2, 0x5a, &err), KVC_OK);
    cr_assert_eq(kvc_paged_check_block_is(&paged, 4, 0x5a, &err), KVC_OK);
    cr_assert_eq(kvc_paged_check_block_is(&paged, 3, 0x5a, &err), KVC_EMISMATCH);
    cr_assert_str_eq(err.where, "group 0 layer 1 V block 3 byte 127");
    cr_assert_str_eq(err.expected, "0x5a");
    cr_assert_str_eq(err.got, "0x5b");
    kvc_paged_close(&paged);
}
