#include <stdio.h>

#include "src/kv/dtype.h"
#include "src/wire/inline_data.h"
#include "src/wire/pickle.h"
#include "src/wire/torch_file.h"

/* CPython writes a list in runs of this many elements. */
enum { LIST_RUN = 1000 };

enum form { FORM_NUMPY, FORM_TORCH };

static void call_with(struct kvc_pickle_writer *writer, size_t argument_count)
{
    kvc_pickle_tuple(writer, argument_count);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_REDUCE);
    kvc_pickle_memoize(writer);
}

/* from_numpy(array(reshape(frombuffer(bytes, type), shape))); array makes the copy that from_numpy
 * may write to. */
static void write_numpy(struct kvc_pickle_writer *writer, const struct kvc_dtype *dtype,
                        const struct kvc_inline_tensor *tensor)
{
    kvc_pickle_global(writer, KVC_STR("torch"), KVC_STR("from_numpy"));
    kvc_pickle_global(writer, KVC_STR("numpy"), KVC_STR("array"));
    kvc_pickle_global(writer, KVC_STR("numpy"), KVC_STR("reshape"));
    kvc_pickle_global(writer, KVC_STR("numpy"), KVC_STR("frombuffer"));
    kvc_pickle_bytes(writer, &tensor->data, 1);
    kvc_pickle_str(writer, kvc_str_of(dtype->numpy));
    call_with(writer, 2);
    kvc_pickle_int_tuple(writer, tensor->shape);
    call_with(writer, 2);
    call_with(writer, 1);
    call_with(writer, 1);
}

static void write_row_major_strides(struct kvc_pickle_writer *writer, struct kvc_ints shape)
{
    struct kvc_arena arena = {0};
    int64_t *strides = kvc_arena_alloc_array(&arena, shape.count, sizeof(*strides));
    uint64_t stride = 1; /* wraps for an empty tensor of large dimensions */
    for (size_t i = shape.count; i-- > 0;) {
        strides[i] = (int64_t)(stride & INT64_MAX);
        /* torch counts an empty dimension as one here. */
        stride *= shape.items[i] > 1 ? (uint64_t)shape.items[i] : 1;
    }
    kvc_pickle_int_tuple(writer, (struct kvc_ints){strides, shape.count});
    kvc_arena_clear(&arena);
}

static void write_storage(struct kvc_pickle_writer *writer, const struct kvc_dtype *dtype,
                          const struct kvc_inline_tensor *tensor, size_t position)
{
    char position_text[24];
    snprintf(position_text, sizeof(position_text), "%zu", position);
    const struct kvc_torch_storage storage = {
        .key = tensor->storage_key.size > 0 ? tensor->storage_key : kvc_str_of(position_text),
        .dtype = dtype,
        .data = tensor->data,
    };
    struct kvc_buffer head = {0};
    kvc_torch_file_head(&storage, &head);
    kvc_pickle_global(writer, KVC_STR("torch.storage"), KVC_STR("_load_from_bytes"));
    kvc_pickle_bytes(writer, (struct kvc_bytes[]){kvc_buffer_view(&head), tensor->data}, 2);
    kvc_buffer_clear(&head);
    call_with(writer, 1);
}

/* _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks) */
static void write_torch(struct kvc_pickle_writer *writer, const struct kvc_dtype *dtype,
                        const struct kvc_inline_tensor *tensor, size_t position)
{
    kvc_pickle_global(writer, KVC_STR("torch._utils"), KVC_STR("_rebuild_tensor_v2"));
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_MARK);
    write_storage(writer, dtype, tensor, position);
    kvc_pickle_int(writer, 0);
    kvc_pickle_int_tuple(writer, tensor->shape);
    write_row_major_strides(writer, tensor->shape);
    kvc_pickle_begin_value(writer);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_FALSE);
    kvc_pickle_global(writer, KVC_STR("collections"), KVC_STR("OrderedDict"));
    kvc_pickle_begin_value(writer);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_EMPTY_TUPLE);
    kvc_pickle_opcode(writer, KVC_PICKLE_OP_REDUCE);
    kvc_pickle_memoize(writer);
    call_with(writer, 6);
}

