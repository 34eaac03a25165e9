/* prefix-suffix-tuner: [prefix of its own][breaker][suffix of all], one request after the other, twice. The
 * prefixes are a little more than fits into a tier of the KV cache, so that in the second pass, which is
 * measured, each has just been evicted from it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/bench/engine_workload.h"

enum {
    BREAKER_TOKENS = 32,
    LEAST_SUFFIX = 100,
    SETTLE_MS = 5000, /* the server evicts once a second */
};

#define OVERFLOW 1.05

struct state {
    const struct kvc_prompt_words *words;
    const struct kvc_bench_engine_settings *settings;
    int64_t prefixes;
    int64_t prefix_tokens;
    int64_t suffix_tokens;
};

static kvc_status open_workload(const struct kvc_bench_engine_settings *settings,
                                const struct kvc_prompt_words *words,
                                struct kvc_workload_plan *plan, void **out, struct kvc_error *err)
{
    const int64_t whole = settings->psf_context_length;
    const double share = nearbyint((double)whole * settings->psf_prefix_ratio);
    const int64_t prefix = share < 1 ? 1 : (int64_t)share;
    const int64_t suffix = whole - prefix - BREAKER_TOKENS;
    int64_t prefixes = 0;
    if (suffix < LEAST_SUFFIX) {
        kvc_fail(
            err, KVC_EUSAGE,
            "--psf-context-length %lld and --psf-prefix-ratio %g leave %lld tokens for the suffix",
            (long long)whole, settings->psf_prefix_ratio, (long long)suffix);
        return kvc_error_set_expected(err, "at least %d: a longer context or a smaller ratio",
                                      LEAST_SUFFIX);
    }
    KVC_GUARD(kvc_workload_count(settings->psf_thrash * OVERFLOW *
                                     (double)settings->tokens_per_gb_kvcache,
                                 (double)prefix, "prefixes", &prefixes, err));
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    *state = (struct state){words, settings, prefixes, prefix, suffix};
    *plan = (struct kvc_workload_plan){.warmups = 1 + prefixes,
                                       .settle_ms = SETTLE_MS,
                                       .requests = prefixes,
                                       .in_flight = 1,
                                       .length = prefix};
    *out = state;
    return KVC_OK;
}

/* The context length is the whole request's: what the engine adds to the text is taken off the suffix. */
static void make_pass(const struct state *state, int pass, int64_t index,
                      struct kvc_workload_request *out)
{
    const struct kvc_prompt_words *words = state->words;
    const int64_t seed = state->settings->seed;
    const char *breaker = pass == 1 ? "breaker of pass 1" : "breaker of pass 2";
    struct kvc_buffer text = {0};
    kvc_buffer_printf(&text, "PREFIX_%08llx", (unsigned long long)index);
    int64_t made = words->overhead + words->label_cost[0];
    made += kvc_prompt_text(words, kvc_prompt_seed(seed, "prefix", index),
                            state->prefix_tokens - words->label_cost[0], &text);
    made += kvc_prompt_text(words, kvc_prompt_seed(seed, breaker, index), BREAKER_TOKENS, &text);
    made += kvc_prompt_text(words, kvc_prompt_seed(seed, "suffix", 0),
                            state->suffix_tokens - words->overhead, &text);
    *out = (struct kvc_workload_request){.max_tokens = 1, .expected_tokens = made};
    snprintf(out->id, sizeof(out->id), "pass%d_p%lld", pass, (long long)index);
    kvc_workload_add_message(out, "user", &text);
}

/* The first one only wakes the engine up. */
static void make_warmup(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    if (index > 0) {
        make_pass(state, 1, index - 1, out);
        return;
    }
    struct kvc_buffer text = {0};
    kvc_buffer_append_text(&text, "Hello");
    *out = (struct kvc_workload_request){.max_tokens = 1, .id = "engine_warmup"};
    kvc_workload_add_message(out, "user", &text);
}

static void make_request(void *user, int64_t index, struct kvc_workload_request *out)
{
    make_pass(user, 2, index, out);
}

static void describe(const void *user, struct kvc_buffer *out)
{
    const struct state *state = user;
    kvc_buffer_printf(out,
                      "Context: %lld tokens: prefix %lld, breaker %d, suffix %lld\n"
                      "Tier to overflow: %g GB\nPrefixes: %lld, sent twice, one at a time\n",
                      (long long)state->settings->psf_context_length,
                      (long long)state->prefix_tokens, BREAKER_TOKENS,
                      (long long)state->suffix_tokens, state->settings->psf_thrash,
                      (long long)state->prefixes);
}

const struct kvc_workload kvc_workload_prefix_suffix_tuner = {
    .name = "prefix-suffix-tuner",
    .labels = {"PREFIX_0000002a"},
    .open = open_workload,
    .make_warmup = make_warmup,
    .make_request = make_request,
    .close = free,
    .describe = describe,
};
