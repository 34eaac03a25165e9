/* What is measured on the CPU: a worker's cache, chunks gathered from it, and a copy of those, all in
 * private memory on huge pages. */
#include <stdlib.h>
#include <string.h>

#include "src/bench/transfer.h"
#include "src/kv/digest.h"
#include "src/kv/stamp.h"
#include "src/kv/transfer.h"

enum { POISON = 0x5a };

struct state {
    const struct kvc_transfer_case *bench_case;
    struct kvc_paged paged;
    uint8_t **tensors;
    int64_t *block_ids;
    int64_t chunk_blocks; /* of one chunk */
    int64_t chunk_bytes;
    struct kvc_memory chunks, copy;
    struct kvc_stamp_source source;
    _Atomic int difference; /* what comparing found, so that it is not left out */
};

/* ---- shares ---- */

struct range {
    int64_t first, end;
};

static struct range share_of(int64_t count, int64_t share, int64_t shares)
{
    return (struct range){count * share / shares, count * (share + 1) / shares};
}

static struct range chunk_share(const struct state *state, int64_t share, int64_t shares)
{
    return share_of(state->bench_case->chunk_count, share, shares);
}

/* Of all chunks' bytes, whole pages. */
static struct range byte_share(const struct state *state, int64_t share, int64_t shares)
{
    enum { PAGE = 4096 };
    const int64_t size = (int64_t)state->chunks.size;
    struct range range = share_of((size + PAGE - 1) / PAGE, share, shares);
    range.first *= PAGE;
    range.end = range.end * PAGE < size ? range.end * PAGE : size;
    return range;
}

static const int64_t *chunk_ids(const struct state *state, int64_t chunk)
{
    return state->block_ids + chunk * state->chunk_blocks;
}

static uint8_t *chunk_data(const struct state *state, int64_t chunk)
{
    return state->chunks.data + chunk * state->chunk_bytes;
}

/* ---- baselines ---- */

static void run_memcpy(void *context, int64_t share, int64_t shares)
{
    const struct state *state = context;
    const struct range range = byte_share(state, share, shares);
    memcpy(state->copy.data + range.first, state->chunks.data + range.first,
           (size_t)(range.end - range.first));
}

static void run_memcmp(void *context, int64_t share, int64_t shares)
{
    struct state *state = context;
    const struct range range = byte_share(state, share, shares);
    const int difference = memcmp(state->copy.data + range.first, state->chunks.data + range.first,
                                  (size_t)(range.end - range.first));
    if (difference != 0)
        state->difference = difference;
}

/* Of as many bytes as the digest hashes: it widens bfloat16. */
static void run_md5(void *context, int64_t share, int64_t shares)
{
    const struct state *state = context;
    const struct range range = byte_share(state, share, shares);
    const bool widened = strcmp(state->bench_case->group.dtype->name, "bfloat16") == 0;
    char hex[KVC_MD5_HEX_SIZE];
    for (int i = 0; i < (widened ? 2 : 1); i++)
        kvc_md5_hex(state->chunks.data + range.first, (size_t)(range.end - range.first), hex);
}

/* ---- measures ---- */

typedef void (*gather)(const struct kvc_group *group, uint8_t *const *tensors,
                       const int64_t *block_ids, int64_t chunk_tokens, uint8_t *chunk);
typedef void (*scatter)(const struct kvc_group *group, uint8_t *const *tensors,
                        const int64_t *block_ids, int64_t chunk_tokens, int64_t skip_blocks,
                        const uint8_t *chunk);

static void gather_share(const struct state *state, gather gather_chunk, struct range range)
{
    for (int64_t chunk = range.first; chunk < range.end; chunk++)
        gather_chunk(&state->bench_case->group, state->tensors, chunk_ids(state, chunk),
                     state->bench_case->chunk_tokens, chunk_data(state, chunk));
}

static void scatter_share(const struct state *state, scatter scatter_chunk, struct range range)
{
    for (int64_t chunk = range.first; chunk < range.end; chunk++)
        scatter_chunk(&state->bench_case->group, state->tensors, chunk_ids(state, chunk),
                      state->bench_case->chunk_tokens, 0, chunk_data(state, chunk));
}

static void run_gather(void *state, int64_t share, int64_t shares)
{
    gather_share(state, kvc_gather_chunk, chunk_share(state, share, shares));
}

static void run_gather_plain(void *state, int64_t share, int64_t shares)
{
    gather_share(state, kvc_gather_chunk_plain, chunk_share(state, share, shares));
}

static void run_scatter(void *state, int64_t share, int64_t shares)
{
    scatter_share(state, kvc_scatter_chunk, chunk_share(state, share, shares));
}

static void run_scatter_plain(void *state, int64_t share, int64_t shares)
{
    scatter_share(state, kvc_scatter_chunk_plain, chunk_share(state, share, shares));
}

static void run_fill(void *context, int64_t share, int64_t shares)
{
    struct state *state = context;
    const struct range range = chunk_share(state, share, shares);
    kvc_stamp_blocks(&state->paged, state->source, range.first * state->bench_case->chunk_tokens,
                     chunk_ids(state, range.first),
                     (size_t)((range.end - range.first) * state->chunk_blocks));
}