/* The integer of the same size, for what a torch file cannot hold. */
static const struct kvc_dtype *carrier(const struct kvc_dtype *dtype)
{
    static const char *const names[] = {[1] = "uint8", [2] = "int16", [4] = "int32", [8] = "int64"};
    return kvc_dtype_find(kvc_str_of(names[dtype->size]));
}

/* Tensor.view(integers, dtype) where the form has no tensors of that dtype. (Torch itself pickles
 * some that it cannot load, float8 for one.) */
static void write_tensor(struct kvc_pickle_writer *writer, enum form form,
                         const struct kvc_inline_tensor *tensor, size_t position)
{
    const struct kvc_dtype *dtype = kvc_dtype_find(tensor->dtype);
    const bool viewed = form == FORM_NUMPY ? dtype->numpy_view : dtype->torch_storage == NULL;
    if (viewed)
        kvc_pickle_global(writer, KVC_STR("torch"), KVC_STR("Tensor.view"));
    if (form == FORM_NUMPY)
        write_numpy(writer, dtype, tensor);
    else
        write_torch(writer, viewed ? carrier(dtype) : dtype, tensor, position);
    if (viewed) {
        kvc_pickle_global(writer, KVC_STR("torch"), kvc_str_of(dtype->name));
        call_with(writer, 2);
    }
}

static kvc_status check_tensor(const struct kvc_inline_tensor *tensor, size_t position,
                               struct kvc_error *err)
{
    size_t size;
    const struct kvc_dtype *dtype = kvc_dtype_find(tensor->dtype);
    if (dtype == NULL)
        return kvc_fail(err, KVC_EUNSUPPORTED, "tensor %zu: no way to send the dtype \"%s\" inline",
                        position, kvc_text_show(tensor->dtype).text);
    if (!kvc_inline_tensor_size(tensor->shape, dtype->size, &size) || size != tensor->data.size)
        return kvc_fail(err, KVC_EMISMATCH, "tensor %zu: %zu bytes do not fill its shape", position,
                        tensor->data.size);
    return KVC_OK;
}

static void write_list(const struct kvc_inline_tensor *tensors, size_t count, enum form form,
                       struct kvc_buffer *out)
{
    struct kvc_pickle_writer writer;
    kvc_pickle_begin(&writer, out);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_LIST);
    kvc_pickle_memoize(&writer);
    for (size_t i = 0; i < count; i++) {
        if (count > 1 && i % LIST_RUN == 0)
            kvc_pickle_opcode(&writer, KVC_PICKLE_OP_MARK);
        write_tensor(&writer, form, &tensors[i], i);
        if (count == 1)
            kvc_pickle_opcode(&writer, KVC_PICKLE_OP_APPEND);
        else if (i % LIST_RUN == LIST_RUN - 1 || i + 1 == count)
            kvc_pickle_opcode(&writer, KVC_PICKLE_OP_APPENDS);
    }
    kvc_pickle_end(&writer);
}

static kvc_status encode(const struct kvc_inline_tensor *tensors, size_t count, enum form form,
                         struct kvc_buffer *out, struct kvc_error *err)
{
    enum { OVERHEAD = 1024 }; /* more than a tensor needs beside its data */
    size_t size = OVERHEAD;
    for (size_t i = 0; i < count; i++) {
        KVC_GUARD(check_tensor(&tensors[i], i, err));
        size += tensors[i].data.size + OVERHEAD;
    }
    kvc_buffer_reserve(out, size);
    write_list(tensors, count, form, out);
    return KVC_OK;
}

kvc_status kvc_inline_encode_numpy(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err)
{
    return encode(tensors, count, FORM_NUMPY, out, err);
}

kvc_status kvc_inline_encode_torch(const struct kvc_inline_tensor *tensors, size_t count,
                                   struct kvc_buffer *out, struct kvc_error *err)
{
    return encode(tensors, count, FORM_TORCH, out, err);
}
