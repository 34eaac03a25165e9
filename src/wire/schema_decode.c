#include <string.h>

#include "src/wire/handle.h"
#include "src/wire/schema.h"

kvc_status kvc_schema_wrong_type(const msgpack_object *object, const char *expected,
                                 struct kvc_error *err)
{
    kvc_fail(err, KVC_EFORMAT, "wrong type");
    kvc_error_set_expected(err, "%s", expected);
    kvc_error_set_got(err, "%s", kvc_msgpack_type_name(object->type));
    return KVC_EFORMAT;
}

static kvc_status decode_int(const msgpack_object *object, int64_t *value, struct kvc_error *err)
{
    if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        *value = object->via.i64;
        return KVC_OK;
    }
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return kvc_schema_wrong_type(object, "int", err);
    if (object->via.u64 > INT64_MAX)
        return kvc_fail(err, KVC_EFORMAT, "the number does not fit 64 bits with a sign");
    *value = (int64_t)object->via.u64;
    return KVC_OK;
}

static kvc_status decode_optional_int(const msgpack_object *object, struct kvc_optional_int *value,
                                      struct kvc_error *err)
{
    value->present = object->type != MSGPACK_OBJECT_NIL;
    if (!value->present)
        return KVC_OK;
    if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
        object->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return kvc_schema_wrong_type(object, "int or nil", err);
    return decode_int(object, &value->value, err);
}

static kvc_status decode_bool(const msgpack_object *object, bool *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_BOOLEAN)
        return kvc_schema_wrong_type(object, "bool", err);
    *value = object->via.boolean;
    return KVC_OK;
}

static kvc_status decode_float(const msgpack_object *object, double *value, struct kvc_error *err)
{
    if (object->type == MSGPACK_OBJECT_FLOAT64 || object->type == MSGPACK_OBJECT_FLOAT32)
        *value = object->via.f64;
    else if (object->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        *value = (double)object->via.u64;
    else if (object->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        *value = (double)object->via.i64;
    else
        return kvc_schema_wrong_type(object, "float or int", err);
    return KVC_OK;
}

static kvc_status decode_str(const msgpack_object *object, struct kvc_str *value,
                             struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_STR)
        return kvc_schema_wrong_type(object, "str", err);
    *value = (struct kvc_str){object->via.str.ptr, object->via.str.size};
    return KVC_OK;
}

static kvc_status decode_bin(const msgpack_object *object, struct kvc_bytes *value,
                             struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_BIN)
        return kvc_schema_wrong_type(object, "bin", err);
    *value = (struct kvc_bytes){(const uint8_t *)object->via.bin.ptr, object->via.bin.size};
    return KVC_OK;
}

static kvc_status decode_optional_bin(const msgpack_object *object, struct kvc_bytes *value,
                                      struct kvc_error *err)
{
    if (object->type == MSGPACK_OBJECT_NIL)
        return KVC_OK;
    if (object->type != MSGPACK_OBJECT_BIN)
        return kvc_schema_wrong_type(object, "bin or nil", err);
    return decode_bin(object, value, err);
}

/* The objects as msgpack again, in the arena. */
static struct kvc_bytes repack(struct kvc_arena *arena, const msgpack_object *objects, size_t count)
{
    msgpack_sbuffer packed;
    msgpack_packer packer;
    msgpack_sbuffer_init(&packed);
    msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
    for (size_t i = 0; i < count; i++)
        msgpack_pack_object(&packer, objects[i]);
    const struct kvc_str copy =
        kvc_arena_copy_str(arena, (struct kvc_str){packed.data, packed.size});
    msgpack_sbuffer_destroy(&packed);
    return (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
}

static kvc_status decode_packed_map(const struct kvc_decoding *decoding,
                                    const msgpack_object *object, struct kvc_bytes *value,
                                    struct kvc_error *err)
{
    if (object->type == MSGPACK_OBJECT_NIL)
        return KVC_OK;
    if (object->type != MSGPACK_OBJECT_MAP)
        return kvc_schema_wrong_type(object, "map or nil", err);
    for (uint32_t i = 0; i < object->via.map.size; i++)
        if (object->via.map.ptr[i].key.type != MSGPACK_OBJECT_STR)
            return kvc_schema_wrong_type(&object->via.map.ptr[i].key, "a map with str keys", err);
    *value = repack(decoding->arena, object, 1);
    return KVC_OK;
}

/* Copies ints up to the first element that is none, or too large; returns how many. A list of token
 * ids is most of most messages. */
static size_t take_ints(const msgpack_object_array *array, void *items)
{
    int64_t *ints = items;
    size_t count = 0;
    for (; count < array->size; count++) {
        const msgpack_object *object = &array->ptr[count];
        const bool positive = object->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
        if (positive ? object->via.i64 < 0 : object->type != MSGPACK_OBJECT_NEGATIVE_INTEGER)
            break;
        ints[count] = object->via.i64;
    }
    return count;
}

static kvc_status decode_list(const struct kvc_decoding *decoding, const struct kvc_type *type,
                              const msgpack_object *object, void *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_ARRAY)
        return kvc_schema_wrong_type(object, "array", err);
    const size_t count = object->via.array.size;
    const size_t size = type->element->size;
    uint8_t *items = kvc_arena_alloc_array(decoding->arena, count, size);
    size_t i = type->element == &kvc_type_int ? take_ints(&object->via.array, items) : 0;
    for (; i < count; i++) {
        const kvc_status status = kvc_schema_decode(
            decoding, type->element, &object->via.array.ptr[i], items + i * size, err);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "[%zu]", i);
            return status;
        }
    }
    memcpy(value, &(struct kvc_list){items, count}, sizeof(struct kvc_list));
    return KVC_OK;
}

