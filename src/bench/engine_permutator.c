/* long-doc-permutator: the same documents in one different order after the other. The warm-up is one request
 * that has nothing to do with them. */
#include <stdio.h>
#include <stdlib.h>

#include "src/base/clock.h"
#include "src/bench/engine_workload.h"

enum {
    MOST_RANKED = 20, /* contexts whose orders can be numbered in 64 bits */
    WARMUP_LENGTH = 500,
};

struct state {
    const struct kvc_prompt_words *words;
    const struct kvc_bench_engine_settings *settings;
    int64_t requests;
    int64_t ranked;  /* contexts among which a request's rank says the order */
    uint64_t orders; /* of them: ranked! */
};

static kvc_status open_workload(const struct kvc_bench_engine_settings *settings,
                                const struct kvc_prompt_words *words,
                                struct kvc_workload_plan *plan, void **out, struct kvc_error *err)
{
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    (void)err;
    *state = (struct state){.words = words, .settings = settings, .orders = 1};
    while (state->ranked < settings->ldp_num_contexts && state->ranked < MOST_RANKED)
        state->orders *= (uint64_t)++state->ranked;
    state->requests = settings->ldp_num_permutations;
    if ((uint64_t)state->requests > state->orders)
        state->requests = (int64_t)state->orders;
    *plan = (struct kvc_workload_plan){.warmups = 1,
                                       .requests = state->requests,
                                       .in_flight = settings->ldp_num_inflight_requests,
                                       .length = settings->ldp_context_length};
    *out = state;
    return KVC_OK;
}

/* The orders are cut into as many stretches as there are requests, and one is drawn from each: all differ,
 * and all are there when as many are asked for. */
static uint64_t draw_rank(const struct state *state, int64_t index)
{
    const uint64_t stretch = state->orders / (uint64_t)state->requests;
    const uint64_t longer = state->orders % (uint64_t)state->requests; /* so many have one more */
    const uint64_t number = (uint64_t)index;
    const uint64_t from = stretch * number + (number < longer ? number : longer);
    struct kvc_random random = {kvc_prompt_seed(state->settings->seed, "permutation", index)};
    return from + kvc_random_below(&random, stretch + (number < longer ? 1 : 0));
}

/* The first `ranked` contexts in the order of that rank, in factorial digits. */
static void order_ranked(const struct state *state, uint64_t rank, int64_t *order)
{
    int64_t left[MOST_RANKED];
    uint64_t orders = state->orders;
    for (int64_t i = 0; i < state->ranked; i++)
        left[i] = i;
    for (int64_t i = 0; i < state->ranked; i++) {
        const int64_t remaining = state->ranked - i;
        orders /= (uint64_t)remaining;
        const int64_t digit = (int64_t)(rank / orders);
        rank %= orders;
        order[i] = left[digit];
        for (int64_t j = digit; j < remaining - 1; j++)
            left[j] = left[j + 1];
    }
}

/* More contexts than can be numbered are put among them anywhere: the order of the others differs anyway. */
static void make_order(const struct state *state, int64_t index, int64_t *order)
{
    struct kvc_random random = {kvc_prompt_seed(state->settings->seed, "place", index)};
    order_ranked(state, draw_rank(state, index), order);
    for (int64_t i = state->ranked; i < state->settings->ldp_num_contexts; i++) {
        const int64_t place = (int64_t)kvc_random_below(&random, (uint64_t)i + 1);
        for (int64_t j = i; j > place; j--)
            order[j] = order[j - 1];
        order[place] = i;
    }
}

static void add_contexts(const struct state *state, int64_t index, struct kvc_buffer *text)
{
    const struct kvc_bench_engine_settings *settings = state->settings;
    int64_t *order = kvc_alloc((size_t)settings->ldp_num_contexts * sizeof(order[0]));
    make_order(state, index, order);
    for (int64_t i = 0; i < settings->ldp_num_contexts; i++) {
        kvc_buffer_append_text(text, i > 0 ? "\n\n" : "");
        kvc_prompt_text(state->words, kvc_prompt_seed(settings->seed, "context", order[i]),
                        settings->ldp_context_length, text);
    }
    free(order);
}

static void make_warmup(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    struct kvc_buffer text = {0};
    *out = (struct kvc_workload_request){.max_tokens = 1, .id = "warmup_0"};
    kvc_prompt_text(state->words, kvc_prompt_seed(state->settings->seed, "warm-up", index),
                    WARMUP_LENGTH, &text);
    kvc_workload_add_message(out, "user", &text);
}

static void make_request(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    const struct kvc_bench_engine_settings *settings = state->settings;
    struct kvc_buffer text = {0};
    *out = (struct kvc_workload_request){.max_tokens = settings->ldp_max_output_length};
    snprintf(out->id, sizeof(out->id), "perm%lld_req%lld", (long long)index, (long long)index);
    if (settings->ldp_system_prompt_length > 0) {
        kvc_prompt_text(state->words, kvc_prompt_seed(settings->seed, "system prompt", 0),
                        settings->ldp_system_prompt_length, &text);
        kvc_workload_add_message(out, "system", &text);
    }
    add_contexts(state, index, &text);
    kvc_workload_add_message(out, "user", &text);
}

static void describe(const void *user, struct kvc_buffer *out)
{
    const struct state *state = user;
    const struct kvc_bench_engine_settings *settings = state->settings;
    kvc_buffer_printf(out,
                      "Contexts: %lld of %lld tokens, system prompt: %lld tokens\n"
                      "Permutations: %lld, %lld in flight\n",
                      (long long)settings->ldp_num_contexts,
                      (long long)settings->ldp_context_length,
                      (long long)settings->ldp_system_prompt_length, (long long)state->requests,
                      (long long)settings->ldp_num_inflight_requests);
}

const struct kvc_workload kvc_workload_long_doc_permutator = {
    .name = "long-doc-permutator",
    .open = open_workload,
    .make_warmup = make_warmup,
    .make_request = make_request,
    .close = free,
    .describe = describe,
};
