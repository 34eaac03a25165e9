#include <string.h>

#include "src/kv/dtype.h"
#include "src/wire/inline_data.h"
#include "src/wire/pickle.h"
#include "src/wire/torch_file.h"

bool kvc_inline_tensor_size(struct kvc_ints shape, size_t item_size, size_t *size)
{
    bool fits = true;
    bool empty = false;
    *size = item_size;
    for (size_t i = 0; i < shape.count; i++) {
        if (shape.items[i] < 0)
            return false;
        empty |= shape.items[i] == 0;
        fits &= !__builtin_mul_overflow(*size, (size_t)shape.items[i], size);
    }
    return fits || empty; /* with a 0 among them the product is 0, whatever came before */
}

struct reader {
    struct kvc_arena *arena;
    size_t copy_budget; /* bytes that copies may still take */
    struct kvc_error *err;
};

static kvc_status refuse(const struct reader *reader, const char *what)
{
    return kvc_fail(reader->err, KVC_EFORMAT, "the tensor does not read: %s", what);
}

/* Where the elements of a tensor lie in its storage. */
struct view {
    int64_t offset; /* elements */
    struct kvc_ints shape;
    struct kvc_ints strides; /* elements */
};

/* Whether every element lies within the storage of that many; not for empty tensors. */
static bool view_fits(const struct view *view, size_t storage_count)
{
    int64_t last = view->offset;
    if (last < 0)
        return false;
    for (size_t i = 0; i < view->shape.count; i++) {
        int64_t reach;
        if (view->strides.items[i] < 0 ||
            __builtin_mul_overflow(view->shape.items[i] - 1, view->strides.items[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return (uint64_t)last < storage_count;
}

static bool view_is_contiguous(const struct view *view)
{
    int64_t expected = 1;
    for (size_t i = view->shape.count; i-- > 0;) {
        if (view->shape.items[i] == 1)
            continue;
        if (view->strides.items[i] != expected)
            return false;
        expected *= view->shape.items[i];
    }
    return true;
}

/* Copies the elements in row-major order: counts through the indices like an odometer. */
static kvc_status copy_view(struct reader *reader, const struct view *view, const uint8_t *source,
                            size_t item_size, size_t size, struct kvc_bytes *data)
{
    if (size > reader->copy_budget)
        return refuse(reader, "its elements overlap, and are more than the message has bytes");
    reader->copy_budget -= size;
    uint8_t *copy = kvc_arena_alloc(reader->arena, size);
    int64_t *index = kvc_arena_alloc_array(reader->arena, view->shape.count, sizeof(*index));
    int64_t element = view->offset;
    for (size_t done = 0; done < size; done += item_size) {
        memcpy(copy + done, source + (size_t)element * item_size, item_size);
        for (size_t i = view->shape.count; i-- > 0;) {
            element += view->strides.items[i];
            if (++index[i] < view->shape.items[i])
                break;
            element -= view->strides.items[i] * view->shape.items[i];
            index[i] = 0;
        }
    }
    *data = (struct kvc_bytes){copy, size};
    return KVC_OK;
}

static kvc_status read_view(struct reader *reader, const struct view *view,
                            struct kvc_bytes storage, size_t item_size, struct kvc_bytes *data)
{
    size_t size;
    if (view->shape.count != view->strides.count)
        return refuse(reader, "shape and strides have different lengths");
    if (!kvc_inline_tensor_size(view->shape, item_size, &size))
        return refuse(reader, "its shape is negative or too large");
    *data = (struct kvc_bytes){storage.data, 0};
    if (size == 0)
        return KVC_OK;
    if (!view_fits(view, storage.size / item_size))
        return refuse(reader, "shape, strides and offset leave the storage");
    if (!view_is_contiguous(view))
        return copy_view(reader, view, storage.data, item_size, size, data);
    *data = (struct kvc_bytes){storage.data + (size_t)view->offset * item_size, size};
    return KVC_OK;
}

/* The dtype that a torch global names, or NULL. */
static const struct kvc_dtype *read_dtype(const struct kvc_pickle *node)
{
    if (node->kind != KVC_PICKLE_GLOBAL || !kvc_str_is(node->global.module, "torch"))
        return NULL;
    return kvc_dtype_find(node->global.name);
}

/* The one argument of torch.storage._load_from_bytes, or NULL. */
static const struct kvc_pickle *find_file(const struct kvc_pickle *node)
{
    const struct kvc_pickle *args = kvc_pickle_call_args(node, "torch.storage", "_load_from_bytes");
    if (args == NULL || args->list.count != 1 || args->list.items[0]->kind != KVC_PICKLE_BYTES)
        return NULL;
    return args->list.items[0];
}

static kvc_status read_torch(struct reader *reader, const struct kvc_pickle *args, bool has_dtype,
                             struct kvc_inline_tensor *tensor)
{
    enum { STORAGE, OFFSET, SHAPE, STRIDES, REQUIRES_GRAD, HOOKS, DTYPE };
    struct kvc_pickle *const *items = args->list.items;
    struct view view;
    if (args->list.count != (has_dtype ? DTYPE + 1 : HOOKS + 1))
        return refuse(reader, "wrong number of arguments");
    const struct kvc_pickle *file = find_file(items[STORAGE]);
    if (file == NULL)
        return refuse(reader, "no storage");
    if (items[OFFSET]->kind != KVC_PICKLE_INT ||
        !kvc_pickle_read_ints(items[SHAPE], reader->arena, &view.shape) ||
        !kvc_pickle_read_ints(items[STRIDES], reader->arena, &view.strides))
        return refuse(reader, "offset, shape or strides are no ints");
    view.offset = items[OFFSET]->integer;
    struct kvc_torch_storage storage;
    KVC_GUARD(kvc_torch_file_read(file->bytes, reader->arena, &storage, reader->err));
    const struct kvc_dtype *dtype = has_dtype ? read_dtype(items[DTYPE]) : storage.dtype;
    if (dtype == NULL)
        return refuse(reader, "a dtype that is not known");
    tensor->dtype = kvc_str_of(dtype->name);
    tensor->shape = view.shape;
    tensor->storage_key = storage.key;
    return read_view(reader, &view, storage.data, dtype->size, &tensor->data);
}

/* The one argument of a call, or NULL. */
static const struct kvc_pickle *unwrap(const struct kvc_pickle *node, const char *module,
                                       const char *name)
{
    const struct kvc_pickle *args = kvc_pickle_call_args(node, module, name);
    return args != NULL && args->list.count == 1 ? args->list.items[0] : NULL;
}

/* reshape(frombuffer(bytes, type), shape) */
static kvc_status read_array(struct reader *reader, const struct kvc_pickle *node,
                             struct kvc_inline_tensor *tensor, const struct kvc_dtype **dtype)
{
    const struct kvc_pickle *reshape = kvc_pickle_call_args(node, "numpy", "reshape");
    if (reshape == NULL || reshape->list.count != 2)
        return refuse(reader, "no numpy.reshape of a buffer to a shape");
    const struct kvc_pickle *args =
        kvc_pickle_call_args(reshape->list.items[0], "numpy", "frombuffer");
    if (args == NULL || args->list.count != 2 || args->list.items[0]->kind != KVC_PICKLE_BYTES ||
        args->list.items[1]->kind != KVC_PICKLE_STR)
        return refuse(reader, "no numpy.frombuffer of bytes and a type");
    if (!kvc_pickle_read_ints(reshape->list.items[1], reader->arena, &tensor->shape))
        return refuse(reader, "the shape is no tuple of ints");
    *dtype = kvc_torch_dtype_by_numpy(args->list.items[1]->text);
    if (*dtype == NULL)
        return refuse(reader, "a numpy type that is not known");
    tensor->data = args->list.items[0]->bytes;
    return KVC_OK;
}

static kvc_status read_numpy(struct reader *reader, const struct kvc_pickle *node,
                             struct kvc_inline_tensor *tensor)
{
    const struct kvc_dtype *dtype = NULL;
    size_t size;
    const struct kvc_pickle *copied = unwrap(node, "numpy", "array");
    KVC_GUARD(read_array(reader, copied != NULL ? copied : node, tensor, &dtype));
    if (!kvc_inline_tensor_size(tensor->shape, dtype->size, &size) || size != tensor->data.size)
        return refuse(reader, "its bytes do not fill its shape");
    tensor->dtype = kvc_str_of(dtype->name);
    return KVC_OK;
}

static kvc_status read_base(struct reader *reader, const struct kvc_pickle *node,
                            struct kvc_inline_tensor *tensor)
{
    const struct kvc_pickle *args =
        kvc_pickle_call_args(node, "torch._utils", "_rebuild_tensor_v2");
    if (args != NULL)
        return read_torch(reader, args, false, tensor);
    args = kvc_pickle_call_args(node, "torch._utils", "_rebuild_tensor_v3");
    if (args != NULL)
        return read_torch(reader, args, true, tensor);
    node = unwrap(node, "torch", "from_numpy");
    if (node == NULL)
        return refuse(reader, "neither a pickled tensor nor torch.from_numpy");
    return read_numpy(reader, node, tensor);
}

static kvc_status read_tensor(struct reader *reader, const struct kvc_pickle *node,
                              struct kvc_inline_tensor *tensor)
{
    const struct kvc_pickle *view = kvc_pickle_call_args(node, "torch", "Tensor.view");
    if (view == NULL)
        return read_base(reader, node, tensor);
    const struct kvc_dtype *dtype = view->list.count == 2 ? read_dtype(view->list.items[1]) : NULL;
    if (dtype == NULL)
        return refuse(reader, "a view as a dtype that is not known");
    KVC_GUARD(read_base(reader, view->list.items[0], tensor));
    if (kvc_dtype_find(tensor->dtype)->size != dtype->size)
        return refuse(reader, "a view as a dtype of another size");
    tensor->dtype = kvc_str_of(dtype->name);
    return KVC_OK;
}

kvc_status kvc_inline_decode(struct kvc_bytes data, struct kvc_arena *arena,
                             struct kvc_inline_tensor **tensors, size_t *count,
                             struct kvc_error *err)
{
    struct reader reader = {.arena = arena, .copy_budget = data.size, .err = err};
    struct kvc_pickle *root = NULL;
    size_t used;
    KVC_GUARD(kvc_pickle_read(data, arena, &root, &used, err));
    if (used != data.size)
        return kvc_fail(err, KVC_EFORMAT, "%zu bytes after the pickle", data.size - used);
    if (root->kind != KVC_PICKLE_LIST)
        return kvc_fail(err, KVC_EFORMAT, "the pickle is no list of tensors");
    *count = root->list.count;
    *tensors = kvc_arena_alloc_array(arena, *count, sizeof(**tensors));
    for (size_t i = 0; i < *count; i++) {
        const kvc_status status = read_tensor(&reader, root->list.items[i], &(*tensors)[i]);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "[%zu]", i);
            return status;
        }
    }
    return KVC_OK;
}
