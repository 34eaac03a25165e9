#include "src/cli/run_flags.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_choices[] = {"must", "should", "observed", NULL};
static const char *const transfer_choices[] = {"all", "auto", "engine_driven", "lmcache_driven",
                                               NULL};
static const char *const device_choices[] = {"cpu", "cuda", "all", NULL};

#define FLAG(member) offsetof(struct run_flags, member)

static const struct kvc_option selection_table[] = {
    {.name = "select",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(select),
     .argument = "PATTERN",
     .help = "only these checks: an id, or a glob over ids (* within a component, ** across), with "
             "everything below it; @FILE: one pattern a line; may be given several times"},
    {.name = "skip",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(skip),
     .argument = "PATTERN",
     .help = "not these checks"},
    {.name = "level",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(level),
     .argument = "LEVEL",
     .choices = level_choices,
     .help = "must: only what must hold; should: that and what should; observed (default): all"},
    {.name = "transfer",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(transfer),
     .argument = "MODE",
     .choices = transfer_choices,
     .help =
         "all (default), engine_driven or lmcache_driven; auto: what a worker would choose. The "
         "environment's LMCACHE_MP_TRANSFER_MODE counts when this is not given"},
    {.name = "device",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(device),
     .argument = "DEVICE",
     .choices = device_choices,
     .help =
         "where the workers' KV caches are: cpu (default); cuda: only the checks on a GPU; all"},
    {.name = "destructive",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(destructive),
     .help = "also run checks that may end a server of somebody else, or empty its cache"},
    {.name = "require",
     .kind = KVC_OPTION_TEXTS,
     .offset = FLAG(require),
     .argument = "FEATURE",
     .help = "fail when the server lacks this, instead of skipping what needs it: http, pool, "
             "no-pool, status, p2p, checksums, restart, engine-driven, lmcache-driven, l2, cuda"},
    {.name = "client-dialect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(client_dialect),
     .argument = "RELEASE",
     .help =
         "run nothing, and end with status 1, when a client of this release cannot work with the "
         "server; the first operation that differs is named"},
    {.name = "min-checks",
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(min_checks),
     .argument = "N",
     .help = "fail when fewer checks were carried out"},
};

static const struct kvc_option execution_table[] = {
    {.name = "fail-fast",
     .letter = 'x',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(fail_fast),
     .help = "start nothing more once something unexpected came of a check"},
    {.name = "jobs",
     .letter = 'j',
     .kind = KVC_OPTION_NUMBER,
     .offset = FLAG(jobs),
     .argument = "N",
     .minimum = 1,
     .help =
         "checks at the same time (default: four for each core, at most 16); from 2 on, those that "
         "mostly wait run beside them"},
    {.name = "seed",
     .kind = KVC_OPTION_SEED,
     .offset = FLAG(seed),
     .argument = "N",
     .help =
         "what names, tokens and data are drawn from (default: drawn from the clock, and said)"},
    {.name = "check-limit",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(check_limit_ms),
     .argument = "SECONDS",
     .help = "how long one check may take (default 30)"},
    {.name = "run-limit",
     .kind = KVC_OPTION_SECONDS,
     .offset = FLAG(run_limit_ms),
     .argument = "SECONDS",
     .help = "how long the whole run may take (default 1800)"},
};

static const struct kvc_option report_table[] = {
    {.name = "expect",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(expect),
     .argument = "FILE",
     .help = "known deviations, one a line: ID OUTCOME # WHY"},
    {.name = "update-expect",
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(update_expect),
     .help = "rewrite that file by what this run shows"},
    {.name = "junit",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(junit),
     .argument = "FILE",
     .help = "write a JUnit XML report (-: stdout)"},
    {.name = "json",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(json),
     .argument = "FILE",
     .help = "write a JSON report (-: stdout)"},
    {.name = "html",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(html),
     .argument = "FILE",
     .help = "write one self-contained HTML page"},
    {.name = "trace",
     .kind = KVC_OPTION_TEXT,
     .offset = FLAG(trace),
     .argument = "DIR",
     .help = "write the frames of each failing check there, for `kvconform decode`"},
    {.name = "quiet",
     .letter = 'q',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(quiet),
     .help = "show failures and the last line only"},
    {.name = "verbose",
     .letter = 'v',
     .kind = KVC_OPTION_FLAG,
     .offset = FLAG(verbose),
     .help = "show every check, and known failures in full"},
    {.name = "color",
     .kind = KVC_OPTION_CHOICE,
     .offset = FLAG(color),
     .argument = "WHEN",
     .choices = kvc_color_choices,
     .help = "auto (default), always or never"},
};

void kvc_run_flags_groups(struct run_flags *flags, struct kvc_target_flags *target_flags,
                          struct kvc_option_group groups[KVC_RUN_GROUP_COUNT])
{
    groups[0] = (struct kvc_option_group){"What to run", selection_table,
                                          KVC_COUNT_OF(selection_table), flags};
    groups[1] = kvc_target_flag_group(true, target_flags);
    groups[2] = (struct kvc_option_group){"How to run it", execution_table,
                                          KVC_COUNT_OF(execution_table), flags};
    groups[3] = (struct kvc_option_group){"What to expect and report", report_table,
                                          KVC_COUNT_OF(report_table), flags};
}

/* ---- from flags to options ---- */

