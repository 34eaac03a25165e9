#include "src/run/loop.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/run/servers.h"
#include "src/target/aside.h"

enum { TICK_MS = 200 };

/* ---- servers ---- */

static void add_problem(struct kvc_loop *loop, const char *text)
{
    kvc_buffer_printf(&loop->problems, "%s\n", text);
}

static void lose_server(struct kvc_loop *loop, struct kvc_server *server,
                        const struct kvc_error *err)
{
    kvc_target_stop(&server->target);
    server->state = KVC_SERVER_LOST;
    loop->summary->target_lost = true;
    if (err == NULL)
        return;
    char line[sizeof(*err)];
    kvc_error_line(err, line, sizeof(line));
    char *text = kvc_format("the server%s%s could not be started: %s",
                            server->has_setup ? " set up as " : "",
                            server->has_setup ? server->setup.name : "", line);
    add_problem(loop, text);
    free(text);
}

/* After a death: the same server again, or it is lost. */
static void restart_server(struct kvc_loop *loop, struct kvc_server *server)
{
    struct kvc_error err = KVC_ERROR_INIT;
    server->was_ended = false;
    server->target.l2_bytes = 0;
    if (!server->target.ops->can_restart) {
        lose_server(loop, server, NULL);
        return;
    }
    if (kvc_server_start_again(server, &err) != KVC_OK && err.status != KVC_EINTERRUPTED)
        lose_server(loop, server, &err);
}

/* ---- results ---- */

static void emit(struct kvc_loop *loop, struct kvc_entry *entry, struct kvc_result *result)
{
    const struct kvc_run_options *options = loop->options;
    kvc_expect_judge(options->expectations, result);
    if (result->raw != KVC_OUTCOME_PASS && options->reproduce != NULL)
        kvc_result_set(&result->reproduce, "%s --select %s", options->reproduce,
                       entry->instance->id);
    entry->raw = result->raw;
    entry->state = KVC_ENTRY_DONE;
    loop->summary->counts[result->outcome]++;
    for (size_t i = 0; i < options->report_count; i++)
        options->reports[i]->ops->result(options->reports[i], result);
    kvc_result_clear(result);
}

/* The last of the suspects is done, and none of them was the one. */
static void report_unexplained_death(struct kvc_loop *loop, struct kvc_server *server)
{
    char *text = kvc_format("the server died while these ran side by side, and not when each ran "
                            "alone: %s",
                            kvc_buffer_text(&server->suspect_ids));
    add_problem(loop, text);
    free(text);
}

/* The end of an entry's life: its server may then be stopped. */
static void leave_server(struct kvc_loop *loop, struct kvc_entry *entry)
{
    struct kvc_server *server = entry->server;
    if (server == NULL)
        return;
    if (entry->suspect && --server->suspects == 0 && !server->suspects_explained &&
        loop->stop_reason == NULL && server->state == KVC_SERVER_UP)
        report_unexplained_death(loop, server);
    if (--server->left == 0 && server->state == KVC_SERVER_UP) {
        kvc_target_stop(&server->target);
        server->state = KVC_SERVER_DOWN;
    }
}

/* An entry that is not run. */
static void settle(struct kvc_loop *loop, struct kvc_entry *entry, enum kvc_outcome outcome,
                   const char *why)
{
    struct kvc_result result;
    kvc_result_init(&result, entry->instance);
    result.raw = outcome;
    kvc_result_set(&result.message, "%s", why);
    emit(loop, entry, &result);
    leave_server(loop, entry);
}

/* ---- a server that answers nothing ---- */

/* Ends a check whose result would say nothing. */
static void discard(struct kvc_loop *loop, struct kvc_entry *entry)
{
    struct kvc_result discarded;
    kvc_result_init(&discarded, entry->instance);
    kvc_job_kill(&entry->job);
    kvc_job_finish(&entry->job, &discarded);
    kvc_result_clear(&discarded);
    entry->server->running--;
    loop->running--;
}

