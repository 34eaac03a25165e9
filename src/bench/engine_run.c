/* Sends a workload's requests as its plan says, and keeps what became of them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/bench/engine_body.h"
#include "src/bench/engine_progress.h"

enum { WAIT_NS = 100 * 1000000 };

struct run {
    const struct kvc_bench_engine_options *bench;
    struct kvc_bench_engine_result *result;
    const struct kvc_workload *workload;
    struct kvc_workload_plan plan;
    void *state;
    struct kvc_prompt_words words;
    struct kvc_engine_client *client;
    struct kvc_bench_engine_progress progress;
    size_t capacity; /* of result->records */

    int64_t due;   /* measured requests that are or were due */
    int64_t sent;  /* of them */
    char *is_done; /* with a stride: which were answered or failed */
};

/* One request under way. */
struct flight {
    struct run *run;
    bool is_warmup;
    int64_t index;
    struct kvc_bench_engine_record record;
};

static bool stopped(const struct run *run)
{
    return *run->bench->stop != 0;
}

/* ---- what became of a request ---- */

static const char *keep_text(struct kvc_bench_engine_result *result, const char *text)
{
    return text[0] == '\0' ? "" : kvc_arena_copy_str(&result->texts, kvc_str_of(text)).data;
}

static void keep_record(struct run *run, const struct kvc_bench_engine_record *record)
{
    struct kvc_bench_engine_result *result = run->result;
    if (result->count == run->capacity) {
        run->capacity = run->capacity == 0 ? 256 : 2 * run->capacity;
        result->records = kvc_realloc(result->records, run->capacity * sizeof(*record));
    }
    result->records[result->count++] = *record;
    if (!record->is_ok)
        result->failed++;
}

static void take_warmup(struct run *run, const struct kvc_bench_engine_record *record)
{
    struct kvc_bench_engine_result *result = run->result;
    result->warmups++;
    if (!record->is_ok && result->warmup_failures++ == 0)
        snprintf(result->warmup_problem, sizeof(result->warmup_problem), "%s: %s", record->id,
                 record->problem);
}

static void send_measured(struct run *run, int64_t index);

static void take_measured(struct run *run, const struct flight *flight,
                          const struct kvc_engine_reply *reply)
{
    const int64_t next = flight->index + run->plan.stride;
    keep_record(run, &flight->record);
    if (run->workload->take_reply != NULL)
        run->workload->take_reply(run->state, flight->index, reply);
    if (run->plan.stride == 0)
        return;
    run->is_done[flight->index] = 1;
    if (next < run->due && !stopped(run))
        send_measured(run, next); /* it has been waiting for this one */
}

static void take_reply(void *user, const struct kvc_engine_reply *reply)
{
    struct flight *flight = user;
    struct kvc_bench_engine_record *record = &flight->record;
    record->is_ok = reply->is_ok;
    record->problem = keep_text(flight->run->result, reply->problem);
    record->first_token_ns = reply->first_token_ns;
    record->last_token_ns = reply->last_token_ns;
    record->finished_ns = reply->finished_ns;
    record->prompt_tokens = reply->prompt_tokens;
    record->completion_tokens = reply->completion_tokens;
    if (reply->status == KVC_EINTERRUPTED)
        ; /* it has no outcome */
    else if (flight->is_warmup)
        take_warmup(flight->run, record);
    else
        take_measured(flight->run, flight, reply);
    free(flight);
}

static void take_gap(void *user, int64_t gap_ns)
{
    const struct flight *flight = user;
    kvc_histogram_add(&flight->run->result->gaps, gap_ns);
}

/* ---- sending ---- */

static struct kvc_engine_request make_request(struct run *run, bool is_warmup, int64_t index)
{
    const struct kvc_bench_engine_settings *settings = run->bench->settings;
    struct kvc_workload_request made = {0};
    struct flight *flight = kvc_alloc_zero(1, sizeof(*flight));
    if (is_warmup)
        run->workload->make_warmup(run->state, index, &made);
    else
        run->workload->make_request(run->state, index, &made);
    *flight = (struct flight){.run = run, .is_warmup = is_warmup, .index = index};
    memcpy(flight->record.id, made.id, sizeof(made.id));
    flight->record.expected_tokens =
        run->result->calibration.problem[0] == '\0' ? made.expected_tokens : 0;
    struct kvc_engine_request request = {.max_tokens = made.max_tokens,
                                         .keep_text = made.keep_text,
                                         .on_token = is_warmup ? NULL : take_gap,
                                         .on_done = take_reply,
                                         .user = flight};
    kvc_bench_engine_body_write(settings->model, made.messages, made.max_tokens,
                                settings->ignore_eos, &request.body);
    return request;
}

