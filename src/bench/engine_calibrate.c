#include "src/bench/engine_calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/bench/engine_body.h"

enum {
    PROBES_IN_FLIGHT = 8,
    REPEATS = 32,        /* of a word whose tokens are counted alone */
    MAX_VERIFIED = 4096, /* tokens: what holds for these holds for more */
    WAIT_NS = 100 * 1000000,
};

/* One text to be counted. */
struct probe {
    struct asking *asking;
    struct kvc_buffer text;
    int64_t tokens; /* that the engine counts for the whole request */
};

struct asking {
    const struct kvc_prompt_asker *asker;
    struct kvc_prompt_calibration *calibration;
    size_t answered;
    struct kvc_error err; /* the first failure */
};

static void take_answer(void *user, const struct kvc_engine_reply *reply)
{
    struct probe *probe = user;
    struct asking *asking = probe->asking;
    asking->answered++;
    probe->tokens = reply->prompt_tokens;
    if (!reply->is_ok && asking->err.status == KVC_OK)
        kvc_fail(&asking->err, reply->status, "%s", reply->problem);
}

static void send_probe(struct asking *asking, struct probe *probe)
{
    probe->asking = asking;
    json_t *messages = json_array();
    kvc_bench_engine_message_add(
        messages, "user", (struct kvc_str){(const char *)probe->text.data, probe->text.size});
    struct kvc_engine_request request = {.max_tokens = 1, .on_done = take_answer, .user = probe};
    kvc_bench_engine_body_write(asking->asker->model, messages, 1, false, &request.body);
    kvc_engine_client_send(asking->asker->client, &request);
    asking->calibration->requests++;
}

/* Has every text counted; frees them. */
static kvc_status ask(struct asking *asking, struct probe *probes, size_t count,
                      struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    size_t sent = 0;
    asking->answered = 0;
    while (status == KVC_OK) {
        while (asking->err.status == KVC_OK && sent < count &&
               sent - asking->answered < PROBES_IN_FLIGHT)
            send_probe(asking, &probes[sent++]);
        if (asking->answered == sent)
            break;
        status = kvc_engine_client_step(asking->asker->client, kvc_now_ns() + WAIT_NS, err);
        if (status == KVC_OK && *asking->asker->stop != 0)
            status = kvc_fail(err, KVC_EINTERRUPTED, "interrupted");
    }
    kvc_engine_client_drop(asking->asker->client);
    for (size_t i = 0; i < count; i++)
        kvc_buffer_clear(&probes[i].text);
    if (status != KVC_OK)
        return status;
    if (asking->err.status != KVC_OK && err != NULL)
        *err = asking->err;
    return asking->err.status;
}

static void add_all_words(struct kvc_buffer *text)
{
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        kvc_buffer_append_text(text, kvc_prompt_word(i));
}

/* ---- what words and labels cost ---- */

static kvc_status count_all_words(struct asking *asking, struct kvc_prompt_words *words,
                                  int64_t *sum, struct kvc_error *err)
{
    const struct kvc_prompt_asker *asker = asking->asker;
    struct probe probes[2 + KVC_PROMPT_MAX_LABELS] = {0};
    add_all_words(&probes[0].text);
    add_all_words(&probes[1].text);
    add_all_words(&probes[1].text);
    for (size_t i = 0; i < asker->label_count; i++) {
        add_all_words(&probes[2 + i].text);
        kvc_buffer_append_text(&probes[2 + i].text, asker->labels[i]);
    }
    KVC_GUARD(ask(asking, probes, 2 + asker->label_count, err));
    *sum = probes[1].tokens - probes[0].tokens;
    words->overhead = probes[0].tokens - *sum;
    for (size_t i = 0; i < asker->label_count; i++)
        words->label_cost[i] = probes[2 + i].tokens - probes[0].tokens;
    return KVC_OK;
}

