#include "src/wire/pack.h"

#include <inttypes.h>
#include <string.h>

/* What one value may hold: bounds the memory that reading takes (a value in memory is far larger
 * than its one byte on the wire). No message of the protocol comes near. */
enum { MAX_VALUES = 1 << 22 };

static int write_to_buffer(void *data, const char *bytes, size_t size)
{
    kvc_buffer_append(data, bytes, size);
    return 0;
}

static msgpack_packer packer_on(struct kvc_buffer *out)
{
    msgpack_packer packer;
    msgpack_packer_init(&packer, out, write_to_buffer);
    return packer;
}

void kvc_msgpack_write_nil(struct kvc_buffer *out)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_nil(&packer);
}

void kvc_msgpack_write_bool(struct kvc_buffer *out, bool value)
{
    msgpack_packer packer = packer_on(out);
    if (value)
        msgpack_pack_true(&packer);
    else
        msgpack_pack_false(&packer);
}

void kvc_msgpack_write_int(struct kvc_buffer *out, int64_t value)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_int64(&packer, value);
}

/* Where the next bytes go; there is room for them. */
struct cursor {
    uint8_t *next;
};

static int write_at_cursor(void *data, const char *bytes, size_t size)
{
    struct cursor *cursor = data;
    memcpy(cursor->next, bytes, size);
    cursor->next += size;
    return 0;
}

void kvc_msgpack_write_ints(struct kvc_buffer *out, const int64_t *values, size_t count)
{
    enum { LONGEST_INT = 9 };
    kvc_buffer_reserve(out, count * LONGEST_INT);
    struct cursor cursor = {out->data + out->size};
    msgpack_packer packer;
    msgpack_packer_init(&packer, &cursor, write_at_cursor);
    for (size_t i = 0; i < count; i++)
        msgpack_pack_int64(&packer, values[i]);
    out->size = (size_t)(cursor.next - out->data);
}

void kvc_msgpack_write_uint(struct kvc_buffer *out, uint64_t value)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_uint64(&packer, value);
}

void kvc_msgpack_write_float(struct kvc_buffer *out, double value)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_double(&packer, value);
}

void kvc_msgpack_write_str(struct kvc_buffer *out, struct kvc_str value)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_str(&packer, value.size);
    kvc_buffer_append(out, value.data, value.size);
}

void kvc_msgpack_write_bin(struct kvc_buffer *out, struct kvc_bytes value)
{
    msgpack_packer packer = packer_on(out);
    /* One reservation for header and body: a large body is then copied once. */
    kvc_buffer_reserve(out, value.size + 5);
    msgpack_pack_bin(&packer, value.size);
    kvc_buffer_append(out, value.data, value.size);
}

void kvc_msgpack_write_array(struct kvc_buffer *out, uint32_t count)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_array(&packer, count);
}

void kvc_msgpack_write_map(struct kvc_buffer *out, uint32_t count)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_map(&packer, count);
}

void kvc_msgpack_write_ext(struct kvc_buffer *out, int8_t type, struct kvc_bytes body)
{
    msgpack_packer packer = packer_on(out);
    msgpack_pack_ext(&packer, body.size, type);
    kvc_buffer_append(out, body.data, body.size);
}

/* The head of one value. */
struct head {
    size_t size;       /* of tag, length field and fixed-size content */
    uint64_t content;  /* bytes of text, bin or ext that follow the head */
    uint64_t children; /* values that follow: elements, or keys and values */
    bool is_text;
};

enum count_of { BYTES, TEXT, ELEMENTS, PAIRS, INVALID };

/* Formats c0 … df: the bytes after the tag, and what a length in them counts. */
static const struct format {
    uint8_t length_size; /* 0: the value has a fixed size */
    uint8_t fixed;       /* further bytes of fixed size (an ext has its type byte) */
    enum count_of counts;
} formats[32] = {
    {0, 0, BYTES},    {0, 0, INVALID},  {0, 0, BYTES}, {0, 0, BYTES}, /* nil, -, false, true */
    {1, 0, BYTES},    {2, 0, BYTES},    {4, 0, BYTES},                /* bin */
    {1, 1, BYTES},    {2, 1, BYTES},    {4, 1, BYTES},                /* ext */
    {0, 4, BYTES},    {0, 8, BYTES},                                  /* float */
    {0, 1, BYTES},    {0, 2, BYTES},    {0, 4, BYTES}, {0, 8, BYTES}, /* uint */
    {0, 1, BYTES},    {0, 2, BYTES},    {0, 4, BYTES}, {0, 8, BYTES}, /* int */
    {0, 2, BYTES},    {0, 3, BYTES},    {0, 5, BYTES}, {0, 9, BYTES}, /* fixext 1 to 8 */
    {0, 17, BYTES},                                                   /* fixext 16 */
    {1, 0, TEXT},     {2, 0, TEXT},     {4, 0, TEXT},                 /* str */
    {2, 0, ELEMENTS}, {4, 0, ELEMENTS},                               /* array */
    {2, 0, PAIRS},    {4, 0, PAIRS},                                  /* map */
};

static void set_count(struct head *head, enum count_of counts, uint64_t count)
{
    if (counts == ELEMENTS)
        head->children = count;
    else if (counts == PAIRS)
        head->children = 2 * count;
    else
        head->content = count;
    head->is_text = counts == TEXT;
}

