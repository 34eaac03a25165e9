#include "tests/mock_server/inline_transfer.h"

#include <string.h>

#include "src/wire/inline_data.h"

static bool shape_is(const struct mock_part *part, struct kvc_ints shape)
{
    int64_t expected[4];
    const size_t rank = mock_part_shape(part, expected);
    return shape.count == rank && memcmp(shape.items, expected, rank * sizeof(expected[0])) == 0;
}

/* Whether a tensor is the instance's chunk. */
static bool is_chunk(const struct mock *mock, const struct mock_instance *instance,
                     const struct kvc_inline_tensor *tensor)
{
    const struct mock_part *part = &instance->layout.parts[0];
    return (kvc_dtype_find(tensor->dtype) == part->dtype ||
            mock_has(mock, MOCK_DEFECT_INLINE_DTYPE_UNCHECKED)) &&
           (int64_t)tensor->data.size == instance->layout.bytes &&
           (shape_is(part, tensor->shape) || mock_has(mock, MOCK_DEFECT_INLINE_SHAPE_UNCHECKED));
}

static bool are_chunks(const struct mock *mock, const struct mock_instance *instance,
                       const struct kvc_inline_tensor *tensors, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!is_chunk(mock, instance, &tensors[i]))
            return false;
    }
    return true;
}

/* Whether there are tensors enough for a window. */
static bool is_enough(const struct mock *mock, int64_t tensors, int64_t wanted)
{
    if (mock_has(mock, MOCK_DEFECT_INLINE_EMPTY_FALSE) && tensors == 0 && wanted == 0)
        return false;
    if (mock_has(mock, MOCK_DEFECT_INLINE_SURPLUS_FALSE) && tensors > wanted)
        return false;
    return tensors >= wanted;
}

static void store_missing(struct mock *mock, const struct mock_window *window,
                          const struct mock_instance *instance,
                          const struct kvc_inline_tensor *tensors)
{
    for (int64_t i = 0; i < window->count; i++) {
        const struct mock_object_key key =
            mock_window_key(window, window->first + i, window->worker);
        if (mock_store_find(&mock->store, &key) != NULL)
            continue;
        struct mock_object *object =
            mock_store_reserve(&mock->store, &key, &instance->layout, mock->now_ms);
        if (object == NULL)
            continue;
        memcpy(mock_object_data(&mock->store, object), tensors[i].data.data, tensors[i].data.size);
        mock_store_publish(&mock->store, object);
    }
}

enum mock_answer mock_commit_inline(struct mock_call *call, const struct mock_window *whole,
                                    const struct mock_instance *instance)
{
    struct mock *mock = call->mock;
    struct mock_window window = *whole;
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_inline_decode(call->request->data, call->arena, &tensors, &count, &err) != KVC_OK)
        return mock_refuse(call, "the data cannot be read: %s", err.what);
    if (mock_has(mock, MOCK_DEFECT_INLINE_FEW_TRUE) && (int64_t)count < window.count)
        window.count = (int64_t)count;
    if (!is_enough(mock, (int64_t)count, window.count) || instance->layout.bytes == 0 ||
        !are_chunks(mock, instance, tensors, window.count)) {
        if (mock_has(mock, MOCK_DEFECT_INLINE_BAD_STAYS_RESERVED) && instance->layout.bytes > 0)
            mock_window_reserve_for_nobody(mock, &window, &instance->layout);
        call->reply->ok = false;
        return MOCK_REPLY;
    }
    store_missing(mock, &window, instance, tensors);
    call->reply->ok = true;
    return MOCK_REPLY;
}

enum mock_answer mock_retrieve_inline(struct mock_call *call, struct mock_object *const *objects,
                                      size_t count)
{
    const struct mock *mock = call->mock;
    struct kvc_inline_tensor *tensors = kvc_arena_alloc_array(call->arena, count, sizeof(*tensors));
    for (size_t i = 0; i < count; i++) {
        const struct mock_part *part = &objects[i]->layout.parts[0];
        int64_t *shape = kvc_arena_alloc_array(call->arena, 4, sizeof(*shape));
        size_t rank = mock_part_shape(part, shape);
        if (mock_has(mock, MOCK_DEFECT_INLINE_FLAT)) {
            shape[0] = objects[i]->layout.bytes / (int64_t)part->dtype->size;
            rank = 1;
        }
        tensors[i] = (struct kvc_inline_tensor){
            .dtype = kvc_str_of(part->dtype->name),
            .shape = {shape, rank},
            .data = {mock_object_data(&mock->store, objects[i]), (size_t)objects[i]->layout.bytes},
        };
    }
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_inline_encode_torch(tensors, count, call->buffer, &err) != KVC_OK)
        return mock_refuse(call, "the chunks cannot travel inline: %s", err.what);
    call->reply->retrieve.success = true;
    call->reply->retrieve.data = kvc_buffer_view(call->buffer);
    return MOCK_REPLY;
}
