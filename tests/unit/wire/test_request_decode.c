#include <criterion/criterion.h>
#include <stdio.h>

#include "src/wire/message.h"
#include "tests/unit/wire/golden_keys.h"
#include "tests/unit/wire/samples.h"

static kvc_status decode(const char *release, const char *hex, struct kvc_request *request,
                         struct kvc_error *err)
{
    static struct kvc_arena arena;
    const struct kvc_frames frames = sample_frames(hex);
    *err = (struct kvc_error)KVC_ERROR_INIT;
    return kvc_request_decode(sample_dialect(release), &frames, &arena, request, err);
}

static void assert_refused(const char *release, const char *hex, const char *where)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode(release, hex, &request, &err), KVC_EFORMAT, "%s is accepted", hex);
    cr_assert_str_eq(err.where, where, "%s:\n     got %s (%s)\nexpected %s", hex, err.where,
                     err.what, where);
}

Test(decode_request, any_width_of_the_operation)
{
    static const char *const same[] = {"15",
                                       "cc15",
                                       "cd0015",
                                       "ce00000015",
                                       "cf0000000000000015",
                                       "d015",
                                       "d10015",
                                       "d300000000 00000015"};
    struct kvc_error err;
    for (size_t i = 0; i < KVC_COUNT_OF(same); i++) {
        enum kvc_op op;
        cr_assert_eq(kvc_request_op(sample_dialect("0.5.1"), sample_bytes(same[i]), &op, &err),
                     KVC_OK);
        cr_assert_eq(op, KVC_OP_NOOP, "%s", same[i]);
    }
}

Test(decode_request, operations_by_name)
{
    struct kvc_error err;
    struct kvc_request request;
    const char noop[] = "07 | a46e6f6f70";
    cr_assert_eq(decode("0.5.6", noop, &request, &err), KVC_OK);
    cr_assert_eq(request.op, KVC_OP_NOOP);
    assert_refused("0.5.5", noop, "operation");
    /* protocol.md 2: retired with the id */
    assert_refused("0.5.6", "07 | ba71756572795f70726566657463685f6c6f6f6b75705f68697473 | a172",
                   "operation");
}

Test(decode_request, what_is_no_operation)
{
    assert_refused("0.5.1", "07 | cd03e7", "operation");
    assert_refused("0.5.1", "07 | 00", "operation");
    assert_refused("0.5.1", "07 | ff", "operation");
    assert_refused("0.5.1", "07 | c3", "operation");
    assert_refused("0.5.1", "07 | c0", "operation");
    assert_refused("0.5.1", "07 | cfffffffffffffffff", "operation");
    assert_refused("0.5.6", "07 | a3666f6f", "operation");
    assert_refused("0.5.6", "07 | ", "operation at byte 0");
    assert_refused("0.5.6", "07 | 18c0", "operation at byte 1");
    assert_refused("0.5.6", "07", "");
    assert_refused("0.5.6", "", "");
}

Test(decode_request, number_of_payloads)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.6", "07 | 18 | c0", &request, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "wrong number of payloads for noop");
    cr_assert_str_eq(err.expected, "0");
    cr_assert_str_eq(err.got, "1");
    cr_assert_eq(decode("0.5.6", "07 | 14", &request, &err), KVC_EFORMAT);
    cr_assert_eq(decode("0.5.1", "07 | 11 | c3", &request, &err), KVC_EFORMAT);
    cr_assert_eq(decode("0.5.6", "07 | 1c | c0", &request, &err), KVC_EUNSUPPORTED);
}