/* False when the head is cut short or its tag is none. */
static bool read_head(const uint8_t *data, size_t size, struct head *head)
{
    const uint8_t tag = data[0];
    *head = (struct head){.size = 1};
    if (tag < 0x80 || tag >= 0xe0)
        return true;
    if (tag < 0xc0) { /* fixmap, fixarray, fixstr: the count is in the tag */
        if (tag < 0x90)
            set_count(head, PAIRS, tag & 0x0f);
        else if (tag < 0xa0)
            set_count(head, ELEMENTS, tag & 0x0f);
        else
            set_count(head, TEXT, tag & 0x1f);
        return true;
    }
    const struct format *format = &formats[tag - 0xc0];
    head->size += (size_t)format->length_size + format->fixed;
    if (format->counts == INVALID || head->size > size)
        return false;
    uint64_t count = 0;
    for (size_t i = 1; i <= format->length_size; i++)
        count = count << 8 | data[i];
    set_count(head, format->counts, count);
    return true;
}

static kvc_status malformed(struct kvc_error *err, size_t position, const char *what)
{
    kvc_fail(err, KVC_EFORMAT, "malformed msgpack: %s", what);
    kvc_error_set_where(err, "byte %zu", position);
    return KVC_EFORMAT;
}

/* Checks one head against the bytes that are left after it. */
static kvc_status check_head(struct kvc_bytes bytes, size_t position, struct head *head,
                             struct kvc_error *err)
{
    const size_t left = bytes.size - position;
    if (left == 0)
        return malformed(err, position, "the value is cut short");
    if (!read_head(bytes.data + position, left, head))
        return malformed(err, position,
                         bytes.data[position] == 0xc1 ? "c1 begins no value"
                                                      : "the value is cut short");
    if (head->content > left - head->size)
        return malformed(err, position, "a length goes beyond the end");
    if (head->children > left - head->size)
        return malformed(err, position, "a count goes beyond the end");
    if (head->is_text &&
        !kvc_utf8_is_valid((const char *)bytes.data + position + head->size, (size_t)head->content))
        return malformed(err, position, "text is not UTF-8");
    return KVC_OK;
}

/* Bytes of the int that begins with the tag; 0 when it begins something else. */
static size_t int_size(uint8_t tag)
{
    if (tag < 0x80 || tag >= 0xe0)
        return 1;
    if (tag >= 0xcc && tag <= 0xd3) /* uint and int of 1, 2, 4, 8 bytes */
        return 1 + ((size_t)1 << (tag & 3));
    return 0;
}

/* Passes over ints at the position, at most *left of them: token ids are most of most messages. */
static void skip_ints(struct kvc_bytes bytes, size_t *position, uint64_t *left)
{
    while (*left > 0 && *position < bytes.size) {
        const size_t size = int_size(bytes.data[*position]);
        if (size == 0 || size > bytes.size - *position)
            return;
        *position += size;
        (*left)--;
    }
}

kvc_status kvc_msgpack_validate(struct kvc_bytes bytes, struct kvc_error *err)
{
    uint64_t open[KVC_MSGPACK_MAX_DEPTH + 1] = {1}; /* values still to come, by depth */
    size_t depth = 0;
    size_t position = 0;
    uint64_t values = 1;
    while (depth > 0 || open[0] > 0) {
        struct head head = {0};
        KVC_GUARD(check_head(bytes, position, &head, err));
        open[depth]--;
        values += head.children;
        if (values > MAX_VALUES)
            return malformed(err, position, "more values than a message may have");
        if (head.children > 0) {
            if (depth == KVC_MSGPACK_MAX_DEPTH)
                return malformed(err, position, "nested too deeply");
            open[++depth] = head.children;
        }
        position += head.size + (size_t)head.content;
        skip_ints(bytes, &position, &open[depth]);
        while (depth > 0 && open[depth] == 0)
            depth--;
    }
    if (position != bytes.size)
        return malformed(err, position, "bytes after the value");
    return KVC_OK;
}

kvc_status kvc_msgpack_read(struct kvc_bytes bytes, msgpack_zone *zone, msgpack_object *object,
                            struct kvc_error *err)
{
    size_t offset = 0;
    if (!msgpack_zone_init(zone, MSGPACK_ZONE_CHUNK_SIZE))
        kvc_out_of_memory(MSGPACK_ZONE_CHUNK_SIZE);
    KVC_GUARD(kvc_msgpack_validate(bytes, err));
    const msgpack_unpack_return result =
        msgpack_unpack((const char *)bytes.data, bytes.size, &offset, zone, object);
    if (result != MSGPACK_UNPACK_SUCCESS)
        return malformed(err, offset, "the value does not read");
    return KVC_OK;
}

const char *kvc_msgpack_type_name(msgpack_object_type type)
{
    switch (type) {
    case MSGPACK_OBJECT_NIL:
        return "nil";
    case MSGPACK_OBJECT_BOOLEAN:
        return "bool";
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return "int";
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return "float";
    case MSGPACK_OBJECT_STR:
        return "str";
    case MSGPACK_OBJECT_ARRAY:
        return "array";
    case MSGPACK_OBJECT_MAP:
        return "map";
    case MSGPACK_OBJECT_BIN:
        return "bin";
    case MSGPACK_OBJECT_EXT:
        return "ext";
    }
    return "unknown";
}
