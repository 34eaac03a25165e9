#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/handle.h"
#include "src/wire/pack.h"
#include "tests/unit/wire/samples.h"

/* One-element lists of handles, as the clients of two releases write them. */
static const struct golden {
    const char *release;
    const char *shm_name;
    const char *dtype;
    size_t rank;
    int64_t shape[5];
    int64_t stride[5];
    int64_t storage_offset;
    int64_t nbytes;
    const char *hex;
} goldens[] = {
#include "tests/unit/wire/golden_handles.inc"
};

static struct kvc_tensor_handle handle_of(const struct golden *golden)
{
    return (struct kvc_tensor_handle){
        .shm_name = kvc_str_of(golden->shm_name),
        .nbytes = golden->nbytes,
        .dtype = kvc_str_of(golden->dtype),
        .shape = {golden->shape, golden->rank},
        .stride = {golden->stride, golden->rank},
        .storage_offset = golden->storage_offset,
        .device_uuid = KVC_STR("cpu"),
    };
}

Test(handle, written_as_the_clients_write_it)
{
    for (size_t i = 0; i < KVC_COUNT_OF(goldens); i++) {
        const struct kvc_tensor_handle handle = handle_of(&goldens[i]);
        sample_assert_handle_written(&handle, goldens[i].release, goldens[i].hex);
    }
}

/* The body of the one handle in a golden list. */
static struct kvc_bytes body_of(const char *hex)
{
    msgpack_zone zone;
    msgpack_object object;
    cr_assert_eq(kvc_msgpack_read(sample_bytes(hex), &zone, &object, NULL), KVC_OK);
    const msgpack_object_ext ext = object.via.array.ptr[0].via.ext;
    const struct kvc_bytes body =
        sample_copy((struct kvc_bytes){(const uint8_t *)ext.ptr, ext.size});
    msgpack_zone_destroy(&zone);
    return body;
}

static bool ints_are(struct kvc_ints ints, const int64_t *expected, size_t count)
{
    return ints.count == count && memcmp(ints.items, expected, count * sizeof(*expected)) == 0;
}

Test(handle, read_from_what_the_clients_write)
{
    for (size_t i = 0; i < KVC_COUNT_OF(goldens); i++) {
        const struct golden *golden = &goldens[i];
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_tensor_handle handle;
        const kvc_status status = kvc_handle_decode(sample_dialect(golden->release),
                                                    body_of(golden->hex), &arena, &handle, &err);
        cr_assert_eq(status, KVC_OK, "%s %s: %s %s", golden->release, golden->dtype, err.where,
                     err.what);
        cr_assert(kvc_str_is(handle.shm_name, golden->shm_name));
        cr_assert(kvc_str_is(handle.dtype, golden->dtype));
        cr_assert(kvc_str_is(handle.device_uuid, "cpu"));
        cr_assert_eq(handle.nbytes, golden->nbytes);
        cr_assert_eq(handle.storage_offset, golden->storage_offset);
        cr_assert(ints_are(handle.shape, golden->shape, golden->rank));
        cr_assert(ints_are(handle.stride, golden->stride, golden->rank));
        kvc_arena_clear(&arena);
    }
}

/* protocol.md 3.6: the pickle with fewer opcodes that live servers accept, too: no FRAME, no
 * MEMOIZE, ints of 32 bits. */
Test(handle, read_from_a_plain_pickle)
{
    const char plain[] =
        "8004 8c1b6c6d63616368652e76312e706c6174666f726d2e6370752e73686d"
        "8c1343707553686d54656e736f7257726170706572 93 29 81 7d 28"
        "8c0873686d5f6e616d65 8c022f78 8c066e6279746573 4a10000000 8c0668616e646c65 4e"
        "8c056474797065 8c05746f726368 8c07666c6f61743136 93"
        "8c057368617065 28 4a02000000 4a04000000 74 8c06737472696465 28 4a04000000 4a01000000 74"
        "8c0e73746f726167655f6f6666736574 4a00000000 8c0b6465766963655f75756964 8c03637075 75 62 2e";
    struct kvc_arena arena = {0};
    struct kvc_tensor_handle handle;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        kvc_handle_decode(sample_dialect("0.5.1"), sample_bytes(plain), &arena, &handle, &err),
        KVC_OK, "%s %s", err.where, err.what);
    cr_assert(kvc_str_is(handle.shm_name, "/x"));
    cr_assert_eq(handle.nbytes, 16);
    kvc_arena_clear(&arena);
}

