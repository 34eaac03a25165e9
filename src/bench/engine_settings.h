/* The settings of `bench engine`: one table for flags, configuration files, questions and summaries. For
 * the bench and the command line. */
#ifndef KVC_BENCH_ENGINE_SETTINGS_H
#define KVC_BENCH_ENGINE_SETTINGS_H

#include "src/base/bytes.h"

enum { KVC_BENCH_ENGINE_SETTING_COUNT = 31 };

/* All values there are. Zero-initialise by kvc_bench_engine_settings_init; free with ..._clear. */
struct kvc_bench_engine_settings {
    bool is_set[KVC_BENCH_ENGINE_SETTING_COUNT]; /* by anybody: what is not holds its default */
    struct kvc_arena texts;

    const char *engine_url; /* NULL: not set, as the other texts without a default */
    const char *workload;
    const char *lmcache_url;
    int64_t tokens_per_gb_kvcache; /* 0: not set */
    const char *model;
    double kv_cache_volume; /* GB */
    int64_t seed;
    bool ignore_eos;
    bool no_warmup;

    int64_t ldqa_document_length; /* lengths are in tokens */
    int64_t ldqa_query_per_document;
    const char *ldqa_shuffle_policy;
    int64_t ldqa_num_inflight_requests;
    int64_t ldqa_max_output_length;

    int64_t mrc_shared_prompt_length;
    int64_t mrc_chat_history_length;
    int64_t mrc_user_input_length;
    int64_t mrc_output_length;
    double mrc_qps;
    double mrc_duration; /* seconds */

    int64_t ldp_num_contexts;
    int64_t ldp_context_length;
    int64_t ldp_system_prompt_length;
    int64_t ldp_num_permutations;
    int64_t ldp_num_inflight_requests;
    int64_t ldp_max_output_length;

    int64_t psf_context_length;
    double psf_prefix_ratio;
    double psf_thrash; /* GB */

    int64_t rp_request_length;
    int64_t rp_num_requests;
};

enum kvc_bench_engine_setting_kind {
    KVC_BENCH_ENGINE_TEXT,    /* const char * */
    KVC_BENCH_ENGINE_URL,     /* the same; a port or a host will do */
    KVC_BENCH_ENGINE_CHOICE,  /* the same; one of choices */
    KVC_BENCH_ENGINE_NUMBER,  /* int64_t, from minimum to maximum */
    KVC_BENCH_ENGINE_DECIMAL, /* double, above minimum and below maximum */
    KVC_BENCH_ENGINE_SWITCH,  /* bool */
};

/* When a setting is asked for. */
enum kvc_bench_engine_setting_stage {
    KVC_BENCH_ENGINE_REQUIRED,
    KVC_BENCH_ENGINE_GENERAL,
    KVC_BENCH_ENGINE_WORKLOAD,
};

struct kvc_bench_engine_choice {
    const char *value, *about;
};

struct kvc_bench_engine_setting {
    const char *key;   /* in files; the flag has dashes for underscores */
    const char *title; /* in questions and summaries */
    const char *help;  /* one sentence */
    enum kvc_bench_engine_setting_kind kind;
    enum kvc_bench_engine_setting_stage stage;
    size_t offset;        /* in struct kvc_bench_engine_settings */
    const char *workload; /* the only one that has it; NULL: all */
    const char *initial;  /* the default, as text; NULL: none */
    double minimum, maximum;
    const struct kvc_bench_engine_choice *choices; /* the last one's value is NULL */
    bool is_portable;                              /* goes into exported files */
};

extern const struct kvc_bench_engine_setting
    kvc_bench_engine_setting_table[KVC_BENCH_ENGINE_SETTING_COUNT];
/* The place of a setting in the table; for keys that are there. */
size_t kvc_bench_engine_setting_index(const char *key);
/* Whether the workload that is set (or none yet) has it. */
bool kvc_bench_engine_setting_applies(const struct kvc_bench_engine_setting *setting,
                                      const struct kvc_bench_engine_settings *settings);

void kvc_bench_engine_settings_init(struct kvc_bench_engine_settings *settings);
void kvc_bench_engine_settings_clear(struct kvc_bench_engine_settings *settings);

/* Reads text as the setting's value; it is copied. KVC_EUSAGE; then nothing has changed. */
kvc_status kvc_bench_engine_setting_set(struct kvc_bench_engine_settings *settings, size_t index,
                                        const char *text, struct kvc_error *err);
/* Back to its default, and not set. */
void kvc_bench_engine_setting_unset(struct kvc_bench_engine_settings *settings, size_t index);
/* Appends the value as text; nothing for a text or a number that has none. */
void kvc_bench_engine_setting_write(const struct kvc_bench_engine_settings *settings, size_t index,
                                    struct kvc_buffer *out);

/* Sets what a configuration file sets. KVC_EUSAGE: it cannot be read, is no JSON object, has a key that
 * there is not, or a value that is not accepted; with the place. */
kvc_status kvc_bench_engine_settings_load(struct kvc_bench_engine_settings *settings,
                                          const char *path, struct kvc_error *err);
/* Appends a configuration file: what is portable and belongs to the workload. */
void kvc_bench_engine_settings_export(const struct kvc_bench_engine_settings *settings,
                                      struct kvc_buffer *out);

#endif
