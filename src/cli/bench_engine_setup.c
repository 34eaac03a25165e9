#include "src/cli/bench_engine_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"
#include "src/cli/question.h"

/* The questions, in their order: the table's settings, and three that are none. */
enum step_kind { STEP_SETTING, STEP_LMCACHE, STEP_GENERAL, STEP_WORKLOAD };

struct step {
    enum step_kind kind;
    size_t index; /* of the setting */
};

struct setup {
    struct kvc_bench_engine_settings *settings;
    bool is_preset[KVC_BENCH_ENGINE_SETTING_COUNT]; /* set before the first question */
    struct step steps[KVC_BENCH_ENGINE_SETTING_COUNT + 3];
    size_t step_count;
    bool has_lmcache;
    bool wants_general;
    bool wants_workload;
};

static void add_steps(struct setup *setup, enum kvc_bench_engine_setting_stage stage)
{
    const size_t lmcache = kvc_bench_engine_setting_index("lmcache_url");
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        if (kvc_bench_engine_setting_table[i].stage != stage)
            continue;
        if (i == lmcache)
            setup->steps[setup->step_count++] = (struct step){STEP_LMCACHE, 0};
        setup->steps[setup->step_count++] = (struct step){STEP_SETTING, i};
    }
}

static void prepare(struct setup *setup)
{
    memcpy(setup->is_preset, setup->settings->is_set, sizeof(setup->is_preset));
    add_steps(setup, KVC_BENCH_ENGINE_REQUIRED);
    setup->steps[setup->step_count++] = (struct step){STEP_GENERAL, 0};
    add_steps(setup, KVC_BENCH_ENGINE_GENERAL);
    setup->steps[setup->step_count++] = (struct step){STEP_WORKLOAD, 0};
    add_steps(setup, KVC_BENCH_ENGINE_WORKLOAD);
}

static bool is_preset(const struct setup *setup, const char *key)
{
    return setup->is_preset[kvc_bench_engine_setting_index(key)];
}

static bool is_asked(const struct setup *setup, const struct step *step)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[step->index];
    const bool knows_size =
        is_preset(setup, "lmcache_url") || is_preset(setup, "tokens_per_gb_kvcache");
    if (step->kind == STEP_LMCACHE)
        return !knows_size;
    if (step->kind != STEP_SETTING)
        return true;
    if (setup->is_preset[step->index])
        return false;
    if (strcmp(setting->key, "lmcache_url") == 0)
        return !knows_size && setup->has_lmcache;
    if (strcmp(setting->key, "tokens_per_gb_kvcache") == 0)
        return !knows_size && !setup->has_lmcache;
    if (setting->stage == KVC_BENCH_ENGINE_GENERAL)
        return setup->wants_general;
    if (setting->stage == KVC_BENCH_ENGINE_WORKLOAD)
        return setup->wants_workload && kvc_bench_engine_setting_applies(setting, setup->settings);
    return true;
}

/* ---- questions ---- */

static enum kvc_answer ask_gate(const char *title, bool *wants)
{
    static const struct kvc_question_choice choices[] = {{"use defaults", NULL},
                                                         {"configure", NULL}};
    const struct kvc_question question = {title, "Defaults are used for what you leave out."};
    size_t chosen = *wants ? 1 : 0;
    const enum kvc_answer answer = kvc_question_ask_choice(&question, choices, 2, &chosen);
    *wants = chosen == 1;
    return answer;
}

static enum kvc_answer ask_choice(struct kvc_bench_engine_settings *settings, size_t index)
{
    enum { MOST = 8 };
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    const struct kvc_question question = {setting->title, setting->help};
    struct kvc_question_choice choices[MOST];
    size_t count = 0;
    size_t chosen = 0;
    for (; count < MOST && setting->choices[count].value != NULL; count++)
        choices[count] = (struct kvc_question_choice){setting->choices[count].value,
                                                      setting->choices[count].about};
    const enum kvc_answer answer = kvc_question_ask_choice(&question, choices, count, &chosen);
    if (answer == KVC_ANSWER_GIVEN)
        kvc_bench_engine_setting_set(settings, index, choices[chosen].name, NULL);
    return answer;
}

static enum kvc_answer ask_switch(struct kvc_bench_engine_settings *settings, size_t index)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    const struct kvc_question question = {setting->title, setting->help};
    bool yes = false;
    const enum kvc_answer answer = kvc_question_ask_yes(&question, &yes);
    if (answer == KVC_ANSWER_GIVEN)
        kvc_bench_engine_setting_set(settings, index, yes ? "true" : "false", NULL);
    return answer;
}

static const char *suggestion(const struct kvc_bench_engine_setting *setting)
{
    if (strcmp(setting->key, "engine_url") == 0)
        return "http://localhost:8000";
    if (strcmp(setting->key, "lmcache_url") == 0)
        return "http://localhost:8080";
    return setting->initial;
}