static void send_request(struct run *run, const struct kvc_engine_request *request, int64_t due_ns)
{
    struct flight *flight = request->user;
    flight->record.due_ns = due_ns;
    kvc_engine_client_send(run->client, request);
}

static int64_t due_ns(const struct run *run, int64_t index)
{
    return run->result->started_ns + (int64_t)((double)index * 1e9 / run->plan.qps);
}

static void send_measured(struct run *run, int64_t index)
{
    const struct kvc_engine_request request = make_request(run, false, index);
    run->sent++;
    send_request(run, &request, run->plan.qps > 0 ? due_ns(run, index) : kvc_now_ns());
}

static kvc_status step(struct run *run, int64_t until_ns, struct kvc_error *err)
{
    const int64_t latest = kvc_now_ns() + WAIT_NS;
    KVC_GUARD(kvc_engine_client_step(run->client, until_ns < latest ? until_ns : latest, err));
    kvc_bench_engine_progress_show(&run->progress, run->result,
                                   kvc_engine_client_in_flight(run->client));
    return KVC_OK;
}

/* ---- phases ---- */

static kvc_status rest(struct run *run, int64_t milliseconds, struct kvc_error *err)
{
    const int64_t until = kvc_now_ns() + milliseconds * INT64_C(1000000);
    while (kvc_now_ns() < until && !stopped(run))
        KVC_GUARD(step(run, until, err));
    return KVC_OK;
}

static kvc_status warm_up(struct run *run, struct kvc_error *err)
{
    run->result->started_ns = kvc_now_ns();
    for (int64_t i = 0; i < run->plan.warmups && !stopped(run); i++) {
        const struct kvc_engine_request request = make_request(run, true, i);
        send_request(run, &request, kvc_now_ns());
        while (kvc_engine_client_in_flight(run->client) > 0 && !stopped(run))
            KVC_GUARD(step(run, INT64_MAX, err));
    }
    return rest(run, run->plan.settle_ms, err);
}

static kvc_status finish(struct run *run, struct kvc_error *err)
{
    while (kvc_engine_client_in_flight(run->client) > 0 && !stopped(run))
        KVC_GUARD(step(run, INT64_MAX, err));
    return KVC_OK;
}

/* All are made before the first is sent: else the making of the last would count as the wait of the first. */
static kvc_status run_at_once(struct run *run, struct kvc_error *err)
{
    const int64_t count = run->plan.requests;
    struct kvc_engine_request *requests = kvc_alloc((size_t)count * sizeof(requests[0]));
    for (int64_t i = 0; i < count; i++)
        requests[i] = make_request(run, false, i);
    run->result->started_ns = kvc_now_ns();
    for (int64_t i = 0; i < count; i++)
        send_request(run, &requests[i], kvc_now_ns());
    run->due = run->sent = count;
    free(requests);
    return finish(run, err);
}

static kvc_status run_closed(struct run *run, struct kvc_error *err)
{
    run->result->started_ns = kvc_now_ns();
    while (run->sent < run->plan.requests && !stopped(run)) {
        if ((int64_t)kvc_engine_client_in_flight(run->client) < run->plan.in_flight)
            send_measured(run, run->sent);
        else
            KVC_GUARD(step(run, INT64_MAX, err));
    }
    run->due = run->sent;
    return finish(run, err);
}

/* Takes the next request as due, and sends it unless the one before it in its session is not done. */
static void become_due(struct run *run)
{
    const int64_t index = run->due++;
    if (index < run->plan.stride || run->is_done[index - run->plan.stride])
        send_measured(run, index);
}

