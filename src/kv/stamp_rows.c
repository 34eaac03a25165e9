#include "src/kv/stamp_rows.h"

#include <string.h>

/* Inlined into each loop below, where the size is a constant. */
#define INLINED static inline __attribute__((always_inline))

enum { WORD = sizeof(uint64_t), VECTOR = 2 * WORD };
typedef uint64_t vector __attribute__((vector_size(VECTOR)));

static inline vector read_vector(const void *from)
{
    vector words;
    memcpy(&words, from, VECTOR);
    return words;
}

struct kvc_stamp_runs kvc_stamp_runs_of(const struct kvc_stamp_plan *plan,
                                        const struct kvc_region *region, int64_t layer_kv,
                                        int64_t first_token)
{
    const int64_t row_words = (int64_t)plan->row_words;
    struct kvc_stamp_runs runs = {
        .pattern = plan->pattern,
        .tokens = plan->tokens + first_token,
        .layer_key = plan->layers[layer_kv],
        .run_size = region->row_size,
        .inner_count = region->block_size,
        .outer_pattern = row_words,
        .inner_token = 1,
    };
    if (region->token_major && region->row_size % WORD == 0) {
        /* A token's rows lie side by side as in the pattern: they are one run. */
        runs.run_size = region->row_size * region->num_heads;
    } else if (!region->token_major && region->row_size == WORD) {
        /* What the tokens add is then the pattern, and what the head adds the key. */
        runs.pattern = plan->tokens + first_token;
        runs.tokens = plan->pattern;
        runs.run_size = region->row_size * region->block_size;
        runs.inner_count = 1;
        runs.outer_pattern = 0;
        runs.outer_token = row_words;
    } else if (region->token_major) {
        runs.inner_count = region->num_heads;
        runs.outer_pattern = 0;
        runs.inner_pattern = row_words;
        runs.outer_token = 1;
        runs.inner_token = 0;
    }
    return runs;
}

/* Writes whole words: what is beyond the run's end is overwritten by the next run. */
INLINED void make_run(uint8_t *to, const uint64_t *pattern, uint64_t key, int64_t size)
{
    const vector keys = {key, key};
    int64_t at = 0;
    for (; at + VECTOR <= size; at += VECTOR) {
        const vector words = read_vector(pattern + at / WORD) ^ keys;
        memcpy(to + at, &words, VECTOR);
    }
    for (; at < size; at += WORD) {
        const uint64_t word = pattern[at / WORD] ^ key;
        memcpy(to + at, &word, WORD);
    }
}

/* The runs of one outer step from (outer, inner) on. */
struct stretch {
    const uint64_t *pattern;
    const uint64_t *tokens;
    int64_t count;
};

INLINED void make_stretch(const struct kvc_stamp_runs *runs, const struct stretch *stretch,
                          int64_t size, uint8_t *to)
{
    const uint64_t *pattern = stretch->pattern, *tokens = stretch->tokens;
    for (int64_t i = 0; i < stretch->count; i++) {
        make_run(to, pattern, runs->layer_key ^ *tokens, size);
        pattern += runs->inner_pattern;
        tokens += runs->inner_token;
        to += size;
    }
}

#define FOR_EACH_SIZE(X) X(8) X(16) X(24) X(32) X(40) X(48) X(64) X(80) X(128) X(256)

#define MAKE_STRETCH(size)                                                                         \
    case size:                                                                                     \
        make_stretch(runs, stretch, size, to);                                                     \
        return;

static void make_any_stretch(const struct kvc_stamp_runs *runs, const struct stretch *stretch,
                             uint8_t *to)
{
    switch (runs->run_size) {
        FOR_EACH_SIZE(MAKE_STRETCH)
    default:
        make_stretch(runs, stretch, runs->run_size, to);
    }
}

/* The runs at a place in the order of the region. */
struct position {
    int64_t outer, inner;
};

static inline struct position position_of(const struct kvc_stamp_runs *runs, int64_t run)
{
    return (struct position){run / runs->inner_count, run % runs->inner_count};
}

/* As many as the outer step has left, at most `most`; moves to the next outer step. */
static inline struct stretch take_stretch(const struct kvc_stamp_runs *runs,
                                          struct position *position, int64_t most)
{
    const int64_t outer = position->outer++, inner = position->inner;
    const int64_t left = runs->inner_count - inner;
    position->inner = 0;
    return (struct stretch){
        .pattern = runs->pattern + outer * runs->outer_pattern + inner * runs->inner_pattern,
        .tokens = runs->tokens + outer * runs->outer_token + inner * runs->inner_token,
        .count = most < left ? most : left,
    };
}

/* ---- tiles ---- */

