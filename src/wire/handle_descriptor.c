#include "src/wire/handle_forms.h"
#include "src/wire/schema.h"

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

#define TYPE_FIELD    FIELD(struct descriptor, type, kvc_type_str)
#define VERSION_FIELD FIELD(struct descriptor, version, kvc_type_int)
#define METADATA_FIELD                                                                             \
    {                                                                                              \
        .name = "metadata", .type = &metadata_type, .flag = KVC_NO_FLAG                            \
    }

static const struct kvc_field cpu_fields[] = {
    TYPE_FIELD,
    HANDLE_FIELD(shm_name, kvc_type_str),
    HANDLE_FIELD(nbytes, kvc_type_int),
    VERSION_FIELD,
    METADATA_FIELD,
};
static const struct kvc_field cuda_fields[] = {
    TYPE_FIELD,
    HANDLE_FIELD(ipc_handle, kvc_type_bin),
    HANDLE_FIELD(alloc_offset, kvc_type_int),
    HANDLE_FIELD(nbytes, kvc_type_int),
    VERSION_FIELD,
    METADATA_FIELD,
};

#define CLOSED_MAP(table)                                                                          \
    {                                                                                              \
        .kind = KVC_KIND_MAP, .size = sizeof(struct descriptor), .fields = (table),                \
        .field_count = KVC_COUNT_OF(table), .closed = true                                         \
    }

static const struct form {
    const char *name;
    struct kvc_type type;
} forms[] = {
    [KVC_HANDLE_CPU] = {"cpu_shm", CLOSED_MAP(cpu_fields)},
    [KVC_HANDLE_CUDA] = {"cuda_raw", CLOSED_MAP(cuda_fields)},
};

enum { DESCRIPTOR_VERSION = 1 };

kvc_status kvc_handle_encode_descriptor(const struct kvc_dialect *dialect,
                                        const struct kvc_tensor_handle *handle,
                                        struct kvc_buffer *out, struct kvc_error *err)
{
    const struct form *form = &forms[handle->kind];
    const struct descriptor descriptor = {
        .handle = *handle, .type = kvc_str_of(form->name), .version = DESCRIPTOR_VERSION};
    return kvc_schema_encode(dialect, &form->type, &descriptor, out, err);
}

/* The value of "type" in a map; empty when there is none. */
static struct kvc_str type_of(const msgpack_object *object)
{
    for (uint32_t i = 0; object->type == MSGPACK_OBJECT_MAP && i < object->via.map.size; i++) {
        const msgpack_object *key = &object->via.map.ptr[i].key;
        const msgpack_object *value = &object->via.map.ptr[i].val;
        if (key->type == MSGPACK_OBJECT_STR && value->type == MSGPACK_OBJECT_STR &&
            kvc_str_is((struct kvc_str){key->via.str.ptr, key->via.str.size}, "type"))
            return (struct kvc_str){value->via.str.ptr, value->via.str.size};
    }
    return KVC_STR("");
}

static enum kvc_handle_kind kind_of(const msgpack_object *object)
{
    const struct kvc_str type = type_of(object);
    return kvc_str_is(type, forms[KVC_HANDLE_CUDA].name) ? KVC_HANDLE_CUDA : KVC_HANDLE_CPU;
}

static kvc_status decode_object(const struct kvc_decoding *decoding, const msgpack_object *object,
                                struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    struct descriptor descriptor = {.version = 0};
    const enum kvc_handle_kind kind = kind_of(object);
    const struct kvc_str type = type_of(object);
    if (type.size > 0 && !kvc_str_is(type, forms[kind].name))
        return kvc_fail(err, KVC_EFORMAT, "a handle of type %s, not %s or %s",
                        kvc_text_show(type).text, forms[KVC_HANDLE_CPU].name,
                        forms[KVC_HANDLE_CUDA].name);
    KVC_GUARD(kvc_schema_decode(decoding, &forms[kind].type, object, &descriptor, err));
    if (descriptor.version != DESCRIPTOR_VERSION)
        return kvc_fail(err, KVC_EFORMAT, "a handle of version %lld, not %d",
                        (long long)descriptor.version, DESCRIPTOR_VERSION);
    *handle = descriptor.handle;
    handle->kind = kind;
    return KVC_OK;
}

kvc_status kvc_handle_decode_descriptor(const struct kvc_dialect *dialect, struct kvc_bytes body,
                                        struct kvc_arena *arena, struct kvc_tensor_handle *handle,
                                        struct kvc_error *err)
{
    const struct kvc_decoding decoding = {dialect, arena, .is_request = true};
    msgpack_zone zone;
    msgpack_object object;
    kvc_status status = kvc_msgpack_read(body, &zone, &object, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, " at descriptor ");
    else
        status = decode_object(&decoding, &object, handle, err);
    msgpack_zone_destroy(&zone);
    return status;
}