/* Asked again until the answer is one. Without a default, nothing is one for a model only. */
static enum kvc_answer ask_text(struct kvc_bench_engine_settings *settings, size_t index)
{
    const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[index];
    const struct kvc_question question = {setting->title, setting->help};
    for (;;) {
        struct kvc_error err = KVC_ERROR_INIT;
        char *text = NULL;
        enum kvc_answer answer = kvc_question_ask_line(&question, suggestion(setting), &text);
        if (answer == KVC_ANSWER_GIVEN)
            kvc_bench_engine_setting_set(settings, index, text, &err);
        free(text);
        if (err.status == KVC_OK)
            return answer;
        kvc_print_error(&err);
    }
}

static enum kvc_answer ask_step(struct setup *setup, const struct step *step)
{
    static const struct kvc_question lmcache = {
        "LMCache server",
        "Do you have a running LMCache server? It knows how much KV cache a token takes."};
    switch (step->kind) {
    case STEP_LMCACHE:
        setup->has_lmcache = true;
        return kvc_question_ask_yes(&lmcache, &setup->has_lmcache);
    case STEP_GENERAL:
        return ask_gate("General settings (model, KV cache volume, seed, …)",
                        &setup->wants_general);
    case STEP_WORKLOAD:
        return ask_gate("Settings of the workload", &setup->wants_workload);
    case STEP_SETTING:
        break;
    }
    switch (kvc_bench_engine_setting_table[step->index].kind) {
    case KVC_BENCH_ENGINE_CHOICE:
        return ask_choice(setup->settings, step->index);
    case KVC_BENCH_ENGINE_SWITCH:
        return ask_switch(setup->settings, step->index);
    default:
        return ask_text(setup->settings, step->index);
    }
}

/* ---- summary ---- */

static void print_summary(const struct kvc_bench_engine_settings *settings)
{
    static const char rule[] = "  ──────────────────────────────────────────────────\n";
    fprintf(stderr, "\n%s   Configuration Summary\n%s", rule, rule);
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[i];
        struct kvc_buffer value = {0};
        kvc_bench_engine_setting_write(settings, i, &value);
        const bool is_model = strcmp(setting->key, "model") == 0;
        if (kvc_bench_engine_setting_applies(setting, settings) && (value.size > 0 || is_model))
            fprintf(stderr, "    %s:%*s%s\n", setting->title, 30 - (int)strlen(setting->title), "",
                    value.size > 0 ? kvc_buffer_text(&value) : "(the engine's first)");
        kvc_buffer_clear(&value);
    }
    fputs(rule, stderr);
}

static enum kvc_answer ask_action(enum kvc_setup_action *action, char **path)
{
    static const struct kvc_question_choice choices[] = {
        {"Start benchmark", NULL},
        {"Export configuration for later use and exit", NULL},
        {"Quit without running", NULL},
    };
    const struct kvc_question question = {"What would you like to do?", ""};
    const struct kvc_question file = {"Export filename", ""};
    size_t chosen = 0;
    enum kvc_answer answer =
        kvc_question_ask_choice(&question, choices, KVC_COUNT_OF(choices), &chosen);
    *action = (enum kvc_setup_action)chosen;
    if (answer == KVC_ANSWER_GIVEN && *action == KVC_SETUP_EXPORT)
        answer = kvc_question_ask_line(&file, "bench_config.json", path);
    return answer;
}

/* ---- the walk ---- */

static void take_back(struct setup *setup, const struct step *step)
{
    if (step->kind == STEP_SETTING)
        kvc_bench_engine_setting_unset(setup->settings, step->index);
}

enum kvc_setup_action kvc_bench_engine_setup(struct kvc_bench_engine_settings *settings,
                                             char **path)
{
    struct setup setup = {.settings = settings};
    size_t trail[KVC_COUNT_OF(setup.steps)]; /* what was asked, to go back to */
    size_t asked = 0;
    size_t at = 0;
    enum kvc_setup_action action = KVC_SETUP_QUIT;
    prepare(&setup);
    fputs("\n  kvconform bench engine: setup ('<' goes back, Ctrl-C ends it)\n", stderr);
    for (;;) {
        enum kvc_answer answer;
        const bool is_last = at == setup.step_count;
        if (!is_last && !is_asked(&setup, &setup.steps[at])) {
            at++;
            continue;
        }
        free(*path);
        *path = NULL;
        if (is_last) {
            print_summary(settings);
            answer = ask_action(&action, path);
        } else {
            answer = ask_step(&setup, &setup.steps[at]);
        }
        if (answer == KVC_ANSWER_END || answer == KVC_ANSWER_BREAK)
            return answer == KVC_ANSWER_END ? KVC_SETUP_END : KVC_SETUP_BREAK;
        if (answer == KVC_ANSWER_GIVEN && is_last)
            return action;
        if (answer == KVC_ANSWER_GIVEN)
            trail[asked++] = at++;
        else if (asked > 0)
            take_back(&setup, &setup.steps[at = trail[--asked]]);
    }
}
