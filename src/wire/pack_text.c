#include <inttypes.h>

#include "src/wire/handle.h"
#include "src/wire/inline_data.h"
#include "src/wire/pack.h"

enum {
    SHOWN_BYTES = 16,        /* of a byte string */
    SHOWN_TEXT = 128,        /* bytes of a text */
    SHOWN_MALFORMED = 32,    /* of what does not read */
    LONGEST_TEXT = 16 * 1024 /* of a whole value: a hostile one has millions of parts */
};

struct printer {
    struct kvc_buffer *out;
    size_t end; /* where out is full */
    size_t max_items;
};

static void print_value(const struct printer *printer, const msgpack_object *object);

static void print_hex(struct kvc_buffer *out, struct kvc_bytes bytes, size_t shown)
{
    const bool whole = bytes.size <= shown;
    kvc_hex_encode((struct kvc_bytes){bytes.data, whole ? bytes.size : shown}, out);
    if (!whole)
        kvc_buffer_append_text(out, "…");
}

static void print_str(struct kvc_buffer *out, struct kvc_str text)
{
    struct kvc_str shown = text;
    if (shown.size > SHOWN_TEXT) {
        shown.size = SHOWN_TEXT;
        while (shown.size > 0 && (text.data[shown.size] & 0xc0) == 0x80)
            shown.size--;
    }
    kvc_buffer_append_byte(out, '"');
    kvc_text_escape(shown, out);
    kvc_buffer_append_byte(out, '"');
    if (shown.size < text.size)
        kvc_buffer_printf(out, "… (%zu bytes)", text.size);
}

static void print_ints(struct kvc_buffer *out, struct kvc_ints ints, size_t max_items)
{
    kvc_buffer_append_byte(out, '[');
    for (size_t i = 0; i < ints.count && i < max_items; i++)
        kvc_buffer_printf(out, "%s%" PRId64, i > 0 ? ", " : "", ints.items[i]);
    if (ints.count > max_items)
        kvc_buffer_printf(out, "%s… %zu more", max_items > 0 ? ", " : "", ints.count - max_items);
    kvc_buffer_append_byte(out, ']');
}

/* The inline payload: how many tensors, and what the first is like. */
static bool print_as_tensors(const struct printer *printer, struct kvc_bytes bytes)
{
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    const bool read = kvc_inline_decode(bytes, &arena, &tensors, &count, NULL) == KVC_OK;
    if (read)
        kvc_buffer_printf(printer->out, "bin(%zu) of %zu tensor%s", bytes.size, count,
                          count == 1 ? "" : "s");
    if (read && count > 0) {
        kvc_buffer_printf(printer->out, ", " KVC_STR_FMT " ", KVC_STR_ARG(tensors[0].dtype));
        print_ints(printer->out, tensors[0].shape, printer->max_items);
    }
    kvc_arena_clear(&arena);
    return read;
}

static void print_bin(const struct printer *printer, struct kvc_bytes bytes)
{
    if (print_as_tensors(printer, bytes))
        return;
    kvc_buffer_printf(printer->out, "bin(%zu)", bytes.size);
    if (bytes.size > 0) {
        kvc_buffer_append_byte(printer->out, ' ');
        print_hex(printer->out, bytes, SHOWN_BYTES);
    }
}

static void print_allocation(struct kvc_buffer *out, const char *what, struct kvc_bytes bytes,
                             int64_t offset)
{
    kvc_buffer_printf(out, "%s ", what);
    print_hex(out, bytes, SHOWN_BYTES);
    kvc_buffer_printf(out, " at %" PRId64, offset);
}

static void print_handle(const struct printer *printer, const struct kvc_tensor_handle *handle)
{
    struct kvc_buffer *out = printer->out;
    kvc_buffer_append_text(out, "handle(");
    switch (handle->kind) {
    case KVC_HANDLE_CUDA:
        print_allocation(out, "cuda", handle->ipc_handle, handle->alloc_offset);
        break;
    case KVC_HANDLE_CUDA_TORCH:
        print_allocation(out, "cuda of torch", handle->ipc_handle, handle->alloc_offset);
        break;
    case KVC_HANDLE_CUDA_VMM:
        kvc_buffer_append_text(out, "cuda vmm ");
        kvc_text_escape(handle->vmm.kind, out);
        print_allocation(out, "", handle->vmm.id, handle->alloc_offset);
        break;
    default:
        print_str(out, handle->shm_name);
    }
    kvc_buffer_printf(out, ", %" PRId64 " bytes, ", handle->nbytes);
    kvc_text_escape(handle->dtype, out);
    kvc_buffer_append_byte(out, ' ');
    print_ints(out, handle->shape, printer->max_items);
    kvc_buffer_append_text(out, ", stride ");
    print_ints(out, handle->stride, printer->max_items);
    kvc_buffer_printf(out, ", offset %" PRId64 ")", handle->storage_offset);
}

