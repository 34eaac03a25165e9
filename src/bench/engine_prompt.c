#include "src/bench/engine_prompt.h"

#include <string.h>

#include "src/base/clock.h"

/* Common and short: one token each for most tokenizers of large models. */
static const char *const vocabulary[KVC_PROMPT_WORD_COUNT] = {
    " time",   " people", " way",   " water",  " day",   " man",     " thing",  " woman",
    " life",   " child",  " world", " school", " state", " family",  " group",  " country",
    " hand",   " part",   " place", " case",   " week",  " company", " system", " work",
    " number", " night",  " point", " home",   " room",  " mother",  " area",   " money",
    " story",  " fact",   " month", " right",  " study", " book",    " eye",    " job",
    " word",   " side",   " kind",  " head",   " house", " service", " friend", " father",
    " power",  " hour",   " game",  " line",   " end",   " member",  " law",    " car",
    " city",   " name",   " team",  " minute", " idea",  " body",    " back",   " face",
};

void kvc_prompt_words_init(struct kvc_prompt_words *words)
{
    *words = (struct kvc_prompt_words){.scale = 1};
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        words->cost[i] = 1;
    for (size_t i = 0; i < KVC_PROMPT_MAX_LABELS; i++)
        words->label_cost[i] = 1;
}

const char *kvc_prompt_word(size_t index)
{
    return vocabulary[index];
}

uint64_t kvc_prompt_seed(int64_t seed, const char *purpose, int64_t index)
{
    return kvc_mix((uint64_t)seed ^ kvc_hash_text(purpose) ^ kvc_mix((uint64_t)index + 1));
}

/* ---- lengths ---- */

/* Which small numbers of tokens some words make together. */
struct ending {
    bool is_possible[2 * KVC_PROMPT_MAX_COST + 1];
    int64_t dearest; /* tokens of the dearest word */
};

static struct ending find_endings(const struct kvc_prompt_words *words)
{
    struct ending ending = {.is_possible = {true}};
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        if (words->cost[i] > ending.dearest)
            ending.dearest = words->cost[i];
    for (int64_t tokens = 1; tokens <= 2 * ending.dearest; tokens++)
        for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT && !ending.is_possible[tokens]; i++)
            ending.is_possible[tokens] =
                words->cost[i] <= tokens && ending.is_possible[tokens - words->cost[i]];
    return ending;
}

/* From the word drawn on, the first after which the rest can still be made; KVC_PROMPT_WORD_COUNT if there is
 * none. */
static size_t choose_word(const struct kvc_prompt_words *words, const struct ending *ending,
                          size_t drawn, int64_t left)
{
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++) {
        const size_t word = (drawn + i) % KVC_PROMPT_WORD_COUNT;
        const int64_t rest = left - words->cost[word];
        if (rest >= 0 && (rest > 2 * ending->dearest || ending->is_possible[rest]))
            return word;
    }
    return KVC_PROMPT_WORD_COUNT;
}

int64_t kvc_prompt_text(const struct kvc_prompt_words *words, uint64_t seed, int64_t tokens,
                        struct kvc_buffer *out)
{
    const struct ending ending = find_endings(words);
    struct kvc_random random = {seed};
    int64_t left = (int64_t)((double)tokens / words->scale + 0.5);
    int64_t made = 0;
    while (left > 0) {
        const size_t drawn = (size_t)(kvc_random_next(&random) % KVC_PROMPT_WORD_COUNT);
        const size_t word = choose_word(words, &ending, drawn, left);
        if (word == KVC_PROMPT_WORD_COUNT) {
            left--; /* nothing makes exactly so many */
            continue;
        }
        kvc_buffer_append(out, vocabulary[word], strlen(vocabulary[word]));
        left -= words->cost[word];
        made += words->cost[word];
    }
    return (int64_t)((double)made * words->scale + 0.5);
}