static kvc_status count_each_word(struct asking *asking, struct kvc_prompt_words *words,
                                  struct kvc_error *err)
{
    struct probe probes[KVC_PROMPT_WORD_COUNT] = {0};
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        for (int repeat = 0; repeat < REPEATS; repeat++)
            kvc_buffer_append_text(&probes[i].text, kvc_prompt_word(i));
    KVC_GUARD(ask(asking, probes, KVC_PROMPT_WORD_COUNT, err));
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++)
        words->cost[i] = (probes[i].tokens - words->overhead + REPEATS / 2) / REPEATS;
    return KVC_OK;
}

static kvc_status check_costs(const struct kvc_prompt_words *words,
                              struct kvc_prompt_calibration *calibration, struct kvc_error *err)
{
    bool is_good = words->overhead >= 0;
    calibration->least_cost = calibration->greatest_cost = words->cost[0];
    for (size_t i = 0; i < KVC_PROMPT_WORD_COUNT; i++) {
        const int64_t cost = words->cost[i];
        is_good = is_good && cost >= 1 && cost <= KVC_PROMPT_MAX_COST;
        if (cost < calibration->least_cost)
            calibration->least_cost = cost;
        if (cost > calibration->greatest_cost)
            calibration->greatest_cost = cost;
    }
    return is_good ? KVC_OK
                   : kvc_fail(err, KVC_EFORMAT,
                              "its counts of prompt tokens do not grow as the prompts do");
}

/* ---- whether it is true ---- */

/* Has a text of the length that is needed counted. */
static kvc_status verify(struct asking *asking, const struct kvc_prompt_words *words, int64_t round,
                         struct kvc_error *err)
{
    struct kvc_prompt_calibration *calibration = asking->calibration;
    const int64_t length = asking->asker->length;
    struct probe probe = {0};
    calibration->asked =
        kvc_prompt_text(words, kvc_prompt_seed(0, "calibration", round),
                        length < MAX_VERIFIED ? length : MAX_VERIFIED, &probe.text);
    KVC_GUARD(ask(asking, &probe, 1, err));
    calibration->counted = probe.tokens - words->overhead;
    return KVC_OK;
}

/* More than two in a hundred; a token more or less is none. */
static bool is_off(const struct kvc_prompt_calibration *calibration)
{
    const int64_t difference = llabs(calibration->counted - calibration->asked);
    return difference > 1 && 50 * difference > calibration->asked;
}

static kvc_status calibrate(struct asking *asking, struct kvc_prompt_words *words,
                            struct kvc_error *err)
{
    struct kvc_prompt_calibration *calibration = asking->calibration;
    int64_t sum = 0;
    KVC_GUARD(count_all_words(asking, words, &sum, err));
    if (sum != KVC_PROMPT_WORD_COUNT)
        KVC_GUARD(count_each_word(asking, words, err));
    KVC_GUARD(check_costs(words, calibration, err));
    KVC_GUARD(verify(asking, words, 0, err));
    if (!is_off(calibration) || calibration->counted < 1)
        return KVC_OK;
    words->scale = (double)calibration->counted / (double)calibration->asked;
    return verify(asking, words, 1, err);
}

kvc_status kvc_prompt_calibrate(const struct kvc_prompt_asker *asker,
                                struct kvc_prompt_words *words,
                                struct kvc_prompt_calibration *calibration, struct kvc_error *err)
{
    struct asking asking = {.asker = asker, .calibration = calibration};
    struct kvc_error problem = KVC_ERROR_INIT;
    *calibration = (struct kvc_prompt_calibration){0};
    kvc_prompt_words_init(words);
    const kvc_status status = calibrate(&asking, words, &problem);
    if (status == KVC_OK && is_off(calibration)) {
        snprintf(calibration->problem, sizeof(calibration->problem),
                 "the engine counts %lld tokens where %lld were meant",
                 (long long)calibration->counted, (long long)calibration->asked);
    } else if (status != KVC_OK) {
        kvc_prompt_words_init(words);
        snprintf(calibration->problem, sizeof(calibration->problem), "%.*s",
                 (int)sizeof(calibration->problem) - 1, problem.what);
    }
    const bool ends_it =
        status == KVC_ECONNECT || status == KVC_EINTERRUPTED || status == KVC_ESYSTEM;
    if (ends_it && err != NULL)
        *err = problem;
    return ends_it ? status : KVC_OK;
}