Test(handle, each_dialect_has_its_form)
{
    for (size_t i = 0; i < KVC_COUNT_OF(goldens); i++) {
        const bool older = strcmp(goldens[i].release, "0.5.1") == 0;
        struct kvc_arena arena = {0};
        struct kvc_tensor_handle handle;
        cr_assert_eq(kvc_handle_decode(sample_dialect(older ? "0.5.6" : "0.5.5"),
                                       body_of(goldens[i].hex), &arena, &handle, NULL),
                     KVC_EFORMAT);
        kvc_arena_clear(&arena);
    }
}

/* What a handle says, with one thing changed, after it has been written and read again. */
static void assert_refused(struct kvc_tensor_handle handle, const char *what)
{
    static const char *const releases[] = {"0.5.1", "0.5.6"};
    for (size_t i = 0; i < KVC_COUNT_OF(releases); i++) {
        const struct kvc_dialect *dialect = sample_dialect(releases[i]);
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_buffer body = {0};
        struct kvc_tensor_handle decoded;
        cr_assert_eq(kvc_handle_encode(dialect, &handle, &body, NULL), KVC_OK);
        cr_assert_eq(kvc_handle_decode(dialect, kvc_buffer_view(&body), &arena, &decoded, &err),
                     KVC_EFORMAT, "%s: %s", releases[i], what);
        cr_assert_str_eq(err.what, "shape, stride and storage_offset leave the segment's nbytes");
        kvc_arena_clear(&arena);
        kvc_buffer_clear(&body);
    }
}

Test(handle, a_view_stays_in_its_segment)
{
    const int64_t shape[] = {2, 4};
    const int64_t stride[] = {4, 1};
    const int64_t minus[] = {-2, 4};
    const int64_t huge[] = {INT64_MAX, INT64_MAX};
    const struct kvc_tensor_handle fits = {.shm_name = KVC_STR("/x"),
                                           .nbytes = 16,
                                           .dtype = KVC_STR("float16"),
                                           .shape = {shape, 2},
                                           .stride = {stride, 2},
                                           .device_uuid = KVC_STR("cpu")};
    struct kvc_tensor_handle handle = fits;
    handle.nbytes = 15;
    assert_refused(handle, "one byte short");
    handle = fits;
    handle.nbytes = -1;
    assert_refused(handle, "negative size");
    handle = fits;
    handle.storage_offset = 1;
    assert_refused(handle, "one element on");
    handle = fits;
    handle.storage_offset = -1;
    assert_refused(handle, "before the segment");
    handle = fits;
    handle.storage_offset = INT64_MAX;
    assert_refused(handle, "beyond all numbers");
    handle = fits;
    handle.shape = (struct kvc_ints){minus, 2};
    assert_refused(handle, "negative shape");
    handle = fits;
    handle.stride = (struct kvc_ints){minus, 2};
    assert_refused(handle, "negative stride");
    handle = fits;
    handle.shape = handle.stride = (struct kvc_ints){huge, 2};
    assert_refused(handle, "huge");
    handle = fits;
    handle.stride.count = 1;
    assert_refused(handle, "fewer strides");
    handle = fits;
    handle.dtype = KVC_STR("unheard_of");
    handle.nbytes = 7;
    assert_refused(handle, "unknown dtype");
}

