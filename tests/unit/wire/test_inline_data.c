#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "src/kv/digest.h"
#include "src/wire/inline_data.h"
#include "src/wire/message.h"
#include "tests/unit/wire/recorded.h"
#include "tests/unit/wire/samples.h"

enum { MAX_TENSORS = 2048 };

/* What generate.py fills the tensors with. */
static struct kvc_bytes pattern(size_t size)
{
    uint8_t *data = sample_alloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 167 + (i >> 8) * 13);
    return (struct kvc_bytes){data, size};
}

static size_t item_size(const char *dtype)
{
    static const struct {
        const char *name;
        size_t size;
    } sizes[] = {{"float16", 2}, {"bfloat16", 2},      {"float32", 4}, {"uint8", 1},
                 {"int8", 1},    {"float8_e4m3fn", 1}, {"int16", 2},   {"int64", 8}};
    for (size_t i = 0; i < KVC_COUNT_OF(sizes); i++)
        if (strcmp(dtype, sizes[i].name) == 0)
            return sizes[i].size;
    cr_assert_fail("no size for %s", dtype);
    return 0;
}

/* count tensors of a shape, one pattern running through all of them. */
static void make_tensors(const char *dtype, struct kvc_ints shape, size_t count,
                         struct kvc_inline_tensor *tensors)
{
    size_t size = item_size(dtype);
    for (size_t i = 0; i < shape.count; i++)
        size *= (size_t)shape.items[i];
    const struct kvc_bytes data = pattern(size * count);
    for (size_t i = 0; i < count; i++)
        tensors[i] = (struct kvc_inline_tensor){
            .dtype = kvc_str_of(dtype), .shape = shape, .data = {data.data + i * size, size}};
}

static void assert_same_tensors(const struct kvc_inline_tensor *got, size_t got_count,
                                const struct kvc_inline_tensor *expected, size_t count)
{
    cr_assert_eq(got_count, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert(kvc_str_equal(got[i].dtype, expected[i].dtype), KVC_STR_FMT,
                  KVC_STR_ARG(got[i].dtype));
        cr_assert_eq(got[i].shape.count, expected[i].shape.count);
        cr_assert_eq(memcmp(got[i].shape.items, expected[i].shape.items,
                            got[i].shape.count * sizeof(int64_t)),
                     0);
        cr_assert(kvc_bytes_equal(got[i].data, expected[i].data), "tensor %zu", i);
    }
}

/* Decodes and compares; contiguous tensors are views of the message. */
static void assert_decodes(struct kvc_bytes message, const struct kvc_inline_tensor *expected,
                           size_t count)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t decoded = 0;
    cr_assert_eq(kvc_inline_decode(message, &arena, &tensors, &decoded, &err), KVC_OK, "%s %s",
                 err.where, err.what);
    assert_same_tensors(tensors, decoded, expected, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(tensors[i].data.size == 0 ||
                  (tensors[i].data.data >= message.data &&
                   tensors[i].data.data + tensors[i].data.size <= message.data + message.size));
    kvc_arena_clear(&arena);
}

/* pickle.dumps of real torch tensors: how many digits its storage keys have, and
 * size and MD5 of what it wrote. */
static const struct golden_torch {
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    size_t count;
    size_t key_digits;
    size_t size;
    const char *md5;
} torch_goldens[] = {
#include "tests/unit/wire/golden_inline_torch.inc"
};

/* Keys 0, 1, 2, … of that many digits, as generate.py puts them in. */
static void set_keys(size_t digits, struct kvc_inline_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *key = (char *)sample_alloc(digits + 1);
        snprintf(key, digits + 1, "%0*zu", (int)digits, i);
        tensors[i].storage_key = kvc_str_of(key);
    }
}

Test(inline_torch, what_python_pickles_byte_for_byte)
{
    static struct kvc_inline_tensor tensors[MAX_TENSORS];
    for (size_t i = 0; i < KVC_COUNT_OF(torch_goldens); i++) {
        const struct golden_torch *golden = &torch_goldens[i];
        make_tensors(golden->dtype, (struct kvc_ints){golden->shape, golden->rank}, golden->count,
                     tensors);
        set_keys(golden->key_digits, tensors, golden->count);
        struct kvc_buffer out = {0};
        cr_assert_eq(kvc_inline_encode_torch(tensors, golden->count, &out, NULL), KVC_OK);
        char md5[KVC_MD5_HEX_SIZE];
        kvc_md5_hex(out.data, out.size, md5);
        cr_assert_eq(out.size, golden->size, "%s: %zu", golden->dtype, out.size);
        cr_assert_str_eq(md5, golden->md5, "%s x %zu", golden->dtype, golden->count);
        assert_decodes(kvc_buffer_view(&out), tensors, golden->count);
        kvc_buffer_clear(&out);
    }
}

