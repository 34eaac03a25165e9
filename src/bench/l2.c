#include "src/bench/l2.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/clock.h"

enum { HASH_SIZE = 16 };

/* Keys from here on are never stored. */
enum { FIRST_MISS = KVC_BENCH_L2_MOST_KEYS };

static const char model[] = "bench-model";

/* One round's submits, which every round uses anew. */
struct run {
    const struct kvc_bench_l2_options *options;
    struct kvc_bench_l2_result *result;
    struct kvc_l2_pool *pool;
    struct kvc_l2_payload payload;
    size_t keys_per_round;
    struct kvc_l2_item *items; /* keys_per_round of them */
    uint32_t *indices;         /* which key each item is */
    uint8_t *hashes;           /* HASH_SIZE bytes an item */
    uint8_t *memory;           /* the objects, one behind the other */
    void *mapping;             /* what memory lies in */
    size_t mapping_size;
};

/* What the threads of a store that hangs may still use. */
static struct run hanging;

/* What is different about the operations. */
static const struct {
    const char *name;
    const char *counted;
} phase_words[KVC_BENCH_L2_PHASES] = {
    [KVC_L2_STORE] = {"Store", "success_keys"},
    [KVC_L2_LOOKUP] = {"Lookup", "found"},
    [KVC_L2_LOAD] = {"Load", "loaded"},
};

static void say(const struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(const struct run *run, const char *format, ...)
{
    if (run->options->progress == NULL)
        return;
    va_list args;
    va_start(args, format);
    vfprintf(run->options->progress, format, args);
    va_end(args);
    fflush(run->options->progress);
}

static void note_problem(struct run *run, const struct kvc_error *err)
{
    if (run->result->first_problem[0] == '\0')
        kvc_error_line(err, run->result->first_problem, sizeof(run->result->first_problem));
}

/* ---- keys ---- */

static void set_key(struct run *run, size_t i, uint32_t index)
{
    uint8_t *hash = run->hashes + i * HASH_SIZE;
    memset(hash, 0, HASH_SIZE);
    for (size_t byte = 0; byte < sizeof(index); byte++)
        hash[HASH_SIZE - 1 - byte] = (uint8_t)(index >> 8 * byte);
    run->indices[i] = index;
    run->items[i].key = (struct kvc_l2_key){
        .chunk_hash = {hash, HASH_SIZE}, .model = {model, sizeof(model) - 1}, .kv_rank = index};
}

static size_t hits_per_round(const struct kvc_bench_l2_options *options)
{
    return (size_t)((double)(options->num_keys * options->in_flight) *
                    options->lookup_max_hit_rate);
}

/* Every operation has the same keys, so that what one stores another one finds, also in another run
 * with the same flags. A lookup draws some of its keys from a range that no run stores. */
static void set_keys(struct run *run, enum kvc_l2_operation operation, size_t round)
{
    const size_t hits = hits_per_round(run->options);
    const size_t misses = run->keys_per_round - hits;
    for (size_t i = 0; i < run->keys_per_round; i++) {
        size_t index = round * run->keys_per_round + i;
        if (operation == KVC_L2_LOOKUP)
            index = i < hits ? round * hits + i : FIRST_MISS + round * misses + (i - hits);
        set_key(run, i, (uint32_t)index);
    }
}

/* ---- one round ---- */

static void prepare_round(struct run *run, enum kvc_l2_operation operation, size_t round)
{
    const size_t size = (size_t)run->options->data_size;
    set_keys(run, operation, round);
    for (size_t i = 0; i < run->keys_per_round && operation == KVC_L2_STORE; i++)
        kvc_l2_payload_write(&run->payload, run->indices[i], run->items[i].data, size);
    if (operation == KVC_L2_LOAD)
        memset(run->memory, KVC_L2_POISON, run->keys_per_round * size);
}

static kvc_status time_round(struct run *run, enum kvc_l2_operation operation, int64_t *duration_ns)
{
    const size_t num_keys = (size_t)run->options->num_keys;
    const int64_t start = kvc_now_ns();
    for (size_t at = 0; at < run->keys_per_round; at += num_keys)
        kvc_l2_pool_submit(run->pool, operation, run->items + at, num_keys);
    const kvc_status status =
        kvc_l2_pool_wait(run->pool, run->options->timeout_ms, run->options->stop);
    *duration_ns = kvc_now_ns() - start;
    return status;
}

static void verify_round(struct run *run, struct kvc_bench_l2_phase *phase)
{
    for (size_t i = 0; i < run->keys_per_round; i++) {
        if (run->items[i].outcome != KVC_L2_DONE)
            continue;
        struct kvc_error err = KVC_ERROR_INIT;
        if (kvc_l2_payload_check(&run->payload, run->indices[i], run->items[i].data,
                                 (size_t)run->options->data_size, &err) == KVC_OK) {
            phase->verified++;
            continue;
        }
        phase->wrong++;
        note_problem(run, &err);
    }
}

static void count_impossible_hits(struct run *run, struct kvc_bench_l2_phase *phase)
{
    for (size_t i = hits_per_round(run->options); i < run->keys_per_round; i++) {
        if (run->items[i].outcome != KVC_L2_DONE)
            continue;
        struct kvc_error err = KVC_ERROR_INIT;
        kvc_fail(&err, KVC_EMISMATCH, "lookup: key %u was found, and nobody has stored it",
                 run->indices[i]);
        phase->wrong++;
        note_problem(run, &err);
    }
}

static void note_missing(struct run *run, enum kvc_l2_operation operation)
{
    struct kvc_error err = KVC_ERROR_INIT;
    if (kvc_l2_pool_take_error(run->pool, &err) != KVC_OK) {
        note_problem(run, &err);
        return;
    }
    if (operation != KVC_L2_LOAD)
        return;
    for (size_t i = 0; i < run->keys_per_round; i++) {
        if (run->items[i].outcome != KVC_L2_ABSENT)
            continue;
        kvc_fail(&err, KVC_EMISMATCH, "load: key %u is not there", run->indices[i]);
        note_problem(run, &err);
        return;
    }
}

static int64_t count_done(const struct run *run)
{
    int64_t done = 0;
    for (size_t i = 0; i < run->keys_per_round; i++)
        done += run->items[i].outcome == KVC_L2_DONE;
    return done;
}

static void judge_round(struct run *run, enum kvc_l2_operation operation,
                        struct kvc_bench_l2_phase *phase)
{
    note_missing(run, operation);
    if (operation == KVC_L2_LOOKUP)
        count_impossible_hits(run, phase);
    if (operation == KVC_L2_LOAD && run->options->verify)
        verify_round(run, phase);
}

/* ---- phases ---- */

static void note_timeout(struct run *run, enum kvc_l2_operation operation, size_t round)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_ETIMEOUT, "%s round %zu did not end within %.1f s",
             phase_words[operation].name, round + 1, (double)run->options->timeout_ms / 1000);
    note_problem(run, &err);
    run->result->timed_out = true;
}

