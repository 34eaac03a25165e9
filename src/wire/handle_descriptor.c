#include "src/wire/handle_forms.h"
#include "src/wire/schema.h"

#define FIELD(owner, field, member, kind)                                                          \
    {                                                                                              \
        .name = (field), .type = &(kind), .offset = offsetof(owner, member), .flag = KVC_NO_FLAG   \
    }
#define NAMED_FIELD(field, member, kind) FIELD(struct kvc_tensor_handle, field, member, kind)
#define HANDLE_FIELD(member, kind)       NAMED_FIELD(#member, member, kind)

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

/* The array that torch shares a CUDA storage as: also in the handle itself. */
static const struct kvc_field storage_fields[] = {
    NAMED_FIELD("device_index", torch.device_index, kvc_type_int),
    NAMED_FIELD("ipc_handle", ipc_handle, kvc_type_optional_bin),
    NAMED_FIELD("size", nbytes, kvc_type_int),
    NAMED_FIELD("offset", alloc_offset, kvc_type_int),
    NAMED_FIELD("ref_counter", torch.ref_counter, kvc_type_optional_bin),
    NAMED_FIELD("ref_counter_offset", torch.ref_counter_offset, kvc_type_int),
    NAMED_FIELD("event", torch.ready_event, kvc_type_optional_bin),
    NAMED_FIELD("has_event", torch.has_event, kvc_type_bool),
};
static const struct kvc_type storage_type = {
    .kind = KVC_KIND_TUPLE,
    .size = sizeof(struct kvc_tensor_handle),
    .fields = storage_fields,
    .field_count = KVC_COUNT_OF(storage_fields),
};

struct descriptor {
    struct kvc_tensor_handle handle;
    struct kvc_str type;
    int64_t version;
};

#define TYPE_FIELD    FIELD(struct descriptor, "type", type, kvc_type_str)
#define VERSION_FIELD FIELD(struct descriptor, "version", version, kvc_type_int)
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
static const struct kvc_field raw_fields[] = {
    TYPE_FIELD,
    HANDLE_FIELD(ipc_handle, kvc_type_bin),
    HANDLE_FIELD(alloc_offset, kvc_type_int),
    HANDLE_FIELD(nbytes, kvc_type_int),
    VERSION_FIELD,
    METADATA_FIELD,
};
static const struct kvc_field torch_fields[] = {
    TYPE_FIELD,
    {.name = "handle", .type = &storage_type, .flag = KVC_NO_FLAG},
    VERSION_FIELD,
    METADATA_FIELD,
};
static const struct kvc_field vmm_fields[] = {
    TYPE_FIELD,
    NAMED_FIELD("export_id", vmm.id, kvc_type_bin),
    NAMED_FIELD("kind", vmm.kind, kvc_type_str),
    NAMED_FIELD("fabric_blob", vmm.fabric, kvc_type_optional_bin),
    NAMED_FIELD("alloc_size", vmm.alloc_size, kvc_type_int),
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
} forms[KVC_HANDLE_KIND_COUNT] = {
    [KVC_HANDLE_CPU] = {"cpu_shm", CLOSED_MAP(cpu_fields)},
    [KVC_HANDLE_CUDA] = {"cuda_raw", CLOSED_MAP(raw_fields)},
    [KVC_HANDLE_CUDA_TORCH] = {"cuda", CLOSED_MAP(torch_fields)},
    [KVC_HANDLE_CUDA_VMM] = {"cuda_vmm", CLOSED_MAP(vmm_fields)},
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

/* What has no type is read as KVC_HANDLE_CPU, which says that it is missing. */
static kvc_status kind_of(const msgpack_object *object, enum kvc_handle_kind *kind,
                          struct kvc_error *err)
{
    const struct kvc_str type = type_of(object);
    *kind = KVC_HANDLE_CPU;
    while (type.size > 0 && !kvc_str_is(type, forms[*kind].name)) {
        if (++*kind == KVC_HANDLE_KIND_COUNT)
            return kvc_fail(err, KVC_EFORMAT,
                            "a handle of type %s, not cpu_shm, cuda, cuda_raw or cuda_vmm",
                            kvc_text_show(type).text);
    }
    return KVC_OK;
}

static kvc_status decode_object(const struct kvc_decoding *decoding, const msgpack_object *object,
                                struct kvc_tensor_handle *handle, struct kvc_error *err)
{
    struct descriptor descriptor = {.version = 0};
    enum kvc_handle_kind kind;
    KVC_GUARD(kind_of(object, &kind, err));
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
