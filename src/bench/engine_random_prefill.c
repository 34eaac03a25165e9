/* random-prefill: prompts with nothing in common, all sent at once, one token generated for each. */
#include <stdio.h>
#include <stdlib.h>

#include "src/bench/engine_workload.h"

struct state {
    const struct kvc_prompt_words *words;
    int64_t seed;
    int64_t length;
    int64_t requests;
};

static kvc_status open_workload(const struct kvc_bench_engine_settings *settings,
                                const struct kvc_prompt_words *words,
                                struct kvc_workload_plan *plan, void **out, struct kvc_error *err)
{
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    (void)err;
    *state = (struct state){words, settings->seed, settings->rp_request_length,
                            settings->rp_num_requests};
    *plan = (struct kvc_workload_plan){.requests = state->requests, .length = state->length};
    *out = state;
    return KVC_OK;
}

/* The length is the whole request's: what the engine adds to the text counts, too. */
static void make_request(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    struct kvc_buffer text = {0};
    const int64_t wanted = state->length - state->words->overhead;
    const int64_t made =
        kvc_prompt_text(state->words, kvc_prompt_seed(state->seed, "prefill", index),
                        wanted < 1 ? 1 : wanted, &text);
    *out = (struct kvc_workload_request){.max_tokens = 1,
                                         .expected_tokens = made + state->words->overhead};
    snprintf(out->id, sizeof(out->id), "prefill_%lld", (long long)index);
    kvc_workload_add_message(out, "user", &text);
}

static void describe(const void *user, struct kvc_buffer *out)
{
    const struct state *state = user;
    kvc_buffer_printf(out, "Requests: %lld at once\nRequest length: %lld tokens\n",
                      (long long)state->requests, (long long)state->length);
}

const struct kvc_workload kvc_workload_random_prefill = {
    .name = "random-prefill",
    .open = open_workload,
    .make_warmup = NULL,
    .make_request = make_request,
    .close = free,
    .describe = describe,
};