/* protocol.md 1.3: int at the top level */
Test(decode_request, lenient_ints)
{
    static const struct {
        const char *hex;
        int64_t value;
    } cases[] = {
        {"cd03e8", 1000},
        {"ff", -1},
        {"d300000000000003e8", 1000},
        {"c3", 1},
        {"c2", 0},
        {"cb4008000000000000", 3},  /* 3.0 */
        {"cbc00e000000000000", -3}, /* -3.75 */
        {"ca40600000", 3},          /* 3.5 in 32 bits */
        {"a3313233", 123},          /* "123" */
        {"c403313233", 123},        /* b"123" */
        {"a6202d3132200a", -12},    /* " -12 \n" */
        {"a22b37", 7},              /* "+7" */
        {"a5315f303030", 1000},     /* "1_000" */
        {"a3303037", 7},            /* "007" */
    };
    struct kvc_error err;
    struct kvc_request request;
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char hex[80];
        snprintf(hex, sizeof(hex), "07 | 02 | %s", cases[i].hex);
        cr_assert_eq(decode("0.5.1", hex, &request, &err), KVC_OK, "%s: %s", hex, err.what);
        cr_assert_eq(request.instance_id, cases[i].value, "%s", hex);
    }
}

Test(decode_request, what_is_no_int)
{
    static const char *const cases[] = {
        "c0",                                       /* nil */
        "90",                                       /* [] */
        "80",                                       /* {} */
        "a0",                                       /* "" */
        "a178",                                     /* "x" */
        "a3332e30",                                 /* "3.0" */
        "a3315f5f",                                 /* "1__" */
        "a25f31",                                   /* "_1" */
        "a2315f",                                   /* "1_" */
        "a43078 3130",                              /* "0x10" */
        "a12d",                                     /* "-" */
        "a32d2d31",                                 /* "--1" */
        "a33120 31",                                /* "1 1" */
        "cb7ff8000000000000",                       /* nan */
        "cb7ff0000000000000",                       /* inf */
        "cb43e0000000000000",                       /* 2^63 */
        "cfffffffffffffffff",                       /* 2^64 - 1 */
        "b339323233333732303336383534373735383038", /* "9223372036854775808" */
        "d40100",                                   /* ext */
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char hex[80];
        snprintf(hex, sizeof(hex), "07 | 02 | %s", cases[i]);
        assert_refused("0.5.1", hex, "payload 0 (instance_id)");
    }
}

Test(decode_request, the_largest_ints_as_text)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(
        decode("0.5.1", "07 | 02 | b339323233333732303336383534373735383037", &request, &err),
        KVC_OK);
    cr_assert_eq(request.instance_id, INT64_MAX);
    cr_assert_eq(
        decode("0.5.1", "07 | 02 | b42d39323233333732303336383534373735383038", &request, &err),
        KVC_OK);
    cr_assert_eq(request.instance_id, INT64_MIN);
}

/* protocol.md 1.3: bool at the top level, by truthiness */
Test(decode_request, lenient_bools)
{
    static const struct {
        const char *hex;
        bool value;
    } cases[] = {
        {"c3", true},
        {"c2", false},
        {"c0", false},
        {"00", false},
        {"a0", false},
        {"90", false},
        {"80", false},
        {"c400", false},
        {"01", true},
        {"ff", true},
        {"a566616c7365", true}, /* "false" */
        {"9100", true},
        {"cb400c000000000000", true},
        {"cb0000000000000000", false},
    };
    struct kvc_error err;
    struct kvc_request request;
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char hex[80];
        snprintf(hex, sizeof(hex), "07 | 14 | %s", cases[i].hex);
        cr_assert_eq(decode("0.5.6", hex, &request, &err), KVC_OK);
        cr_assert_eq(request.force, cases[i].value, "%s", hex);
    }
}

Test(decode_request, the_other_scalars_are_strict)
{
    struct kvc_error err;
    struct kvc_request request;
    assert_refused("0.5.1", "07 | 13 | c3", "payload 0 (ping_instance)");
    assert_refused("0.5.1", "07 | 13 | a131", "payload 0 (ping_instance)");
    assert_refused("0.5.1", "07 | 13 | cb4008000000000000", "payload 0 (ping_instance)");
    assert_refused("0.5.1", "07 | 0a | c40172", "payload 0 (request_id)");
    assert_refused("0.5.1", "07 | 07 | a172 | a135", "payload 1 (timeout_seconds)");
    assert_refused("0.5.1", "07 | 03 | " OLDER_KEY " | 00 | 9190 | a178",
                   "payload 3 (event_handle)");
    cr_assert_eq(decode("0.5.1", "07 | 07 | a172 | 05", &request, &err), KVC_OK);
    cr_assert_float_eq(request.timeout_seconds, 5.0, 0);
    cr_assert_eq(decode("0.5.1", "07 | 07 | a172 | ff", &request, &err), KVC_OK);
    cr_assert_float_eq(request.timeout_seconds, -1.0, 0);
    cr_assert_eq(decode("0.5.1", "07 | 07 | a172 | ca3f000000", &request, &err), KVC_OK);
    cr_assert_float_eq(request.timeout_seconds, 0.5, 0);
}

