#include "src/kv/dtype.h"

/* Names and sizes are torch's. A dtype that numpy lacks travels as the unsigned integer of its size. */
static const struct kvc_dtype dtypes[] = {
    {"float16", "f16", 2, "<f2", false, "HalfStorage"},
    {"bfloat16", "bf16", 2, "<u2", true, "BFloat16Storage"},
    {"float32", "f32", 4, "<f4", false, "FloatStorage"},
    {"float64", "f64", 8, "<f8", false, "DoubleStorage"},
    {"float8_e4m3fn", "f8e4m3", 1, "|u1", true, NULL},
    {"float8_e5m2", "f8e5m2", 1, "|u1", true, NULL},
    {"float8_e4m3fnuz", "f8e4m3fnuz", 1, "|u1", true, NULL},
    {"float8_e5m2fnuz", "f8e5m2fnuz", 1, "|u1", true, NULL},
    {"uint8", "u8", 1, "|u1", false, "ByteStorage"},
    {"int8", "i8", 1, "|i1", false, "CharStorage"},
    {"bool", "bool", 1, "|b1", false, "BoolStorage"},
    {"int16", "i16", 2, "<i2", false, "ShortStorage"},
    {"int32", "i32", 4, "<i4", false, "IntStorage"},
    {"int64", "i64", 8, "<i8", false, "LongStorage"},
    {"uint16", "u16", 2, "<u2", false, NULL},
    {"uint32", "u32", 4, "<u4", false, NULL},
    {"uint64", "u64", 8, "<u8", false, NULL},
    {"complex64", "c64", 8, "<c8", false, "ComplexFloatStorage"},
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
