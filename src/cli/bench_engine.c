/* `kvconform bench engine`: a workload against an inference engine, as `lmcache bench engine` runs it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/bench/engine.h"
#include "src/cli/bench.h"
#include "src/cli/bench_engine_flags.h"
#include "src/cli/bench_engine_setup.h"
#include "src/cli/stop.h"
#include "src/engine/discover.h"
#include "src/report/file.h"

enum { DISCOVERY_TIMEOUT_MS = 10000, DEFAULT_STREAM_TIMEOUT_MS = 600000 };

/* ---- what is required ---- */

static bool is_set(const struct kvc_bench_engine_settings *settings, const char *key)
{
    return settings->is_set[kvc_bench_engine_setting_index(key)];
}

/* Appends the flags that are missing; none: nothing is. */
static void list_missing(const struct kvc_bench_engine_settings *settings, struct kvc_buffer *out)
{
    if (!is_set(settings, "engine_url"))
        kvc_buffer_append_text(out, ", --engine-url");
    if (!is_set(settings, "workload"))
        kvc_buffer_append_text(out, ", --workload");
    if (!is_set(settings, "tokens_per_gb_kvcache") && !is_set(settings, "lmcache_url"))
        kvc_buffer_append_text(out, ", --tokens-per-gb-kvcache or --lmcache-url");
}

static kvc_status check_complete(const struct kvc_bench_engine_settings *settings,
                                 struct kvc_error *err)
{
    struct kvc_buffer missing = {0};
    kvc_status status = KVC_OK;
    list_missing(settings, &missing);
    if (missing.size > 0)
        status =
            kvc_fail(err, KVC_EUSAGE, "required and not given: %s", kvc_buffer_text(&missing) + 2);
    kvc_buffer_clear(&missing);
    return status;
}

static bool may_ask(const struct kvc_bench_engine_flags *flags)
{
    return !flags->no_interactive && flags->config == NULL && flags->export_config == NULL;
}

/* ---- what is found ---- */

static kvc_status set_found(struct kvc_bench_engine_settings *settings, const char *key,
                            const char *text, struct kvc_error *err)
{
    return kvc_bench_engine_setting_set(settings, kvc_bench_engine_setting_index(key), text, err);
}

static kvc_status find_model(struct kvc_bench_engine_settings *settings, const char *base_url,
                             const char *api_key, struct kvc_error *err)
{
    char *model = NULL;
    if (settings->model != NULL)
        return KVC_OK;
    KVC_GUARD(kvc_engine_find_model(base_url, api_key, DISCOVERY_TIMEOUT_MS, &model, err));
    const kvc_status status = set_found(settings, "model", model, err);
    free(model);
    return status;
}

static kvc_status find_tokens(struct kvc_bench_engine_settings *settings, struct kvc_error *err)
{
    int64_t tokens = 0;
    if (is_set(settings, "tokens_per_gb_kvcache"))
        return KVC_OK;
    KVC_GUARD(kvc_engine_find_tokens_per_gb(settings->lmcache_url, settings->model,
                                            DISCOVERY_TIMEOUT_MS, &tokens, err));
    char *text = kvc_format("%lld", (long long)tokens);
    const kvc_status status = set_found(settings, "tokens_per_gb_kvcache", text, err);
    free(text);
    return status;
}

/* ---- files ---- */

/* Makes a folder and those above it. */
static kvc_status make_folder(const char *path, struct kvc_error *err)
{
    char *part = kvc_strdup(path);
    bool is_made = true;
    for (char *c = part + 1; is_made && part[0] != '\0'; c++) {
        const char kept = *c;
        if (kept != '/' && kept != '\0')
            continue;
        *c = '\0';
        is_made = mkdir(part, 0777) == 0 || errno == EEXIST;
        *c = kept;
        if (kept == '\0')
            break;
    }
    free(part);
    return is_made && path[0] != '\0'
               ? KVC_OK
               : kvc_fail(err, KVC_EUSAGE, "cannot make the folder '%s': %s", path,
                          path[0] == '\0' ? "it has no name" : strerror(errno));
}

enum { FILE_CSV, FILE_JSON, FILE_OUTPUT, FILE_COUNT };

struct files {
    struct kvc_report_file files[FILE_COUNT]; /* stream NULL: not wanted */
};

static kvc_status open_file(const char *folder, const char *name, struct kvc_report_file *file,
                            struct kvc_error *err)
{
    char *path = folder == NULL ? kvc_strdup(name) : kvc_format("%s/%s", folder, name);
    const kvc_status status = kvc_report_file_open(path, file, err);
    free(path);
    return status;
}

