#include "src/wire/handle.h"

#include <string.h>

#include "src/kv/dtype.h"
#include "src/wire/pickle.h"
#include "src/wire/schema.h"

/* ---- the descriptor: a map with a map inside (protocol.md 3.6) ---- */

#define FIELD(owner, member, kind)                                                                 \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member), .flag = KVC_NO_FLAG   \
    }
#define HANDLE_FIELD(member, kind) FIELD(struct kvc_tensor_handle, member, kind)

/* The inner map's members are members of the handle, too: it starts at the same address. */
static const struct kvc_field metadata_fields[] = {
    HANDLE_FIELD(dtype, kvc_type_str),       HANDLE_FIELD(shape, kvc_type_ints),
    HANDLE_FIELD(stride, kvc_type_ints),     HANDLE_FIELD(storage_offset, kvc_type_int),
    HANDLE_FIELD(device_uuid, kvc_type_str),
};
static const struct kvc_type metadata_type = {
    .kind = KVC_KIND_MAP,
    .size = sizeof(struct kvc_tensor_handle),
    .fields = metadata_fields,
    .field_count = KVC_COUNT_OF(metadata_fields),
    .closed = true,
};

struct descriptor {
    struct kvc_tensor_handle handle;
    struct kvc_str type;
    int64_t version;
};

static const struct kvc_field descriptor_fields[] = {
    FIELD(struct descriptor, type, kvc_type_str),
    HANDLE_FIELD(shm_name, kvc_type_str),
    HANDLE_FIELD(nbytes, kvc_type_int),
    FIELD(struct descriptor, version, kvc_type_int),
    {.name = "metadata", .type = &metadata_type, .flag = KVC_NO_FLAG},
};
static const struct kvc_type descriptor_type = {
    .kind = KVC_KIND_MAP,
    .size = sizeof(struct descriptor),
    .fields = descriptor_fields,
    .field_count = KVC_COUNT_OF(descriptor_fields),
    .closed = true,
};

static const char descriptor_kind[] = "cpu_shm";
enum { DESCRIPTOR_VERSION = 1 };

static kvc_status encode_descriptor(const struct kvc_dialect *dialect,
                                    const struct kvc_tensor_handle *handle, struct kvc_buffer *out,
                                    struct kvc_error *err)
{
    const struct descriptor descriptor = {
        .handle = *handle, .type = kvc_str_of(descriptor_kind), .version = DESCRIPTOR_VERSION};
    return kvc_schema_encode(dialect, &descriptor_type, &descriptor, out, err);
}

static kvc_status decode_descriptor(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                    struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                    struct kvc_error *err)
{
    const struct kvc_decoding decoding = {dialect, arena, .is_request = true};
    struct descriptor descriptor = {.version = 0};
    msgpack_zone zone;
    msgpack_object object;
    kvc_status status = kvc_msgpack_read(body, &zone, &object, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, " at descriptor ");
    else
        status = kvc_schema_decode(&decoding, &descriptor_type, &object, &descriptor, err);
    msgpack_zone_destroy(&zone);
    KVC_GUARD(status);
    if (!kvc_str_is(descriptor.type, descriptor_kind))
        return kvc_fail(err, KVC_EFORMAT, "a handle of type %s, not %s",
                        kvc_text_show(descriptor.type).text, descriptor_kind);
    if (descriptor.version != DESCRIPTOR_VERSION)
        return kvc_fail(err, KVC_EFORMAT, "a handle of version %lld, not %d",
                        (long long)descriptor.version, DESCRIPTOR_VERSION);
    *handle = descriptor.handle;
    return KVC_OK;
}

/* ---- the pickle: an object whose state is a dict (protocol.md 3.6) ---- */

static const char wrapper_module[] = "lmcache.v1.platform.cpu.shm";
static const char wrapper_class[] = "CpuShmTensorWrapper";

enum attribute_kind {
    ATTRIBUTE_STR,
    ATTRIBUTE_INT,
    ATTRIBUTE_INTS,  /* a tuple of ints */
    ATTRIBUTE_DTYPE, /* a global of torch */
    ATTRIBUTE_NONE,
};

/* The state, in the order in which Python writes it. */
static const struct attribute {
    const char *name;
    enum attribute_kind kind;
    size_t offset; /* in struct kvc_tensor_handle */
} attributes[] = {
    {"shm_name", ATTRIBUTE_STR, offsetof(struct kvc_tensor_handle, shm_name)},
    {"nbytes", ATTRIBUTE_INT, offsetof(struct kvc_tensor_handle, nbytes)},
    {"handle", ATTRIBUTE_NONE, 0},
    {"dtype", ATTRIBUTE_DTYPE, offsetof(struct kvc_tensor_handle, dtype)},
    {"shape", ATTRIBUTE_INTS, offsetof(struct kvc_tensor_handle, shape)},
    {"stride", ATTRIBUTE_INTS, offsetof(struct kvc_tensor_handle, stride)},
    {"storage_offset", ATTRIBUTE_INT, offsetof(struct kvc_tensor_handle, storage_offset)},
    {"device_uuid", ATTRIBUTE_STR, offsetof(struct kvc_tensor_handle, device_uuid)},
};

static void write_attribute(struct kvc_pickle_writer *writer, enum attribute_kind kind,
                            const void *value)
{
    switch (kind) {
    case ATTRIBUTE_STR:
        kvc_pickle_str(writer, *(const struct kvc_str *)value);
        break;
    case ATTRIBUTE_INT:
        kvc_pickle_int(writer, *(const int64_t *)value);
        break;
    case ATTRIBUTE_INTS:
        kvc_pickle_int_tuple(writer, *(const struct kvc_ints *)value);
        break;
    case ATTRIBUTE_DTYPE:
        kvc_pickle_global(writer, KVC_STR("torch"), *(const struct kvc_str *)value);
        break;
    case ATTRIBUTE_NONE:
        kvc_pickle_opcode(writer, KVC_PICKLE_OP_NONE);
        break;
    }
}

