/* The spec language "(kv_size,NB,BS,NH,HS):dtype:layers[;…]". What it takes and refuses is what
 * LMCache's own parser does (tests/unit/kv/shape_specs.inc has the table), except that a spec no
 * cache can be made from is refused here and not later. Numbers are read as Python reads them:
 * blanks around, a sign, leading zeros, single underscores between digits. */
#include "src/kv/geometry.h"

#include <stdio.h>
#include <string.h>

#define ACCEPTED "(kv_size,NB,BS,NH,HS):dtype:layers, more groups after \";\""

/* LMCache keeps each number in a 32-bit int. Each layer is a tensor of its own, with a handle to send. */
enum { MAX_NUMBER = INT32_MAX, MAX_LAYERS = 1 << 20 };

enum field { KV_SIZE, NUM_BLOCKS, BLOCK_SIZE, NUM_HEADS, HEAD_SIZE, SHAPE_FIELDS };

static const char *const field_names[SHAPE_FIELDS] = {
    "kv_size", "NB (blocks)", "BS (tokens a block)", "NH (heads)", "HS (head size)",
};

/* torch has more dtypes; these are the ones that a spec can name. */
static const char *const spec_dtypes[] = {"float16", "float32", "bfloat16", "uint8", "int8"};
#define SPEC_DTYPES "float16, float32, bfloat16, uint8, int8"

struct parser {
    const char *spec;
    int64_t default_blocks;
    int64_t default_block_size;
    struct kvc_error *err;
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static struct kvc_str trim(struct kvc_str text)
{
    while (text.size > 0 && is_blank(text.data[0])) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && is_blank(text.data[text.size - 1]))
        text.size--;
    return text;
}

/* Takes the text before the separator off the front of *rest. Without one: everything, and false. */
static bool split(struct kvc_str *rest, char separator, struct kvc_str *head)
{
    const char *at = rest->size == 0 ? NULL : memchr(rest->data, separator, rest->size);
    if (at == NULL) {
        *head = *rest;
        *rest = (struct kvc_str){rest->data + rest->size, 0};
        return false;
    }
    head->data = rest->data;
    head->size = (size_t)(at - rest->data);
    rest->size -= head->size + 1;
    rest->data = at + 1;
    return true;
}

static kvc_status refuse(const struct parser *parser, struct kvc_str at, const char *what,
                         const char *accepted)
{
    struct kvc_buffer shown = {0};
    kvc_text_escape(at, &shown);
    kvc_fail(parser->err, KVC_EUSAGE, "shape spec: %s", what);
    kvc_error_set_where(parser->err, "character %zu", (size_t)(at.data - parser->spec) + 1);
    kvc_error_set_expected(parser->err, "%s", accepted);
    kvc_error_set_got(parser->err, "\"%.200s\"", kvc_buffer_text(&shown));
    kvc_buffer_clear(&shown);
    return KVC_EUSAGE;
}

/* False when it is no number. A number too large for any field comes out as MAX_NUMBER + 1. */
static bool read_number(struct kvc_str text, int64_t *number)
{
    bool negative = false;
    if (text.size > 0 && (text.data[0] == '+' || text.data[0] == '-')) {
        negative = text.data[0] == '-';
        text.data++;
        text.size--;
    }
    int64_t value = 0;
    bool after_digit = false;
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.data[i];
        if (c == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        if (c < '0' || c > '9')
            return false;
        after_digit = true;
        value = value * 10 + (c - '0');
        if (value > MAX_NUMBER)
            value = (int64_t)MAX_NUMBER + 1;
    }
    *number = negative ? -value : value;
    return after_digit;
}

static kvc_status parse_number(const struct parser *parser, struct kvc_str text, const char *name,
                               int64_t fallback, int64_t *number)
{
    char what[96];
    text = trim(text);
    snprintf(what, sizeof(what), "%s is not a whole number", name);
    if (!read_number(text, number))
        return refuse(parser, text, what, "decimal digits");
    if (*number <= 0 && fallback > 0)
        *number = fallback;
    snprintf(what, sizeof(what), "%s is out of range", name);
    if (*number < 1 || *number > MAX_NUMBER)
        return refuse(parser, text, what, "1 to 2147483647");
    return KVC_OK;
}