/* False when the run is over. */
static bool run_round(struct run *run, enum kvc_l2_operation operation, size_t round)
{
    struct kvc_bench_l2_phase *phase = &run->result->phases[operation];
    const bool measured = round >= (size_t)run->options->warmup_rounds;
    int64_t duration = 0;
    prepare_round(run, operation, round);
    const kvc_status status = time_round(run, operation, &duration);
    run->result->interrupted = status == KVC_EINTERRUPTED;
    if (run->result->interrupted)
        return false;
    phase->rounds += measured;
    if (status == KVC_ETIMEOUT) {
        say(run, "  [%s] Round %zu: TIMEOUT\n", phase_words[operation].name, round + 1);
        phase->timed_out += measured;
        note_timeout(run, operation, round);
        return false;
    }
    const int64_t done = count_done(run);
    if (measured) {
        kvc_series_add(&phase->durations, duration);
        phase->success += done;
        phase->expected_hits += (int64_t)hits_per_round(run->options);
    } else {
        phase->warmup_success += done;
    }
    say(run, "  [%s] Round %zu: %.2f ms, %s=%lld/%zu\n", phase_words[operation].name, round + 1,
        (double)duration / 1e6, phase_words[operation].counted, (long long)done,
        run->keys_per_round);
    judge_round(run, operation, phase);
    return true;
}

static bool run_phase(struct run *run, enum kvc_l2_operation operation)
{
    const struct kvc_bench_l2_options *options = run->options;
    const size_t rounds = (size_t)(options->warmup_rounds + options->rounds);
    run->result->phases[operation].ran = true;
    say(run, "[%s] Running %lld warmup + %lld measurement rounds...\n", phase_words[operation].name,
        (long long)options->warmup_rounds, (long long)options->rounds);
    for (size_t round = 0; round < rounds; round++)
        if (!run_round(run, operation, round))
            return false;
    say(run, "\n");
    return true;
}

/* ---- the run ---- */

