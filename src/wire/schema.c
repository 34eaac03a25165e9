#include "src/wire/schema.h"

#include <string.h>

#include "src/wire/handle.h"

const struct kvc_type kvc_type_int = {.kind = KVC_KIND_INT, .size = sizeof(int64_t)};
const struct kvc_type kvc_type_optional_int = {.kind = KVC_KIND_OPTIONAL_INT,
                                               .size = sizeof(struct kvc_optional_int)};
const struct kvc_type kvc_type_bool = {.kind = KVC_KIND_BOOL, .size = sizeof(bool)};
const struct kvc_type kvc_type_float = {.kind = KVC_KIND_FLOAT, .size = sizeof(double)};
const struct kvc_type kvc_type_str = {.kind = KVC_KIND_STR, .size = sizeof(struct kvc_str)};
const struct kvc_type kvc_type_bin = {.kind = KVC_KIND_BIN, .size = sizeof(struct kvc_bytes)};
const struct kvc_type kvc_type_optional_bin = {.kind = KVC_KIND_OPTIONAL_BIN,
                                               .size = sizeof(struct kvc_bytes)};
const struct kvc_type kvc_type_ints = {
    .kind = KVC_KIND_LIST, .size = sizeof(struct kvc_ints), .element = &kvc_type_int};
const struct kvc_type kvc_type_int_lists = {
    .kind = KVC_KIND_LIST, .size = sizeof(struct kvc_int_lists), .element = &kvc_type_ints};
const struct kvc_type kvc_type_strs = {
    .kind = KVC_KIND_LIST, .size = sizeof(struct kvc_strs), .element = &kvc_type_str};

static const void *member(const void *value, size_t offset)
{
    return (const uint8_t *)value + offset;
}

bool kvc_field_exists(const struct kvc_field *field, const struct kvc_dialect *dialect)
{
    return (dialect->features & field->features) == field->features;
}

/* Whether a KVC_OMITTED field has a value. */
static bool field_is_set(const struct kvc_field *field, const void *value)
{
    if (field->flag != KVC_NO_FLAG)
        return *(const bool *)member(value, field->flag);
    const void *data = member(value, field->offset);
    switch (field->type->kind) {
    case KVC_KIND_OPTIONAL_INT:
        return ((const struct kvc_optional_int *)data)->present;
    case KVC_KIND_STR:
        return ((const struct kvc_str *)data)->size > 0;
    default:
        return true;
    }
}

static bool field_is_written(const struct kvc_dialect *dialect, const struct kvc_field *field,
                             const void *value)
{
    return kvc_field_exists(field, dialect) &&
           (field->presence != KVC_OMITTED || field_is_set(field, value));
}

static kvc_status encode_fields(const struct kvc_dialect *dialect, const struct kvc_type *type,
                                const void *value, struct kvc_buffer *out, struct kvc_error *err)
{
    const bool is_map = type->kind == KVC_KIND_MAP;
    struct kvc_packed_pairs others = {0};
    if (type->others != 0)
        memcpy(&others, member(value, type->others), sizeof(others));
    size_t count = others.count;
    for (size_t i = 0; i < type->field_count; i++)
        count += field_is_written(dialect, &type->fields[i], value);
    if (is_map)
        kvc_msgpack_write_map(out, (uint32_t)count);
    else
        kvc_msgpack_write_array(out, (uint32_t)count);
    for (size_t i = 0; i < type->field_count; i++) {
        const struct kvc_field *field = &type->fields[i];
        if (!field_is_written(dialect, field, value))
            continue;
        if (is_map)
            kvc_msgpack_write_str(out, kvc_str_of(field->name));
        KVC_GUARD(kvc_schema_encode(dialect, field->type, member(value, field->offset), out, err));
    }
    kvc_buffer_append(out, others.pairs.data, others.pairs.size);
    return KVC_OK;
}

