/* A phase: one thread a client, and the main thread that gathers what they measure. */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum {
    LOOK_MS = 5,        /* whether the clients are done */
    LIVE_MS = 200,      /* the live line */
    SLEEP_SLICE_MS = 50 /* a stop is seen after this */
};

static const int64_t second_ns = 1000000000;

bool kvc_bench_stopped(const struct kvc_bench *bench)
{
    const volatile int *stop = bench->options->stop;
    return (stop != NULL && *stop != 0) || atomic_load(&bench->halted) != 0;
}

void kvc_bench_sleep_until(const struct kvc_bench *bench, int64_t moment_ns)
{
    const int64_t slice = SLEEP_SLICE_MS * (int64_t)1000000;
    for (int64_t now = kvc_now_ns(); now < moment_ns && !kvc_bench_stopped(bench);
         now = kvc_now_ns()) {
        const int64_t until = moment_ns - now < slice ? moment_ns : now + slice;
        const struct timespec time = {until / second_ns, until % second_ns};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    }
}

/* ---- what clients note ---- */

void kvc_bench_spend(struct kvc_bench_client *client, enum kvc_bench_part part, int64_t since_ns)
{
    client->tally.parts_ns[part] += kvc_now_ns() - since_ns;
}

/* The moment is taken with the lock held: whatever comes after a drain is later than the drain. */
void kvc_bench_sample(struct kvc_bench_client *client, size_t lane, int64_t latency_ns)
{
    if (!client->bench->phase->recorded)
        return;
    pthread_mutex_lock(&client->lock);
    if (client->sample_count == client->sample_capacity) {
        client->sample_capacity = client->sample_capacity == 0 ? 256 : 2 * client->sample_capacity;
        client->samples =
            kvc_realloc(client->samples, client->sample_capacity * sizeof(*client->samples));
    }
    client->samples[client->sample_count++] =
        (struct kvc_bench_sample){.lane = lane, .at_ns = kvc_now_ns(), .latency_ns = latency_ns};
    pthread_mutex_unlock(&client->lock);
}

void kvc_bench_gate(struct kvc_bench_client *client)
{
    struct kvc_bench_phase *phase = client->bench->phase;
    pthread_mutex_lock(&phase->gate);
    phase->ready++;
    pthread_cond_broadcast(&phase->moved);
    while (!phase->open)
        pthread_cond_wait(&phase->moved, &phase->gate);
    pthread_mutex_unlock(&phase->gate);
    client->tally = (struct kvc_bench_tally){0};
}

static void *run_client(void *argument)
{
    struct kvc_bench_client *client = argument;
    /* A request that is due is not to be late by the usual slack of 50 us. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    if (client->bench->device != NULL)
        kvc_cuda_use(
            NULL); /* a thread's calls need to know which GPU; they say so if they do not */
    client->bench->phase->work(client);
    atomic_fetch_sub(&client->bench->phase->running, 1);
    return NULL;
}

/* ---- gathering ---- */

static void count_sample(struct kvc_bench *bench, const struct kvc_bench_sample *sample)
{
    struct kvc_bench_measurement *into = bench->measuring;
    if (sample->lane == KVC_BENCH_LATENESS) {
        kvc_histogram_add(&into->lateness, sample->latency_ns);
        return;
    }
    kvc_histogram_add(&into->operations[sample->lane].latency, sample->latency_ns);
    kvc_timeline_add(&into->timeline, sample->lane,
                     (sample->at_ns - bench->phase->begin_ns) / second_ns, sample->latency_ns);
}

/* Takes the samples out under the lock and counts them without it. */
static void drain_client(struct kvc_bench_client *client, struct kvc_bench_sample **spare,
                         size_t *spare_capacity)
{
    pthread_mutex_lock(&client->lock);
    struct kvc_bench_sample *samples = client->samples;
    const size_t capacity = client->sample_capacity;
    const size_t count = client->sample_count;
    client->samples = *spare;
    client->sample_capacity = *spare_capacity;
    client->sample_count = 0;
    pthread_mutex_unlock(&client->lock);
    for (size_t i = 0; i < count; i++)
        count_sample(client->bench, &samples[i]);
    *spare = samples;
    *spare_capacity = capacity;
}

