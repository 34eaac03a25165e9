#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/pickle.h"
#include "tests/unit/wire/samples.h"

static struct kvc_arena arena;

static kvc_status read_hex(const char *hex, struct kvc_pickle **root, size_t *used,
                           struct kvc_error *err)
{
    return kvc_pickle_read(sample_bytes(hex), &arena, root, used, err);
}

static const struct kvc_pickle *assert_reads(const char *hex)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_pickle *root = NULL;
    const kvc_status status = read_hex(hex, &root, NULL, &err);
    cr_assert_eq(status, KVC_OK, "%s: %s %s", hex, err.what, err.where);
    return root;
}

static void assert_refused(const char *hex, const char *what, const char *where)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_pickle *root = NULL;
    char expected[128];
    snprintf(expected, sizeof(expected), "the pickle does not read: %s", what);
    cr_assert_eq(read_hex(hex, &root, NULL, &err), KVC_EFORMAT, "%s", hex);
    cr_assert_str_eq(err.what, expected, "%s: %s", hex, err.what);
    cr_assert_str_eq(err.where, where, "%s: %s", hex, err.where);
}

/* Hex: what pickle.dumps writes for the values (protocols 2 and 4). */

Test(pickle, atoms)
{
    cr_assert_eq(assert_reads("80044e2e")->kind, KVC_PICKLE_NONE);
    cr_assert(assert_reads("8004882e")->boolean);
    cr_assert_not(assert_reads("8004892e")->boolean);
    cr_assert(kvc_str_is(assert_reads("80049505000000000000008c0161942e")->text, "a"));
    cr_assert(kvc_str_is(assert_reads("800258020000006162710 02e")->text, "ab"));
    sample_assert_equal(assert_reads("8004 43 02 00ff 94 2e")->bytes, sample_bytes("00ff"),
                        "bytes");
    sample_assert_equal(assert_reads("8004 42 02000000 00ff 94 2e")->bytes, sample_bytes("00ff"),
                        "bytes");
    sample_assert_equal(assert_reads("8004 8e 0200000000000000 00ff 2e")->bytes,
                        sample_bytes("00ff"), "bytes");
}

Test(pickle, ints)
{
    static const struct {
        const char *hex;
        int64_t value;
    } cases[] = {
        {"4b00", 0},
        {"4bff", 255},
        {"4d0001", 256},
        {"4dffff", 65535},
        {"4a00000100", 65536},
        {"4affffff7f", 2147483647},
        {"4affffffff", -1},
        {"4a00000080", -2147483648},
        {"8a050000008000", 2147483648},
        {"8a05ffffff7fff", -2147483649},
        {"8a08ffffffffffffff7f", INT64_MAX},
        {"8a080000000000000080", INT64_MIN},
        {"8a00", 0},
        {"8a01ff", -1},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char hex[64];
        snprintf(hex, sizeof(hex), "8004%s2e", cases[i].hex);
        const struct kvc_pickle *root = assert_reads(hex);
        cr_assert_eq(root->kind, KVC_PICKLE_INT);
        cr_assert_eq(root->integer, cases[i].value, "%s", hex);
        if (i < 12) { /* the last two are not the shortest form */
            struct kvc_buffer out = {0};
            kvc_pickle_append_int(&out, cases[i].value);
            sample_assert_equal(kvc_buffer_view(&out), sample_bytes(cases[i].hex), "written");
            kvc_buffer_clear(&out);
        }
    }
}

Test(pickle, a_number_that_does_not_fit_is_no_int)
{
    cr_assert_eq(assert_reads("8004 8a09 000000000000008000 2e")->kind, KVC_PICKLE_BYTES);
}

Test(pickle, containers)
{
    const struct kvc_pickle *tuple = assert_reads("8004 28 4b01 4b02 4b03 4b04 74 94 2e");
    cr_assert_eq(tuple->kind, KVC_PICKLE_TUPLE);
    cr_assert_eq(tuple->list.count, 4);
    cr_assert_eq(tuple->list.items[3]->integer, 4);
    const struct kvc_pickle *list = assert_reads("8004 5d 94 28 4b01 4b02 65 4b03 61 2e");
    cr_assert_eq(list->kind, KVC_PICKLE_LIST);
    cr_assert_eq(list->list.count, 3);
    cr_assert_eq(list->list.items[2]->integer, 3);
    const struct kvc_pickle *dict =
        assert_reads("8004 7d 94 28 8c0161 4b01 8c0162 4b02 75 8c0161 4b03 73 2e");
    cr_assert_eq(dict->kind, KVC_PICKLE_DICT);
    cr_assert_eq(kvc_pickle_dict_get(dict, "b")->integer, 2);
    cr_assert_eq(kvc_pickle_dict_get(dict, "a")->integer, 3);
    cr_assert_null(kvc_pickle_dict_get(dict, "c"));
}

Test(pickle, the_memo_in_all_its_opcodes)
{
    const struct kvc_pickle *tuple =
        assert_reads("8004 8c0161 94 8c0162 71 01 8c0163 72 02000000 68 00 86 6a 01000000 87 2e");
    cr_assert_eq(tuple->list.count, 3);
    const struct kvc_pickle *inner = tuple->list.items[1];
    cr_assert(kvc_str_is(inner->list.items[1]->text, "a"));
    cr_assert(kvc_str_is(tuple->list.items[2]->text, "b"));
}