kvc_status kvc_run_flags_select(const struct run_flags *flags, const struct kvc_registry *registry,
                                struct kvc_selection *selection, struct kvc_error *err)
{
    struct kvc_selection_options options = {.level = KVC_LEVEL_MUST};
    kvc_status status = KVC_OK;
    while (strcmp(level_choices[options.level], flags->level) != 0)
        options.level++;
    for (size_t i = 0; i < flags->select.count && status == KVC_OK; i++)
        status = kvc_patterns_add(&options.select, "--select", flags->select.items[i], err);
    for (size_t i = 0; i < flags->skip.count && status == KVC_OK; i++)
        status = kvc_patterns_add(&options.skip, "--skip", flags->skip.items[i], err);
    if (status == KVC_OK)
        status = kvc_select(registry, &options, selection, err);
    kvc_patterns_clear(&options.select);
    kvc_patterns_clear(&options.skip);
    return status;
}

static kvc_status resolve_required(const struct kvc_texts *names, uint32_t *required,
                                   struct kvc_error *err)
{
    for (size_t i = 0; i < names->count; i++) {
        uint32_t bit = 0;
        for (size_t j = 0; j < kvc_need_name_count; j++)
            if (strcmp(kvc_need_names[j].name, names->items[i]) == 0)
                bit = kvc_need_names[j].bit;
        if (bit == 0) {
            kvc_fail(err, KVC_EUSAGE, "there is no feature '%s'; --help shows them",
                     names->items[i]);
            kvc_error_set_where(err, "--require");
            return KVC_EUSAGE;
        }
        *required |= bit;
    }
    return KVC_OK;
}

/* Which paths --transfer, or the environment, leaves. */
static kvc_status resolve_paths(const struct run_flags *flags, struct kvc_applies_options *applies,
                                char *reason, size_t reason_size, struct kvc_error *err)
{
    const char *environment = getenv(KVC_MODE_ENVIRONMENT);
    const bool has_environment = environment != NULL && environment[0] != '\0';
    applies->paths = KVC_PATHS_ALL;
    if ((flags->transfer == NULL && !has_environment) ||
        (flags->transfer != NULL && strcmp(flags->transfer, "all") == 0))
        return KVC_OK;
    struct kvc_mode_choice choice;
    KVC_GUARD(kvc_mode_choose(flags->transfer, environment, &kvc_device_cpu, &choice, err));
    if (choice.mode == KVC_MODE_ENGINE_DRIVEN)
        applies->paths = KVC_PATHS_ENGINE_DRIVEN;
    else
        applies->paths = 1u << KVC_PATH_LMCACHE_DRIVEN;
    snprintf(reason, reason_size, "%s", choice.reason);
    applies->paths_reason = reason;
    return KVC_OK;
}

/* Which checks run by where their workers' caches are. */
static void resolve_device(const struct run_flags *flags, struct kvc_run_options *options,
                           struct kvc_run_texts *texts)
{
    struct kvc_applies_options *applies = &options->applies;
    struct kvc_device_text about;
    struct kvc_error err = KVC_ERROR_INIT;
    const bool with_cuda = strcmp(flags->device, "cpu") != 0;
    applies->without_cpu = strcmp(flags->device, "cuda") == 0;
    texts->device[0] = '\0';
    options->device = texts->device;
    applies->cuda_skip = texts->cuda_skip;
    if (!with_cuda) {
        snprintf(texts->cuda_skip, sizeof(texts->cuda_skip),
                 "its KV cache is on a GPU: --device cuda or all runs it");
    } else if (kvc_device_cuda.probe(&about, &err) != KVC_OK) {
        snprintf(texts->cuda_skip, sizeof(texts->cuda_skip), "device cuda: %.160s", err.what);
    } else {
        snprintf(texts->device, sizeof(texts->device), "cuda: %s", about.text);
        applies->cuda_skip = NULL;
        options->facts.cuda = true;
    }
}

kvc_status kvc_run_flags_resolve(const struct run_flags *flags, struct kvc_run_options *options,
                                 struct kvc_run_texts *texts, struct kvc_error *err)
{
    options->applies.destructive = flags->destructive;
    KVC_GUARD(resolve_required(&flags->require, &options->required, err));
    KVC_GUARD(kvc_release_flag_resolve("--client-dialect", flags->client_dialect,
                                       &options->facts.client, err));
    options->facts.client_release = flags->client_dialect;
    KVC_GUARD(resolve_paths(flags, &options->applies, texts->paths_reason,
                            sizeof(texts->paths_reason), err));
    resolve_device(flags, options, texts);
    return KVC_OK;
}

char *kvc_run_flags_reproduce(const struct run_flags *flags,
                              const struct kvc_target_flags *target_flags)
{
    struct kvc_buffer line = {0};
    kvc_shell_quote(program_invocation_name, &line);
    kvc_buffer_append_text(&line, " run");
    kvc_target_flags_append(target_flags, &line);
    if (flags->transfer != NULL)
        kvc_buffer_printf(&line, " --transfer %s", flags->transfer);
    if (strcmp(flags->device, "cpu") != 0)
        kvc_buffer_printf(&line, " --device %s", flags->device);
    if (flags->destructive)
        kvc_buffer_append_text(&line, " --destructive");
    kvc_buffer_printf(&line, " --seed %llu", (unsigned long long)flags->seed);
    return kvc_buffer_take_text(&line);
}
