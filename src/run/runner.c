#include "src/run/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/run/loop.h"
#include "src/run/servers.h"

enum {
    EXIT_UNEXPECTED = 1,
    EXIT_NOTHING = 2,
    EXIT_TARGET = 3,
    JOBS_PER_CORE = 4,
    MAX_DEFAULT_JOBS = 16,
};

size_t kvc_run_default_jobs(void)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t jobs = (size_t)(cores > 0 ? cores : 1) * JOBS_PER_CORE;
    return jobs < MAX_DEFAULT_JOBS ? jobs : MAX_DEFAULT_JOBS;
}

/* ---- signals ---- */

struct signals {
    sigset_t before;
    int fd;
};

/* From here on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) wait in a
 * descriptor, and orphans of checks become ours. */
static kvc_status take_over_signals(struct signals *signals, struct kvc_error *err)
{
    sigset_t ours;
    struct sigaction hangup;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGCHLD);
    sigaction(SIGHUP, NULL, &hangup);
    if (hangup.sa_handler != SIG_IGN)
        sigaddset(&ours, SIGHUP);
    sigprocmask(SIG_BLOCK, &ours, &signals->before);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signals->fd = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd >= 0)
        return KVC_OK;
    kvc_fail_errno(err, "cannot listen for signals");
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
    return KVC_ESYSTEM;
}

static void give_back_signals(struct signals *signals)
{
    struct signalfd_siginfo taken;
    while (read(signals->fd, &taken, sizeof(taken)) > 0) {
    }
    close(signals->fd);
    sigprocmask(SIG_SETMASK, &signals->before, NULL);
}

/* ---- what the reports are told first ---- */

static void describe_paths(const struct kvc_server *server, struct kvc_buffer *out)
{
    const struct kvc_facts_record *record = &server->facts;
    for (int path = 0; path < KVC_PATH_COUNT; path++) {
        const bool works = (record->facts.paths & 1u << path) != 0;
        /* See kvc_plan_fill. */
        const bool elsewhere = !works && path == KVC_PATH_ENGINE_DRIVEN_INLINE &&
                               record->facts.offers_pool && kvc_plan_takes_no_pool(&server->target);
        kvc_buffer_printf(out, "%s%s: %s (%s)", path > 0 ? "; " : "",
                          kvc_path_name((enum kvc_path)path), works || elsewhere ? "yes" : "no",
                          elsewhere ? "on a second server, without a pool"
                                    : record->path_reasons[path]);
    }
}

static kvc_status begin_reports(const struct kvc_run_options *options,
                                const struct kvc_server *server, struct kvc_error *err)
{
    struct kvc_buffer paths = {0};
    describe_paths(server, &paths);
    char started[32];
    const time_t now = time(NULL);
    strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    const struct kvc_run_info info = {
        .suite_version = KVC_VERSION,
        .target = server->target.ops->name,
        .rpc_url = server->target.rpc_url,
        .dialect = server->facts.facts.dialect->name,
        .server_version = server->facts.version,
        .how = server->target.identity.how,
        .client = options->facts.client_release,
        .paths = kvc_buffer_text(&paths),
        .seed = options->seed,
        .started = started,
        .defects = server->target.options.defects,
        .stand_in = server->facts.facts.stand_in,
        .device = options->device != NULL ? options->device : "",
    };
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < options->report_count && status == KVC_OK; i++)
        status = options->reports[i]->ops->begin(options->reports[i], &info,
                                                 options->selection->count, err);
    kvc_buffer_clear(&paths);
    return status;
}

/* ---- what they are told last ---- */

static size_t carried_out(const struct kvc_summary *summary)
{
    return summary->total - summary->counts[KVC_OUTCOME_SKIP] -
           summary->counts[KVC_OUTCOME_NOT_RUN];
}

static void find_missing_features(const struct kvc_run_options *options,
                                  const struct kvc_server *server, struct kvc_buffer *problems)
{
    if (server->facts.facts.paths == 0)
        kvc_buffer_append_text(problems, "the server answers no registration: whatever needs a "
                                         "transfer path was skipped\n");
    for (size_t i = 0; i < kvc_need_name_count; i++) {
        const struct kvc_flag_name *need = &kvc_need_names[i];
        if ((options->required & need->bit) == 0 ||
            (kvc_needs_met(&server->target, &server->facts.facts) & need->bit) != 0)
            continue;
        kvc_buffer_printf(problems, "--require %s: the server lacks it (%s)\n", need->name,
                          need->meaning);
    }
}

/* Cuts the lines apart. */
static char **split_lines(struct kvc_buffer *lines)
{
    char **texts = kvc_alloc_zero(lines->size + 1, sizeof(texts[0]));
    const char *at = kvc_buffer_text(lines);
    for (size_t count = 0; *at != '\0'; count++) {
        const size_t size = strcspn(at, "\n");
        texts[count] = kvc_format("%.*s", (int)size, at);
        at += size + 1;
    }
    return texts;
}