/* Any of the checks that run on the server, and the one that failed first, may have been the one that
 * killed it: on a fresh one they run again, each alone. */
static void suspect_all(struct kvc_loop *loop, struct kvc_entry *failed)
{
    struct kvc_server *server = failed->server;
    server->suspects = 0;
    server->suspects_explained = false;
    kvc_buffer_clear(&server->suspect_ids);
    for (size_t i = 0; i < loop->plan->entry_count; i++) {
        struct kvc_entry *entry = &loop->plan->entries[i];
        if (entry->server != server || (entry->state != KVC_ENTRY_RUNNING && entry != failed))
            continue;
        if (entry != failed)
            discard(loop, entry);
        entry->state = KVC_ENTRY_WAITING;
        entry->suspect = true;
        server->suspects++;
        kvc_buffer_printf(&server->suspect_ids, "%s%s", server->suspects > 1 ? ", " : "",
                          entry->instance->id);
    }
}

/* Where there will be no fresh server: what still runs on this one ends without a verdict. */
static void abandon_running(struct kvc_loop *loop, const struct kvc_server *server)
{
    for (size_t i = 0; i < loop->plan->entry_count; i++) {
        struct kvc_entry *entry = &loop->plan->entries[i];
        if (entry->server != server || entry->state != KVC_ENTRY_RUNNING)
            continue;
        discard(loop, entry);
        settle(loop, entry, KVC_OUTCOME_NOT_RUN, "the server was lost");
    }
}

/* The finding of this check. */
static void blame(struct kvc_loop *loop, struct kvc_entry *entry, struct kvc_result *result)
{
    struct kvc_server *server = entry->server;
    result->server_died = true;
    server->suspects_explained = true;
    if (result->raw == KVC_OUTCOME_PASS) {
        result->raw = KVC_OUTCOME_FAIL;
        kvc_result_set(&result->message, "the server answers nothing any more after this check");
        kvc_result_set(&result->expected, "NOOP answered to a fresh client");
        kvc_result_set(&result->got, "no answer within %lld ms",
                       (long long)loop->options->facts.timeout_ms);
    } else {
        char *message = kvc_strdup(result->message);
        kvc_result_set(&result->message, "%s; afterwards the server answered nothing any more",
                       message);
        free(message);
    }
}

static bool deserves_question(const struct kvc_entry *entry, const struct kvc_result *result)
{
    if (result->raw == KVC_OUTCOME_SKIP)
        return false;
    return result->raw != KVC_OUTCOME_PASS || entry->suspect ||
           (entry->instance->check->flags & KVC_FLAG_DESTRUCTIVE) != 0;
}

static bool server_answers(const struct kvc_loop *loop, const struct kvc_server *server)
{
    return kvc_target_answers(&server->target, server->facts.facts.dialect,
                              loop->options->facts.timeout_ms);
}

/* ---- one check from start to end ---- */

static void end_check(struct kvc_loop *loop, struct kvc_entry *entry)
{
    struct kvc_server *server = entry->server;
    struct kvc_result result;
    kvc_result_init(&result, entry->instance);
    kvc_job_finish(&entry->job, &result);
    loop->running--;
    server->running--;
    server->alone_runs = false;
    if (server->was_ended)
        restart_server(loop, server);
    if (loop->stop_reason != NULL && result.raw != KVC_OUTCOME_PASS) {
        /* It was told to end: what it says now is no verdict on the server. */
        kvc_result_clear(&result);
        settle(loop, entry, KVC_OUTCOME_NOT_RUN, loop->stop_reason);
        return;
    }
    if (server->state == KVC_SERVER_UP && deserves_question(entry, &result) &&
        !server_answers(loop, server) && !kvc_aside_stop_pending()) {
        const bool can_restart = server->target.ops->can_restart;
        if (can_restart && server->running > 0) {
            kvc_result_clear(&result);
            suspect_all(loop, entry);
            restart_server(loop, server);
            return;
        }
        blame(loop, entry, &result);
        entry->state = KVC_ENTRY_DONE; /* it runs no more, and is not abandoned */
        abandon_running(loop, server);
        restart_server(loop, server);
    }
    emit(loop, entry, &result);
    leave_server(loop, entry);
}