static kvc_status parse_shape(const struct parser *parser, struct kvc_str shape,
                              int64_t fields[SHAPE_FIELDS])
{
    const int64_t fallbacks[SHAPE_FIELDS] = {
        [NUM_BLOCKS] = parser->default_blocks,
        [BLOCK_SIZE] = parser->default_block_size,
    };
    struct kvc_str rest = shape;
    for (size_t i = 0; i < SHAPE_FIELDS; i++) {
        struct kvc_str field;
        const bool more = split(&rest, ',', &field);
        if (more != (i + 1 < SHAPE_FIELDS))
            return refuse(parser, shape, "a shape has five numbers", "kv_size,NB,BS,NH,HS");
        KVC_GUARD(parse_number(parser, field, field_names[i], fallbacks[i], &fields[i]));
        if (i == KV_SIZE && fields[i] > 2)
            return refuse(parser, trim(field), "kv_size is out of range", "2 (K and V) or 1 (MLA)");
    }
    return KVC_OK;
}

static kvc_status parse_dtype(const struct parser *parser, struct kvc_str text,
                              const struct kvc_dtype **dtype)
{
    text = trim(text);
    char lower[16];
    if (text.size < sizeof(lower)) {
        for (size_t i = 0; i < text.size; i++) {
            const char c = text.data[i];
            lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
        }
        for (size_t i = 0; i < KVC_COUNT_OF(spec_dtypes); i++) {
            if (kvc_str_is((struct kvc_str){lower, text.size}, spec_dtypes[i])) {
                *dtype = kvc_dtype_find(kvc_str_of(spec_dtypes[i]));
                return KVC_OK;
            }
        }
    }
    return refuse(parser, text, "unknown dtype", SPEC_DTYPES);
}

static kvc_status parse_group(const struct parser *parser, struct kvc_str text,
                              struct kvc_group *group)
{
    struct kvc_str rest = text, shape, dtype, layers;
    if (rest.data[0] != '(')
        return refuse(parser, text, "a group starts with \"(\"", ACCEPTED);
    rest.data++;
    rest.size--;
    if (!split(&rest, ')', &shape) || rest.size == 0 || rest.data[0] != ':')
        return refuse(parser, text, "\"):\" must follow the shape", ACCEPTED);
    rest.data++;
    rest.size--;
    if (!split(&rest, ':', &dtype) || split(&rest, ':', &layers))
        return refuse(parser, text, "dtype and layers must follow the shape", ACCEPTED);

    int64_t fields[SHAPE_FIELDS] = {0};
    KVC_GUARD(parse_dtype(parser, dtype, &group->dtype));
    KVC_GUARD(parse_shape(parser, shape, fields));
    KVC_GUARD(parse_number(parser, layers, "layers", 0, &group->num_layers));
    if (group->num_layers > MAX_LAYERS)
        return refuse(parser, trim(layers), "layers is out of range", "1 to 1048576");
    group->kv_size = fields[KV_SIZE];
    group->num_blocks = fields[NUM_BLOCKS];
    group->block_size = fields[BLOCK_SIZE];
    group->num_heads = fields[NUM_HEADS];
    group->head_size = fields[HEAD_SIZE];
    group->layout = group->kv_size == 2 ? KVC_LAYOUT_NHD : KVC_LAYOUT_MLA;
    return KVC_OK;
}

static kvc_status check_group(const struct parser *parser, struct kvc_str text,
                              const struct kvc_geometry *geometry)
{
    const struct kvc_group *first = &geometry->groups[0];
    const struct kvc_group *group = &geometry->groups[geometry->group_count - 1];
    if (group->num_blocks != first->num_blocks || group->block_size != first->block_size)
        return refuse(parser, text, "all groups must have the same NB and BS", ACCEPTED);
    if (!kvc_geometry_fits(geometry))
        return refuse(parser, text, "more memory than a machine can have", "smaller numbers");
    return KVC_OK;
}

kvc_status kvc_geometry_parse_defaults(const char *spec, int64_t num_blocks, int64_t block_size,
                                       struct kvc_geometry *geometry, struct kvc_error *err)
{
    const struct parser parser = {spec, num_blocks, block_size, err};
    struct kvc_geometry parsed = {.group_count = 0};
    struct kvc_str rest = kvc_str_of(spec), text;
    bool more = true;
    while (more) {
        more = split(&rest, ';', &text);
        text = trim(text);
        if (text.size == 0)
            continue;
        if (parsed.group_count == KVC_MAX_GROUPS)
            return refuse(&parser, text, "too many groups", "at most 8 groups");
        KVC_GUARD(parse_group(&parser, text, &parsed.groups[parsed.group_count]));
        parsed.group_count++;
        KVC_GUARD(check_group(&parser, text, &parsed));
    }
    if (parsed.group_count == 0)
        return refuse(&parser, kvc_str_of(spec), "no group of layers in it", ACCEPTED);
    *geometry = parsed;
    return KVC_OK;
}

kvc_status kvc_geometry_parse(const char *spec, struct kvc_geometry *geometry,
                              struct kvc_error *err)
{
    return kvc_geometry_parse_defaults(spec, 0, 0, geometry, err);
}