static void encode_pickle(const struct kvc_tensor_handle *handle, struct kvc_buffer *out)
{
    struct kvc_pickle_writer writer;
    kvc_pickle_begin(&writer, out);
    kvc_pickle_global(&writer, kvc_str_of(wrapper_module), kvc_str_of(wrapper_class));
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_TUPLE);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_NEWOBJ);
    kvc_pickle_memoize(&writer);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_EMPTY_DICT);
    kvc_pickle_memoize(&writer);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_MARK);
    for (size_t i = 0; i < KVC_COUNT_OF(attributes); i++) {
        kvc_pickle_str(&writer, kvc_str_of(attributes[i].name));
        write_attribute(&writer, attributes[i].kind,
                        (const uint8_t *)handle + attributes[i].offset);
    }
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_SETITEMS);
    kvc_pickle_opcode(&writer, KVC_PICKLE_OP_BUILD);
    kvc_pickle_end(&writer);
}

static bool read_attribute(const struct kvc_pickle *node, enum attribute_kind kind,
                           struct kvc_arena *arena, void *value)
{
    switch (kind) {
    case ATTRIBUTE_STR:
        if (node->kind != KVC_PICKLE_STR)
            return false;
        memcpy(value, &node->text, sizeof(node->text));
        return true;
    case ATTRIBUTE_INT:
        if (node->kind != KVC_PICKLE_INT)
            return false;
        memcpy(value, &node->integer, sizeof(node->integer));
        return true;
    case ATTRIBUTE_INTS:
        return kvc_pickle_read_ints(node, arena, value);
    case ATTRIBUTE_DTYPE:
        if (node->kind != KVC_PICKLE_GLOBAL || !kvc_str_is(node->global.module, "torch"))
            return false;
        memcpy(value, &node->global.name, sizeof(node->global.name));
        return true;
    case ATTRIBUTE_NONE:
        return node->kind == KVC_PICKLE_NONE;
    }
    return false;
}

static kvc_status decode_pickle(struct kvc_bytes body, struct kvc_arena *arena,
                                struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    struct kvc_pickle *root;
    size_t used;
    KVC_GUARD(kvc_pickle_read(body, arena, &root, &used, err));
    if (used != body.size)
        return kvc_fail(err, KVC_EFORMAT, "%zu bytes after the handle's pickle", body.size - used);
    if (kvc_pickle_call_args(root, wrapper_module, wrapper_class) == NULL ||
        root->list.state == NULL || root->list.state->kind != KVC_PICKLE_DICT)
        return kvc_fail(err, KVC_EFORMAT, "the pickle is no %s", wrapper_class);
    for (size_t i = 0; i < KVC_COUNT_OF(attributes); i++) {
        const struct kvc_pickle *node = kvc_pickle_dict_get(root->list.state, attributes[i].name);
        if (node == NULL || !read_attribute(node, attributes[i].kind, arena,
                                            (uint8_t *)handle + attributes[i].offset)) {
            kvc_fail(err, KVC_EFORMAT, "%s attribute", node == NULL ? "missing" : "wrong type of");
            kvc_error_set_where(err, ".%s", attributes[i].name);
            return KVC_EFORMAT;
        }
    }
    return KVC_OK;
}

/* ---- both forms ---- */

/* Where the last element of the view ends, in elements from the start of the segment. False when
 * there is a negative number in it, or one that does not fit. */
static bool view_end(const struct kvc_tensor_handle *handle, int64_t *end)
{
    bool fits = handle->storage_offset >= 0 && handle->shape.count == handle->stride.count;
    bool empty = false;
    *end = handle->storage_offset;
    for (size_t i = 0; fits && i < handle->shape.count; i++) {
        const int64_t size = handle->shape.items[i];
        const int64_t stride = handle->stride.items[i];
        int64_t reach;
        empty |= size == 0;
        fits = size >= 0 && stride >= 0 &&
               (size == 0 || (!__builtin_mul_overflow(size - 1, stride, &reach) &&
                              !__builtin_add_overflow(*end, reach, end)));
    }
    if (empty)
        *end = 0;
    return fits && (empty || !__builtin_add_overflow(*end, 1, end));
}

/* Whoever maps nbytes must be able to trust the view. A dtype that is not known here counts as one
 * byte an element. */
static kvc_status check_view(const struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    const struct kvc_dtype *dtype = kvc_dtype_find(handle->dtype);
    int64_t end;
    if (!view_end(handle, &end) ||
        __builtin_mul_overflow(end, dtype != NULL ? (int64_t)dtype->size : 1, &end) ||
        end > handle->nbytes)
        return kvc_fail(err, KVC_EFORMAT,
                        "shape, stride and storage_offset leave the segment's nbytes");
    return KVC_OK;
}

kvc_status kvc_handle_encode(const struct kvc_dialect *dialect,
                             const struct kvc_tensor_handle *handle, struct kvc_buffer *out,
                             struct kvc_error *err)
{
    if (kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_MSGPACK))
        return encode_descriptor(dialect, handle, out, err);
    encode_pickle(handle, out);
    return KVC_OK;
}

kvc_status kvc_handle_decode(const struct kvc_dialect *dialect, struct kvc_bytes body,
                             struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                             struct kvc_error *err)
{
    *handle = (struct kvc_tensor_handle){0};
    if (kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_MSGPACK))
        KVC_GUARD(decode_descriptor(dialect, body, arena, handle, err));
    else
        KVC_GUARD(decode_pickle(body, arena, handle, err));
    return check_view(handle, err);
}
