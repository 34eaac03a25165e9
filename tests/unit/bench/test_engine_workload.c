/* How many requests, and of which kind: numbers worked out by hand from the manual of `lmcache bench engine`. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "src/bench/engine_workload.h"

struct opened {
    struct kvc_bench_engine_settings settings;
    struct kvc_prompt_words words;
    struct kvc_workload_plan plan;
    const struct kvc_workload *workload;
    void *state;
};

static void set(struct kvc_bench_engine_settings *settings, const char *key, const char *value)
{
    cr_assert_eq(
        kvc_bench_engine_setting_set(settings, kvc_bench_engine_setting_index(key), value, NULL),
        KVC_OK, "%s", key);
}

/* settings: "key=value key=value …". */
static kvc_status open_workload(struct opened *opened, const char *name, const char *settings,
                                struct kvc_error *err)
{
    char *copy = strdup(settings);
    char *rest = copy;
    kvc_bench_engine_settings_init(&opened->settings);
    set(&opened->settings, "workload", name);
    set(&opened->settings, "tokens_per_gb_kvcache", "6553");
    for (char *pair; (pair = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(pair, '=');
        *value++ = '\0';
        set(&opened->settings, pair, value);
    }
    free(copy);
    kvc_prompt_words_init(&opened->words);
    opened->workload = kvc_workload_find(name);
    return opened->workload->open(&opened->settings, &opened->words, &opened->plan, &opened->state,
                                  err);
}

static void close_workload(struct opened *opened)
{
    opened->workload->close(opened->state);
    kvc_bench_engine_settings_clear(&opened->settings);
}

Test(workload, plans)
{
    static const struct {
        const char *name, *settings;
        struct kvc_workload_plan plan;
    } cases[] = {
        /* 100 GB * 6553 / 10000 = 65.53 documents, two questions each */
        {"long-doc-qa", "", {.warmups = 65, .requests = 130, .in_flight = 3, .length = 10000}},
        {"long-doc-qa",
         "kv_cache_volume=50 ldqa_document_length=8000 ldqa_query_per_document=4",
         {.warmups = 40, .requests = 160, .in_flight = 3, .length = 8000}},
        {"long-doc-qa",
         "kv_cache_volume=0.1",
         {.warmups = 1, .requests = 2, .in_flight = 3, .length = 10000}},
        /* 655300 tokens in sessions of 12000; a request a second for a minute */
        {"multi-round-chat",
         "",
         {.warmups = 54, .requests = 60, .qps = 1, .stride = 54, .duration = 60, .length = 10000}},
        {"multi-round-chat",
         "mrc_qps=2.0 mrc_duration=120",
         {.warmups = 54,
          .requests = 240,
          .qps = 2,
          .stride = 54,
          .duration = 120,
          .length = 10000}},
        {"multi-round-chat",
         "mrc_qps=0.3 mrc_duration=10 kv_cache_volume=1",
         {.warmups = 1, .requests = 3, .qps = 0.3, .stride = 1, .duration = 10, .length = 10000}},
        {"long-doc-permutator", "", {.warmups = 1, .requests = 10, .in_flight = 1, .length = 5000}},
        {"long-doc-permutator",
         "ldp_num_contexts=4 ldp_context_length=8000 ldp_num_permutations=24 "
         "ldp_num_inflight_requests=2",
         {.warmups = 1, .requests = 24, .in_flight = 2, .length = 8000}},
        {"long-doc-permutator",
         "ldp_num_contexts=3 ldp_num_permutations=7",
         {.warmups = 1, .requests = 6, .in_flight = 1, .length = 5000}},
        /* floor(20 * 1.05 * 6553 / 6400), and one request that wakes the engine up */
        {"prefix-suffix-tuner",
         "",
         {.warmups = 22, .settle_ms = 5000, .requests = 21, .in_flight = 1, .length = 6400}},
        {"prefix-suffix-tuner",
         "psf_thrash=100",
         {.warmups = 108, .settle_ms = 5000, .requests = 107, .in_flight = 1, .length = 6400}},
        {"random-prefill", "", {.requests = 50, .length = 10000}},
        {"random-prefill",
         "rp_request_length=15000 rp_num_requests=100",
         {.requests = 100, .length = 15000}},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct opened opened = {0};
        cr_assert_eq(open_workload(&opened, cases[i].name, cases[i].settings, NULL), KVC_OK);
        const struct kvc_workload_plan *plan = &opened.plan;
        const struct kvc_workload_plan *expected = &cases[i].plan;
        cr_assert_eq(plan->warmups, expected->warmups, "case %zu: %lld", i,
                     (long long)plan->warmups);
        cr_assert_eq(plan->settle_ms, expected->settle_ms, "case %zu", i);
        cr_assert_eq(plan->requests, expected->requests, "case %zu: %lld", i,
                     (long long)plan->requests);
        cr_assert_eq(plan->in_flight, expected->in_flight, "case %zu", i);
        cr_assert_float_eq(plan->qps, expected->qps, 1e-12, "case %zu", i);
        cr_assert_eq(plan->stride, expected->stride, "case %zu", i);
        cr_assert_float_eq(plan->duration, expected->duration, 1e-12, "case %zu", i);
        cr_assert_eq(plan->length, expected->length, "case %zu", i);
        close_workload(&opened);
    }
}

Test(workload, settings_that_do_not_go_together)
{
    static const struct {
        const char *name, *settings, *words;
    } cases[] = {
        {"prefix-suffix-tuner", "psf_context_length=500", "68 tokens for the suffix"},
        {"prefix-suffix-tuner", "psf_context_length=10 psf_prefix_ratio=0.001", "-23 tokens"},
        {"prefix-suffix-tuner", "psf_thrash=1e8", "prefixes: at most 10000000"},
        {"long-doc-qa", "kv_cache_volume=1e8 ldqa_document_length=1",
         "documents: at most 10000000"},
        {"long-doc-qa", "ldqa_query_per_document=1000000", "questions: at most 10000000"},
        {"multi-round-chat", "mrc_qps=100000 mrc_duration=1000", "requests: at most 10000000"},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct opened opened = {0};
        struct kvc_error err = KVC_ERROR_INIT;
        cr_assert_eq(open_workload(&opened, cases[i].name, cases[i].settings, &err), KVC_EUSAGE);
        cr_assert_not_null(strstr(err.what, cases[i].words), "case %zu: %s", i, err.what);
        kvc_bench_engine_settings_clear(&opened.settings);
    }
}

/* The text of the last message. */
static const char *content(const struct kvc_workload_request *request)
{
    const json_t *last = json_array_get(request->messages, json_array_size(request->messages) - 1);
    return json_string_value(json_object_get(last, "content"));
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All measured requests of a workload, sorted; returns how many differ. */
static size_t count_different(struct opened *opened)
{
    const size_t count = (size_t)opened->plan.requests;
    char **texts = calloc(count, sizeof(*texts));
    size_t different = 0;
    for (size_t i = 0; i < count; i++) {
        struct kvc_workload_request request = {0};
        opened->workload->make_request(opened->state, (int64_t)i, &request);
        texts[i] = strdup(content(&request));
        json_decref(request.messages);
    }
    qsort(texts, count, sizeof(*texts), compare_texts);
    for (size_t i = 0; i < count; i++)
        different += i == 0 || strcmp(texts[i], texts[i - 1]) != 0;
    for (size_t i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
    return different;
}

Test(workload, no_two_requests_are_the_same)
{
    static const struct {
        const char *name, *settings;
        size_t requests;
    } cases[] = {
        {"random-prefill", "rp_request_length=20 rp_num_requests=500", 500},
        {"long-doc-qa", "kv_cache_volume=0.05 ldqa_document_length=30 ldqa_query_per_document=9",
         90},
        {"long-doc-permutator", "ldp_num_contexts=6 ldp_context_length=5 ldp_num_permutations=1000",
         720},
        {"long-doc-permutator", "ldp_num_contexts=20 ldp_context_length=5 ldp_num_permutations=500",
         500},
        {"long-doc-permutator", "ldp_num_contexts=30 ldp_context_length=5 ldp_num_permutations=500",
         500},
        {"long-doc-permutator", "ldp_num_contexts=1 ldp_context_length=5", 1},
        {"prefix-suffix-tuner", "psf_context_length=200 psf_prefix_ratio=0.2 psf_thrash=1", 172},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(cases); i++) {
        struct opened opened = {0};
        cr_assert_eq(open_workload(&opened, cases[i].name, cases[i].settings, NULL), KVC_OK);
        cr_assert_eq((size_t)opened.plan.requests, cases[i].requests, "case %zu: %lld", i,
                     (long long)opened.plan.requests);
        cr_assert_eq(count_different(&opened), cases[i].requests, "case %zu", i);
        close_workload(&opened);
    }
}

Test(workload, an_answer_joins_the_session_and_a_failure_does_not)
{
    struct opened opened = {0};
    struct kvc_workload_request request = {0};
    const struct kvc_engine_reply good = {.is_ok = true, .text = KVC_STR("yes")};
    const struct kvc_engine_reply bad = {.text = KVC_STR("ye")};
    cr_assert_eq(open_workload(&opened, "multi-round-chat", "kv_cache_volume=4", NULL), KVC_OK);
    cr_assert_eq(opened.plan.stride, 2);
    opened.workload->take_reply(opened.state, 0, &good);
    opened.workload->take_reply(opened.state, 1, &bad);
    opened.workload->make_request(opened.state, 2, &request);
    cr_assert_eq(json_array_size(request.messages), 6);
    const json_t *answer = json_array_get(request.messages, 4);
    cr_assert_str_eq(json_string_value(json_object_get(answer, "role")), "assistant");
    cr_assert_str_eq(json_string_value(json_object_get(answer, "content")), "yes");
    cr_assert_str_eq(request.id, "s0_r2");
    cr_assert(request.keep_text);
    json_decref(request.messages);
    opened.workload->make_request(opened.state, 3, &request);
    cr_assert_eq(json_array_size(request.messages), 4);
    json_decref(request.messages);
    close_workload(&opened);
}