static kvc_status map_memory(struct run *run, struct kvc_error *err)
{
    enum { HUGEPAGE = 2 << 20 };
    const size_t unit = run->options->hugepages ? HUGEPAGE : 4096;
    const size_t bytes = run->keys_per_round * (size_t)run->options->data_size;
    const size_t align = (size_t)run->options->align;
    const size_t size = (bytes + align + unit - 1) / unit * unit;
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (run->options->hugepages ? MAP_HUGETLB : 0), -1, 0);
    if (memory == MAP_FAILED)
        return kvc_fail_errno(err, "no memory for a round's %zu bytes%s", bytes,
                              run->options->hugepages ? " in 2 MiB pages (sysctl vm.nr_hugepages)"
                                                      : "");
    run->mapping = memory;
    run->mapping_size = size;
    /* Every object starts at a multiple of align, since its size is one, too. */
    const size_t offset = (align - (uintptr_t)memory % align) % align;
    run->memory = (uint8_t *)memory + offset;
    for (size_t i = 0; i < run->keys_per_round; i++) {
        run->items[i].data = run->memory + i * (size_t)run->options->data_size;
        run->items[i].size = (size_t)run->options->data_size;
    }
    return KVC_OK;
}

static void run_phases(struct run *run)
{
    bool goes_on = true;
    for (int i = 0; goes_on && i < KVC_BENCH_L2_PHASES; i++)
        if ((run->options->phases & 1u << i) != 0)
            goes_on = run_phase(run, (enum kvc_l2_operation)i);
}

/* Everything that is measured, and nothing else, in the flame graphs. */
static kvc_status run_profiled(struct run *run, struct kvc_error *err)
{
    struct kvc_flames *flames = run->options->flames;
    KVC_GUARD(kvc_flames_start(flames, err));
    run_phases(run);
    kvc_flames_stop(flames);
    return KVC_OK;
}

/* Closing can fail, too: what a store has kept back is lost then. */
static bool close_pool(struct run *run)
{
    struct kvc_error err = KVC_ERROR_INIT;
    say(run, "[Cleanup] Closing adapter...\n");
    const kvc_status status = kvc_l2_pool_close(run->pool, &err);
    if (status != KVC_OK)
        note_problem(run, &err);
    return status != KVC_ETIMEOUT;
}

kvc_status kvc_bench_l2_run(const struct kvc_bench_l2_options *options,
                            struct kvc_bench_l2_result *result, struct kvc_error *err)
{
    *result = (struct kvc_bench_l2_result){0};
    const size_t count = (size_t)(options->num_keys * options->in_flight);
    struct run run = {
        .options = options,
        .result = result,
        .payload = {options->payload, options->seed, (size_t)options->num_keys},
        .keys_per_round = count,
        .items = kvc_alloc_zero(count, sizeof(struct kvc_l2_item)),
        .indices = kvc_alloc_zero(count, sizeof(uint32_t)),
        .hashes = kvc_alloc_zero(count, HASH_SIZE),
    };
    const struct kvc_l2_memory memory = {(size_t)options->data_size, (size_t)options->align};
    bool left_behind = false;
    kvc_status status = map_memory(&run, err);
    if (status == KVC_OK) {
        say(&run, "[Init] Creating adapter...\n");
        status = kvc_l2_pool_open(options->config, &memory, (size_t)options->lanes, &run.pool, err);
    }
    if (status == KVC_OK) {
        say(&run, "[Init] Adapter created successfully (%s).\n\n", options->config->adapter->title);
        result->lanes = kvc_l2_pool_lanes(run.pool);
        status = run_profiled(&run, err);
        left_behind = !close_pool(&run);
    }
    if (left_behind) {
        hanging = run;
        return status;
    }
    if (run.mapping != NULL)
        munmap(run.mapping, run.mapping_size);
    free(run.items);
    free(run.indices);
    free(run.hashes);
    return status;
}

void kvc_bench_l2_result_clear(struct kvc_bench_l2_result *result)
{
    for (size_t i = 0; i < KVC_BENCH_L2_PHASES; i++)
        kvc_series_clear(&result->phases[i].durations);
}

bool kvc_bench_l2_is_valid(const struct kvc_bench_l2_options *options,
                           const struct kvc_bench_l2_result *result)
{
    const int64_t a_round = options->num_keys * options->in_flight;
    const bool stores = (options->phases & KVC_BENCH_L2_STORE_BIT) != 0;
    if (result->interrupted || result->timed_out || result->first_problem[0] != '\0')
        return false;
    for (int i = 0; i < KVC_BENCH_L2_PHASES; i++) {
        const struct kvc_bench_l2_phase *phase = &result->phases[i];
        if ((options->phases & 1u << i) == 0)
            continue;
        if (!phase->ran || phase->rounds != options->rounds || phase->wrong != 0)
            return false;
        if (i == KVC_L2_LOOKUP) {
            if (stores && phase->success != phase->expected_hits)
                return false;
        } else if (phase->success != a_round * options->rounds ||
                   phase->warmup_success != a_round * options->warmup_rounds) {
            return false;
        }
    }
    return true;
}
