/* Asks an engine how it counts tokens, by small requests. For `bench engine`. */
#ifndef KVC_BENCH_ENGINE_CALIBRATE_H
#define KVC_BENCH_ENGINE_CALIBRATE_H

#include "src/bench/engine_prompt.h"
#include "src/engine/client.h"

struct kvc_prompt_calibration {
    int64_t requests;   /* that were sent for it */
    int64_t least_cost; /* tokens of the cheapest and the dearest word */
    int64_t greatest_cost;
    int64_t asked;     /* tokens of the text that was made to verify it, */
    int64_t counted;   /* and what the engine counted */
    char problem[400]; /* why the lengths are not what was asked for; "" if they are */
};

struct kvc_prompt_asker {
    struct kvc_engine_client *client;
    const char *model;
    const char *const *labels; /* of the workload: at most KVC_PROMPT_MAX_LABELS */
    size_t label_count;
    int64_t length; /* of the texts that will be needed */
    const volatile int *stop;
};

/* Fills words and calibration. KVC_OK also when the engine does not tell: calibration->problem says so, and
 * words are those of kvc_prompt_words_init. KVC_ECONNECT: nobody is there; KVC_EINTERRUPTED. */
kvc_status kvc_prompt_calibrate(const struct kvc_prompt_asker *asker,
                                struct kvc_prompt_words *words,
                                struct kvc_prompt_calibration *calibration, struct kvc_error *err);

#endif
