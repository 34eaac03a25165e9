/* The workloads of `bench engine`: which requests, in which order, how many at a time. One table entry each;
 * engine_run.c sends them. */
#ifndef KVC_BENCH_ENGINE_WORKLOAD_H
#define KVC_BENCH_ENGINE_WORKLOAD_H

#include <jansson.h>

#include "src/bench/engine_prompt.h"
#include "src/bench/engine_settings.h"
#include "src/engine/client.h"

/* How the requests are to be sent. */
struct kvc_workload_plan {
    int64_t warmups;   /* sent one after the other; their figures do not count */
    int64_t settle_ms; /* rest after them */
    int64_t requests;  /* that are measured */
    int64_t in_flight; /* at most, at any time; 0: no limit */
    double qps; /* request i is due i / qps seconds after the start; 0: as soon as there is room */
    int64_t stride;  /* request i waits for the answer to i - stride; 0: for none */
    double duration; /* seconds; what is not sent by then is not sent any more; 0: no limit */
    int64_t length;  /* tokens of its longest text: what calibration aims at */
};

/* One request. */
struct kvc_workload_request {
    char id[48];
    json_t *messages; /* whoever sends it releases them */
    int64_t max_tokens;
    int64_t expected_tokens; /* that the engine should count in the prompt; 0: not known */
    bool keep_text;
};

struct kvc_workload {
    const char *name;
    const char *labels[KVC_PROMPT_MAX_LABELS]; /* texts that are no words, for calibration */
    /* Reads what it needs from settings, and fills plan; state is what the other functions get. words are
     * filled in before the first request is made; both live as long as the state. KVC_EUSAGE for settings
     * that do not go together. */
    kvc_status (*open)(const struct kvc_bench_engine_settings *settings,
                       const struct kvc_prompt_words *words, struct kvc_workload_plan *plan,
                       void **state, struct kvc_error *err);
    void (*make_warmup)(void *state, int64_t index, struct kvc_workload_request *out);
    void (*make_request)(void *state, int64_t index, struct kvc_workload_request *out);
    /* Told when a measured request was answered, or has failed. NULL: does not care. */
    void (*take_reply)(void *state, int64_t index, const struct kvc_engine_reply *reply);
    void (*close)(void *state);
    /* Appends what there is to say about the plan: lines of "label: value". */
    void (*describe)(const void *state, struct kvc_buffer *out);
};

extern const struct kvc_workload kvc_workload_long_doc_qa;
extern const struct kvc_workload kvc_workload_multi_round_chat;
extern const struct kvc_workload kvc_workload_long_doc_permutator;
extern const struct kvc_workload kvc_workload_prefix_suffix_tuner;
extern const struct kvc_workload kvc_workload_random_prefill;

/* NULL if there is none of that name. */
const struct kvc_workload *kvc_workload_find(const char *name);

/* Things that fit: budget over each, rounded down, at least one. KVC_EUSAGE when more than a run can have
 * (ten million). what: "documents". */
kvc_status kvc_workload_count(double budget, double each, const char *what, int64_t *count,
                              struct kvc_error *err);
/* Appends a message of the text, which it frees. */
void kvc_workload_add_message(struct kvc_workload_request *request, const char *role,
                              struct kvc_buffer *text);

#endif