Test(decode_request, a_key)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.6", "07 | 08 | " NEWER_KEY " | 01", &request, &err), KVC_OK);
    cr_assert(kvc_str_is(request.key.model_name, "m"));
    cr_assert_eq(request.key.world_size, 1);
    cr_assert_not(request.key.worker_id.present);
    cr_assert_eq(request.key.token_ids.count, 2);
    cr_assert_eq(request.key.token_ids.items[1], 2);
    cr_assert_eq(request.key.end, 1);
    cr_assert(kvc_str_is(request.key.request_id, "r"));
    cr_assert_eq(request.key.request_configs.size, 0);
    cr_assert_eq(request.tp_size, 1);
}

Test(decode_request, defaults_and_unknown_fields_of_a_key)
{
    struct kvc_error err;
    struct kvc_request request;
    /* no salt, num_kv_readers before the rest, request_configs a map, "zz" unknown */
    const char hex[] = "07 | 08 | 8a ae6e756d5f6b765f7265616465727303"
                       "aa6d6f64656c5f6e616d65a16d aa776f726c645f73697a6501 a9776f726b65725f696405"
                       "a9746f6b656e5f696473920102 a5737461727400 a3656e6401 a27a7a90"
                       "aa726571756573745f6964a172 af726571756573745f636f6e6669677381a16bc3 | 01";
    cr_assert_eq(decode("0.5.6", hex, &request, &err), KVC_OK, "%s: %s", err.where, err.what);
    cr_assert_eq(request.key.num_kv_readers, 3);
    cr_assert_eq(request.key.worker_id.value, 5);
    cr_assert_eq(request.key.cache_salt.size, 0);
    sample_assert_equal(request.key.request_configs, sample_bytes("81a16bc3"), "request_configs");
    /* The older dialects do not know the two newer fields. */
    cr_assert_eq(decode("0.5.4", hex, &request, &err), KVC_OK);
    cr_assert_eq(request.key.num_kv_readers, 0);
}

Test(decode_request, of_a_repeated_field_the_last_counts)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(
        decode("0.5.1", "07 | 05 | 89 a3656e6407" KEY_EIGHT_FIELDS " | 01", &request, &err),
        KVC_OK);
    cr_assert_eq(request.key.end, 1);
}

Test(decode_request, what_is_wrong_in_a_key)
{
#define FIELDS_BUT_TOKENS                                                                          \
    "aa6d6f64656c5f6e616d65a16d aa776f726c645f73697a6501 a9776f726b65725f6964c0 a5737461727400"    \
    "a3656e6401 aa726571756573745f6964a172"
    assert_refused("0.5.1", "07 | 05 | 86" FIELDS_BUT_TOKENS " | 01", "payload 0 (key).token_ids");
    assert_refused("0.5.1", "07 | 05 | 87" FIELDS_BUT_TOKENS "a9746f6b656e5f696473c0 | 01",
                   "payload 0 (key).token_ids");
    assert_refused("0.5.1", "07 | 05 | 87" FIELDS_BUT_TOKENS "a9746f6b656e5f696473 94010203c3 | 01",
                   "payload 0 (key).token_ids[3]");
    assert_refused(
        "0.5.1", "07 | 05 | 87" FIELDS_BUT_TOKENS "a9746f6b656e5f696473 91cb0000000000000000 | 01",
        "payload 0 (key).token_ids[0]");
    assert_refused("0.5.1",
                   "07 | 05 | 87" FIELDS_BUT_TOKENS
                   "a9746f6b656e5f696473 9301ff cfffffffffffffffff | 01",
                   "payload 0 (key).token_ids[2]");
    assert_refused("0.5.1", "07 | 05 | 95 01 02 03 04 05 | 01", "payload 0 (key)");
    assert_refused("0.5.1", "07 | 05 | 81 01 02 | 01", "payload 0 (key)");
    assert_refused("0.5.1", "07 | 05 | " OLDER_KEY "c0 | 01", "payload 0 (key) at byte 87");
    assert_refused("0.5.6",
                   "07 | 08 | 8a" KEY_EIGHT_FIELDS "af726571756573745f636f6e66696773 810102"
                   "ae6e756d5f6b765f7265616465727300 | 01",
                   "payload 0 (key).request_configs");
    assert_refused("0.5.6",
                   "07 | 08 | 8a" KEY_EIGHT_FIELDS "af726571756573745f636f6e6669677301"
                   "ae6e756d5f6b765f7265616465727300 | 01",
                   "payload 0 (key).request_configs");
}

