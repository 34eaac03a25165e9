#include "src/wire/lenient.h"

#include <string.h>

static kvc_status not_an_int(const msgpack_object *object, struct kvc_error *err)
{
    kvc_fail(err, KVC_EFORMAT, "the value cannot be read as an int");
    kvc_error_set_got(err, "%s", kvc_msgpack_type_name(object->type));
    return KVC_EFORMAT;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct kvc_str trim(struct kvc_str text)
{
    while (text.size > 0 && is_space(text.data[0]))
        text = (struct kvc_str){text.data + 1, text.size - 1};
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* Decimal digits with single underscores between them, as Python's int() takes them. */
static bool parse_digits(struct kvc_str digits, bool negative, int64_t *value)
{
    bool digit_before = false;
    *value = 0;
    for (size_t i = 0; i < digits.size; i++) {
        const char c = digits.data[i];
        if (c == '_' && digit_before) {
            digit_before = false;
            continue;
        }
        if (c < '0' || c > '9')
            return false;
        const int64_t digit = negative ? -(c - '0') : c - '0';
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, digit, value))
            return false;
        digit_before = true;
    }
    return digit_before;
}

static bool parse_int(struct kvc_str text, int64_t *value)
{
    text = trim(text);
    const bool negative = text.size > 0 && text.data[0] == '-';
    if (negative || (text.size > 0 && text.data[0] == '+'))
        text = (struct kvc_str){text.data + 1, text.size - 1};
    return parse_digits(text, negative, value);
}

kvc_status kvc_lenient_int(const msgpack_object *object, int64_t *value, struct kvc_error *err)
{
    switch (object->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        *value = object->via.boolean;
        return KVC_OK;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *value = object->via.i64;
        return KVC_OK;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        if (object->via.u64 > INT64_MAX)
            return not_an_int(object, err);
        *value = (int64_t)object->via.u64;
        return KVC_OK;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        /* 2^63 itself is the first that does not fit; a NaN fails both comparisons. */
        if (!(object->via.f64 >= -0x1p63 && object->via.f64 < 0x1p63))
            return not_an_int(object, err);
        *value = (int64_t)object->via.f64;
        return KVC_OK;
    case MSGPACK_OBJECT_STR:
    case MSGPACK_OBJECT_BIN:
        /* str and bin have the same layout in the object. */
        if (!parse_int((struct kvc_str){object->via.str.ptr, object->via.str.size}, value))
            return not_an_int(object, err);
        return KVC_OK;
    default:
        return not_an_int(object, err);
    }
}

bool kvc_lenient_bool(const msgpack_object *object)
{
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        return false;
    case MSGPACK_OBJECT_BOOLEAN:
        return object->via.boolean;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return object->via.u64 != 0;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return object->via.f64 != 0;
    case MSGPACK_OBJECT_STR:
    case MSGPACK_OBJECT_BIN:
        return object->via.str.size > 0;
    case MSGPACK_OBJECT_ARRAY:
    case MSGPACK_OBJECT_MAP:
        return object->via.array.size > 0;
    case MSGPACK_OBJECT_EXT:
        return true;
    }
    return true;
}
