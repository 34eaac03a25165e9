#include "src/bench/copy_speed.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/bytes.h"
#include "src/base/clock.h"

enum { ROUNDS = 5, MOST_BYTES = 256 << 20, ROUND_BYTES = 128 << 20 };

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Copies piece after piece: by the time a round is over, caches hold nothing of its beginning. */
static int64_t copy_round(uint8_t *to, const uint8_t *from, size_t size, size_t pieces)
{
    const int64_t begin = kvc_now_ns();
    for (size_t i = 0; i < pieces; i++)
        memcpy(to + i * size, from + i * size, size);
    return kvc_now_ns() - begin;
}

double kvc_copy_speed(int64_t bytes)
{
    if (bytes <= 0)
        return 0;
    const size_t size = bytes < MOST_BYTES ? (size_t)bytes : MOST_BYTES;
    const size_t pieces = size < ROUND_BYTES ? ROUND_BYTES / size : 1;
    uint8_t *from = memset(kvc_alloc(size * pieces), 1, size * pieces);
    uint8_t *to = memset(kvc_alloc(size * pieces), 2, size * pieces);
    int64_t spent[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++)
        spent[i] = copy_round(to, from, size, pieces);
    /* Looked at, or a compiler may leave the copies out. */
    const bool copied = to[size * pieces - 1] == from[0];
    qsort(spent, ROUNDS, sizeof(spent[0]), compare);
    free(from);
    free(to);
    const int64_t median = spent[ROUNDS / 2];
    return copied && median > 0 ? (double)(size * pieces) / (double)median : 0;
}
