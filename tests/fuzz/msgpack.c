/* One msgpack value: checked, read and described. What the check lets through, the library must read,
 * and msgpack must then write as a value that passes the check again. */
#include "src/wire/pack.h"
#include "tests/fuzz/fuzz.h"

enum {
    LONGEST_TEXT = 64 << 10
}; /* 16 KiB, and what the value under way at that point still adds */

static void read_and_write(struct kvc_bytes input)
{
    msgpack_zone zone;
    msgpack_object object;
    msgpack_sbuffer packed;
    msgpack_packer packer;
    FUZZ_REQUIRE(kvc_msgpack_read(input, &zone, &object, NULL) == KVC_OK);
    msgpack_sbuffer_init(&packed);
    msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
    FUZZ_REQUIRE(msgpack_pack_object(&packer, object) == 0);
    const struct kvc_bytes again = {(const uint8_t *)packed.data, packed.size};
    FUZZ_REQUIRE(kvc_msgpack_validate(again, NULL) == KVC_OK);
    msgpack_sbuffer_destroy(&packed);
    msgpack_zone_destroy(&zone);
}

void fuzz_one(struct kvc_bytes input)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_buffer text = {0};
    if (kvc_msgpack_validate(input, &err) == KVC_OK)
        read_and_write(input);
    else
        FUZZ_REQUIRE(err.status == KVC_EFORMAT && err.what[0] != '\0' && err.where[0] != '\0');
    kvc_msgpack_describe(input, 8, &text);
    FUZZ_REQUIRE(text.size <= LONGEST_TEXT);
    FUZZ_REQUIRE(kvc_utf8_is_valid((const char *)text.data, text.size));
    kvc_buffer_clear(&text);
}
