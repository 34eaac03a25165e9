/* The pickled tensors of COMMIT_STORE and PREPARE_RETRIEVE. What decodes must come back, whichever of
 * the two forms it is written in. */
#include <string.h>

#include "src/wire/inline_data.h"
#include "tests/fuzz/fuzz.h"

struct list {
    struct kvc_inline_tensor *items;
    size_t count;
};

static void expect_same(const struct list *a, const struct list *b)
{
    FUZZ_REQUIRE(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct kvc_inline_tensor *left = &a->items[i], *right = &b->items[i];
        FUZZ_REQUIRE(kvc_str_equal(left->dtype, right->dtype));
        FUZZ_REQUIRE(left->shape.count == right->shape.count);
        for (size_t j = 0; j < left->shape.count; j++)
            FUZZ_REQUIRE(left->shape.items[j] == right->shape.items[j]);
        FUZZ_REQUIRE(kvc_bytes_equal(left->data, right->data));
    }
}

typedef kvc_status encode_func(const struct kvc_inline_tensor *tensors, size_t count,
                               struct kvc_buffer *out, struct kvc_error *err);

static void expect_back(const struct list *list, encode_func *encode)
{
    struct kvc_buffer data = {0};
    struct kvc_arena arena = {0};
    struct list back = {0};
    FUZZ_REQUIRE(encode(list->items, list->count, &data, NULL) == KVC_OK);
    FUZZ_REQUIRE(kvc_inline_decode(kvc_buffer_view(&data), &arena, &back.items, &back.count,
                                   NULL) == KVC_OK);
    expect_same(list, &back);
    kvc_arena_clear(&arena);
    kvc_buffer_clear(&data);
}

void fuzz_one(struct kvc_bytes input)
{
    struct kvc_arena arena = {0};
    struct list list = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_inline_decode(input, &arena, &list.items, &list.count, &err) == KVC_OK) {
        expect_back(&list, kvc_inline_encode_torch);
        expect_back(&list, kvc_inline_encode_numpy);
    } else {
        FUZZ_REQUIRE(err.status == KVC_EFORMAT && err.what[0] != '\0');
    }
    kvc_arena_clear(&arena);
}
