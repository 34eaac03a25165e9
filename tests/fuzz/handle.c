/* Tensor handles: the pickle and the descriptor. What decodes must be written the same way again and
 * again, and its view must stay within its segment.
 * Input: one byte, whose lowest bit chooses the form, then the handle's body. */
#include "src/wire/handle.h"
#include "tests/fuzz/fuzz.h"

/* The view's last element, counted in 128 bits. */
static void check_view(const struct kvc_tensor_handle *handle)
{
    __extension__ typedef __int128 wide;
    wide last = handle->storage_offset;
    FUZZ_REQUIRE(handle->shape.count == handle->stride.count && handle->storage_offset >= 0);
    for (size_t i = 0; i < handle->shape.count; i++) {
        if (handle->shape.items[i] == 0)
            return;
        FUZZ_REQUIRE(handle->shape.items[i] > 0 && handle->stride.items[i] >= 0);
        last += (wide)(handle->shape.items[i] - 1) * handle->stride.items[i];
    }
    FUZZ_REQUIRE(last < handle->nbytes);
}

static bool write_again(const struct kvc_dialect *dialect, struct kvc_bytes body,
                        struct kvc_buffer *again)
{
    struct kvc_arena arena = {0};
    struct kvc_tensor_handle handle;
    struct kvc_error err = KVC_ERROR_INIT;
    const bool decoded = kvc_handle_decode(dialect, body, &arena, &handle, &err) == KVC_OK;
    if (decoded) {
        check_view(&handle);
        FUZZ_REQUIRE(kvc_handle_encode(dialect, &handle, again, NULL) == KVC_OK);
    } else {
        FUZZ_REQUIRE(err.status == KVC_EFORMAT && err.what[0] != '\0');
    }
    kvc_arena_clear(&arena);
    return decoded;
}

void fuzz_one(struct kvc_bytes input)
{
    const bool as_pickle = (fuzz_take_byte(&input) & 1) == 0;
    const struct kvc_dialect *dialect =
        kvc_dialect_find(as_pickle ? KVC_STR("0.5.1") : KVC_STR("0.5.6"));
    struct kvc_buffer once = {0}, twice = {0};
    if (write_again(dialect, input, &once)) {
        FUZZ_REQUIRE(write_again(dialect, kvc_buffer_view(&once), &twice));
        FUZZ_REQUIRE(kvc_bytes_equal(kvc_buffer_view(&once), kvc_buffer_view(&twice)));
    }
    kvc_buffer_clear(&once);
    kvc_buffer_clear(&twice);
}