/* The numpy form as Python would pickle it; generate.py has loaded it with torch. */
static const struct golden_numpy {
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    size_t count;
    const char *hex;
} numpy_goldens[] = {
#include "tests/unit/wire/golden_inline_numpy.inc"
};

Test(inline_numpy, what_torch_has_loaded)
{
    struct kvc_inline_tensor tensors[2];
    for (size_t i = 0; i < KVC_COUNT_OF(numpy_goldens); i++) {
        const struct golden_numpy *golden = &numpy_goldens[i];
        make_tensors(golden->dtype, (struct kvc_ints){golden->shape, golden->rank}, golden->count,
                     tensors);
        struct kvc_buffer out = {0};
        cr_assert_eq(kvc_inline_encode_numpy(tensors, golden->count, &out, NULL), KVC_OK);
        sample_assert_equal(kvc_buffer_view(&out), sample_bytes(golden->hex), golden->dtype);
        assert_decodes(kvc_buffer_view(&out), tensors, golden->count);
        kvc_buffer_clear(&out);
    }
}

/* protocol.md 3.8: the same calls without frames and memo, accepted by live servers. */
Test(inline_numpy, plain_calls_are_read)
{
    const struct kvc_bytes message = sample_bytes(
        "8004 5d 28"
        "8c05746f726368 8c0b54656e736f722e76696577 93"
        "8c05746f726368 8c0a66726f6d5f6e756d7079 93"
        "8c056e756d7079 8c056172726179 93"
        "8c056e756d7079 8c0772657368617065 93"
        "8c056e756d7079 8c0a66726f6d627566666572 93 42 04000000 00a711b8 8c033c7532 86 52"
        "28 4a01000000 4a02000000 74 86 52 85 52 85 52"
        "8c05746f726368 8c0862666c6f61743136 93 86 52"
        "65 2e");
    const int64_t shape[] = {1, 2};
    struct kvc_inline_tensor expected;
    make_tensors("bfloat16", (struct kvc_ints){shape, 2}, 1, &expected);
    expected.data = sample_bytes("00a711b8");
    assert_decodes(message, &expected, 1);
}

/* Pickles of real torch tensors that are views of another. */
static const struct golden_view {
    const char *name;
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    const char *raw; /* the elements in row-major order */
    const char *hex;
} view_goldens[] = {
#include "tests/unit/wire/golden_inline_views.inc"
};

Test(inline_torch, views_are_read_in_row_major_order)
{
    for (size_t i = 0; i < KVC_COUNT_OF(view_goldens); i++) {
        const struct golden_view *golden = &view_goldens[i];
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_inline_tensor *tensors = NULL;
        size_t count = 0;
        cr_assert_eq(kvc_inline_decode(sample_bytes(golden->hex), &arena, &tensors, &count, &err),
                     KVC_OK, "%s: %s %s", golden->name, err.where, err.what);
        const struct kvc_inline_tensor expected = {.dtype = kvc_str_of(golden->dtype),
                                                   .shape = {golden->shape, golden->rank},
                                                   .data = sample_bytes(golden->raw)};
        assert_same_tensors(tensors, count, &expected, 1);
        kvc_arena_clear(&arena);
    }
}

/* Every payload of the recordings that carries tensors: read, and written again. */
static void rebuild(struct kvc_bytes data)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    struct kvc_buffer out = {0};
    size_t count = 0;
    cr_assert_eq(kvc_inline_decode(data, &arena, &tensors, &count, &err), KVC_OK, "%s %s",
                 err.where, err.what);
    cr_assert_eq(count, 2);
    for (size_t i = 0; i < count; i++) {
        cr_assert(kvc_str_is(tensors[i].dtype, "float16"));
        cr_assert_eq(tensors[i].shape.count, 4);
        cr_assert_eq(tensors[i].data.size, 2 * 2 * 256 * 16 * 2);
    }
    cr_assert_eq(kvc_inline_encode_torch(tensors, count, &out, &err), KVC_OK);
    cr_assert(kvc_bytes_equal(kvc_buffer_view(&out), data));
    kvc_buffer_clear(&out);
    kvc_arena_clear(&arena);
}

