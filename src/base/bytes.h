/* Views of bytes and text, a growing buffer, and an arena. For every part. */
#ifndef KVC_BASE_BYTES_H
#define KVC_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/error.h"

/* A view of bytes that somebody else owns. data may be NULL when size is 0. */
struct kvc_bytes {
    const uint8_t *data;
    size_t size;
};

/* A view of text: not NUL-terminated, may hold any byte, NUL included. */
struct kvc_str {
    const char *data;
    size_t size;
};

#define KVC_STR(literal)    ((struct kvc_str){literal, sizeof(literal) - 1})
#define KVC_STR_FMT         "%.*s"
#define KVC_STR_ARG(string) (int)(string).size, (string).data

struct kvc_str kvc_str_of(const char *text); /* text may be NULL: then empty */
bool kvc_str_equal(struct kvc_str a, struct kvc_str b);
bool kvc_str_is(struct kvc_str a, const char *text);
bool kvc_bytes_equal(struct kvc_bytes a, struct kvc_bytes b);

/* A growing buffer. Zero-initialise; free with kvc_buffer_clear. A failed allocation ends the
 * program with one line: a test tool that is out of memory has nothing true to say. */
struct kvc_buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

void kvc_buffer_reserve(struct kvc_buffer *buffer, size_t extra);
void kvc_buffer_append(struct kvc_buffer *buffer, const void *data, size_t size);
void kvc_buffer_append_byte(struct kvc_buffer *buffer, uint8_t byte);
void kvc_buffer_append_text(struct kvc_buffer *buffer, const char *text);
void kvc_buffer_printf(struct kvc_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends what a file holds, at least until there are more than `most` bytes in the buffer. False,
 * with errno, when it cannot be read. */
bool kvc_buffer_read_file(const char *path, size_t most, struct kvc_buffer *buffer);
/* The content as NUL-terminated text; owned by the buffer, valid until it changes. */
const char *kvc_buffer_text(struct kvc_buffer *buffer);
/* Hands the NUL-terminated content to the caller (free()) and empties the buffer. */
char *kvc_buffer_take_text(struct kvc_buffer *buffer);
struct kvc_bytes kvc_buffer_view(const struct kvc_buffer *buffer);
void kvc_buffer_clear(struct kvc_buffer *buffer);

/* Ends the program with that one line: for what only reports a failed allocation. */
_Noreturn void kvc_out_of_memory(size_t size);
/* malloc, calloc, realloc and strdup that never return NULL (see kvc_buffer). */
void *kvc_alloc(size_t size);
void *kvc_alloc_zero(size_t count, size_t size);
void *kvc_realloc(void *old, size_t size);
char *kvc_strdup(const char *text);
/* printf into fresh memory; the caller frees it. */
char *kvc_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory that is freed all at once. Zero-initialise; free with kvc_arena_clear. */
struct kvc_arena_block;
struct kvc_arena {
    struct kvc_arena_block *head;
};

/* Zeroed memory, aligned for any type. Never NULL; size 0 gives a valid pointer. */
void *kvc_arena_alloc(struct kvc_arena *arena, size_t size);
void *kvc_arena_alloc_array(struct kvc_arena *arena, size_t count, size_t size);
struct kvc_str kvc_arena_copy_str(struct kvc_arena *arena, struct kvc_str text);
void kvc_arena_clear(struct kvc_arena *arena);

/* Hex, lower case. kvc_hex_decode appends to out; KVC_EFORMAT for an odd length or a digit that is
 * none. */
void kvc_hex_encode(struct kvc_bytes bytes, struct kvc_buffer *out);
kvc_status kvc_hex_decode(struct kvc_str hex, struct kvc_buffer *out, struct kvc_error *err);
/* Appends text with control characters, quotes and bytes that are no UTF-8 as \xNN escapes. */
void kvc_text_escape(struct kvc_str text, struct kvc_buffer *out);
/* A peer's text for a message to a person: escaped in the same way, cut to 64 characters or so. */
struct kvc_shown_text {
    char text[288];
};
struct kvc_shown_text kvc_text_show(struct kvc_str text);
/* Length of the valid UTF-8 sequence at the start of text, or 0. Never looks past size. */
size_t kvc_utf8_sequence(const char *text, size_t size);
bool kvc_utf8_is_valid(const char *text, size_t size);

#define KVC_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