/* The text does not depend on the dialect: a handle is tried in each of its forms, the one that says most
 * first. */
static bool print_as_handle(const struct printer *printer, struct kvc_bytes body)
{
    static const char *const releases[] = {"0.5.5", "0.5.0", "0.5.6"};
    bool read = false;
    for (size_t i = 0; i < KVC_COUNT_OF(releases) && !read; i++) {
        struct kvc_arena arena = {0};
        struct kvc_tensor_handle handle;
        const struct kvc_dialect *dialect = kvc_dialect_find(kvc_str_of(releases[i]));
        read = kvc_handle_decode(dialect, body, &arena, &handle, NULL) == KVC_OK;
        if (read)
            print_handle(printer, &handle);
        kvc_arena_clear(&arena);
    }
    return read;
}

static void print_ext(const struct printer *printer, const msgpack_object_ext *ext)
{
    const struct kvc_bytes body = {(const uint8_t *)ext->ptr, ext->size};
    if (ext->type == KVC_HANDLE_EXT_TYPE && print_as_handle(printer, body))
        return;
    kvc_buffer_printf(printer->out, "ext(%d, %u) ", ext->type, ext->size);
    print_hex(printer->out, body, SHOWN_BYTES);
}

/* Begins the number-th of count items, at most max_items. False when no more are to be shown. */
static bool begin_item(const struct printer *printer, size_t number, size_t count, size_t max_items)
{
    const bool full = number >= max_items || printer->out->size >= printer->end;
    if (number > 0)
        kvc_buffer_append_text(printer->out, ", ");
    if (full)
        kvc_buffer_printf(printer->out, "… %zu more", count - number);
    return !full;
}

static void print_array(const struct printer *printer, const msgpack_object_array *array)
{
    kvc_buffer_append_byte(printer->out, '[');
    for (size_t i = 0; i < array->size && begin_item(printer, i, array->size, printer->max_items);
         i++)
        print_value(printer, &array->ptr[i]);
    kvc_buffer_append_byte(printer->out, ']');
}

static void print_map(const struct printer *printer, const msgpack_object_map *map)
{
    kvc_buffer_append_byte(printer->out, '{');
    for (size_t i = 0; i < map->size && begin_item(printer, i, map->size, map->size); i++) {
        print_value(printer, &map->ptr[i].key);
        kvc_buffer_append_text(printer->out, ": ");
        print_value(printer, &map->ptr[i].val);
    }
    kvc_buffer_append_byte(printer->out, '}');
}

static void print_value(const struct printer *printer, const msgpack_object *object)
{
    struct kvc_buffer *out = printer->out;
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        kvc_buffer_append_text(out, "nil");
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        kvc_buffer_append_text(out, object->via.boolean ? "true" : "false");
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        kvc_buffer_printf(out, "%" PRIu64, object->via.u64);
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        kvc_buffer_printf(out, "%" PRId64, object->via.i64);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        kvc_buffer_printf(out, "%.17g", object->via.f64);
        break;
    case MSGPACK_OBJECT_STR:
        print_str(out, (struct kvc_str){object->via.str.ptr, object->via.str.size});
        break;
    case MSGPACK_OBJECT_BIN:
        print_bin(printer,
                  (struct kvc_bytes){(const uint8_t *)object->via.bin.ptr, object->via.bin.size});
        break;
    case MSGPACK_OBJECT_ARRAY:
        print_array(printer, &object->via.array);
        break;
    case MSGPACK_OBJECT_MAP:
        print_map(printer, &object->via.map);
        break;
    case MSGPACK_OBJECT_EXT:
        print_ext(printer, &object->via.ext);
        break;
    }
}

void kvc_msgpack_describe(struct kvc_bytes bytes, size_t max_items, struct kvc_buffer *out)
{
    const struct printer printer = {out, out->size + LONGEST_TEXT, max_items};
    msgpack_zone zone;
    msgpack_object object;
    if (kvc_msgpack_read(bytes, &zone, &object, NULL) == KVC_OK) {
        print_value(&printer, &object);
    } else {
        kvc_buffer_append_text(out, "malformed(");
        print_hex(out, bytes, SHOWN_MALFORMED);
        kvc_buffer_append_byte(out, ')');
    }
    msgpack_zone_destroy(&zone);
}