Test(inline_torch, the_recorded_payloads_are_rebuilt)
{
    enum { ENGINE_DRIVEN = 3 };
    size_t payloads = 0;
    struct kvc_recording recording;
    recorded_load(ENGINE_DRIVEN, &recording);
    for (size_t i = 0; i < recording.count; i++) {
        struct kvc_frames *frames = &recording.messages[i].frames;
        const struct kvc_dialect *dialect = recorded_dialect(ENGINE_DRIVEN);
        enum kvc_op op;
        cr_assert_eq(kvc_request_op(dialect, kvc_frames_view(frames, 1), &op, NULL), KVC_OK);
        if (op == KVC_OP_COMMIT_STORE && !recording.messages[i].from_server) {
            struct kvc_arena arena = {0};
            struct kvc_request request;
            cr_assert_eq(kvc_request_decode(dialect, frames, &arena, &request, NULL), KVC_OK);
            rebuild(request.data);
            kvc_arena_clear(&arena);
            payloads++;
        }
        if (op == KVC_OP_PREPARE_RETRIEVE && recording.messages[i].from_server) {
            struct kvc_reply reply;
            cr_assert_eq(kvc_reply_decode(dialect, op, frames, &reply, NULL), KVC_OK);
            rebuild(reply.retrieve.data);
            kvc_reply_clear(&reply);
            payloads++;
        }
    }
    cr_assert_eq(payloads, 4);
    kvc_recording_clear(&recording);
}

Test(inline_encode, without_keys_tensors_are_numbered)
{
    const int64_t shape[] = {1};
    struct kvc_inline_tensor tensors[2];
    make_tensors("uint8", (struct kvc_ints){shape, 1}, 2, tensors);
    struct kvc_buffer out = {0};
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &out, NULL), KVC_OK);
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *decoded = NULL;
    size_t count = 0;
    cr_assert_eq(kvc_inline_decode(kvc_buffer_view(&out), &arena, &decoded, &count, NULL), KVC_OK);
    cr_assert(kvc_str_is(decoded[0].storage_key, "0"));
    cr_assert(kvc_str_is(decoded[1].storage_key, "1"));
    kvc_arena_clear(&arena);
    kvc_buffer_clear(&out);
}

/* Torch writes float8 in a way that it cannot load: see write_tensor. */
Test(inline_torch, what_has_no_storage_class_is_a_view_of_integers)
{
    const int64_t shape[] = {2, 3};
    struct kvc_inline_tensor tensor;
    make_tensors("float8_e4m3fn", (struct kvc_ints){shape, 2}, 1, &tensor);
    struct kvc_buffer out = {0};
    cr_assert_eq(kvc_inline_encode_torch(&tensor, 1, &out, NULL), KVC_OK);
    cr_assert_not_null(memmem(out.data, out.size, "Tensor.view", 11));
    cr_assert_not_null(memmem(out.data, out.size, "ByteStorage", 11));
    assert_decodes(kvc_buffer_view(&out), &tensor, 1);
    kvc_buffer_clear(&out);
}

Test(inline_encode, refuses_what_cannot_be_sent)
{
    const int64_t shape[] = {2, 3};
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_buffer out = {0};
    struct kvc_inline_tensor tensors[2];
    make_tensors("uint8", (struct kvc_ints){shape, 2}, 2, tensors);
    tensors[1].dtype = KVC_STR("float5");
    cr_assert_eq(kvc_inline_encode_numpy(tensors, 2, &out, &err), KVC_EUNSUPPORTED);
    cr_assert_str_eq(err.what, "tensor 1: no way to send the dtype \"float5\" inline");
    tensors[1].dtype = KVC_STR("float16");
    cr_assert_eq(kvc_inline_encode_torch(tensors, 2, &out, &err), KVC_EMISMATCH);
    cr_assert_str_eq(err.what, "tensor 1: 6 bytes do not fill its shape");
    cr_assert_eq(out.size, 0);
}

static void assert_refused(struct kvc_bytes message, const char *where, const char *what)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    cr_assert_eq(kvc_inline_decode(sample_copy(message), &arena, &tensors, &count, &err),
                 KVC_EFORMAT, "accepted instead of: %s", what);
    cr_assert_str_eq(err.where, where, "%s %s", err.where, err.what);
    cr_assert_not_null(strstr(err.what, what), "%s, not: %s", err.what, what);
    kvc_arena_clear(&arena);
}

