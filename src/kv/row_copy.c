#include "src/kv/row_copy.h"

#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

/* Inlined into each loop below, where the size is a constant. */
#define INLINED static inline __attribute__((always_inline))

#ifdef __x86_64__
typedef __m128i vector;
enum { VECTOR = sizeof(vector), LINE_VECTORS = KVC_LINE / VECTOR };

INLINED void stream_vectors(uint8_t *to, const uint8_t *from, int64_t count)
{
    vector line[LINE_VECTORS];
    for (int64_t i = 0; i < count; i++)
        line[i] = _mm_loadu_si128((const vector *)(const void *)from + i);
    for (int64_t i = 0; i < count; i++)
        _mm_stream_si128((vector *)(void *)to + i, line[i]);
}

INLINED void stream_word(uint8_t *to, const uint8_t *from)
{
    long long word;
    memcpy(&word, from, sizeof(word));
    _mm_stream_si64((long long *)(void *)to, word);
}

INLINED void stream_half_word(uint8_t *to, const uint8_t *from)
{
    int half;
    memcpy(&half, from, sizeof(half));
    _mm_stream_si32((int *)(void *)to, half);
}

/* In the largest units to which every row of that size is aligned. */
INLINED void stream_row(uint8_t *to, const uint8_t *from, int64_t size)
{
    int64_t at = 0;
    if (size % VECTOR == 0) {
        for (; at + KVC_LINE <= size; at += KVC_LINE)
            stream_vectors(to + at, from + at, LINE_VECTORS);
        for (; at < size; at += VECTOR)
            stream_vectors(to + at, from + at, 1);
    } else if (size % 8 == 0) {
        for (; at < size; at += 8)
            stream_word(to + at, from + at);
    } else {
        for (; at < size; at += 4)
            stream_half_word(to + at, from + at);
    }
}

void kvc_row_copy_finish(void)
{
    _mm_sfence();
}
#else
INLINED void stream_row(uint8_t *to, const uint8_t *from, int64_t size)
{
    memcpy(to, from, (size_t)size);
}

void kvc_row_copy_finish(void)
{
}
#endif

INLINED void copy_rows(const struct kvc_rows *rows, bool stream, int64_t row_size)
{
    for (int64_t outer = 0; outer < rows->outer_count; outer++) {
        uint8_t *to = rows->to + outer * rows->to_outer;
        const uint8_t *from = rows->from + outer * rows->from_outer;
        for (int64_t inner = 0; inner < rows->inner_count; inner++) {
            if (stream)
                stream_row(to, from, row_size);
            else
                memcpy(to, from, (size_t)row_size);
            to += rows->to_inner;
            from += rows->from_inner;
        }
    }
}

/* Rows of unit to twice as many bytes, each by its first and its last unit: sizes that no instruction has. */
INLINED void copy_rows_by_ends(const struct kvc_rows *rows, size_t unit)
{
    const int64_t last = rows->row_size - (int64_t)unit;
    for (int64_t outer = 0; outer < rows->outer_count; outer++) {
        uint8_t *to = rows->to + outer * rows->to_outer;
        const uint8_t *from = rows->from + outer * rows->from_outer;
        for (int64_t inner = 0; inner < rows->inner_count; inner++) {
            memcpy(to, from, unit);
            memcpy(to + last, from + last, unit);
            to += rows->to_inner;
            from += rows->from_inner;
        }
    }
}

/* The sizes that heads have, and those that take a few instructions; all others in one loop. */
#define FOR_EACH_SIZE(X) X(4) X(8) X(16) X(24) X(32) X(40) X(48) X(64) X(80) X(96) X(128) X(256)

#define COPY_STREAMED(size)                                                                        \
    case size:                                                                                     \
        copy_rows(rows, true, size);                                                               \
        return;
#define COPY_CACHED(size)                                                                          \
    case size:                                                                                     \
        copy_rows(rows, false, size);                                                              \
        return;

static void copy_streamed(const struct kvc_rows *rows)
{
    switch (rows->row_size) {
        FOR_EACH_SIZE(COPY_STREAMED)
    default:
        copy_rows(rows, true, rows->row_size);
    }
}

static void copy_odd(const struct kvc_rows *rows)
{
    if (rows->row_size < 4)
        copy_rows_by_ends(rows, 2);
    else if (rows->row_size < 8)
        copy_rows_by_ends(rows, 4);
    else if (rows->row_size < 16)
        copy_rows_by_ends(rows, 8);
    else if (rows->row_size < 32)
        copy_rows_by_ends(rows, 16);
    else
        copy_rows(rows, false, rows->row_size);
}

static void copy_cached(const struct kvc_rows *rows)
{
    switch (rows->row_size) {
        COPY_CACHED(1)
        COPY_CACHED(2)
        FOR_EACH_SIZE(COPY_CACHED)
    default:
        copy_odd(rows);
    }
}

void kvc_row_copy(const struct kvc_rows *rows, bool stream)
{
    if (stream)
        copy_streamed(rows);
    else
        copy_cached(rows);
}