static char *trace_path(const struct kvc_run_options *options, const struct kvc_instance *instance)
{
    if (options->trace_dir == NULL)
        return NULL;
    char *path = kvc_format("%s/%s.json", options->trace_dir, instance->id);
    for (char *c = path + strlen(options->trace_dir) + 1; *c != '\0'; c++)
        if (*c == '/')
            *c = '.';
    return path;
}

static void start_check(struct kvc_loop *loop, struct kvc_entry *entry)
{
    const struct kvc_run_options *options = loop->options;
    struct kvc_server *server = entry->server;
    struct kvc_error err = KVC_ERROR_INIT;
    char *path = trace_path(options, entry->instance);
    const struct kvc_ctx_options context = {
        .instance = entry->instance,
        .facts = &server->facts.facts,
        .setup = &server->setup,
        .seed = options->seed,
        .connect_timeout_ms = server->target.options.connect_timeout_ms,
        .trace_path = path,
    };
    const int64_t limit = entry->instance->check->limit_ms;
    const kvc_status status =
        kvc_job_start(&entry->job, &context, limit != 0 ? limit : options->check_limit_ms, &err);
    free(path);
    if (status != KVC_OK) {
        settle(loop, entry, KVC_OUTCOME_ERROR, err.what);
        return;
    }
    entry->state = KVC_ENTRY_RUNNING;
    loop->running++;
    server->running++;
    server->alone_runs = kvc_entry_is_alone(entry);
    for (size_t i = 0; i < options->report_count; i++)
        if (options->reports[i]->ops->started != NULL)
            options->reports[i]->ops->started(options->reports[i], entry->instance);
}

static bool server_is_up(struct kvc_loop *loop, struct kvc_server *server)
{
    if (server->state != KVC_SERVER_DOWN)
        return server->state == KVC_SERVER_UP;
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_server_bring_up(loop->options, server, &err) == KVC_OK)
        return true;
    if (err.status != KVC_EINTERRUPTED)
        lose_server(loop, server, &err);
    return false;
}

/* Starts the entry, or settles it when it cannot run. */
static void begin(struct kvc_loop *loop, struct kvc_entry *entry, const struct kvc_entry *failed)
{
    const struct kvc_run_options *options = loop->options;
    const struct kvc_expectation *line =
        kvc_expect_find(options->expectations, entry->instance->id);
    struct kvc_buffer reason = {0};
    enum kvc_outcome outcome = KVC_OUTCOME_SKIP;
    if (entry->skip != NULL)
        kvc_buffer_append_text(&reason, entry->skip);
    else if (line != NULL && (line->outcomes & KVC_EXPECTED_SKIP) != 0)
        kvc_buffer_printf(&reason, "%s:%d: %s", options->expectations->path, line->line,
                          line->reason);
    else if (failed != NULL) {
        outcome = KVC_OUTCOME_NOT_RUN;
        kvc_buffer_printf(&reason, "needs %s, which did not pass", failed->instance->id);
    } else if (!server_is_up(loop, entry->server)) {
        if (kvc_aside_stop_pending())
            return; /* the entry waits, and is settled when the loop sees the signal */
        outcome = KVC_OUTCOME_NOT_RUN;
        kvc_buffer_append_text(&reason, "the server was lost");
    } else if (kvc_applies(entry->instance, &entry->server->target, &entry->server->facts,
                           &options->applies, &reason)) {
        start_check(loop, entry);
        return;
    }
    settle(loop, entry, outcome, kvc_buffer_text(&reason));
    kvc_buffer_clear(&reason);
}

/* ---- the loop ---- */