static void drain(struct kvc_bench *bench)
{
    if (bench->measuring == NULL)
        return;
    struct kvc_bench_sample *spare = NULL;
    size_t spare_capacity = 0;
    const int64_t passed = kvc_now_ns() - bench->phase->begin_ns;
    for (int64_t i = 0; i < bench->client_count; i++)
        drain_client(&bench->clients[i], &spare, &spare_capacity);
    free(spare);
    kvc_timeline_close_before(&bench->measuring->timeline, passed / second_ns);
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_tally(const struct kvc_bench_phase *phase, const struct kvc_bench_tally *tally,
                      struct kvc_bench_measurement *into)
{
    for (size_t i = 0; i < KVC_BENCH_OPERATION_COUNT; i++) {
        into->operations[i].service_ns += tally->service_ns[i];
        into->operations[i].tokens += tally->tokens[i];
        into->operations[i].bytes += tally->bytes[i];
    }
    for (size_t i = 0; i < KVC_BENCH_PART_COUNT; i++)
        into->parts_ns[i] += tally->parts_ns[i];
    into->whole_ns += tally->whole_ns;
    into->requests += tally->requests;
    into->elapsed_ns = max(into->elapsed_ns, tally->ended_ns - phase->begin_ns);
}

/* Requests that were due, and that no client began. */
static int64_t count_unserved(const struct kvc_bench_phase *phase, int64_t begun)
{
    int64_t due = phase->count;
    if (phase->duration_ns > 0) {
        const int64_t within = (int64_t)((double)phase->duration_ns / 1e9 * phase->rate);
        due = due < 0 || within < due ? within : due;
    }
    return due > begun ? due - begun : 0;
}

static void gather(struct kvc_bench *bench)
{
    const struct kvc_bench_phase *phase = bench->phase;
    struct kvc_bench_server_result *result = bench->result;
    int64_t begun = 0;
    for (int64_t i = 0; i < bench->client_count; i++) {
        const struct kvc_bench_tally *tally = &bench->clients[i].tally;
        result->bytes_verified += tally->bytes_verified;
        begun += tally->begun;
        if (bench->measuring == NULL)
            continue;
        add_tally(phase, tally, bench->measuring);
        result->requests += tally->requests;
        result->checksum_ok += tally->checksum_ok;
        result->deferred += tally->deferred;
    }
    if (bench->measuring == NULL || phase->rate <= 0)
        return;
    /* The last request is due a little before the time for all of them is over. */
    bench->measuring->elapsed_ns =
        max(bench->measuring->elapsed_ns, (int64_t)((double)begun * 1e9 / phase->rate));
    if (!kvc_bench_stopped(bench))
        bench->measuring->unserved = count_unserved(phase, begun);
}

/* ---- the phase ---- */

static int64_t start_threads(struct kvc_bench *bench)
{
    int64_t started = 0;
    while (started < bench->client_count &&
           pthread_create(&bench->clients[started].thread, NULL, run_client,
                          &bench->clients[started]) == 0)
        started++;
    if (started == bench->client_count)
        return started;
    char text[96];
    snprintf(text, sizeof(text), "the system gives no more than %lld threads", (long long)started);
    kvc_bench_problem(bench, NULL, "start", text);
    bench->result->errors++;
    atomic_store(&bench->halted, 1);
    return started;
}

/* Opens the gate once everybody is there. */
static void begin(struct kvc_bench_phase *phase, int64_t clients)
{
    pthread_mutex_lock(&phase->gate);
    while (phase->ready < clients)
        pthread_cond_wait(&phase->moved, &phase->gate);
    phase->begin_ns = kvc_now_ns();
    phase->open = true;
    pthread_cond_broadcast(&phase->moved);
    pthread_mutex_unlock(&phase->gate);
}

static void watch(struct kvc_bench *bench, const char *what)
{
    for (int64_t round = 0; atomic_load(&bench->phase->running) > 0; round++) {
        kvc_sleep_ms(LOOK_MS);
        drain(bench);
        if (round % (LIVE_MS / LOOK_MS) == 0)
            kvc_bench_live_show(bench, what);
    }
}

static void phase_init(struct kvc_bench_phase *phase, int64_t clients)
{
    phase->begin_ns = kvc_now_ns();
    pthread_mutex_init(&phase->gate, NULL);
    pthread_cond_init(&phase->moved, NULL);
    atomic_store(&phase->running, clients);
}

static void phase_clear(struct kvc_bench_phase *phase)
{
    pthread_cond_destroy(&phase->moved);
    pthread_mutex_destroy(&phase->gate);
}

bool kvc_bench_phase_run(struct kvc_bench *bench, struct kvc_bench_phase *phase, const char *what)
{
    bench->phase = phase;
    phase_init(phase, bench->client_count);
    const int64_t started = start_threads(bench);
    atomic_fetch_sub(&phase->running, bench->client_count - started);
    begin(phase, started);
    watch(bench, what);
    for (int64_t i = 0; i < started; i++)
        pthread_join(bench->clients[i].thread, NULL);
    phase_clear(phase);
    drain(bench);
    if (bench->measuring != NULL)
        kvc_timeline_close_before(&bench->measuring->timeline,
                                  (kvc_now_ns() - phase->begin_ns) / second_ns + 1);
    gather(bench);
    kvc_bench_live_clear(bench);
    return !kvc_bench_stopped(bench);
}