Test(handle, an_empty_view_needs_no_bytes)
{
    const int64_t shape[] = {0, 3};
    const int64_t stride[] = {3, 1};
    const struct kvc_tensor_handle handle = {.shm_name = KVC_STR(""),
                                             .nbytes = 0,
                                             .dtype = KVC_STR("float16"),
                                             .shape = {shape, 2},
                                             .stride = {stride, 2},
                                             .device_uuid = KVC_STR("cpu")};
    struct kvc_arena arena = {0};
    struct kvc_buffer body = {0};
    struct kvc_tensor_handle decoded;
    cr_assert_eq(kvc_handle_encode(sample_dialect("0.5.6"), &handle, &body, NULL), KVC_OK);
    cr_assert_eq(
        kvc_handle_decode(sample_dialect("0.5.6"), kvc_buffer_view(&body), &arena, &decoded, NULL),
        KVC_OK);
    kvc_arena_clear(&arena);
    kvc_buffer_clear(&body);
}

static void assert_error(const char *release, const char *hex, const char *where, const char *what)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_arena arena = {0};
    struct kvc_tensor_handle handle;
    cr_assert_eq(
        kvc_handle_decode(sample_dialect(release), sample_bytes(hex), &arena, &handle, &err),
        KVC_EFORMAT, "%s", hex);
    cr_assert_str_eq(err.where, where, "%s: %s", hex, err.where);
    cr_assert_str_eq(err.what, what, "%s: %s", hex, err.what);
    kvc_arena_clear(&arena);
}

/* protocol.md 3.6: unknown fields are an error in a descriptor, other types are other devices. */
Test(handle, descriptors_are_closed)
{
#define METADATA                                                                                   \
    "a86d65746164617461 85 a56474797065a5696e743634 a5736861706590 a673747269646590"               \
    "ae73746f726167655f6f666673657400 ab6465766963655f75756964a3637075"
#define NAME_SIZE "a873686d5f6e616d65a22f78 a66e627974657308"
    assert_error("0.5.6", "85 a474797065a36e7075" NAME_SIZE "a776657273696f6e01" METADATA, "",
                 "a handle of type npu, not cpu_shm, cuda, cuda_raw or cuda_vmm");
    assert_error("0.5.6", "85 a474797065a76370755f73686d" NAME_SIZE "a776657273696f6e02" METADATA,
                 "", "a handle of version 2, not 1");
    assert_error("0.5.6",
                 "86 a474797065a76370755f73686d" NAME_SIZE "a776657273696f6e01 a26e6f01" METADATA,
                 ".no", "unknown field");
    assert_error("0.5.6", "84 a474797065a76370755f73686d" NAME_SIZE METADATA, ".version",
                 "missing field");
    assert_error("0.5.6", "90", "", "wrong type");
    assert_error("0.5.6", "85 a474797065a21b5b" NAME_SIZE "a776657273696f6e01" METADATA, "",
                 "a handle of type \\x1b[, not cpu_shm, cuda, cuda_raw or cuda_vmm");
}

Test(handle, pickles_of_other_things)
{
#define NO_WRAPPER                                                                                 \
    "the pickle is no CpuShmTensorWrapper, CudaIPCWrapper, RawCudaIPCWrapper or VmmCudaIPCWrapper"
    assert_error("0.5.1", "80044e2e", "", NO_WRAPPER);
    assert_error("0.5.1", "80044e2e00", "", "1 bytes after the handle's pickle");
    /* os.system("x"): read as a tree, called by nobody */
    assert_error("0.5.1", "8004 8c026f73 8c0673797374656d 93 8c0178 85 52 2e", "", NO_WRAPPER);
    assert_error("0.5.1",
                 "8004 8c1b6c6d63616368652e76312e706c6174666f726d2e6370752e73686d"
                 "8c1343707553686d54656e736f7257726170706572 93 29 81 2e",
                 "", NO_WRAPPER);
    assert_error("0.5.1",
                 "8004 8c1b6c6d63616368652e76312e706c6174666f726d2e6370752e73686d"
                 "8c1343707553686d54656e736f7257726170706572 93 29 81 7d 62 2e",
                 ".shm_name", "missing attribute");
    assert_error("0.5.1",
                 "8004 8c1b6c6d63616368652e76312e706c6174666f726d2e6370752e73686d"
                 "8c1343707553686d54656e736f7257726170706572 93 29 81 7d"
                 "8c0873686d5f6e616d65 4b01 73 62 2e",
                 ".shm_name", "wrong type of attribute");
}
