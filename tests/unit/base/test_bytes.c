#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/bytes.h"

Test(views, equal_when_every_byte_is)
{
    cr_assert(kvc_str_equal(KVC_STR("a\0b"), (struct kvc_str){"a\0b", 3}));
    cr_assert_not(kvc_str_equal(KVC_STR("a\0b"), KVC_STR("a\0c")));
    cr_assert_not(kvc_str_equal(KVC_STR("ab"), KVC_STR("abc")));
    cr_assert(kvc_str_is(KVC_STR("abc"), "abc"));
    cr_assert_not(kvc_str_is(KVC_STR("abc"), "ab"));
    cr_assert(kvc_bytes_equal((struct kvc_bytes){0}, (struct kvc_bytes){(const uint8_t *)"x", 0}));
}

Test(views, no_text_is_empty_text)
{
    cr_assert_eq(kvc_str_of(NULL).size, 0);
    cr_assert(kvc_str_is(kvc_str_of(NULL), ""));
}

Test(buffer, grows_and_keeps_what_it_has)
{
    struct kvc_buffer buffer = {0};
    for (int i = 0; i < 10000; i++)
        kvc_buffer_append_byte(&buffer, (uint8_t)i);
    cr_assert_eq(buffer.size, 10000);
    for (int i = 0; i < 10000; i++)
        cr_assert_eq(buffer.data[i], (uint8_t)i);
    kvc_buffer_clear(&buffer);
    cr_assert_eq(buffer.size, 0);
    cr_assert_null(buffer.data);
}

Test(buffer, text_ends_with_nul_and_may_go_on)
{
    struct kvc_buffer buffer = {0};
    cr_assert_str_eq(kvc_buffer_text(&buffer), "");
    kvc_buffer_append_text(&buffer, "one");
    cr_assert_str_eq(kvc_buffer_text(&buffer), "one");
    kvc_buffer_printf(&buffer, " %s %d", "two", 3);
    cr_assert_str_eq(kvc_buffer_text(&buffer), "one two 3");
    cr_assert_eq(buffer.size, strlen("one two 3"));
    char *text = kvc_buffer_take_text(&buffer);
    cr_assert_str_eq(text, "one two 3");
    cr_assert_null(buffer.data);
    free(text);
}

Test(buffer, prints_more_than_it_had_room_for)
{
    struct kvc_buffer buffer = {0};
    kvc_buffer_printf(&buffer, "%0500d", 7);
    cr_assert_eq(buffer.size, 500);
    cr_assert_eq(buffer.data[498], '0');
    cr_assert_eq(buffer.data[499], '7');
    kvc_buffer_clear(&buffer);
}

Test(arena, memory_is_zeroed_aligned_and_apart)
{
    struct kvc_arena arena = {0};
    uint8_t *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        blocks[i] = kvc_arena_alloc(&arena, i * 7);
        cr_assert_eq((uintptr_t)blocks[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < i * 7; k++)
            cr_assert_eq(blocks[i][k], 0);
        if (i > 0)
            memset(blocks[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i * 7; k++)
            cr_assert_eq(blocks[i][k], (uint8_t)i);
    kvc_arena_clear(&arena);
    cr_assert_null(arena.head);
}

Test(arena, large_pieces_and_copies)
{
    struct kvc_arena arena = {0};
    int64_t *numbers = kvc_arena_alloc_array(&arena, 100000, sizeof(*numbers));
    numbers[99999] = 1;
    const struct kvc_str copy = kvc_arena_copy_str(&arena, KVC_STR("a\0b"));
    cr_assert(kvc_str_equal(copy, KVC_STR("a\0b")));
    cr_assert_eq(copy.data[3], '\0');
    kvc_arena_clear(&arena);
}

Test(format, gives_fresh_memory)
{
    char *text = kvc_format("%s-%d", "a", 1);
    cr_assert_str_eq(text, "a-1");
    char *copy = kvc_strdup(text);
    cr_assert_str_eq(copy, "a-1");
    free(text);
    free(copy);
}

Test(hex, both_ways)
{
    struct kvc_buffer hex = {0};
    struct kvc_buffer bytes = {0};
    kvc_hex_encode((struct kvc_bytes){(const uint8_t *)"\x00\x7f\xa5\xff", 4}, &hex);
    cr_assert_str_eq(kvc_buffer_text(&hex), "007fa5ff");
    cr_assert_eq(kvc_hex_decode(KVC_STR("007FA5ff"), &bytes, NULL), KVC_OK);
    cr_assert_eq(bytes.size, 4);
    cr_assert_arr_eq(bytes.data, "\x00\x7f\xa5\xff", 4);
    kvc_buffer_clear(&hex);
    kvc_buffer_clear(&bytes);
}

Test(hex, refuses_what_is_none)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_buffer out = {0};
    cr_assert_eq(kvc_hex_decode(KVC_STR("abc"), &out, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "hex text has an odd number of digits (3)");
    cr_assert_eq(kvc_hex_decode(KVC_STR("00g0"), &out, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "no hex digit at position 2");
    kvc_buffer_clear(&out);
}

/* The bounds are those of RFC 3629's table. */
Test(utf8, takes_each_range_to_its_bounds)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* continuation alone */
        {"\xc0\x80", 0},         /* overlong */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xed\xbf\xbf", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* beyond the last code point */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc2", 0}, /* cut short */
        {"\xe0\xa0", 0},
        {"\xf0\x90\x80", 0},
        {"\xc2g", 0}, /* continued by something else */
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++)
        cr_assert_eq(kvc_utf8_sequence(cases[i].text, strlen(cases[i].text)), cases[i].length,
                     "case %zu", i);
    cr_assert_eq(kvc_utf8_sequence("", 0), 0);
    cr_assert_eq(kvc_utf8_sequence("\xc2\x80", 1), 0);
}

