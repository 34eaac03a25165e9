/* What is measured on a GPU: a worker's cache and chunks in its memory, beside a copy of as many bytes within
 * it; and chunks in memory of the host, beside a copy to and from pinned memory. One thread starts the work,
 * however many there are, and waits for it. */
#include <stdlib.h>
#include <string.h>

#include "src/bench/transfer.h"
#include "src/device/cuda_cache.h"
#include "src/kv/stamp.h"

enum { POISON = 0x5a };

struct state {
    const struct kvc_transfer_case *bench_case;
    struct kvc_paged mirror;
    struct kvc_cuda_cache *cache;
    int64_t *block_ids;
    struct kvc_cuda_chunk *on_gpu, *on_host; /* the same chunks in either memory */
    size_t size;                             /* of all chunks */
    void *chunks, *copy;                     /* on the GPU */
    void *pinned, *pinned_copy;
    struct kvc_stamp_source source;
    struct kvc_error trouble; /* the first thing that went wrong */
};

static struct kvc_cuda_transfer transfer_of(const struct state *state,
                                            const struct kvc_cuda_chunk *chunks)
{
    return (struct kvc_cuda_transfer){
        .group = &state->bench_case->group,
        .tensors = state->cache->tensors,
        .chunk_tokens = state->bench_case->chunk_tokens,
        .chunks = chunks,
        .chunk_count = (size_t)state->bench_case->chunk_count,
    };
}

/* Waits for what was started. Figures of a state in trouble are not used. */
static void finish_run(struct state *state, kvc_status started, const struct kvc_error *err)
{
    struct kvc_error waiting = KVC_ERROR_INIT;
    const kvc_status waited = kvc_cuda_queue_wait(state->cache->queue, &waiting);
    if (state->trouble.status == KVC_OK && started != KVC_OK)
        state->trouble = *err;
    else if (state->trouble.status == KVC_OK && waited != KVC_OK)
        state->trouble = waiting;
}

/* Defines what one thread of a team does: the first all, the others nothing. */
#define RUN(name, call)                                                                            \
    static void name(void *context, int64_t share, int64_t shares)                                 \
    {                                                                                              \
        struct state *state = context;                                                             \
        struct kvc_error err = KVC_ERROR_INIT;                                                     \
        (void)shares;                                                                              \
        if (share == 0)                                                                            \
            finish_run(state, call, &err);                                                         \
    }

static kvc_status move(struct state *state,
                       kvc_status (*func)(struct kvc_cuda_queue *queue,
                                          const struct kvc_cuda_transfer *transfer,
                                          struct kvc_error *err),
                       const struct kvc_cuda_chunk *chunks, struct kvc_error *err)
{
    const struct kvc_cuda_transfer transfer = transfer_of(state, chunks);
    return func(state->cache->queue, &transfer, err);
}

RUN(run_gather, move(state, kvc_cuda_gather, state->on_gpu, &err))
RUN(run_scatter, move(state, kvc_cuda_scatter, state->on_gpu, &err))
RUN(run_gather_to_host, move(state, kvc_cuda_gather_to_host, state->on_host, &err))
RUN(run_scatter_from_host, move(state, kvc_cuda_scatter_from_host, state->on_host, &err))
RUN(run_copy, kvc_cuda_copy(state->cache->queue, state->copy, state->chunks, state->size, &err))
RUN(run_copy_to_host, kvc_cuda_copy_to_host(state->cache->queue, state->pinned_copy, state->chunks,
                                            state->size, &err))
RUN(run_copy_from_host,
    kvc_cuda_copy_from_host(state->cache->queue, state->copy, state->pinned, state->size, &err))

/* ---- whether it did what it should ---- */

static void spoil_chunks(void *context)
{
    struct state *state = context;
    memset(state->pinned_copy, POISON, state->size);
    kvc_device_cuda.copy_in(state->chunks, state->pinned_copy, state->size, NULL);
}

static void spoil_host_chunks(void *context)
{
    struct state *state = context;
    memset(state->pinned, POISON, state->size);
}

static void spoil_blocks(void *context)
{
    struct state *state = context;
    kvc_paged_fill(&state->mirror, POISON);
    kvc_cuda_cache_push(state->cache, NULL);
}

static kvc_status check_chunks(const struct state *state, const uint8_t *chunks,
                               struct kvc_error *err)
{
    const struct kvc_transfer_case *made = state->bench_case;
    const int64_t chunk_bytes = kvc_group_chunk_bytes(&made->group, made->chunk_tokens);
    for (int64_t i = 0; i < made->chunk_count; i++)
        KVC_GUARD(kvc_stamp_check_chunk(&state->mirror.geometry, state->source,
                                        i * made->chunk_tokens, made->chunk_tokens,
                                        chunks + i * chunk_bytes, NULL, 0, err));
    return KVC_OK;
}

/* What has gone wrong since the state was opened. */
static kvc_status finish_cuda(void *context, struct kvc_error *err)
{
    const struct state *state = context;
    if (state->trouble.status != KVC_OK && err != NULL)
        *err = state->trouble;
    return state->trouble.status;
}

static kvc_status verify_chunks(void *context, struct kvc_error *err)
{
    struct state *state = context;
    KVC_GUARD(finish_cuda(state, err));
    KVC_GUARD(kvc_device_cuda.copy_out(state->pinned_copy, state->chunks, state->size, err));
    return check_chunks(state, state->pinned_copy, err);
}

