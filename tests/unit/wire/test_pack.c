#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "src/wire/pack.h"
#include "tests/unit/wire/samples.h"

/* The expected bytes are the examples and bounds of the msgpack specification. */

#define ASSERT_WRITES(call, hex)                                                                   \
    do {                                                                                           \
        struct kvc_buffer out = {0};                                                               \
        call;                                                                                      \
        sample_assert_equal(kvc_buffer_view(&out), sample_bytes(hex), #call);                      \
        kvc_buffer_clear(&out);                                                                    \
    } while (0)

Test(pack, ints_are_as_short_as_can_be)
{
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 0), "00");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 127), "7f");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 128), "cc80");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 256), "cd0100");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 65536), "ce00010000");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, 4294967296), "cf0000000100000000");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, -1), "ff");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, -32), "e0");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, -33), "d0df");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, -129), "d1ff7f");
    ASSERT_WRITES(kvc_msgpack_write_int(&out, INT64_MIN), "d38000000000000000");
    ASSERT_WRITES(kvc_msgpack_write_uint(&out, UINT64_MAX), "cfffffffffffffffff");
}

Test(pack, the_other_values)
{
    ASSERT_WRITES(kvc_msgpack_write_nil(&out), "c0");
    ASSERT_WRITES(kvc_msgpack_write_bool(&out, false), "c2");
    ASSERT_WRITES(kvc_msgpack_write_bool(&out, true), "c3");
    ASSERT_WRITES(kvc_msgpack_write_float(&out, 5.0), "cb4014000000000000");
    ASSERT_WRITES(kvc_msgpack_write_str(&out, KVC_STR("")), "a0");
    ASSERT_WRITES(kvc_msgpack_write_str(&out, KVC_STR("OK")), "a24f4b");
    ASSERT_WRITES(kvc_msgpack_write_bin(&out, sample_bytes("00ff")), "c40200ff");
    ASSERT_WRITES(kvc_msgpack_write_array(&out, 2), "92");
    ASSERT_WRITES(kvc_msgpack_write_array(&out, 16), "dc0010");
    ASSERT_WRITES(kvc_msgpack_write_map(&out, 3), "83");
    ASSERT_WRITES(kvc_msgpack_write_map(&out, 65536), "df00010000");
    ASSERT_WRITES(kvc_msgpack_write_ext(&out, 1, sample_bytes("aa")), "d401aa");
    ASSERT_WRITES(kvc_msgpack_write_ext(&out, 1, sample_bytes("aabbcc")), "c70301aabbcc");
}

Test(pack, lengths_choose_the_header)
{
    static const struct {
        size_t size;
        const char *str;
        const char *bin;
    } cases[] = {
        {31, "bf", "c41f"},        {32, "d920", "c420"},        {255, "d9ff", "c4ff"},
        {256, "da0100", "c50100"}, {65535, "daffff", "c5ffff"}, {65536, "db00010000", "c600010000"},
    };
    static char content[65536];
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_buffer out = {0};
        kvc_msgpack_write_str(&out, (struct kvc_str){content, cases[i].size});
        const struct kvc_bytes str = sample_bytes(cases[i].str);
        cr_assert_eq(out.size, str.size + cases[i].size);
        sample_assert_equal((struct kvc_bytes){out.data, str.size}, str, "str");
        out.size = 0;
        kvc_msgpack_write_bin(&out, (struct kvc_bytes){(uint8_t *)content, cases[i].size});
        const struct kvc_bytes bin = sample_bytes(cases[i].bin);
        cr_assert_eq(out.size, bin.size + cases[i].size);
        sample_assert_equal((struct kvc_bytes){out.data, bin.size}, bin, "bin");
        kvc_buffer_clear(&out);
    }
}