Test(utf8, a_text_is_valid_when_all_of_it_is)
{
    cr_assert(kvc_utf8_is_valid("", 0));
    cr_assert(kvc_utf8_is_valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 10));
    cr_assert_not(kvc_utf8_is_valid("a\xc3\xa4\xe2\x82", 5));
    cr_assert_not(kvc_utf8_is_valid("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xff", 32));
}

Test(escape, shows_what_a_terminal_would_not)
{
    struct kvc_buffer out = {0};
    kvc_text_escape(KVC_STR("a\n\x1b\x7f\"\\\xff\xc3\xa4\0z"), &out);
    cr_assert_str_eq(kvc_buffer_text(&out), "a\\x0a\\x1b\\x7f\\x22\\x5c\\xff\xc3\xa4\\x00z");
    kvc_buffer_clear(&out);
}

Test(escape, a_peers_text_is_cut_to_fit_a_line)
{
    char text[2000];
    cr_assert_str_eq(kvc_text_show(KVC_STR("a\n\x1b")).text, "a\\x0a\\x1b");
    cr_assert_str_eq(kvc_text_show((struct kvc_str){0}).text, "");
    memset(text, '\x1b', sizeof(text));
    const struct kvc_shown_text controls = kvc_text_show((struct kvc_str){text, sizeof(text)});
    cr_assert_eq(strlen(controls.text), 64 * 4 + strlen("…"));
    memset(text, 'x', 63);
    memcpy(text + 63, "\xc3\xa4", 2);
    const struct kvc_shown_text cut = kvc_text_show((struct kvc_str){text, 65});
    cr_assert_eq(strlen(cut.text), 63 + strlen("…"));
    cr_assert(kvc_utf8_is_valid(cut.text, strlen(cut.text)));
    cr_assert_eq(strlen(kvc_text_show((struct kvc_str){text, 63}).text), 63);
}

Test(buffer, takes_what_a_file_holds)
{
    enum { SIZE = 200000 };
    char path[] = "/tmp/kvconform-test-XXXXXX";
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    uint8_t *written = kvc_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        written[i] = (uint8_t)(i * 7 + i / 251);
    cr_assert_eq(write(file, written, SIZE), SIZE);
    close(file);
    struct kvc_buffer buffer = {0};
    kvc_buffer_append_byte(&buffer, 'x');
    cr_assert(kvc_buffer_read_file(path, SIZE_MAX, &buffer));
    cr_assert_eq(buffer.size, SIZE + 1);
    cr_assert_eq(buffer.data[0], 'x');
    cr_assert_eq(memcmp(buffer.data + 1, written, SIZE), 0);
    kvc_buffer_clear(&buffer);
    cr_assert(kvc_buffer_read_file(path, 1000, &buffer), "what is too large is no error");
    cr_assert(buffer.size > 1000 && buffer.size < SIZE);
    unlink(path);
    cr_assert(!kvc_buffer_read_file(path, 1, &buffer));
    cr_assert_eq(errno, ENOENT);
    cr_assert(!kvc_buffer_read_file("/", 1 << 20, &buffer));
    cr_assert_eq(errno, EISDIR);
    kvc_buffer_clear(&buffer);
    free(written);
}
