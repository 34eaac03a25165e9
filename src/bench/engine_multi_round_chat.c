/* multi-round-chat: sessions whose history grows by each question and its answer, asked in turn at a fixed
 * rate. A warm-up sends each session's start once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "src/bench/engine_body.h"
#include "src/bench/engine_workload.h"

/* What was said so far, as messages. */
struct session {
    json_t *exchanges;
};

struct state {
    const struct kvc_prompt_words *words;
    const struct kvc_bench_engine_settings *settings;
    int64_t session_count;
    struct session *sessions;
};

static kvc_status open_workload(const struct kvc_bench_engine_settings *settings,
                                const struct kvc_prompt_words *words,
                                struct kvc_workload_plan *plan, void **out, struct kvc_error *err)
{
    const int64_t start = settings->mrc_shared_prompt_length + settings->mrc_chat_history_length;
    int64_t sessions = 0, requests = 0;
    KVC_GUARD(
        kvc_workload_count(settings->kv_cache_volume * (double)settings->tokens_per_gb_kvcache,
                           (double)start, "sessions", &sessions, err));
    /* Request i is due before the end: i / qps < duration. */
    KVC_GUARD(kvc_workload_count(ceil(settings->mrc_duration * settings->mrc_qps), 1, "requests",
                                 &requests, err));
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    *state = (struct state){words, settings, sessions,
                            kvc_alloc_zero((size_t)sessions, sizeof(state->sessions[0]))};
    const int64_t longest = settings->mrc_chat_history_length > settings->mrc_shared_prompt_length
                                ? settings->mrc_chat_history_length
                                : settings->mrc_shared_prompt_length;
    *plan = (struct kvc_workload_plan){.warmups = sessions,
                                       .requests = requests,
                                       .qps = settings->mrc_qps,
                                       .stride = sessions,
                                       .duration = settings->mrc_duration,
                                       .length = longest};
    *out = state;
    return KVC_OK;
}

static void add_text(const struct state *state, struct kvc_workload_request *out, const char *role,
                     const char *purpose, int64_t index, int64_t length)
{
    struct kvc_buffer text = {0};
    kvc_prompt_text(state->words, kvc_prompt_seed(state->settings->seed, purpose, index), length,
                    &text);
    kvc_workload_add_message(out, role, &text);
}

/* System prompt, history and all exchanges of a session. */
static void add_session(const struct state *state, int64_t number, struct kvc_workload_request *out)
{
    const struct kvc_bench_engine_settings *settings = state->settings;
    struct kvc_buffer acknowledgement = {0};
    add_text(state, out, "system", "system prompt", number, settings->mrc_shared_prompt_length);
    add_text(state, out, "user", "history", number, settings->mrc_chat_history_length);
    kvc_buffer_append_text(&acknowledgement, "I have read it. Go on.");
    kvc_workload_add_message(out, "assistant", &acknowledgement);
    json_array_extend(out->messages, state->sessions[number].exchanges);
}

static void make_warmup(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    *out = (struct kvc_workload_request){.max_tokens = 1};
    snprintf(out->id, sizeof(out->id), "warmup_s%lld", (long long)index);
    add_session(state, index, out);
    add_text(state, out, "user", "greeting", index, 1);
}

static void make_request(void *user, int64_t index, struct kvc_workload_request *out)
{
    const struct state *state = user;
    const int64_t number = index % state->session_count;
    *out = (struct kvc_workload_request){.max_tokens = state->settings->mrc_output_length,
                                         .keep_text = true};
    snprintf(out->id, sizeof(out->id), "s%lld_r%lld", (long long)number, (long long)index);
    add_session(state, number, out);
    add_text(state, out, "user", "question", index, state->settings->mrc_user_input_length);
}

/* A question that failed leaves no trace in the session. */
static void take_reply(void *user, int64_t index, const struct kvc_engine_reply *reply)
{
    const struct state *state = user;
    struct session *session = &state->sessions[index % state->session_count];
    if (!reply->is_ok)
        return;
    struct kvc_workload_request exchange = {0};
    add_text(state, &exchange, "user", "question", index, state->settings->mrc_user_input_length);
    kvc_bench_engine_message_add(exchange.messages, "assistant", reply->text);
    if (session->exchanges == NULL)
        session->exchanges = json_array();
    json_array_extend(session->exchanges, exchange.messages);
    json_decref(exchange.messages);
}

static void close_workload(void *user)
{
    struct state *state = user;
    for (int64_t i = 0; i < state->session_count; i++)
        json_decref(state->sessions[i].exchanges);
    free(state->sessions);
    free(state);
}

static void describe(const void *user, struct kvc_buffer *out)
{
    const struct state *state = user;
    const struct kvc_bench_engine_settings *settings = state->settings;
    kvc_buffer_printf(
        out,
        "Sessions: %lld, each a system prompt of %lld tokens and a history of %lld\n"
        "Questions: %lld tokens, answers up to %lld\nRate: %g a second for %g s\n",
        (long long)state->session_count, (long long)settings->mrc_shared_prompt_length,
        (long long)settings->mrc_chat_history_length, (long long)settings->mrc_user_input_length,
        (long long)settings->mrc_output_length, settings->mrc_qps, settings->mrc_duration);
}

const struct kvc_workload kvc_workload_multi_round_chat = {
    .name = "multi-round-chat",
    .open = open_workload,
    .make_warmup = make_warmup,
    .make_request = make_request,
    .take_reply = take_reply,
    .close = close_workload,
    .describe = describe,
};
