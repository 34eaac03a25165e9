#include "src/kv/dtype.h"

/* Names and sizes are torch's. A dtype that numpy lacks travels as the unsigned integer of its size. */
static const struct kvc_dtype dtypes[] = {
    {"float16", "f16", 2, "<f2", false, "HalfStorage", 2},
    {"bfloat16", "bf16", 2, "<u2", true, "BFloat16Storage", 2},
    {"float32", "f32", 4, "<f4", false, "FloatStorage", 4},
    {"float64", "f64", 8, "<f8", false, "DoubleStorage", 8},
    {"float8_e4m3fn", "f8e4m3", 1, "|u1", true, NULL, 1},
    {"float8_e5m2", "f8e5m2", 1, "|u1", true, NULL, 1},
    {"float8_e4m3fnuz", "f8e4m3fnuz", 1, "|u1", true, NULL, 1},
    {"float8_e5m2fnuz", "f8e5m2fnuz", 1, "|u1", true, NULL, 1},
    {"uint8", "u8", 1, "|u1", false, "ByteStorage", 0},
    {"int8", "i8", 1, "|i1", false, "CharStorage", 0},
    {"bool", "bool", 1, "|b1", false, "BoolStorage", 0},
    {"int16", "i16", 2, "<i2", false, "ShortStorage", 0},
    {"int32", "i32", 4, "<i4", false, "IntStorage", 0},
    {"int64", "i64", 8, "<i8", false, "LongStorage", 0},
    {"uint16", "u16", 2, "<u2", false, NULL, 0},
    {"uint32", "u32", 4, "<u4", false, NULL, 0},
    {"uint64", "u64", 8, "<u8", false, NULL, 0},
    {"complex64", "c64", 8, "<c8", false, "ComplexFloatStorage", 4},
};

static const struct {
    const char *alias;
    const char *name;
} aliases[] = {
    {"half", "float16"}, {"float", "float32"}, {"double", "float64"},   {"short", "int16"},
    {"int", "int32"},    {"long", "int64"},    {"cfloat", "complex64"},
};

static struct kvc_str without_alias(struct kvc_str name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(aliases); i++) {
        if (kvc_str_is(name, aliases[i].alias))
            return kvc_str_of(aliases[i].name);
    }
    return name;
}

const struct kvc_dtype *kvc_dtype_find(struct kvc_str name)
{
    const struct kvc_str canonical = without_alias(name);
    for (size_t i = 0; i < KVC_COUNT_OF(dtypes); i++) {
        if (kvc_str_is(canonical, dtypes[i].name))
            return &dtypes[i];
    }
    return NULL;
}

const struct kvc_dtype *kvc_dtype_find_short(struct kvc_str name)
{
    for (size_t i = 0; i < KVC_COUNT_OF(dtypes); i++) {
        if (kvc_str_is(name, dtypes[i].short_name))
            return &dtypes[i];
    }
    return NULL;
}

void kvc_dtype_list(struct kvc_buffer *out)
{
    for (size_t i = 0; i < KVC_COUNT_OF(dtypes); i++)
        kvc_buffer_printf(out, "%s%s", i == 0 ? "" : ", ", dtypes[i].short_name);
}