static kvc_status encode_list(const struct kvc_dialect *dialect, const struct kvc_type *type,
                              const void *value, struct kvc_buffer *out, struct kvc_error *err)
{
    struct kvc_list list;
    memcpy(&list, value, sizeof(list));
    kvc_msgpack_write_array(out, (uint32_t)list.count);
    if (type->element == &kvc_type_int) {
        kvc_msgpack_write_ints(out, list.items, list.count);
        return KVC_OK;
    }
    for (size_t i = 0; i < list.count; i++)
        KVC_GUARD(kvc_schema_encode(dialect, type->element,
                                    member(list.items, i * type->element->size), out, err));
    return KVC_OK;
}

static kvc_status encode_handle(const struct kvc_dialect *dialect, const void *value,
                                struct kvc_buffer *out, struct kvc_error *err)
{
    struct kvc_buffer body = {0};
    const kvc_status status = kvc_handle_encode(dialect, value, &body, err);
    if (status == KVC_OK)
        kvc_msgpack_write_ext(out, KVC_HANDLE_EXT_TYPE, kvc_buffer_view(&body));
    kvc_buffer_clear(&body);
    return status;
}

static void encode_optional_int(const struct kvc_optional_int *value, struct kvc_buffer *out)
{
    if (value->present)
        kvc_msgpack_write_int(out, value->value);
    else
        kvc_msgpack_write_nil(out);
}

static kvc_status encode_bin(struct kvc_bytes value, struct kvc_buffer *out, struct kvc_error *err)
{
    if (value.size > UINT32_MAX)
        return kvc_fail(err, KVC_EUNSUPPORTED, "%zu bytes are more than msgpack can count",
                        value.size);
    kvc_msgpack_write_bin(out, value);
    return KVC_OK;
}

static kvc_status encode_optional_bin(struct kvc_bytes value, struct kvc_buffer *out,
                                      struct kvc_error *err)
{
    if (value.data != NULL)
        return encode_bin(value, out, err);
    kvc_msgpack_write_nil(out);
    return KVC_OK;
}

static void encode_packed_map(const struct kvc_bytes *value, struct kvc_buffer *out)
{
    if (value->size > 0)
        kvc_buffer_append(out, value->data, value->size);
    else
        kvc_msgpack_write_nil(out);
}

kvc_status kvc_schema_encode(const struct kvc_dialect *dialect, const struct kvc_type *type,
                             const void *value, struct kvc_buffer *out, struct kvc_error *err)
{
    switch (type->kind) {
    case KVC_KIND_INT:
        kvc_msgpack_write_int(out, *(const int64_t *)value);
        break;
    case KVC_KIND_OPTIONAL_INT:
        encode_optional_int(value, out);
        break;
    case KVC_KIND_BOOL:
        kvc_msgpack_write_bool(out, *(const bool *)value);
        break;
    case KVC_KIND_FLOAT:
        kvc_msgpack_write_float(out, *(const double *)value);
        break;
    case KVC_KIND_STR:
        kvc_msgpack_write_str(out, *(const struct kvc_str *)value);
        break;
    case KVC_KIND_BIN:
        return encode_bin(*(const struct kvc_bytes *)value, out, err);
    case KVC_KIND_OPTIONAL_BIN:
        return encode_optional_bin(*(const struct kvc_bytes *)value, out, err);
    case KVC_KIND_PACKED_MAP:
        encode_packed_map(value, out);
        break;
    case KVC_KIND_LIST:
        return encode_list(dialect, type, value, out, err);
    case KVC_KIND_MAP:
    case KVC_KIND_TUPLE:
        return encode_fields(dialect, type, value, out, err);
    case KVC_KIND_ZERO_MAP:
        kvc_msgpack_write_map(out, 1);
        kvc_msgpack_write_int(out, 0);
        return kvc_schema_encode(dialect, type->element, value, out, err);
    case KVC_KIND_HANDLE:
        return encode_handle(dialect, value, out, err);
    }
    return KVC_OK;
}
