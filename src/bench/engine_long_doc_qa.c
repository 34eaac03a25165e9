/* long-doc-qa: questions about long documents. A warm-up sends each document once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/bench/engine_workload.h"

#define QUESTIONS                                                                                  \
    {                                                                                              \
        "\n\nQuestion 1: Which of these words matter most?",                                       \
            "\n\nQuestion 2: Put it into one sentence.", "\n\nQuestion 3: What is left out here?", \
            "\n\nQuestion 4: Give three words for it.",                                            \
    }

static const char *const questions[] = QUESTIONS;

struct state {
    const struct kvc_prompt_words *words;
    const struct kvc_bench_engine_settings *settings;
    int64_t documents;
    int64_t requests;
    int64_t *order; /* question * documents + document */
};

static void shuffle(int64_t *items, int64_t count, uint64_t seed)
{
    struct kvc_random random = {seed};
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t j = (int64_t)kvc_random_below(&random, (uint64_t)i + 1);
        const int64_t kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
}

static void make_order(struct state *state)
{
    state->order = kvc_alloc((size_t)state->requests * sizeof(state->order[0]));
    for (int64_t i = 0; i < state->requests; i++)
        state->order[i] = i;
    if (strcmp(state->settings->ldqa_shuffle_policy, "random") == 0)
        shuffle(state->order, state->requests, kvc_prompt_seed(state->settings->seed, "order", 0));
}

static kvc_status open_workload(const struct kvc_bench_engine_settings *settings,
                                const struct kvc_prompt_words *words,
                                struct kvc_workload_plan *plan, void **out, struct kvc_error *err)
{
    int64_t documents = 0, requests = 0;
    KVC_GUARD(
        kvc_workload_count(settings->kv_cache_volume * (double)settings->tokens_per_gb_kvcache,
                           (double)settings->ldqa_document_length, "documents", &documents, err));
    KVC_GUARD(kvc_workload_count((double)documents * (double)settings->ldqa_query_per_document, 1,
                                 "questions", &requests, err));
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    *state = (struct state){words, settings, documents, requests, NULL};
    make_order(state);
    *plan = (struct kvc_workload_plan){.warmups = documents,
                                       .requests = requests,
                                       .in_flight = settings->ldqa_num_inflight_requests,
                                       .length = settings->ldqa_document_length};
    *out = state;
    return KVC_OK;
}

static int64_t add_document(const struct state *state, int64_t document, struct kvc_buffer *text)
{
    const uint64_t seed = kvc_prompt_seed(state->settings->seed, "document", document);
    return state->words->overhead +
           kvc_prompt_text(state->words, seed, state->settings->ldqa_document_length, text);
}

static void make_warmup(void *user, int64_t index, struct kvc_workload_request *out)
{
    struct kvc_buffer text = {0};
    *out = (struct kvc_workload_request){.max_tokens = 1,
                                         .expected_tokens = add_document(user, index, &text)};
    snprintf(out->id, sizeof(out->id), "warmup_doc%lld", (long long)index);
    kvc_workload_add_message(out, "user", &text);
}

/* A question that comes round again is still another one: its number is in front of it. */
static void make_request(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    const int64_t document = state->order[index] % state->documents;
    const int64_t question = state->order[index] / state->documents;
    const size_t which = (size_t)question % KVC_COUNT_OF(questions);
    struct kvc_buffer text = {0};
    *out = (struct kvc_workload_request){.max_tokens = state->settings->ldqa_max_output_length,
                                         .expected_tokens = add_document(state, document, &text) +
                                                            state->words->label_cost[which]};
    kvc_buffer_printf(&text, "\n\nQuestion %lld:%s", (long long)question + 1,
                      strchr(questions[which], ':') + 1);
    snprintf(out->id, sizeof(out->id), "doc%lld_q%lld", (long long)document, (long long)question);
    kvc_workload_add_message(out, "user", &text);
}

static void close_workload(void *user)
{
    struct state *state = user;
    free(state->order);
    free(state);
}

static void describe(const void *user, struct kvc_buffer *out)
{
    const struct state *state = user;
    const struct kvc_bench_engine_settings *settings = state->settings;
    kvc_buffer_printf(out,
                      "Documents: %lld of %lld tokens\nQuestions: %lld a document, order: %s\n"
                      "Requests: %lld, %lld in flight\n",
                      (long long)state->documents, (long long)settings->ldqa_document_length,
                      (long long)settings->ldqa_query_per_document, settings->ldqa_shuffle_policy,
                      (long long)state->requests, (long long)settings->ldqa_num_inflight_requests);
}

const struct kvc_workload kvc_workload_long_doc_qa = {
    .name = "long-doc-qa",
    .labels = QUESTIONS,
    .open = open_workload,
    .make_warmup = make_warmup,
    .make_request = make_request,
    .close = close_workload,
    .describe = describe,
};