Test(pack, well_formed_values_of_every_format)
{
    static const char *const values[] = {
        "00",
        "7f",
        "80",
        "8101c0",
        "90",
        "9101",
        "a0",
        "a161",
        "c0",
        "c2",
        "c3",
        "c400",
        "c401ff",
        "c500 01ff",
        "c6000000 01ff",
        "c70001",
        "c80001 01ff",
        "c900000001 01ff",
        "ca40490fdb",
        "cb400921fb54442d18",
        "cc80",
        "cd0100",
        "ce00010000",
        "cf0000000100000000",
        "d0df",
        "d1ff7f",
        "d2ffff7fff",
        "d3ffffffff7fffffff",
        "d401aa",
        "d501aabb",
        "d601aabbccdd",
        "d7010000000000000000",
        "d80100000000000000000000000000000000",
        "d90161",
        "da000161",
        "db0000000161",
        "dc000101",
        "dd0000000101",
        "de000101c0",
        "df0000000101c0",
        "e0",
        "ff",
        "a3e282ac", /* the euro sign */
    };
    for (size_t i = 0; i < KVC_COUNT_OF(values); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        const struct kvc_bytes bytes = sample_bytes(values[i]);
        cr_assert_eq(kvc_msgpack_validate(bytes, &err), KVC_OK, "%s: %s", values[i], err.what);
        /* The same value cut anywhere, or with a byte too many, is none. */
        for (size_t size = 0; size < bytes.size; size++) {
            const struct kvc_bytes cut = sample_copy((struct kvc_bytes){bytes.data, size});
            cr_assert_eq(kvc_msgpack_validate(cut, &err), KVC_EFORMAT, "%s cut to %zu", values[i],
                         size);
        }
        struct kvc_buffer longer = {0};
        kvc_buffer_append(&longer, bytes.data, bytes.size);
        kvc_buffer_append_byte(&longer, 0xc0);
        cr_assert_eq(kvc_msgpack_validate(kvc_buffer_view(&longer), &err), KVC_EFORMAT);
        cr_assert_str_eq(err.what, "malformed msgpack: bytes after the value");
        kvc_buffer_clear(&longer);
    }
}

Test(pack, says_where_and_why)
{
    static const struct {
        const char *hex;
        const char *where;
        const char *what;
    } cases[] = {
        {"", "byte 0", "malformed msgpack: the value is cut short"},
        {"c1", "byte 0", "malformed msgpack: c1 begins no value"},
        {"92 01", "byte 0", "malformed msgpack: a count goes beyond the end"},
        {"92 01 cd01", "byte 2", "malformed msgpack: the value is cut short"},
        {"92 01 c1", "byte 2", "malformed msgpack: c1 begins no value"},
        {"91 a261", "byte 1", "malformed msgpack: a length goes beyond the end"},
        {"a2 c328", "byte 0", "malformed msgpack: text is not UTF-8"},
        {"a3 eda080", "byte 0", "malformed msgpack: text is not UTF-8"},
        {"ddffffffff", "byte 0", "malformed msgpack: a count goes beyond the end"},
        {"dfffffffff", "byte 0", "malformed msgpack: a count goes beyond the end"},
        {"c6ffffffff", "byte 0", "malformed msgpack: a length goes beyond the end"},
        {"dbffffffff", "byte 0", "malformed msgpack: a length goes beyond the end"},
        {"c9ffffffff01", "byte 0", "malformed msgpack: a length goes beyond the end"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(kvc_msgpack_validate(sample_bytes(cases[i].hex), &err), KVC_EFORMAT);
        cr_assert_str_eq(err.where, cases[i].where, "%s: %s", cases[i].hex, err.where);
        cr_assert_str_eq(err.what, cases[i].what, "%s: %s", cases[i].hex, err.what);
    }
}

static struct kvc_bytes nested(uint8_t tag, size_t depth)
{
    struct kvc_buffer out = {0};
    for (size_t i = 0; i < depth; i++)
        kvc_buffer_append_byte(&out, tag);
    kvc_buffer_append_byte(&out, 0xc0);
    const struct kvc_bytes copy = sample_copy(kvc_buffer_view(&out));
    kvc_buffer_clear(&out);
    return copy;
}

Test(pack, nesting_has_a_limit)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_msgpack_validate(nested(0x91, KVC_MSGPACK_MAX_DEPTH), &err), KVC_OK);
    cr_assert_eq(kvc_msgpack_validate(nested(0x91, KVC_MSGPACK_MAX_DEPTH + 1), &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "malformed msgpack: nested too deeply");
    cr_assert_eq(kvc_msgpack_validate(nested(0x91, 100000), &err), KVC_EFORMAT);
}