Test(inline_decode, other_pickles)
{
    assert_refused(sample_bytes(""), " at pickle byte 0", "cut short");
    assert_refused(sample_bytes("80044e2e"), "", "the pickle is no list of tensors");
    assert_refused(sample_bytes("80045d2e00"), "", "1 bytes after the pickle");
    assert_refused(sample_bytes("80045d4e612e"), "[0]",
                   "neither a pickled tensor nor torch.from_numpy");
    assert_refused(sample_bytes("8004 5d 94 68 00 61 2e"), "[0]", "neither a pickled tensor");
}

/* The message with some bytes replaced by others, as many or not (nobody reads a frame's length). */
static struct kvc_bytes replace(struct kvc_bytes message, const char *from, const char *to)
{
    const struct kvc_bytes old_bytes = sample_bytes(from);
    const struct kvc_bytes new_bytes = sample_bytes(to);
    const uint8_t *place = memmem(message.data, message.size, old_bytes.data, old_bytes.size);
    cr_assert_not_null(place, "%s is not there", from);
    const uint8_t *rest = place + old_bytes.size;
    struct kvc_buffer changed = {0};
    kvc_buffer_append(&changed, message.data, (size_t)(place - message.data));
    kvc_buffer_append(&changed, new_bytes.data, new_bytes.size);
    kvc_buffer_append(&changed, rest, message.size - (size_t)(rest - message.data));
    const struct kvc_bytes copy = sample_copy(kvc_buffer_view(&changed));
    kvc_buffer_clear(&changed);
    return copy;
}

/* A tensor of 24 ints, offset 0, shape (4, 3, 2), strides (1, 4, 12). */
static struct kvc_bytes transposed(void)
{
    return sample_bytes(view_goldens[0].hex);
}

static void assert_change_refused(const char *from, const char *to, const char *what)
{
    assert_refused(replace(transposed(), from, to), "[0]", what);
}

Test(inline_decode, numbers_that_leave_the_storage)
{
    /* offset 0, shape (4, 3, 2) */
    const char place[] = "4b00 4b04 4b03 4b02 87";
    assert_change_refused(place, "4b01 4b04 4b03 4b02 87", "leave the storage");
    assert_change_refused(place, "4b00 4b05 4b03 4b02 87", "leave the storage");
    assert_change_refused(place, "4b00 4b04 4b04 4b02 87", "leave the storage");
    assert_change_refused(place, "4bff 4b01 4b01 4b01 87", "leave the storage");
    assert_change_refused(place, "4b00 4b04 4b03 4e94 87", "are no ints");
    /* strides (1, 4, 12) */
    assert_change_refused("4b01 4b04 4b0c 87", "4b02 4b04 4b0c 87", "leave the storage");
    assert_change_refused("4b01 4b04 4b0c 87", "4b01 4b04 4e4e 87", "wrong number of arguments");
    /* the element count before the data, and the one in the description */
    assert_change_refused("1800000000000000", "1900000000000000", "element count");
    assert_change_refused("4b18 4e 74", "4b17 4e 74", "element count");
    /* another storage class: 8 bytes an element */
    assert_change_refused("496e7453746f72616765", "4c6f6e6753746f726167", "does not read");
    assert_change_refused("6c6974746c655f656e6469616e 7102 88",
                          "6c6974746c655f656e6469616e 7102 89", "little-endian");
    assert_change_refused("4d e903 2e", "4d ea03 2e", "version");
    assert_change_refused("6cfc9c46f9206aa85019", "6cfc9c46f9206aa85018", "magic");
}

Test(inline_decode, counts_that_agree_but_not_with_the_bytes)
{
    const struct kvc_bytes message = replace(transposed(), "1800000000000000", "1900000000000000");
    assert_refused(replace(message, "4b18 4e 74", "4b19 4e 74"), "[0]", "element count");
}

/* The last element would lie in the storage, but not the first. */
Test(inline_decode, strides_that_go_backwards)
{
    const struct kvc_bytes message =
        replace(transposed(), "4b00 4b04 4b03 4b02 87", "4b18 4b04 4b03 4b02 87");
    assert_refused(replace(message, "4b01 4b04 4b0c 87", "4affffffff 4afcffffff 4af4ffffff 87"),
                   "[0]", "leave the storage");
}

Test(inline_decode, another_storage_than_the_one_described)
{
    const struct kvc_bytes message = transposed();
    const struct kvc_bytes keys = sample_bytes("5d 7100 58 0e000000");
    uint8_t *place = memmem(message.data, message.size, keys.data, keys.size);
    cr_assert_not_null(place);
    place[keys.size] ^= 1; /* its first digit */
    assert_refused(message, "[0]", "the list of keys is not the one storage");
}