Test(pickle, calls_are_not_made)
{
    const struct kvc_pickle *call =
        assert_reads("8004 8c026f73 8c0673797374656d 93 8c0178 85 52 2e");
    cr_assert_eq(call->kind, KVC_PICKLE_CALL);
    const struct kvc_pickle *args = kvc_pickle_call_args(call, "os", "system");
    cr_assert_not_null(args);
    cr_assert(kvc_str_is(args->list.items[0]->text, "x"));
    cr_assert_null(kvc_pickle_call_args(call, "os", "execv"));
    cr_assert_null(kvc_pickle_call_args(args, "os", "system"));
    const struct kvc_pickle *old = assert_reads("8002 636f730a73797374656d0a 29 52 2e");
    cr_assert_not_null(kvc_pickle_call_args(old, "os", "system"));
}

Test(pickle, ends_at_stop)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_pickle *root;
    size_t used;
    cr_assert_eq(read_hex("80044e2e 80044e2e", &root, &used, &err), KVC_OK);
    cr_assert_eq(used, 4);
}

Test(pickle, what_does_not_read)
{
    assert_refused("", "cut short", " at pickle byte 0");
    assert_refused("80", "cut short", " at pickle byte 1");
    assert_refused("80042e", "the stack is empty", " at pickle byte 3");
    assert_refused("8004282e", "a mark is where a value should be", " at pickle byte 4");
    assert_refused("80047b2e", "an opcode that no tensor uses", " at pickle byte 2");
    assert_refused("800497", "an opcode that no tensor uses", " at pickle byte 2");
    assert_refused("8004 68 00 2e", "no such memo entry", " at pickle byte 4");
    assert_refused("8004 6a ffffffff 2e", "no such memo entry", " at pickle byte 7");
    assert_refused("8004 4e 72 ffffffff 2e", "a memo entry is left out", " at pickle byte 8");
    assert_refused("8004 94 2e", "the stack is empty", " at pickle byte 3");
    assert_refused("8004 28 94 2e", "a mark is where a value should be", " at pickle byte 4");
    assert_refused("8004 4e 74 2e", "no mark on the stack", " at pickle byte 4");
    assert_refused("8004 4e 86 2e", "the stack is empty", " at pickle byte 4");
    assert_refused("8004 4e 28 86 2e", "a mark is where a value should be", " at pickle byte 5");
    assert_refused("8004 4e 4e 52 2e", "the arguments of a call are no tuple", " at pickle byte 5");
    assert_refused("8004 4e 4e 93 2e", "a global is named by something that is no text",
                   " at pickle byte 5");
    assert_refused("8004 4e 4e 61 2e", "elements for something that is no container of them",
                   " at pickle byte 5");
    assert_refused("8004 28 4e 65 2e", "the stack is empty", " at pickle byte 5");
    assert_refused("8004 28 28 4e 65 2e", "elements for something that is no container of them",
                   " at pickle byte 6");
    assert_refused("8004 7d 28 4e 75 2e", "a key without a value", " at pickle byte 6");
    assert_refused("8004 7d 4e 73 2e", "the stack is empty", " at pickle byte 5");
    assert_refused("8004 5d 7d 62 2e", "state for something that is no object",
                   " at pickle byte 5");
    assert_refused("8004 8c 05 6162 2e", "cut short", " at pickle byte 4");
    assert_refused("8004 42 ffffffff 00", "cut short", " at pickle byte 7");
    assert_refused("8004 8e ffffffffffffffff 00", "cut short", " at pickle byte 11");
    assert_refused("8004 8c 02 c328 2e", "text is not UTF-8", " at pickle byte 6");
    assert_refused("8002 63 6f73", "cut short", " at pickle byte 3");
    assert_refused("8002 63 6f730a 73", "cut short", " at pickle byte 6");
    assert_refused("8004 51 2e", "the stack is empty", " at pickle byte 3");
}

Test(pickle, a_list_may_hold_itself)
{
    const struct kvc_pickle *list = assert_reads("8004 5d 94 68 00 61 2e");
    cr_assert_eq(list->list.items[0], list);
}

Test(pickle, the_number_of_opcodes_has_a_limit)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_pickle *root;
    struct kvc_buffer bytes = {0};
    kvc_buffer_reserve(&bytes, 4000000);
    memset(bytes.data, 'N', 4000000);
    bytes.size = 4000000;
    cr_assert_eq(kvc_pickle_read(kvc_buffer_view(&bytes), &arena, &root, NULL, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "the pickle does not read: more opcodes than a payload may have");
    kvc_buffer_clear(&bytes);
    kvc_arena_clear(&arena);
}

/* ---- writing ---- */

/* pickle.dumps([]), pickle.dumps(None): CPython leaves out a frame of less than 4 bytes. */
Test(pickle, short_pickles_have_no_frame)
{
    struct kvc_pickle_writer writer;
    struct kvc_buffer out = {0};
    kvc_pickle_begin(&writer, &out);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_LIST);
    kvc_pickle_memoize(&writer);
    kvc_pickle_end(&writer);
    sample_assert_equal(kvc_buffer_view(&out), sample_bytes("8004 5d 94 2e"), "[]");
    kvc_buffer_clear(&out);
}

Test(pickle, globals_are_written_once)
{
    struct kvc_pickle_writer writer;
    struct kvc_buffer out = {0};
    kvc_pickle_begin(&writer, &out);
    kvc_pickle_global(&writer, KVC_STR("m"), KVC_STR("f"));
    kvc_pickle_global(&writer, KVC_STR("m"), KVC_STR("g"));
    kvc_pickle_global(&writer, KVC_STR("m"), KVC_STR("f"));
    kvc_pickle_tuple(&writer, 3);
    kvc_pickle_end(&writer);
    sample_assert_equal(
        kvc_buffer_view(&out),
        sample_bytes(
            "8004 95 1900000000000000 8c016d94 8c016694 9394 8c016d94 8c016794 9394 6802 8794 2e"),
        "globals");
    kvc_buffer_clear(&out);
}