Test(pack, the_number_of_values_has_a_limit)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_buffer out = {0};
    const uint32_t count = 5000000;
    kvc_msgpack_write_array(&out, count);
    kvc_buffer_reserve(&out, count);
    memset(out.data + out.size, 0xc0, count);
    out.size += count;
    cr_assert_eq(kvc_msgpack_validate(kvc_buffer_view(&out), &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "malformed msgpack: more values than a message may have");
    kvc_buffer_clear(&out);
}

Test(pack, reads_what_it_points_into)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const struct kvc_bytes bytes = sample_bytes("93 ff a161 c402 00ff");
    msgpack_zone zone;
    msgpack_object object;
    cr_assert_eq(kvc_msgpack_read(bytes, &zone, &object, &err), KVC_OK);
    cr_assert_eq(object.type, MSGPACK_OBJECT_ARRAY);
    cr_assert_eq(object.via.array.ptr[0].via.i64, -1);
    cr_assert_eq((const uint8_t *)object.via.array.ptr[1].via.str.ptr, bytes.data + 3);
    cr_assert_eq((const uint8_t *)object.via.array.ptr[2].via.bin.ptr, bytes.data + 6);
    msgpack_zone_destroy(&zone);
    cr_assert_eq(kvc_msgpack_read(sample_bytes("92"), &zone, &object, &err), KVC_EFORMAT);
    msgpack_zone_destroy(&zone);
}

static void assert_described(const char *hex, const char *text)
{
    struct kvc_buffer out = {0};
    kvc_msgpack_describe(sample_bytes(hex), 3, &out);
    cr_assert_str_eq(kvc_buffer_text(&out), text, "%s\n     got %s\nexpected %s", hex,
                     kvc_buffer_text(&out), text);
    kvc_buffer_clear(&out);
}

Test(describe, values)
{
    assert_described("c0", "nil");
    assert_described("c3", "true");
    assert_described("ff", "-1");
    assert_described("cfffffffffffffffff", "18446744073709551615");
    assert_described("cb4014000000000000", "5");
    assert_described("a361220a", "\"a\\x22\\x0a\"");
    assert_described("c400", "bin(0)");
    assert_described("c4021234", "bin(2) 1234");
    assert_described("c411000102030405060708090a0b0c0d0e0f10",
                     "bin(17) 000102030405060708090a0b0c0d0e0f…");
    assert_described("95 01 02 03 04 05", "[1, 2, 3, … 2 more]");
    assert_described("82 a161 90 a162 80", "{\"a\": [], \"b\": {}}");
    assert_described("84 01c0 02c0 03c0 04c0", "{1: nil, 2: nil, 3: nil, 4: nil}");
    assert_described("d402ab", "ext(2, 1) ab");
    assert_described("92 01", "malformed(9201)");
    assert_described("", "malformed()");
}

Test(describe, long_text_is_cut_between_characters)
{
    struct kvc_buffer packed = {0};
    struct kvc_buffer text = {0};
    for (int i = 0; i < 100; i++)
        kvc_buffer_append_text(&text, "\xe2\x82\xac");
    kvc_msgpack_write_str(&packed, kvc_str_of(kvc_buffer_text(&text)));
    struct kvc_buffer out = {0};
    kvc_msgpack_describe(kvc_buffer_view(&packed), 3, &out);
    cr_assert(kvc_utf8_is_valid((char *)out.data, out.size));
    cr_assert_not_null(strstr(kvc_buffer_text(&out), "\"… (300 bytes)"));
    kvc_buffer_clear(&packed);
    kvc_buffer_clear(&text);
    kvc_buffer_clear(&out);
}

Test(describe, a_hostile_value_gives_a_text_of_bounded_size)
{
    struct kvc_buffer packed = {0};
    kvc_msgpack_write_map(&packed, 100000);
    for (int i = 0; i < 100000; i++) {
        kvc_msgpack_write_int(&packed, i);
        kvc_msgpack_write_array(&packed, 2);
        kvc_msgpack_write_nil(&packed);
        kvc_msgpack_write_nil(&packed);
    }
    struct kvc_buffer out = {0};
    kvc_msgpack_describe(kvc_buffer_view(&packed), 8, &out);
    cr_assert_lt(out.size, 20000);
    kvc_buffer_clear(&packed);
    kvc_buffer_clear(&out);
}