Test(decode_request, salts)
{
    static const struct {
        const char *hex; /* of the salt */
        bool accepted;
    } cases[] = {
        {"a3612d62", true}, {"a140", false},     {"a12f", false}, {"a15c", false},
        {"a100", false},    {"a3612f62", false}, {"c0", false},
    };
    struct kvc_error err;
    struct kvc_request request;
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        char hex[400];
        snprintf(hex, sizeof(hex), "07 | 05 | 89" KEY_EIGHT_FIELDS "aa63616368655f73616c74 %s | 01",
                 cases[i].hex);
        if (cases[i].accepted)
            cr_assert_eq(decode("0.5.1", hex, &request, &err), KVC_OK);
        else
            assert_refused("0.5.1", hex, "payload 0 (key).cache_salt");
    }
}

Test(decode_request, a_salt_has_at_most_128_characters)
{
    for (int characters = 128; characters <= 129; characters++) {
        struct kvc_buffer salt = {0};
        for (int i = 0; i < characters; i++)
            kvc_buffer_append_text(&salt, "\xc3\xa4");
        const struct kvc_request request = {
            .op = KVC_OP_LOOKUP, .key = {.cache_salt = kvc_str_of(kvc_buffer_text(&salt))}};
        struct kvc_frames frames = {0};
        struct kvc_arena arena = {0};
        struct kvc_request decoded;
        kvc_frames_append_view(&frames, "\x07", 1);
        cr_assert_eq(kvc_request_encode(sample_dialect("0.5.1"), &request, &frames, NULL), KVC_OK);
        cr_assert_eq(kvc_request_decode(sample_dialect("0.5.1"), &frames, &arena, &decoded, NULL),
                     characters == 128 ? KVC_OK : KVC_EFORMAT);
        kvc_frames_clear(&frames);
        kvc_arena_clear(&arena);
        kvc_buffer_clear(&salt);
    }
}

/* REGISTER_KV_CACHE with no tensors: engine type, hints and groups are read all the same. */
#define REGISTER(engine, hints, groups)                                                            \
    "07 | 01 | 01 | 90 | a16d | 01 | " engine " | " hints " | " groups

Test(decode_request, engine_types)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.1", REGISTER("a4766c6c6d", "80", "90"), &request, &err), KVC_OK);
    cr_assert_eq(decode("0.5.6", REGISTER("a461746f6d", "80", "90"), &request, &err), KVC_OK);
    assert_refused("0.5.1", REGISTER("a461746f6d", "80", "90"), "payload 4 (engine_type)");
    assert_refused("0.5.1", REGISTER("a4564c4c4d", "80", "90"), "payload 4 (engine_type)");
    assert_refused("0.5.1", REGISTER("01", "80", "90"), "payload 4 (engine_type)");
}