/* Before the run: what cannot be written afterwards is not measured. */
static kvc_status open_files(const struct kvc_bench_engine_flags *flags, struct files *files,
                             struct kvc_error *err)
{
    if (!flags->no_csv || flags->json)
        KVC_GUARD(make_folder(flags->output_dir, err));
    if (!flags->no_csv)
        KVC_GUARD(open_file(flags->output_dir, "bench_results.csv", &files->files[FILE_CSV], err));
    if (flags->json)
        KVC_GUARD(
            open_file(flags->output_dir, "bench_summary.json", &files->files[FILE_JSON], err));
    if (flags->output != NULL)
        KVC_GUARD(open_file(NULL, flags->output, &files->files[FILE_OUTPUT], err));
    return KVC_OK;
}

static void close_files(struct files *files)
{
    for (size_t i = 0; i < FILE_COUNT; i++)
        kvc_report_file_close(&files->files[i]);
}

static kvc_status commit(struct kvc_report_file *file, struct kvc_buffer *text,
                         struct kvc_error *err)
{
    return file->stream == NULL ? KVC_OK : kvc_report_file_commit(file, kvc_buffer_view(text), err);
}

static kvc_status write_reports(const struct kvc_bench_engine_flags *flags,
                                const struct kvc_bench_engine_options *bench,
                                const struct kvc_bench_engine_result *result, struct files *files,
                                struct kvc_error *err)
{
    struct kvc_buffer terminal = {0}, json = {0}, csv = {0};
    kvc_bench_engine_write_terminal(bench, result, &terminal);
    kvc_bench_engine_write_json(bench, result, &json);
    kvc_bench_engine_write_csv(result, &csv);
    struct kvc_buffer *report = strcmp(flags->format, "json") == 0 ? &json : &terminal;
    kvc_status status = KVC_OK;
    if (fwrite(report->data, 1, report->size, stdout) != report->size || fflush(stdout) != 0)
        status = kvc_fail_errno(err, "cannot write the report to stdout");
    struct kvc_buffer *const texts[FILE_COUNT] = {&csv, &json, report};
    for (size_t i = 0; i < FILE_COUNT; i++) {
        const kvc_status committed =
            commit(&files->files[i], texts[i], status == KVC_OK ? err : NULL);
        status = status == KVC_OK ? committed : status;
    }
    kvc_buffer_clear(&terminal);
    kvc_buffer_clear(&json);
    kvc_buffer_clear(&csv);
    return status;
}

static kvc_status export_settings(const struct kvc_bench_engine_settings *settings,
                                  const char *path, struct kvc_error *err)
{
    struct kvc_report_file file;
    struct kvc_buffer text = {0};
    KVC_GUARD(kvc_report_file_open(path, &file, err));
    kvc_bench_engine_settings_export(settings, &text);
    const kvc_status status = kvc_report_file_commit(&file, kvc_buffer_view(&text), err);
    kvc_report_file_close(&file);
    kvc_buffer_clear(&text);
    if (status == KVC_OK)
        fprintf(stderr,
                "Configuration written to %s\n"
                "Replay with: kvconform bench engine --engine-url URL --config %s\n",
                path, path);
    return status;
}

/* ---- the command ---- */

static int end_with(const struct kvc_error *err)
{
    kvc_print_error(err);
    return kvc_exit_status(err->status);
}

static int run_and_report(const struct kvc_bench_engine_flags *flags,
                          const struct kvc_bench_engine_options *bench,
                          struct kvc_flamegraph *flamegraph, struct files *files)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_bench_engine_result result;
    int exit_status;
    kvc_status status = kvc_bench_engine_run(bench, &result, &err);
    if (status == KVC_OK)
        status = write_reports(flags, bench, &result, files, &err);
    if (status == KVC_OK)
        status = kvc_flamegraph_draw(flamegraph, "bench engine", bench->log, &err);
    if (status != KVC_OK)
        exit_status = end_with(&err);
    else if (result.interrupted)
        exit_status = kvc_stop_exit_status();
    else
        exit_status = kvc_bench_engine_result_is_valid(&result) ? KVC_EXIT_OK : KVC_EXIT_UNEXPECTED;
    kvc_bench_engine_result_clear(&result);
    return exit_status;
}

static kvc_status open_flamegraph(const struct kvc_bench_engine_flags *flags,
                                  struct kvc_flamegraph *flamegraph, struct kvc_error *err)
{
    char label[40];
    snprintf(label, sizeof(label), "engine-pid%lld", (long long)flags->flamegraph.pid);
    return kvc_flamegraph_open(&flags->flamegraph, (pid_t)flags->flamegraph.pid, label, flamegraph,
                               err);
}