static kvc_status decode_field(const struct kvc_decoding *decoding, const struct kvc_field *field,
                               const msgpack_object *object, void *value, struct kvc_error *err)
{
    const kvc_status status =
        kvc_schema_decode(decoding, field->type, object, (uint8_t *)value + field->offset, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, ".%s", field->name);
    else if (field->flag != KVC_NO_FLAG)
        *((uint8_t *)value + field->flag) = true;
    return status;
}

static size_t find_field(const struct kvc_decoding *decoding, const struct kvc_type *type,
                         const msgpack_object *key)
{
    const struct kvc_str name = {key->via.str.ptr, key->via.str.size};
    for (size_t i = 0; i < type->field_count; i++)
        if (kvc_str_is(name, type->fields[i].name) &&
            kvc_field_exists(&type->fields[i], decoding->dialect))
            return i;
    return type->field_count;
}

/* Deals with a field that the map does not have. */
static kvc_status miss_field(const struct kvc_decoding *decoding, const struct kvc_field *field,
                             void *value, struct kvc_error *err)
{
    if (!kvc_field_exists(field, decoding->dialect) || field->presence == KVC_OMITTED)
        return KVC_OK;
    if (field->presence == KVC_DEFAULTED) {
        if (field->type->kind == KVC_KIND_INT)
            memcpy((uint8_t *)value + field->offset, &field->default_int, sizeof(int64_t));
        return KVC_OK;
    }
    kvc_fail(err, KVC_EFORMAT, "missing field");
    kvc_error_set_where(err, ".%s", field->name);
    return KVC_EFORMAT;
}

static kvc_status unknown_field(const msgpack_object *key, struct kvc_error *err)
{
    kvc_fail(err, KVC_EFORMAT, "unknown field");
    const struct kvc_str name = {key->via.str.ptr, key->via.str.size};
    kvc_error_set_where(err, ".%s", kvc_text_show(name).text);
    return KVC_EFORMAT;
}

static void keep_others(const struct kvc_decoding *decoding, const struct kvc_type *type,
                        const msgpack_object_kv *unknown, size_t count, void *value)
{
    if (type->others == 0 || count == 0)
        return;
    msgpack_object *objects = kvc_arena_alloc_array(decoding->arena, 2 * count, sizeof(*objects));
    for (size_t i = 0; i < count; i++) {
        objects[2 * i] = unknown[i].key;
        objects[2 * i + 1] = unknown[i].val;
    }
    const struct kvc_packed_pairs others = {repack(decoding->arena, objects, 2 * count), count};
    memcpy((uint8_t *)value + type->others, &others, sizeof(others));
}

/* Keys come in any order, an unknown one is passed over, of a repeated one the last counts. */
static kvc_status decode_map(const struct kvc_decoding *decoding, const struct kvc_type *type,
                             const msgpack_object *object, void *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_MAP)
        return kvc_schema_wrong_type(object, "map", err);
    const size_t count = object->via.map.size;
    msgpack_object_kv *unknown = NULL;
    size_t unknown_count = 0;
    uint32_t seen = 0;
    if (type->others != 0)
        unknown = kvc_arena_alloc_array(decoding->arena, count, sizeof(*unknown));
    for (size_t i = 0; i < count; i++) {
        const msgpack_object_kv *pair = &object->via.map.ptr[i];
        if (pair->key.type != MSGPACK_OBJECT_STR)
            return kvc_schema_wrong_type(&pair->key, "a map with str keys", err);
        const size_t field = find_field(decoding, type, &pair->key);
        if (field < type->field_count) {
            seen |= 1u << field;
            KVC_GUARD(decode_field(decoding, &type->fields[field], &pair->val, value, err));
        } else if (type->closed) {
            return unknown_field(&pair->key, err);
        } else if (unknown != NULL) {
            unknown[unknown_count++] = *pair;
        }
    }
    for (size_t i = 0; i < type->field_count; i++)
        if ((seen & 1u << i) == 0)
            KVC_GUARD(miss_field(decoding, &type->fields[i], value, err));
    keep_others(decoding, type, unknown, unknown_count, value);
    return KVC_OK;
}

