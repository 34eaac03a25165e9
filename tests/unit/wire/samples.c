#include "tests/unit/wire/samples.h"

#include <criterion/criterion.h>
#include <string.h>

#include "src/wire/handle.h"
#include "src/wire/pack.h"

/* Every sample, for a leak checker to find. */
struct kept {
    struct kept *next;
    void *memory;
};
static struct kept *all_kept;

static void *keep(void *memory)
{
    struct kept *entry = kvc_alloc(sizeof(*entry));
    *entry = (struct kept){all_kept, memory};
    all_kept = entry;
    return memory;
}

uint8_t *sample_alloc(size_t size)
{
    return keep(kvc_alloc(size));
}

struct kvc_bytes sample_copy(struct kvc_bytes bytes)
{
    uint8_t *copy = sample_alloc(bytes.size);
    if (bytes.size > 0)
        memcpy(copy, bytes.data, bytes.size);
    return (struct kvc_bytes){copy, bytes.size};
}

static struct kvc_bytes parse(struct kvc_str hex)
{
    struct kvc_buffer digits = {0};
    struct kvc_buffer bytes = {0};
    for (size_t i = 0; i < hex.size; i++)
        if (strchr(" \n", hex.data[i]) == NULL)
            kvc_buffer_append_byte(&digits, (uint8_t)hex.data[i]);
    const kvc_status status = kvc_hex_decode(kvc_str_of(kvc_buffer_text(&digits)), &bytes, NULL);
    cr_assert_eq(status, KVC_OK, "no hex: " KVC_STR_FMT, KVC_STR_ARG(hex));
    const struct kvc_bytes copy = sample_copy(kvc_buffer_view(&bytes));
    kvc_buffer_clear(&digits);
    kvc_buffer_clear(&bytes);
    return copy;
}

struct kvc_bytes sample_bytes(const char *hex)
{
    return parse(kvc_str_of(hex));
}

const struct kvc_dialect *sample_dialect(const char *release)
{
    const struct kvc_dialect *dialect = kvc_dialect_find(kvc_str_of(release));
    cr_assert_not_null(dialect, "no dialect for %s", release);
    return dialect;
}

struct kvc_frames sample_frames(const char *hex)
{
    struct kvc_frames frames = {0};
    while (hex != NULL) {
        const char *end = strchr(hex, '|');
        const struct kvc_bytes frame =
            parse((struct kvc_str){hex, end != NULL ? (size_t)(end - hex) : strlen(hex)});
        kvc_frames_append_view(&frames, frame.data, frame.size);
        hex = end != NULL ? end + 1 : NULL;
    }
    keep(frames.items);
    return frames;
}

void sample_assert_equal(struct kvc_bytes got, struct kvc_bytes expected, const char *what)
{
    struct kvc_buffer got_hex = {0};
    struct kvc_buffer expected_hex = {0};
    kvc_hex_encode(got, &got_hex);
    kvc_hex_encode(expected, &expected_hex);
    cr_assert(kvc_bytes_equal(got, expected), "%s\n     got %s\nexpected %s", what,
              kvc_buffer_text(&got_hex), kvc_buffer_text(&expected_hex));
    kvc_buffer_clear(&got_hex);
    kvc_buffer_clear(&expected_hex);
}

void sample_assert_handle_written(const struct kvc_tensor_handle *handle, const char *release,
                                  const char *hex)
{
    struct kvc_buffer body = {0};
    struct kvc_buffer list = {0};
    cr_assert_eq(kvc_handle_encode(sample_dialect(release), handle, &body, NULL), KVC_OK);
    kvc_msgpack_write_array(&list, 1);
    kvc_msgpack_write_ext(&list, KVC_HANDLE_EXT_TYPE, kvc_buffer_view(&body));
    sample_assert_equal(kvc_buffer_view(&list), sample_bytes(hex), release);
    kvc_buffer_clear(&body);
    kvc_buffer_clear(&list);
}

void sample_assert_handle_refused(struct kvc_tensor_handle handle, const char *what)
{
    static const char *const releases[] = {"0.5.5", "0.5.6"};
    for (size_t i = 0; i < KVC_COUNT_OF(releases); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_arena arena = {0};
        struct kvc_buffer body = {0};
        struct kvc_tensor_handle decoded;
        const struct kvc_dialect *dialect = sample_dialect(releases[i]);
        cr_assert_eq(kvc_handle_encode(dialect, &handle, &body, NULL), KVC_OK);
        cr_assert_eq(kvc_handle_decode(dialect, kvc_buffer_view(&body), &arena, &decoded, &err),
                     KVC_EFORMAT, "%s: %s", releases[i], what);
        cr_assert_str_eq(err.what, what);
        kvc_arena_clear(&arena);
        kvc_buffer_clear(&body);
    }
}