static void start_what_can(struct kvc_loop *loop)
{
    while (loop->stop_reason == NULL && !kvc_aside_stop_pending()) {
        const struct kvc_entry *failed = NULL;
        struct kvc_entry *entry = kvc_plan_next(loop->plan, loop->jobs, &failed);
        if (entry == NULL)
            return;
        begin(loop, entry, failed);
    }
}

static void stop(struct kvc_loop *loop, const char *reason, bool at_once)
{
    const int64_t now_ms = kvc_now_ms();
    loop->stop_reason = reason;
    for (size_t i = 0; i < loop->plan->entry_count; i++) {
        struct kvc_entry *entry = &loop->plan->entries[i];
        if (entry->state != KVC_ENTRY_RUNNING)
            continue;
        if (at_once)
            kvc_job_kill(&entry->job);
        else
            kvc_job_ask_to_end(&entry->job, now_ms);
    }
}

static void take_signals(struct kvc_loop *loop)
{
    struct signalfd_siginfo info;
    while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            continue; /* kvc_job_check finds out whose */
        const bool again = loop->stop_signal != 0;
        loop->stop_signal = (int)info.ssi_signo;
        stop(loop, "the run was interrupted", again);
    }
}

static void check_jobs(struct kvc_loop *loop)
{
    for (size_t i = 0; i < loop->plan->entry_count; i++) {
        struct kvc_entry *entry = &loop->plan->entries[i];
        if (entry->state != KVC_ENTRY_RUNNING)
            continue;
        kvc_job_read(&entry->job);
        kvc_server_control(entry);
        kvc_job_check(&entry->job, kvc_now_ms());
        if (entry->job.ended)
            end_check(loop, entry);
    }
}

static void wait_for_something(struct kvc_loop *loop)
{
    struct pollfd *fds = kvc_alloc_zero(3 * loop->running + 1, sizeof(fds[0]));
    size_t count = 0;
    int64_t wake_ms = kvc_now_ms() + TICK_MS;
    fds[count++] = (struct pollfd){.fd = loop->signal_fd, .events = POLLIN};
    for (size_t i = 0; i < loop->plan->entry_count; i++) {
        const struct kvc_entry *entry = &loop->plan->entries[i];
        if (entry->state != KVC_ENTRY_RUNNING)
            continue;
        fds[count++] = (struct pollfd){.fd = entry->job.verdict_fd, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = entry->job.output_fd, .events = POLLIN};
        fds[count++] = (struct pollfd){.fd = entry->job.control_fd, .events = POLLIN};
        if (entry->job.deadline_ms < wake_ms)
            wake_ms = entry->job.deadline_ms;
    }
    const int64_t left_ms = wake_ms - kvc_now_ms();
    if (poll(fds, count, left_ms > 0 ? (int)left_ms : 0) == 0)
        for (size_t i = 0; i < loop->options->report_count; i++)
            if (loop->options->reports[i]->ops->tick != NULL)
                loop->options->reports[i]->ops->tick(loop->options->reports[i]);
    free(fds);
}

/* What never began. */
static void settle_rest(struct kvc_loop *loop)
{
    for (size_t i = 0; i < loop->plan->entry_count; i++)
        if (loop->plan->entries[i].state == KVC_ENTRY_WAITING)
            settle(loop, &loop->plan->entries[i], KVC_OUTCOME_NOT_RUN, loop->stop_reason);
}

void kvc_loop_run(struct kvc_loop *loop)
{
    while (true) {
        take_signals(loop);
        start_what_can(loop);
        if (loop->running == 0 && (loop->stop_reason != NULL || !kvc_aside_stop_pending()))
            break;
        wait_for_something(loop);
        check_jobs(loop);
        if (loop->stop_reason == NULL && loop->options->fail_fast &&
            kvc_summary_failed(loop->summary))
            stop(loop, "another check failed, and --fail-fast was given", true);
        if (loop->stop_reason == NULL && kvc_now_ms() >= loop->deadline_ms) {
            add_problem(loop, "the limit of the whole run was reached");
            stop(loop, "the limit of the whole run was reached", false);
        }
    }
    settle_rest(loop);
}
