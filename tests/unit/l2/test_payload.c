#include <criterion/criterion.h>
#include <string.h>

#include "src/l2/payload.h"

enum { SIZE = 1024 };

static const struct kvc_l2_payload stamps = {KVC_L2_STAMPS, 7, 4};
static const struct kvc_l2_payload fill = {KVC_L2_FILL, 0, 4};

Test(l2_payload, what_was_written_is_right)
{
    uint8_t data[SIZE + 5];
    for (size_t size = 1; size <= sizeof(data); size = size * 2 + 1) {
        kvc_l2_payload_write(&stamps, 9, data, size);
        cr_assert_eq(kvc_l2_payload_check(&stamps, 9, data, size, NULL), KVC_OK, "%zu", size);
    }
}

/* The reference client fills object i of a submit with the byte i. */
Test(l2_payload, fill_is_the_place_in_the_submit)
{
    uint8_t data[SIZE];
    memset(data, 2, sizeof(data));
    cr_assert_eq(kvc_l2_payload_check(&fill, 4 + 2, data, SIZE, NULL), KVC_OK);
    cr_assert_eq(kvc_l2_payload_check(&fill, 4 + 3, data, SIZE, NULL), KVC_EMISMATCH);
}

Test(l2_payload, another_objects_bytes_are_named)
{
    struct kvc_error err = KVC_ERROR_INIT;
    uint8_t data[SIZE], other[SIZE];
    kvc_l2_payload_write(&stamps, 3, data, SIZE);
    kvc_l2_payload_write(&stamps, 0xfedcba98, other, SIZE);
    memcpy(data + 512, other + 256, 16);
    cr_assert_eq(kvc_l2_payload_check(&stamps, 3, data, SIZE, &err), KVC_EMISMATCH);
    cr_assert_str_eq(err.what, "key 3: 16 of 1024 bytes are wrong, the first near byte 512");
    cr_assert_str_eq(err.expected, "key 3, byte 512");
    cr_assert_str_eq(err.got, "key 4275878552, byte 256");
}

Test(l2_payload, what_is_no_object_is_described)
{
    struct kvc_error err = KVC_ERROR_INIT;
    uint8_t data[SIZE];
    memset(data, KVC_L2_POISON, SIZE);
    cr_assert_eq(kvc_l2_payload_check(&stamps, 3, data, SIZE, &err), KVC_EMISMATCH);
    cr_assert_str_eq(err.got, "0x5a: nothing was written there");
    memset(data, 0, SIZE);
    kvc_l2_payload_check(&stamps, 3, data, SIZE, &err);
    cr_assert_str_eq(err.got, "0x00, and so on");
    kvc_l2_payload_write(&stamps, 3, data, SIZE);
    data[SIZE - 1] ^= 1;
    kvc_l2_payload_check(&stamps, 3, data, SIZE, &err);
    cr_assert_not_null(strstr(err.got, "nothing that this bench writes"), "%s", err.got);
}

Test(l2_payload, every_bit_counts)
{
    uint8_t data[SIZE];
    kvc_l2_payload_write(&stamps, 1, data, SIZE);
    for (size_t at = 0; at < SIZE; at += 13) {
        data[at] ^= 0x80;
        cr_assert_eq(kvc_l2_payload_check(&stamps, 1, data, SIZE, NULL), KVC_EMISMATCH);
        data[at] ^= 0x80;
    }
}