Test(decode_request, layout_hints)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.1",
                        REGISTER("a4766c6c6d", "82 a27a7a05 a96b765f6c61796f7574a3484e44", "90"),
                        &request, &err),
                 KVC_OK);
    cr_assert(kvc_str_is(request.layout_hints.kv_layout, "HND"));
    cr_assert_not(request.layout_hints.head_dim.present);
    cr_assert_eq(request.layout_hints.others.count, 1);
    sample_assert_equal(request.layout_hints.others.pairs, sample_bytes("a27a7a05"), "others");
    assert_refused("0.5.1", REGISTER("a4766c6c6d", "c0", "90"), "payload 5 (layout_hints)");
    assert_refused("0.5.1", REGISTER("a4766c6c6d", "81 a96b765f6c61796f7574a35a5a5a", "90"),
                   "payload 5 (layout_hints).kv_layout");
    assert_refused("0.5.1", REGISTER("a4766c6c6d", "81 a868656164 5f64696da138", "90"),
                   "payload 5 (layout_hints).head_dim");
}

/* protocol.md 3.5: "k_v" from the start, "unified" with 0.5.6 */
Test(decode_request, list_layouts)
{
#define LIST_LAYOUT(value) REGISTER("a4766c6c6d", "81 ae6b765f6c6973745f6c61796f7574 " value, "90")
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.5", LIST_LAYOUT("a36b5f76"), &request, &err), KVC_OK);
    cr_assert(kvc_str_is(request.layout_hints.kv_list_layout, "k_v"));
    cr_assert_eq(decode("0.5.6", LIST_LAYOUT("a7756e6966696564"), &request, &err), KVC_OK);
    assert_refused("0.5.5", LIST_LAYOUT("a7756e6966696564"),
                   "payload 5 (layout_hints).kv_list_layout");
}

Test(decode_request, groups_have_defaults)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.6",
                        REGISTER("a4766c6c6d", "80", "9181af656e67696e655f67726f75705f696403"),
                        &request, &err),
                 KVC_OK);
    cr_assert_eq(request.groups.count, 1);
    const struct kvc_engine_group_info *group = &request.groups.items[0];
    cr_assert_eq(group->engine_group_id, 3);
    cr_assert_eq(group->layer_indices.count, 0);
    cr_assert_eq(group->tokens_per_block, 0);
    cr_assert_eq(group->sw_size_tokens, -1);
    cr_assert_eq(group->extra_object_group_tag, 0);
    cr_assert_not(group->recurrent_state);
    assert_refused("0.5.6", REGISTER("a4766c6c6d", "80", "9180"),
                   "payload 6 (groups)[0].engine_group_id");
}

Test(decode_request, an_ext_is_a_handle_only_with_type_1)
{
    assert_refused("0.5.1", "07 | 01 | 01 | 91 d40200 | a16d | 01 | a4766c6c6d | 80 | 90",
                   "payload 1 (handles)[0]");
    assert_refused("0.5.1", "07 | 01 | 01 | 91 a16d | a16d | 01 | a4766c6c6d | 80 | 90",
                   "payload 1 (handles)[0]");
    assert_refused("0.5.1", "07 | 01 | 01 | 91 d4012e | a16d | 01 | a4766c6c6d | 80 | 90",
                   "payload 1 (handles)[0] at pickle byte 1");
    assert_refused("0.5.6", "07 | 01 | 01 | 91 d401c1 | a16d | 01 | a4766c6c6d | 80 | 90",
                   "payload 1 (handles)[0] at descriptor byte 0");
}

Test(decode_request, the_layout_of_group_0_is_taken)
{
    struct kvc_error err;
    struct kvc_request request;
    cr_assert_eq(decode("0.5.6",
                        "07 | 1d | 90 | 82 01 82 a6736861706573 90 a6647479706573 90 00" LAYOUT,
                        &request, &err),
                 KVC_OK, "%s: %s", err.where, err.what);
    cr_assert_eq(request.object_layout.shapes.count, 1);
    assert_refused("0.5.6", "07 | 1d | 90 | 80", "payload 1 (object_layout)");
    assert_refused("0.5.6", "07 | 1d | 90 | 90", "payload 1 (object_layout)");
    assert_refused("0.5.6", "07 | 1d | 90 | 81 a130" LAYOUT, "payload 1 (object_layout)");
    assert_refused("0.5.6", "07 | 1d | 90 | 81 00 81 a6736861706573 90",
                   "payload 1 (object_layout)[0].dtypes");
}