/* Whole runs, and as many as fill whole cache lines; or a part of one that is larger than a tile. */
static int64_t tile_size(const struct kvc_stamp_runs *runs, int64_t region_size, int64_t at)
{
    const int64_t run_left = runs->run_size - at % runs->run_size;
    if (runs->run_size > KVC_STAMP_TILE)
        return run_left < KVC_STAMP_TILE ? run_left : KVC_STAMP_TILE;
    int64_t count = KVC_STAMP_TILE / runs->run_size;
    if (count >= 8)
        count -= count % (count >= 64 ? 64 : 8);
    const int64_t left = region_size - at;
    return left < count * runs->run_size ? left : count * runs->run_size;
}

int64_t kvc_stamp_make_tile(const struct kvc_stamp_runs *runs, int64_t region_size, int64_t at,
                            uint8_t *tile)
{
    const int64_t size = tile_size(runs, region_size, at);
    struct position position = position_of(runs, at / runs->run_size);
    if (runs->run_size > KVC_STAMP_TILE) {
        const struct stretch part = take_stretch(runs, &position, 1);
        make_run(tile, part.pattern + at % runs->run_size / WORD, runs->layer_key ^ *part.tokens,
                 size);
        return size;
    }
    for (int64_t left = size; left > 0;) {
        const struct stretch stretch = take_stretch(runs, &position, left / runs->run_size);
        make_any_stretch(runs, &stretch, tile + size - left);
        left -= stretch.count * runs->run_size;
    }
    return size;
}

/* ---- comparing ---- */

/* A bit for each bit that is not what it must be. Without a tile between: what was just written in
 * words is slow to be read in larger pieces. */
INLINED vector differing(const uint8_t *held, const uint64_t *pattern, uint64_t key, int64_t size)
{
    const vector keys = {key, key};
    vector even = {0}, odd = {0}; /* two, so that they need not wait for one another */
    int64_t at = 0;
    for (; at + 2 * VECTOR <= size; at += 2 * VECTOR) {
        even |= read_vector(held + at) ^ read_vector(pattern + at / WORD) ^ keys;
        odd |= read_vector(held + at + VECTOR) ^ read_vector(pattern + at / WORD + 2) ^ keys;
    }
    if (at + VECTOR <= size) {
        even |= read_vector(held + at) ^ read_vector(pattern + at / WORD) ^ keys;
        at += VECTOR;
    }
    if (at < size) {
        uint64_t word;
        memcpy(&word, held + at, WORD);
        odd[0] |= word ^ pattern[at / WORD] ^ key;
    }
    return even | odd;
}

/* Of runs of the same pattern and one token after another. */
INLINED vector differing_stretch(const struct kvc_stamp_runs *runs, const struct stretch *stretch,
                                 int64_t size, const uint8_t *held)
{
    vector different = {0};
    for (int64_t i = 0; i < stretch->count; i++)
        different |= differing(held + i * size, stretch->pattern,
                               runs->layer_key ^ stretch->tokens[i], size);
    return different;
}

#define COMPARE_STRETCH(size)                                                                      \
    case size:                                                                                     \
        return differing_stretch(runs, stretch, size, held);

static vector differing_any(const struct kvc_stamp_runs *runs, const struct stretch *stretch,
                            const uint8_t *held)
{
    switch (runs->run_size) {
        FOR_EACH_SIZE(COMPARE_STRETCH)
    default:
        return differing_stretch(runs, stretch, runs->run_size, held);
    }
}

/* As long as runs consist of whole words, which go with the tokens inside. */
static bool words_are_right(const struct kvc_stamp_runs *runs, const uint8_t *held, int64_t size,
                            int64_t at)
{
    struct position position = position_of(runs, at / runs->run_size);
    if (runs->run_size > KVC_STAMP_TILE) {
        const struct stretch part = take_stretch(runs, &position, 1);
        const vector different = differing(held, part.pattern + at % runs->run_size / WORD,
                                           runs->layer_key ^ *part.tokens, size);
        return (different[0] | different[1]) == 0;
    }
    vector different = {0};
    for (int64_t left = size; left > 0;) {
        const struct stretch stretch = take_stretch(runs, &position, left / runs->run_size);
        different |= differing_any(runs, &stretch, held + size - left);
        left -= stretch.count * runs->run_size;
    }
    return (different[0] | different[1]) == 0;
}

bool kvc_stamp_tile_is_right(const struct kvc_stamp_runs *runs, const uint8_t *region,
                             int64_t region_size, int64_t at, int64_t *size)
{
    *size = tile_size(runs, region_size, at);
    if (runs->run_size % WORD == 0)
        return words_are_right(runs, region + at, *size, at);
    uint8_t tile[KVC_STAMP_TILE + WORD];
    kvc_stamp_make_tile(runs, region_size, at, tile);
    return memcmp(region + at, tile, (size_t)*size) == 0;
}