static kvc_status check_range(const struct state *state, struct range range, struct kvc_error *err)
{
    return kvc_stamp_check_blocks(
        &state->paged, state->source, range.first * state->bench_case->chunk_tokens,
        chunk_ids(state, range.first), (size_t)((range.end - range.first) * state->chunk_blocks),
        NULL, 0, err);
}

static void run_check(void *context, int64_t share, int64_t shares)
{
    struct state *state = context;
    if (check_range(state, chunk_share(state, share, shares), NULL) != KVC_OK)
        state->difference = 1;
}

static void run_digest(void *context, int64_t share, int64_t shares)
{
    const struct state *state = context;
    const struct range range = chunk_share(state, share, shares);
    char hex[KVC_MD5_HEX_SIZE];
    for (int64_t chunk = range.first; chunk < range.end; chunk++)
        kvc_block_checksum(&state->paged.geometry, state->tensors, chunk_ids(state, chunk),
                           (size_t)state->chunk_blocks, hex);
}

/* ---- whether it did what it should ---- */

static void spoil_chunks(void *context)
{
    const struct state *state = context;
    memset(state->chunks.data, POISON, state->chunks.size);
}

static void spoil_blocks(void *context)
{
    struct state *state = context;
    kvc_paged_fill(&state->paged, POISON);
}

static kvc_status verify_chunks(void *context, struct kvc_error *err)
{
    const struct state *state = context;
    const int64_t tokens = state->bench_case->chunk_tokens;
    for (int64_t chunk = 0; chunk < state->bench_case->chunk_count; chunk++)
        KVC_GUARD(kvc_stamp_check_chunk(&state->paged.geometry, state->source, chunk * tokens,
                                        tokens, chunk_data(state, chunk), NULL, 0, err));
    return KVC_OK;
}

static kvc_status verify_blocks(void *context, struct kvc_error *err)
{
    const struct state *state = context;
    KVC_GUARD(check_range(state, chunk_share(state, 0, 1), err));
    return kvc_paged_check_guards(&state->paged, err);
}

static kvc_status verify_equal(void *context, struct kvc_error *err)
{
    const struct state *state = context;
    return state->difference == 0
               ? KVC_OK
               : kvc_fail(err, KVC_EMISMATCH, "data that are right were found wrong");
}

static const struct kvc_transfer_measure measures[] = {
    {"gather", "fast", "memcpy", run_gather, run_memcpy, spoil_chunks, verify_chunks},
    {"gather", "plain", "memcpy", run_gather_plain, run_memcpy, spoil_chunks, verify_chunks},
    {"scatter", "fast", "memcpy", run_scatter, run_memcpy, spoil_blocks, verify_blocks},
    {"scatter", "plain", "memcpy", run_scatter_plain, run_memcpy, spoil_blocks, verify_blocks},
    {"fill", "fast", "memcpy", run_fill, run_memcpy, spoil_blocks, verify_blocks},
    {"check", "fast", "memcmp", run_check, run_memcmp, NULL, verify_equal},
    {"digest", "fast", "md5", run_digest, run_md5, NULL, verify_equal},
};

/* ---- memory ---- */

/* All of it is written once, so that no page is missing when it is measured. */
static void fill_memory(struct state *state)
{
    kvc_paged_fill(&state->paged, POISON);
    run_fill(state, 0, 1);
    run_gather_plain(state, 0, 1);
    run_memcpy(state, 0, 1);
}

static void close_cpu(void *context)
{
    struct state *state = context;
    kvc_paged_close(&state->paged);
    kvc_memory_close(&state->chunks);
    kvc_memory_close(&state->copy);
    free(state->tensors);
    free(state->block_ids);
    free(state);
}

static kvc_status open_memory(struct state *state, struct kvc_error *err)
{
    const size_t size = (size_t)kvc_transfer_case_bytes(state->bench_case);
    const struct kvc_geometry geometry = {.groups = {state->bench_case->group}, .group_count = 1};
    KVC_GUARD(kvc_paged_open(&geometry, false, &state->paged, err));
    KVC_GUARD(kvc_memory_open(size, &state->chunks, err));
    return kvc_memory_open(size, &state->copy, err);
}

static kvc_status open_cpu(const struct kvc_transfer_case *bench_case, void **context,
                           struct kvc_error *err)
{
    struct state *state = kvc_alloc_zero(1, sizeof(*state));
    state->bench_case = bench_case;
    state->chunk_blocks = bench_case->chunk_tokens / bench_case->group.block_size;
    state->chunk_bytes = kvc_group_chunk_bytes(&bench_case->group, bench_case->chunk_tokens);
    state->source = (struct kvc_stamp_source){.seed = bench_case->seed};
    const kvc_status status = open_memory(state, err);
    if (status != KVC_OK) {
        close_cpu(state);
        return status;
    }
    state->tensors = kvc_alloc(state->paged.tensor_count * sizeof(*state->tensors));
    for (size_t i = 0; i < state->paged.tensor_count; i++)
        state->tensors[i] = state->paged.tensors[i].data;
    state->block_ids = kvc_transfer_case_block_ids(bench_case);
    fill_memory(state);
    *context = state;
    return KVC_OK;
}

const struct kvc_transfer_device kvc_transfer_cpu = {
    .name = "cpu",
    .device = &kvc_device_cpu,
    .open = open_cpu,
    .close = close_cpu,
    .measures = measures,
    .measure_count = KVC_COUNT_OF(measures),
};
