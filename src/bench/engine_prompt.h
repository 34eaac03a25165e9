/* Prompts of a length that the engine counts, without its tokenizer: text of common words whose tokens were
 * counted by the engine itself. For the workloads of `bench engine`. */
#ifndef KVC_BENCH_ENGINE_PROMPT_H
#define KVC_BENCH_ENGINE_PROMPT_H

#include "src/base/bytes.h"

enum {
    KVC_PROMPT_WORD_COUNT = 64,
    KVC_PROMPT_MAX_LABELS = 4,
    KVC_PROMPT_MAX_COST = 64, /* tokens that a word may take */
};

struct kvc_prompt_words {
    int64_t cost[KVC_PROMPT_WORD_COUNT]; /* tokens of each word, with the space before it */
    int64_t overhead; /* tokens of a request with one user message, besides its text */
    int64_t label_cost[KVC_PROMPT_MAX_LABELS]; /* tokens of the workload's labels, behind words */
    double scale; /* tokens that the engine counts for one asked for; 1 after a good calibration */
};

/* Words of one token each and no overhead: what is assumed until the engine was asked. */
void kvc_prompt_words_init(struct kvc_prompt_words *words);

/* The word, with a space before it. index < KVC_PROMPT_WORD_COUNT. */
const char *kvc_prompt_word(size_t index);

/* Appends text of so many tokens to out: words drawn by seed, the last ones chosen to fit. tokens < 1: none.
 * Returns how many tokens it should count: fewer than asked for where no words fit, never more. */
int64_t kvc_prompt_text(const struct kvc_prompt_words *words, uint64_t seed, int64_t tokens,
                        struct kvc_buffer *out);

/* A seed for one text of many: of the run's seed, what the text is for, and which one it is. */
uint64_t kvc_prompt_seed(int64_t seed, const char *purpose, int64_t index);

#endif