Test(inline_decode, an_empty_shape_may_be_any_size)
{
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    const struct kvc_bytes message =
        replace(transposed(), "4b00 4b04 4b03 4b02 87",
                "4b00 8a08ffffffffffffff7f 8a08ffffffffffffff7f 4b00 87");
    cr_assert_eq(kvc_inline_decode(message, &arena, &tensors, &count, NULL), KVC_OK);
    cr_assert_eq(tensors[0].data.size, 0);
    kvc_arena_clear(&arena);
    assert_change_refused("4b00 4b04 4b03 4b02 87",
                          "4b00 8a08ffffffffffffff7f 8a08ffffffffffffff7f 4b02 87",
                          "negative or too large");
    /* 2^32 x 2^32 elements of 4 bytes are 0 in 64 bits */
    assert_change_refused("4b00 4b04 4b03 4b02 87", "4b00 8a050000000001 8a050000000001 4b01 87",
                          "negative or too large");
}

/* The dtype's global is remembered late, where a memo number needs more than a byte. */
Test(inline_torch, dtypes_may_be_mixed)
{
    enum { PLAIN = 60, VIEWED = 3 };
    const int64_t shape[] = {2};
    struct kvc_inline_tensor tensors[PLAIN + VIEWED];
    struct kvc_buffer out = {0};
    make_tensors("int16", (struct kvc_ints){shape, 1}, PLAIN, tensors);
    make_tensors("float8_e4m3fn", (struct kvc_ints){shape, 1}, VIEWED, tensors + PLAIN);
    cr_assert_eq(kvc_inline_encode_torch(tensors, PLAIN + VIEWED, &out, NULL), KVC_OK);
    assert_decodes(kvc_buffer_view(&out), tensors, PLAIN + VIEWED);
    kvc_buffer_clear(&out);
}

/* Few bytes that claim to be 2^40 elements, which are all the same one. */
Test(inline_decode, overlapping_elements_have_a_limit)
{
    const struct kvc_bytes message =
        replace(transposed(), "4b00 4b04 4b03 4b02 87", "4b00 8a06000000000001 4b01 4b01 87");
    assert_refused(replace(message, "4b01 4b04 4b0c 87", "4b00 4b00 4b00 87"), "[0]", "overlap");
}

/* The numpy form, with what it says replaced. */
static void assert_numpy_refused(const char *from, const char *to, const char *what)
{
    /* float16 (2, 3), one; for the views bfloat16 (2, 2, 4, 2), two */
    const bool viewed = memmem(from, strlen(from), "62666c6f61743136", 16) != NULL;
    assert_refused(replace(sample_bytes(numpy_goldens[viewed].hex), from, to), "[0]", what);
}

Test(inline_decode, calls_that_are_not_the_right_ones)
{
    assert_numpy_refused("6672 6f6d5f6e756d7079", "6672 6f6d5f6e756d7078", "torch.from_numpy");
    assert_numpy_refused("72657368617065", "72657368617066", "no numpy.reshape");
    assert_numpy_refused("66726f6d627566666572", "66726f6d627566666573", "no numpy.frombuffer");
    assert_numpy_refused("8c033c6632", "8c033c6639", "a numpy type that is not known");
    assert_numpy_refused("8c033c6632", "8c033c6634", "its bytes do not fill its shape");
    assert_numpy_refused("4b024b03 86", "4b024b02 86", "its bytes do not fill its shape");
    assert_numpy_refused("4b024b03 86", "4b024e94 86", "the shape is no tuple of ints");
    assert_numpy_refused("8c0862666c6f61743136", "8c0862666c6f61743139",
                         "a view as a dtype that is not known");
    assert_numpy_refused("8c0862666c6f61743136", "8c07666c6f61743332",
                         "a view as a dtype of another size");
}

Test(inline_decode, torch_calls_that_are_not_the_right_ones)
{
    assert_change_refused("5f6c6f61645f66726f6d5f6279746573", "5f6c6f61645f66726f6d5f6279746572",
                          "no storage");
    assert_change_refused("5f72656275696c645f74656e736f725f7632",
                          "5f72656275696c645f74656e736f725f7633", "wrong number of arguments");
    assert_change_refused("4b04 4b0c 87", "4b04 86", "shape and strides have different lengths");
    /* inside the file, whose length is counted: as many bytes */
    assert_change_refused("4e 74 7104 51", "74 94 7104 51", "no description of a storage");
    assert_change_refused("58 03000000 637075", "42 03000000 637075",
                          "the description of the storage");
    assert_change_refused("5d 7100 58", "5d 7100 42", "the list of keys");
}
