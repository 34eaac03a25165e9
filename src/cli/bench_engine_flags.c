#include "src/cli/bench_engine_flags.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/cli/options.h"

static const char *const formats[] = {"terminal", "json", NULL};

#define FLAG(member) offsetof(struct kvc_bench_engine_flags, member)

static const struct kvc_option run_options[] = {
    {.name = "config",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(config),
     .argument = "FILE",
     .help = "read settings from a JSON file; flags override it"},
    {.name = "export-config",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(export_config),
     .argument = "FILE",
     .help = "write the settings, with the model and the tokens per GB that were found and without "
             "addresses, to a JSON file, and do not run"},
    {.name = "no-interactive",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(no_interactive),
     .help = "never ask: what is required and missing is an error"},
    {.name = "timeout",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(timeout_ms),
     .argument = "SECONDS",
     .help = "give up a request that brings nothing for so long (default 600)"},
    {.name = "output-dir",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(output_dir),
     .argument = "DIR",
     .help = "for bench_results.csv and bench_summary.json (default: the current one)"},
    {.name = "no-csv",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(no_csv),
     .help = "write no bench_results.csv"},
    {.name = "json",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(json),
     .help = "write bench_summary.json"},
    KVC_OPTION_REPORT_FORMAT(FLAG(format), formats, "terminal (default) or json"),
    KVC_OPTION_REPORT_FILE(FLAG(output)),
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "no progress, no description of the workload"},
};

static const struct kvc_option profile_options[] = {
    {.name = "profile-engine-pid",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(flamegraph.pid),
     .argument = "PID",
     .minimum = 1,
     .help = "the engine's process: of several the one that computes"},
    KVC_FLAMEGRAPH_OPTIONS(FLAG(flamegraph), KVC_FLAMEGRAPH_MODES " (default on-cpu)",
                           "engine-pidPID"),
};

/* ---- the table of settings as options ---- */

struct made_option {
    char name[48];
    char help[400];
};

enum { MAX_GROUPS = 9 };

struct made {
    struct made_option texts[KVC_BENCH_ENGINE_SETTING_COUNT];
    struct kvc_option options[KVC_BENCH_ENGINE_SETTING_COUNT];
    struct kvc_option_group groups[MAX_GROUPS];
    size_t group_count;
};

static const char *argument_of(const struct kvc_bench_engine_setting *setting)
{
    static const char *const arguments[] = {
        [KVC_BENCH_ENGINE_TEXT] = "NAME",   [KVC_BENCH_ENGINE_URL] = "URL",
        [KVC_BENCH_ENGINE_CHOICE] = "TYPE", [KVC_BENCH_ENGINE_NUMBER] = "N",
        [KVC_BENCH_ENGINE_DECIMAL] = "X",   [KVC_BENCH_ENGINE_SWITCH] = NULL,
    };
    return arguments[setting->kind];
}

static void describe(const struct kvc_bench_engine_setting *setting, struct made_option *text)
{
    size_t used = (size_t)snprintf(text->help, sizeof(text->help), "%s", setting->help);
    for (size_t i = 0; setting->choices != NULL && setting->choices[i].value != NULL; i++)
        used += (size_t)snprintf(text->help + used, sizeof(text->help) - used, "%s %s",
                                 i == 0 ? ":" : ",", setting->choices[i].value);
    if (setting->initial != NULL && setting->kind != KVC_BENCH_ENGINE_SWITCH)
        snprintf(text->help + used, sizeof(text->help) - used, " (default %s)", setting->initial);
    snprintf(text->name, sizeof(text->name), "%s", setting->key);
    for (char *c = text->name; *c != '\0'; c++)
        if (*c == '_')
            *c = '-';
}

