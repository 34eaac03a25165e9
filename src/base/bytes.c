#include "src/base/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void kvc_out_of_memory(size_t size)
{
    fprintf(stderr, "kvconform: out of memory (%zu bytes)\n", size);
    _Exit(3);
}

struct kvc_str kvc_str_of(const char *text)
{
    return (struct kvc_str){text, text == NULL ? 0 : strlen(text)};
}

bool kvc_bytes_equal(struct kvc_bytes a, struct kvc_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool kvc_str_equal(struct kvc_str a, struct kvc_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool kvc_str_is(struct kvc_str a, const char *text)
{
    return kvc_str_equal(a, kvc_str_of(text));
}

void *kvc_alloc(size_t size)
{
    void *memory = malloc(size == 0 ? 1 : size);
    if (memory == NULL)
        kvc_out_of_memory(size);
    return memory;
}

void *kvc_alloc_zero(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
    if (memory == NULL)
        kvc_out_of_memory(count * size);
    return memory;
}

void *kvc_realloc(void *old, size_t size)
{
    void *memory = realloc(old, size == 0 ? 1 : size);
    if (memory == NULL)
        kvc_out_of_memory(size);
    return memory;
}

char *kvc_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    return memcpy(kvc_alloc(size), text, size);
}

char *kvc_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    const size_t size = length < 0 ? 1 : (size_t)length + 1;
    char *text = kvc_alloc(size);
    text[0] = '\0';
    if (length >= 0)
        vsnprintf(text, size, format, again);
    va_end(again);
    return text;
}

void kvc_buffer_reserve(struct kvc_buffer *buffer, size_t extra)
{
    if (extra > SIZE_MAX / 2 || buffer->size > SIZE_MAX / 2)
        kvc_out_of_memory(extra);
    const size_t needed = buffer->size + extra;
    if (needed <= buffer->capacity)
        return;
    size_t capacity = buffer->capacity < 64 ? 64 : buffer->capacity;
    while (capacity < needed)
        capacity *= 2;
    buffer->data = kvc_realloc(buffer->data, capacity);
    buffer->capacity = capacity;
}

void kvc_buffer_append(struct kvc_buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return;
    kvc_buffer_reserve(buffer, size);
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void kvc_buffer_append_byte(struct kvc_buffer *buffer, uint8_t byte)
{
    kvc_buffer_append(buffer, &byte, 1);
}

void kvc_buffer_append_text(struct kvc_buffer *buffer, const char *text)
{
    kvc_buffer_append(buffer, text, strlen(text));
}

void kvc_buffer_printf(struct kvc_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length > 0) {
        kvc_buffer_reserve(buffer, (size_t)length + 1);
        vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
}

bool kvc_buffer_read_file(const char *path, size_t most, struct kvc_buffer *buffer)
{
    enum { PIECE = 1 << 16 };
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return false;
    size_t got = PIECE;
    while (got > 0 && buffer->size <= most) {
        kvc_buffer_reserve(buffer, PIECE);
        got = fread(buffer->data + buffer->size, 1, PIECE, stream);
        buffer->size += got;
    }
    const int code = errno;
    const bool is_read = ferror(stream) == 0;
    fclose(stream);
    errno = code;
    return is_read;
}

const char *kvc_buffer_text(struct kvc_buffer *buffer)
{
    kvc_buffer_reserve(buffer, 1);
    buffer->data[buffer->size] = '\0';
    return (const char *)buffer->data;
}

char *kvc_buffer_take_text(struct kvc_buffer *buffer)
{
    kvc_buffer_text(buffer);
    char *text = (char *)buffer->data;
    *buffer = (struct kvc_buffer){0};
    return text;
}

struct kvc_bytes kvc_buffer_view(const struct kvc_buffer *buffer)
{
    return (struct kvc_bytes){buffer->data, buffer->size};
}

void kvc_buffer_clear(struct kvc_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct kvc_buffer){0};
}

struct kvc_arena_block {
    struct kvc_arena_block *next;
    size_t used;
    size_t capacity;
    _Alignas(max_align_t) uint8_t data[];
};

enum { ARENA_BLOCK_SIZE = 4096 };

void *kvc_arena_alloc(struct kvc_arena *arena, size_t size)
{
    const size_t alignment = _Alignof(max_align_t);
    if (size > SIZE_MAX / 2)
        kvc_out_of_memory(size);
    const size_t rounded = (size + alignment - 1) / alignment * alignment;
    struct kvc_arena_block *block = arena->head;
    if (block == NULL || block->capacity - block->used < rounded) {
        const size_t capacity = rounded > ARENA_BLOCK_SIZE ? rounded : ARENA_BLOCK_SIZE;
        block = kvc_alloc_zero(1, sizeof(*block) + capacity);
        block->capacity = capacity;
        block->next = arena->head;
        arena->head = block;
    }
    void *memory = block->data + block->used;
    block->used += rounded;
    return memory;
}