static int run_bench(const struct kvc_bench_engine_flags *flags,
                     const struct kvc_bench_engine_settings *settings, const char *base_url,
                     const char *api_key)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct files files = {0};
    struct kvc_flamegraph flamegraph = {0};
    const struct kvc_bench_engine_options bench = {
        .settings = settings,
        .base_url = base_url,
        .api_key = api_key,
        .timeout_ms = flags->timeout_ms,
        .log = flags->quiet ? NULL : stderr,
        .live = flags->quiet || !isatty(STDERR_FILENO) ? NULL : stderr,
        .flames = &flamegraph.flames,
        .stop = &kvc_stop_signal,
        .output_dir = flags->output_dir,
        .export_csv = !flags->no_csv,
        .export_json = flags->json,
    };
    kvc_stop_catch();
    kvc_status status = open_files(flags, &files, &err);
    if (status == KVC_OK)
        status = open_flamegraph(flags, &flamegraph, &err);
    const int exit_status =
        status == KVC_OK ? run_and_report(flags, &bench, &flamegraph, &files) : end_with(&err);
    kvc_flamegraph_close(&flamegraph);
    close_files(&files);
    return exit_status;
}

static int find_and_run(const struct kvc_bench_engine_flags *flags,
                        struct kvc_bench_engine_settings *settings, const char *export_path)
{
    struct kvc_error err = KVC_ERROR_INIT;
    const char *api_key = getenv("OPENAI_API_KEY");
    char *base_url = NULL;
    int exit_status;
    kvc_status status = kvc_engine_check_api_key(api_key, &err);
    if (status == KVC_OK)
        status = kvc_engine_base_url(settings->engine_url, true, &base_url, &err);
    if (status == KVC_OK)
        status = find_model(settings, base_url, api_key, &err);
    if (status == KVC_OK)
        status = find_tokens(settings, &err);
    if (status == KVC_OK && export_path != NULL)
        status = export_settings(settings, export_path, &err);
    if (status != KVC_OK)
        exit_status = end_with(&err);
    else if (export_path != NULL)
        exit_status = KVC_EXIT_OK;
    else
        exit_status = run_bench(flags, settings, base_url, api_key);
    free(base_url);
    return exit_status;
}

static int ask_and_run(const struct kvc_bench_engine_flags *flags,
                       struct kvc_bench_engine_settings *settings)
{
    char *path = NULL;
    int exit_status = KVC_EXIT_OK;
    struct kvc_error err = KVC_ERROR_INIT;
    switch (kvc_bench_engine_setup(settings, &path)) {
    case KVC_SETUP_START:
    case KVC_SETUP_EXPORT:
        exit_status = find_and_run(flags, settings, path);
        break;
    case KVC_SETUP_QUIT:
        break;
    case KVC_SETUP_BREAK:
        exit_status = 128 + SIGINT;
        break;
    case KVC_SETUP_END:
        if (check_complete(settings, &err) == KVC_OK)
            kvc_fail(&err, KVC_EUSAGE, "the input ended before the setup did");
        fputc('\n', stderr);
        exit_status = end_with(&err);
        break;
    }
    free(path);
    return exit_status;
}

static int run_settings(const struct kvc_bench_engine_flags *flags,
                        struct kvc_bench_engine_settings *settings)
{
    const struct kvc_flamegraph_subject engine = {.pid_flag = "--profile-engine-pid"};
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_flamegraph_check(&flags->flamegraph, &engine, &err) != KVC_OK ||
        kvc_bench_engine_flags_apply(flags, settings, &err) != KVC_OK)
        return end_with(&err);
    if (check_complete(settings, &err) == KVC_OK)
        return find_and_run(flags, settings, flags->export_config);
    return may_ask(flags) ? ask_and_run(flags, settings) : end_with(&err);
}

static int run_bench_engine(int argc, char **argv)
{
    struct kvc_bench_engine_flags flags = {.output_dir = ".",
                                           .format = "terminal",
                                           .timeout_ms = DEFAULT_STREAM_TIMEOUT_MS,
                                           .flamegraph = {.on = "off", .modes = "on-cpu"}};
    struct kvc_bench_engine_settings settings;
    int exit_status = KVC_EXIT_OK;
    if (!kvc_bench_engine_flags_parse(&flags, argc, argv, &exit_status))
        return exit_status;
    kvc_bench_engine_settings_init(&settings);
    exit_status = run_settings(&flags, &settings);
    kvc_bench_engine_settings_clear(&settings);
    return exit_status;
}

const struct kvc_command kvc_command_bench_engine = {
    .name = "engine",
    .summary = "an inference engine: time to first token, decoding speed, throughput",
    .run = run_bench_engine,
};