/* Settings of one workload stand together in the table: each is a group of the help. */
static void make_options(struct made *made, struct kvc_bench_engine_flags *flags)
{
    const char *workload = NULL;
    made->groups[made->group_count++] =
        (struct kvc_option_group){"Run", run_options, KVC_COUNT_OF(run_options), flags};
    made->groups[made->group_count++] =
        (struct kvc_option_group){"Benchmark", made->options, 0, flags};
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        const struct kvc_bench_engine_setting *setting = &kvc_bench_engine_setting_table[i];
        const bool is_switch = setting->kind == KVC_BENCH_ENGINE_SWITCH;
        describe(setting, &made->texts[i]);
        made->options[i] = (struct kvc_option){
            .name = made->texts[i].name,
            .kind = is_switch ? KVC_OPTION_FLAG : KVC_OPTION_TEXT,
            .offset = is_switch ? FLAG(switches) + i * sizeof(flags->switches[0])
                                : FLAG(texts) + i * sizeof(flags->texts[0]),
            .argument = argument_of(setting),
            .help = made->texts[i].help};
        if (setting->workload != workload &&
            (workload == NULL || strcmp(setting->workload, workload) != 0))
            made->groups[made->group_count++] =
                (struct kvc_option_group){setting->workload, &made->options[i], 0, flags};
        workload = setting->workload;
        made->groups[made->group_count - 1].count++;
    }
    made->groups[made->group_count++] =
        (struct kvc_option_group){"Profile", profile_options, KVC_COUNT_OF(profile_options), flags};
}

bool kvc_bench_engine_flags_parse(struct kvc_bench_engine_flags *flags, int argc, char **argv,
                                  int *exit_status)
{
    struct made *made = kvc_alloc_zero(1, sizeof(*made));
    char **arguments;
    size_t argument_count;
    make_options(made, flags);
    const struct kvc_command_line line = {
        .usage = "kvconform bench engine [OPTION…]",
        .about =
            "Sends a workload to an OpenAI-compatible inference engine and measures time to first "
            "token, inter-token time, latency, decoding speed and throughput. Flags, defaults and "
            "files are those of `lmcache bench engine`. Asks for what is required and missing, "
            "unless --no-interactive, --config or --export-config is given. OPENAI_API_KEY holds "
            "the engine's key, SSL_CERT_FILE certificates to trust. The exit status is 0 when every "
            "request succeeded, 1 when one failed, 3 when the engine cannot be reached.",
        .groups = made->groups,
        .group_count = made->group_count,
    };
    const bool goes_on =
        kvc_options_parse(&line, argc, argv, &arguments, &argument_count, exit_status);
    free(made);
    return goes_on;
}

/* ---- values ---- */

static kvc_status set_flag(struct kvc_bench_engine_settings *settings, size_t index,
                           const char *text, struct kvc_error *err)
{
    const kvc_status status = kvc_bench_engine_setting_set(settings, index, text, err);
    if (status != KVC_OK) {
        struct made_option named;
        describe(&kvc_bench_engine_setting_table[index], &named);
        kvc_error_set_where(err, "--%s", named.name);
    }
    return status;
}

kvc_status kvc_bench_engine_flags_apply(const struct kvc_bench_engine_flags *flags,
                                        struct kvc_bench_engine_settings *settings,
                                        struct kvc_error *err)
{
    const size_t lmcache = kvc_bench_engine_setting_index("lmcache_url");
    const size_t tokens = kvc_bench_engine_setting_index("tokens_per_gb_kvcache");
    if (flags->config != NULL)
        KVC_GUARD(kvc_bench_engine_settings_load(settings, flags->config, err));
    /* Who names a server wants its answer, not the one that a file has kept. */
    if (flags->texts[lmcache] != NULL)
        kvc_bench_engine_setting_unset(settings, tokens);
    for (size_t i = 0; i < KVC_BENCH_ENGINE_SETTING_COUNT; i++) {
        if (flags->texts[i] != NULL)
            KVC_GUARD(set_flag(settings, i, flags->texts[i], err));
        if (flags->switches[i])
            KVC_GUARD(set_flag(settings, i, "true", err));
    }
    return KVC_OK;
}