static bool anything_unexpected(const struct kvc_summary *summary)
{
    if (kvc_summary_failed(summary))
        return true;
    return summary->stale_expectations[0] != NULL || summary->problems[0] != NULL;
}

static int exit_status(const struct kvc_summary *summary, int stop_signal)
{
    if (stop_signal != 0)
        return 128 + stop_signal;
    if (summary->target_lost)
        return EXIT_TARGET;
    if (anything_unexpected(summary))
        return EXIT_UNEXPECTED;
    return carried_out(summary) == 0 ? EXIT_NOTHING : 0;
}

static void sum_up(const struct kvc_run_options *options, struct kvc_loop *loop, int64_t start_ns)
{
    struct kvc_summary *summary = loop->summary;
    if (loop->stop_signal == 0 && carried_out(summary) < options->min_checks)
        kvc_buffer_printf(&loop->problems, "--min-checks %zu: only %zu were carried out\n",
                          options->min_checks, carried_out(summary));
    summary->interrupted = loop->stop_signal != 0;
    summary->seconds = (double)(kvc_now_ns() - start_ns) / 1e9;
    summary->stale_expectations = kvc_expect_stale(options->expectations);
    summary->problems = split_lines(&loop->problems);
    summary->exit_status = exit_status(summary, loop->stop_signal);
}

static kvc_status finish_reports(const struct kvc_run_options *options,
                                 const struct kvc_summary *summary, struct kvc_error *err)
{
    kvc_status status = KVC_OK;
    for (size_t i = 0; i < options->report_count; i++) {
        struct kvc_error one = KVC_ERROR_INIT;
        if (options->reports[i]->ops->finish(options->reports[i], summary, &one) == KVC_OK)
            continue;
        status = one.status;
        if (err != NULL)
            *err = one;
    }
    return status;
}

/* ---- the run ---- */

/* With the default server up. */
static kvc_status run_plan(const struct kvc_run_options *options, struct kvc_plan *plan,
                           int signal_fd, struct kvc_summary *summary, struct kvc_error *err)
{
    const int64_t start_ns = kvc_now_ns();
    struct kvc_loop loop = {
        .options = options,
        .plan = plan,
        .summary = summary,
        .signal_fd = signal_fd,
        .deadline_ms =
            kvc_now_ms() + (options->run_limit_ms != 0 ? options->run_limit_ms : KVC_RUN_LIMIT_MS),
        .jobs = options->jobs != 0 ? options->jobs : kvc_run_default_jobs(),
    };
    KVC_GUARD(begin_reports(options, &plan->servers[0], err));
    find_missing_features(options, &plan->servers[0], &loop.problems);
    summary->total = options->selection->count;
    kvc_plan_fill(options, plan);
    kvc_loop_run(&loop);
    for (size_t i = 0; i < plan->server_count; i++)
        kvc_target_stop(&plan->servers[i].target);
    sum_up(options, &loop, start_ns);
    kvc_buffer_clear(&loop.problems);
    return finish_reports(options, summary, err);
}

static int start_failure_status(kvc_status status)
{
    if (status == KVC_EMISMATCH)
        return EXIT_UNEXPECTED; /* the client's dialect */
    if (status != KVC_EINTERRUPTED)
        return status == KVC_EUSAGE ? EXIT_NOTHING : EXIT_TARGET;
    sigset_t pending;
    sigpending(&pending);
    return 128 + (sigismember(&pending, SIGTERM) == 1  ? SIGTERM
                  : sigismember(&pending, SIGINT) == 1 ? SIGINT
                                                       : SIGHUP);
}

kvc_status kvc_run(const struct kvc_run_options *given, struct kvc_summary *summary,
                   struct kvc_error *err)
{
    struct kvc_run_options options = *given;
    if (options.check_limit_ms == 0)
        options.check_limit_ms = KVC_RUN_CHECK_LIMIT_MS;
    *summary = (struct kvc_summary){.exit_status = EXIT_TARGET};
    struct signals signals;
    KVC_GUARD(take_over_signals(&signals, err));
    struct kvc_plan plan;
    kvc_plan_open(&options, &plan);
    kvc_status status = kvc_server_bring_up(&options, &plan.servers[0], err);
    if (status == KVC_OK)
        status = run_plan(&options, &plan, signals.fd, summary, err);
    else
        summary->exit_status = start_failure_status(status);
    kvc_target_stop(&plan.servers[0].target);
    kvc_plan_clear(&plan);
    give_back_signals(&signals);
    return status;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts != NULL && texts[i] != NULL; i++)
        free(texts[i]);
    free(texts);
}

void kvc_summary_clear(struct kvc_summary *summary)
{
    free_texts(summary->stale_expectations);
    free_texts(summary->problems);
    *summary = (struct kvc_summary){0};
}