void *kvc_arena_alloc_array(struct kvc_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / 2 / size)
        kvc_out_of_memory(count);
    return kvc_arena_alloc(arena, count * size);
}

struct kvc_str kvc_arena_copy_str(struct kvc_arena *arena, struct kvc_str text)
{
    char *copy = kvc_arena_alloc(arena, text.size + 1);
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    return (struct kvc_str){copy, text.size};
}

void kvc_arena_clear(struct kvc_arena *arena)
{
    struct kvc_arena_block *block = arena->head;
    while (block != NULL) {
        struct kvc_arena_block *next = block->next;
        free(block);
        block = next;
    }
    arena->head = NULL;
}

void kvc_hex_encode(struct kvc_bytes bytes, struct kvc_buffer *out)
{
    static const char digits[] = "0123456789abcdef";
    kvc_buffer_reserve(out, 2 * bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        out->data[out->size++] = (uint8_t)digits[bytes.data[i] >> 4];
        out->data[out->size++] = (uint8_t)digits[bytes.data[i] & 15];
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

kvc_status kvc_hex_decode(struct kvc_str hex, struct kvc_buffer *out, struct kvc_error *err)
{
    if (hex.size % 2 != 0)
        return kvc_fail(err, KVC_EFORMAT, "hex text has an odd number of digits (%zu)", hex.size);
    kvc_buffer_reserve(out, hex.size / 2);
    for (size_t i = 0; i < hex.size; i += 2) {
        const int high = hex_digit(hex.data[i]);
        const int low = hex_digit(hex.data[i + 1]);
        if (high < 0 || low < 0)
            return kvc_fail(err, KVC_EFORMAT, "no hex digit at position %zu", i);
        kvc_buffer_append_byte(out, (uint8_t)(high << 4 | low));
    }
    return KVC_OK;
}

size_t kvc_utf8_sequence(const char *text, size_t size)
{
    if (size == 0)
        return 0;
    const uint8_t *bytes = (const uint8_t *)text;
    const uint8_t first = bytes[0];
    if (first < 0x80)
        return 1;
    size_t length;
    uint32_t point;
    uint32_t smallest;
    if (first >= 0xc2 && first <= 0xdf) {
        length = 2, point = first & 0x1fu, smallest = 0x80;
    } else if (first >= 0xe0 && first <= 0xef) {
        length = 3, point = first & 0x0fu, smallest = 0x800;
    } else if (first >= 0xf0 && first <= 0xf4) {
        length = 4, point = first & 0x07u, smallest = 0x10000;
    } else {
        return 0;
    }
    if (size < length)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (bytes[i] & 0x3fu);
    }
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < smallest || point > 0x10ffff || surrogate ? 0 : length;
}

bool kvc_utf8_is_valid(const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        const size_t sequence = kvc_utf8_sequence(text + i, size - i);
        if (sequence == 0)
            return false;
        i += sequence;
    }
    return true;
}

void kvc_text_escape(struct kvc_str text, struct kvc_buffer *out)
{
    for (size_t i = 0; i < text.size;) {
        const uint8_t byte = (uint8_t)text.data[i];
        const size_t sequence = kvc_utf8_sequence(text.data + i, text.size - i);
        if (sequence == 0 || byte < 0x20 || byte == 0x7f || byte == '"' || byte == '\\') {
            kvc_buffer_printf(out, "\\x%02x", byte);
            i++;
        } else {
            kvc_buffer_append(out, text.data + i, sequence);
            i += sequence;
        }
    }
}

struct kvc_shown_text kvc_text_show(struct kvc_str text)
{
    enum { SHOWN_BYTES = 64 }; /* each takes four characters at most */
    struct kvc_shown_text shown;
    struct kvc_buffer escaped = {0};
    const bool whole = text.size <= SHOWN_BYTES;
    size_t size = whole ? text.size : SHOWN_BYTES;
    while (!whole && size > 0 && (text.data[size] & 0xc0) == 0x80)
        size--;
    kvc_text_escape((struct kvc_str){text.data, size}, &escaped);
    snprintf(shown.text, sizeof(shown.text), "%s%s", kvc_buffer_text(&escaped), whole ? "" : "…");
    kvc_buffer_clear(&escaped);
    return shown;
}