static kvc_status decode_tuple(const struct kvc_decoding *decoding, const struct kvc_type *type,
                               const msgpack_object *object, void *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_ARRAY)
        return kvc_schema_wrong_type(object, "array", err);
    if (object->via.array.size != type->field_count) {
        kvc_fail(err, KVC_EFORMAT, "wrong number of elements");
        kvc_error_set_expected(err, "%zu", type->field_count);
        kvc_error_set_got(err, "%u", object->via.array.size);
        return KVC_EFORMAT;
    }
    for (size_t i = 0; i < type->field_count; i++)
        KVC_GUARD(decode_field(decoding, &type->fields[i], &object->via.array.ptr[i], value, err));
    return KVC_OK;
}

static kvc_status decode_zero_map(const struct kvc_decoding *decoding, const struct kvc_type *type,
                                  const msgpack_object *object, void *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_MAP)
        return kvc_schema_wrong_type(object, "map", err);
    for (uint32_t i = 0; i < object->via.map.size; i++) {
        const msgpack_object_kv *pair = &object->via.map.ptr[i];
        int64_t key = 0;
        KVC_GUARD(decode_int(&pair->key, &key, err));
        if (key != 0)
            continue;
        const kvc_status status =
            kvc_schema_decode(decoding, type->element, &pair->val, value, err);
        if (status != KVC_OK)
            kvc_error_prepend_where(err, "[0]");
        return status;
    }
    return kvc_fail(err, KVC_EFORMAT, "no entry for group 0");
}

static kvc_status decode_handle(const struct kvc_decoding *decoding, const msgpack_object *object,
                                void *value, struct kvc_error *err)
{
    if (object->type != MSGPACK_OBJECT_EXT || object->via.ext.type != KVC_HANDLE_EXT_TYPE)
        return kvc_schema_wrong_type(object, "ext of type 1", err);
    const struct kvc_bytes body = {(const uint8_t *)object->via.ext.ptr, object->via.ext.size};
    return kvc_handle_decode(decoding->dialect, body, decoding->arena, value, err);
}

static kvc_status decode_value(const struct kvc_decoding *decoding, const struct kvc_type *type,
                               const msgpack_object *object, void *value, struct kvc_error *err)
{
    switch (type->kind) {
    case KVC_KIND_INT:
        return decode_int(object, value, err);
    case KVC_KIND_OPTIONAL_INT:
        return decode_optional_int(object, value, err);
    case KVC_KIND_BOOL:
        return decode_bool(object, value, err);
    case KVC_KIND_FLOAT:
        return decode_float(object, value, err);
    case KVC_KIND_STR:
        return decode_str(object, value, err);
    case KVC_KIND_BIN:
        return decode_bin(object, value, err);
    case KVC_KIND_OPTIONAL_BIN:
        return decode_optional_bin(object, value, err);
    case KVC_KIND_PACKED_MAP:
        return decode_packed_map(decoding, object, value, err);
    case KVC_KIND_LIST:
        return decode_list(decoding, type, object, value, err);
    case KVC_KIND_MAP:
        return decode_map(decoding, type, object, value, err);
    case KVC_KIND_TUPLE:
        return decode_tuple(decoding, type, object, value, err);
    case KVC_KIND_ZERO_MAP:
        return decode_zero_map(decoding, type, object, value, err);
    case KVC_KIND_HANDLE:
        return decode_handle(decoding, object, value, err);
    }
    return KVC_OK;
}

kvc_status kvc_schema_decode(const struct kvc_decoding *decoding, const struct kvc_type *type,
                             const msgpack_object *object, void *value, struct kvc_error *err)
{
    KVC_GUARD(decode_value(decoding, type, object, value, err));
    if (type->check != NULL && decoding->is_request)
        return type->check(decoding->dialect, value, err);
    return KVC_OK;
}
