#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/engine_prompt.h"

static struct kvc_prompt_words words_of(int64_t (*cost)(size_t))
{
    struct kvc_prompt_words words;
    kvc_prompt_words_init(&words);
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        words.cost[i] = cost(i);
    return words;
}

static int64_t one(size_t word)
{
    (void)word;
    return 1;
}

static int64_t letters(size_t word)
{
    return (int64_t)strlen(kvc_prompt_word(word)) - 1;
}

static int64_t two_or_four(size_t word)
{
    return word % 2 == 0 ? 2 : 4;
}

static int64_t sixty_four(size_t word)
{
    (void)word;
    return KVC_PROMPT_MAX_COST;
}

/* What a tokenizer with these costs counts. */
static int64_t count(const struct kvc_prompt_words *words, struct kvc_buffer *text)
{
    int64_t sum = 0;
    char *copy = strdup(kvc_buffer_text(text));
    char *rest = copy;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        size_t i = 0;
        while (strcmp(kvc_prompt_word(i) + 1, word) != 0)
            i++;
        sum += words->cost[i];
    }
    free(copy);
    return sum;
}

static void expect_length(const struct kvc_prompt_words *words, int64_t asked, int64_t expected)
{
    struct kvc_buffer text = {0};
    cr_assert_eq(kvc_prompt_text(words, 7, asked, &text), expected, "%lld", (long long)asked);
    cr_assert_eq(count(words, &text), expected, "%lld", (long long)asked);
    cr_assert(text.size == 0 || text.data[0] == ' ');
    kvc_buffer_clear(&text);
}

Test(prompt, has_the_length_asked_for)
{
    static const int64_t lengths[] = {1, 2, 50, 999, 10000};
    const struct kvc_prompt_words plain = words_of(one);
    const struct kvc_prompt_words dear = words_of(letters); /* the shortest has three letters */
    for (size_t i = 0; i < KVC_COUNT_OF(lengths); i++) {
        expect_length(&plain, lengths[i], lengths[i]);
        expect_length(&dear, lengths[i], lengths[i] < 3 ? 0 : lengths[i]);
    }
    expect_length(&plain, 0, 0);
    expect_length(&plain, -5, 0);
}

Test(prompt, is_never_longer_where_no_words_fit)
{
    const struct kvc_prompt_words even = words_of(two_or_four);
    const struct kvc_prompt_words large = words_of(sixty_four);
    expect_length(&even, 101, 100);
    expect_length(&even, 1, 0);
    expect_length(&large, 1000, 960);
    expect_length(&large, 63, 0);
}

Test(prompt, a_scale_corrects_the_length)
{
    struct kvc_prompt_words words = words_of(one);
    struct kvc_buffer text = {0};
    words.scale = 1.25; /* the engine counts 5 tokens for 4 words */
    cr_assert_eq(kvc_prompt_text(&words, 7, 1000, &text), 1000);
    cr_assert_eq(count(&words, &text), 800);
    kvc_buffer_clear(&text);
}

Test(prompt, the_seed_says_the_words)
{
    const struct kvc_prompt_words words = words_of(one);
    struct kvc_buffer first = {0}, again = {0}, other = {0};
    kvc_prompt_text(&words, kvc_prompt_seed(42, "document", 0), 100, &first);
    kvc_prompt_text(&words, kvc_prompt_seed(42, "document", 0), 100, &again);
    kvc_prompt_text(&words, kvc_prompt_seed(42, "document", 1), 100, &other);
    cr_assert_str_eq(kvc_buffer_text(&first), kvc_buffer_text(&again));
    cr_assert_str_neq(kvc_buffer_text(&first), kvc_buffer_text(&other));
    cr_assert_neq(kvc_prompt_seed(42, "document", 0), kvc_prompt_seed(43, "document", 0));
    cr_assert_neq(kvc_prompt_seed(42, "document", 0), kvc_prompt_seed(42, "suffix", 0));
    kvc_buffer_clear(&first);
    kvc_buffer_clear(&again);
    kvc_buffer_clear(&other);
}