static kvc_status verify_host_chunks(void *context, struct kvc_error *err)
{
    struct state *state = context;
    KVC_GUARD(finish_cuda(state, err));
    return check_chunks(state, state->pinned, err);
}

static kvc_status verify_blocks(void *context, struct kvc_error *err)
{
    struct state *state = context;
    const struct kvc_transfer_case *made = state->bench_case;
    const int64_t blocks = made->chunk_count * (made->chunk_tokens / made->group.block_size);
    KVC_GUARD(finish_cuda(state, err));
    KVC_GUARD(kvc_cuda_cache_pull(state->cache, err));
    KVC_GUARD(kvc_stamp_check_blocks(&state->mirror, state->source, 0, state->block_ids,
                                     (size_t)blocks, NULL, 0, err));
    return kvc_paged_check_guards(&state->mirror, err);
}

static const struct kvc_transfer_measure measures[] = {
    {"gather", "fast", "device copy", run_gather, run_copy, spoil_chunks, verify_chunks},
    {"scatter", "fast", "device copy", run_scatter, run_copy, spoil_blocks, verify_blocks},
    {"gather-to-host", "fast", "pinned copy", run_gather_to_host, run_copy_to_host,
     spoil_host_chunks, verify_host_chunks},
    {"scatter-from-host", "fast", "pinned copy", run_scatter_from_host, run_copy_from_host,
     spoil_blocks, verify_blocks},
};

/* ---- memory ---- */

static void close_cuda(void *context)
{
    struct state *state = context;
    kvc_device_cuda.free(state->chunks);
    kvc_device_cuda.free(state->copy);
    kvc_cuda_host_free(state->pinned);
    kvc_cuda_host_free(state->pinned_copy);
    kvc_cuda_cache_close(state->cache);
    kvc_paged_close(&state->mirror);
    free(state->on_gpu);
    free(state->on_host);
    free(state->block_ids);
    free(state);
}

static kvc_status open_memory(struct state *state, struct kvc_error *err)
{
    const struct kvc_geometry geometry = {.groups = {state->bench_case->group}, .group_count = 1};
    KVC_GUARD(kvc_paged_open(&geometry, false, &state->mirror, err));
    KVC_GUARD(kvc_cuda_cache_open(&state->mirror, KVC_CUDA_AT_BASE, &state->cache, err));
    KVC_GUARD(kvc_device_cuda.alloc(state->size, &state->chunks, err));
    KVC_GUARD(kvc_device_cuda.alloc(state->size, &state->copy, err));
    KVC_GUARD(kvc_cuda_host_alloc(state->size, &state->pinned, err));
    return kvc_cuda_host_alloc(state->size, &state->pinned_copy, err);
}

static void lay_out_chunks(struct state *state)
{
    const struct kvc_transfer_case *made = state->bench_case;
    const int64_t chunk_bytes = kvc_group_chunk_bytes(&made->group, made->chunk_tokens);
    const int64_t blocks = made->chunk_tokens / made->group.block_size;
    const size_t count = (size_t)made->chunk_count;
    state->block_ids = kvc_transfer_case_block_ids(made);
    state->on_gpu = kvc_alloc_zero(count, sizeof(*state->on_gpu));
    state->on_host = kvc_alloc_zero(count, sizeof(*state->on_host));
    for (int64_t i = 0; i < made->chunk_count; i++) {
        const int64_t *ids = state->block_ids + i * blocks;
        uint8_t *on_gpu = state->chunks, *on_host = state->pinned;
        state->on_gpu[i] =
            (struct kvc_cuda_chunk){.data = on_gpu + i * chunk_bytes, .block_ids = ids};
        state->on_host[i] =
            (struct kvc_cuda_chunk){.data = on_host + i * chunk_bytes, .block_ids = ids};
    }
}

/* Everything holds the stamps; each measure spoils and restores what it writes. */
static kvc_status fill_memory(struct state *state, struct kvc_error *err)
{
    const struct kvc_transfer_case *made = state->bench_case;
    const int64_t blocks = made->chunk_count * (made->chunk_tokens / made->group.block_size);
    kvc_paged_fill(&state->mirror, POISON);
    kvc_stamp_blocks(&state->mirror, state->source, 0, state->block_ids, (size_t)blocks);
    KVC_GUARD(kvc_cuda_cache_push(state->cache, err));
    run_gather(state, 0, 1);
    run_gather_to_host(state, 0, 1);
    return finish_cuda(state, err);
}

static kvc_status open_cuda(const struct kvc_transfer_case *bench_case, void **context,
                            struct kvc_error *err)
{
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    state->bench_case = bench_case;
    state->size = (size_t)kvc_transfer_case_bytes(bench_case);
    state->source = (struct kvc_stamp_source){.seed = bench_case->seed};
    kvc_status status = open_memory(state, err);
    if (status == KVC_OK) {
        lay_out_chunks(state);
        status = fill_memory(state, err);
    }
    if (status == KVC_OK)
        *context = state;
    else
        close_cuda(state);
    return status;
}

const struct kvc_transfer_device kvc_transfer_cuda = {
    .name = "cuda",
    .device = &kvc_device_cuda,
    .open = open_cuda,
    .finish = finish_cuda,
    .close = close_cuda,
    .measures = measures,
    .measure_count = KVC_COUNT_OF(measures),
};