/* Requests are due at their time, whatever became of those before. */
static kvc_status run_open(struct run *run, struct kvc_error *err)
{
    run->result->started_ns = kvc_now_ns();
    const int64_t end = run->result->started_ns + (int64_t)(run->plan.duration * 1e9);
    run->is_done = kvc_alloc_zero((size_t)run->plan.requests, 1);
    while (!stopped(run)) {
        const int64_t now = kvc_now_ns();
        if (now >= end ||
            (run->sent == run->plan.requests && kvc_engine_client_in_flight(run->client) == 0))
            break;
        const int64_t next = run->due < run->plan.requests ? due_ns(run, run->due) : end;
        if (run->due < run->plan.requests && now >= next)
            become_due(run);
        else
            KVC_GUARD(step(run, next < end ? next : end, err));
    }
    run->result->unsent = (stopped(run) ? run->due : run->plan.requests) - run->sent;
    run->due = 0; /* nothing is sent any more */
    return finish(run, err);
}

static kvc_status run_phases(struct run *run, struct kvc_error *err)
{
    if (!run->bench->settings->no_warmup) {
        run->result->warmups_planned = run->plan.warmups;
        KVC_GUARD(warm_up(run, err));
    }
    run->result->planned = run->plan.requests;
    if (!stopped(run))
        KVC_GUARD(kvc_flames_start(run->bench->flames, err));
    kvc_status status = KVC_OK;
    if (!stopped(run))
        status = run->plan.qps > 0         ? run_open(run, err)
                 : run->plan.in_flight > 0 ? run_closed(run, err)
                                           : run_at_once(run, err);
    run->result->finished_ns = kvc_now_ns();
    kvc_flames_stop(run->bench->flames);
    return status;
}

/* ---- the run ---- */

static kvc_status calibrate(struct run *run, struct kvc_error *err)
{
    struct kvc_prompt_asker asker = {.client = run->client,
                                     .model = run->bench->settings->model,
                                     .labels = run->workload->labels,
                                     .length = run->plan.length,
                                     .stop = run->bench->stop};
    while (asker.label_count < KVC_PROMPT_MAX_LABELS &&
           run->workload->labels[asker.label_count] != NULL)
        asker.label_count++;
    return kvc_prompt_calibrate(&asker, &run->words, &run->result->calibration, err);
}

static void describe(const struct run *run)
{
    struct kvc_buffer lines = {0};
    if (run->bench->log == NULL)
        return;
    run->workload->describe(run->state, &lines);
    fprintf(run->bench->log, "Workload: %s\n%s", run->workload->name, kvc_buffer_text(&lines));
    if (run->result->calibration.problem[0] != '\0')
        fprintf(run->bench->log, "Prompts may not have the length asked for: %s\n",
                run->result->calibration.problem);
    kvc_buffer_clear(&lines);
}

static int64_t wall_offset_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - kvc_now_ns();
}

static kvc_status run_with_client(struct run *run, struct kvc_error *err)
{
    const kvc_status status = calibrate(run, err);
    if (status == KVC_EINTERRUPTED)
        return KVC_OK; /* nothing was run, and the result says so */
    KVC_GUARD(status);
    describe(run);
    run->result->wall_offset_ns = wall_offset_ns();
    return run_phases(run, err);
}

kvc_status kvc_bench_engine_run(const struct kvc_bench_engine_options *bench,
                                struct kvc_bench_engine_result *result, struct kvc_error *err)
{
    struct run run = {.bench = bench,
                      .result = result,
                      .workload = kvc_workload_find(bench->settings->workload),
                      .progress = {.stream = bench->live}};
    const struct kvc_engine_options options = {
        .base_url = bench->base_url, .api_key = bench->api_key, .timeout_ms = bench->timeout_ms};
    *result = (struct kvc_bench_engine_result){0};
    KVC_GUARD(run.workload->open(bench->settings, &run.words, &run.plan, &run.state, err));
    kvc_status status = kvc_engine_client_open(&options, &run.client, err);
    if (status == KVC_OK)
        status = run_with_client(&run, err);
    result->interrupted = stopped(&run);
    kvc_bench_engine_progress_clear(&run.progress);
    kvc_engine_client_close(run.client);
    run.workload->close(run.state);
    free(run.is_done);
    return status;
}

void kvc_bench_engine_result_clear(struct kvc_bench_engine_result *result)
{
    free(result->records);
    kvc_histogram_clear(&result->gaps);
    kvc_arena_clear(&result->texts);
}

bool kvc_bench_engine_result_is_valid(const struct kvc_bench_engine_result *result)
{
    return result->count > 0 && result->failed == 0 && result->warmup_failures == 0 &&
           !result->interrupted;
}
