/* One request: its tokens, its key, its blocks, and the bytes in them. */
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/bench/server_parts.h"

enum { POISON = 0x5a, KIND_SHIFT = 40 };

static const struct kvc_bench_id shared_id = {.kind = KVC_BENCH_KIND_SHARED};

static uint64_t id_number(struct kvc_bench_id id)
{
    return ((uint64_t)id.kind << KIND_SHIFT) + (uint64_t)id.number;
}

static struct kvc_random random_of(const struct kvc_bench *bench, struct kvc_bench_id id)
{
    return (struct kvc_random){kvc_mix(bench->options->seed) ^ kvc_mix(id_number(id))};
}

static void draw_tokens(const struct kvc_bench *bench, struct kvc_bench_request *request)
{
    const int64_t count = bench->options->num_tokens + 1;
    struct kvc_random own = random_of(bench, request->id);
    struct kvc_random shared = random_of(bench, shared_id);
    request->tokens = kvc_alloc((size_t)count * sizeof(*request->tokens));
    for (int64_t i = 0; i < count; i++) {
        struct kvc_random *random = i < request->id.shared_tokens ? &shared : &own;
        request->tokens[i] = (int64_t)kvc_random_below(random, 1u << 31);
    }
}

static void shuffle(struct kvc_random random, int64_t *items, int64_t count)
{
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t other = (int64_t)kvc_random_below(&random, (uint64_t)i + 1);
        const int64_t kept = items[i];
        items[i] = items[other];
        items[other] = kept;
    }
}

/* A request's blocks, for all of its chunks. */
static int64_t needed_blocks(const struct kvc_bench *bench)
{
    return bench->chunk_count * bench->chunk_tokens / bench->geometry.groups[0].block_size;
}

void kvc_bench_choose_blocks(struct kvc_bench *bench)
{
    const int64_t all = bench->geometry.groups[0].num_blocks;
    const int64_t wanted = 2 * needed_blocks(bench);
    int64_t *blocks = kvc_alloc((size_t)all * sizeof(*blocks));
    /* First and last at the front, where they stay. */
    for (int64_t i = 0; i < all; i++)
        blocks[i] = (i + all - 1) % all;
    if (all > 2)
        shuffle((struct kvc_random){kvc_mix(bench->options->seed)}, blocks + 2, all - 2);
    bench->used_blocks = blocks;
    bench->used_block_count = wanted < all ? wanted : all;
}

/* Fewer than a request stores and retrieves together: some are used for both. */
static void draw_blocks(const struct kvc_bench *bench, struct kvc_bench_request *request)
{
    const int64_t count = bench->used_block_count, needed = needed_blocks(bench);
    const size_t size = (size_t)count * sizeof(*request->blocks);
    request->blocks = kvc_alloc(size);
    memcpy(request->blocks, bench->used_blocks, size);
    shuffle((struct kvc_random){kvc_mix(random_of(bench, request->id).state)}, request->blocks,
            count);
    request->source_blocks = (struct kvc_ints){request->blocks, (size_t)needed};
    request->target_blocks = (struct kvc_ints){request->blocks + (count - needed), (size_t)needed};
}

void kvc_bench_request_init(const struct kvc_bench *bench, struct kvc_bench_id id,
                            struct kvc_bench_request *request)
{
    *request = (struct kvc_bench_request){.id = id, .pass = ""};
    draw_tokens(bench, request);
    draw_blocks(bench, request);
}

void kvc_bench_request_clear(struct kvc_bench_request *request)
{
    free(request->tokens);
    free(request->blocks);
}

void kvc_bench_request_begin(struct kvc_bench_client *client, const char *pass,
                             struct kvc_bench_request *request)
{
    request->pass = pass;
    snprintf(request->name, sizeof(request->name), "kvconform-%016llx-%lld-%lld-%s",
             (unsigned long long)client->bench->options->seed, (long long)client->number,
             (long long)client->serial++, pass);
}

struct kvc_key kvc_bench_request_key(const struct kvc_bench_client *client,
                                     const struct kvc_bench_request *request, int64_t first,
                                     int64_t end)
{
    const struct kvc_bench *bench = client->bench;
    const struct kvc_ints tokens = {request->tokens, (size_t)(bench->options->num_tokens + 1)};
    return kvc_worker_key(client->workers[0], tokens, first * bench->chunk_tokens,
                          end * bench->chunk_tokens, kvc_str_of(request->name), KVC_STR(""));
}

struct kvc_ints kvc_bench_request_blocks(const struct kvc_bench *bench, struct kvc_ints blocks,
                                         int64_t first, int64_t end)
{
    const int64_t per_chunk = bench->chunk_tokens / bench->geometry.groups[0].block_size;
    return (struct kvc_ints){blocks.items + first * per_chunk, (size_t)((end - first) * per_chunk)};
}

/* Whose stamps a rank's blocks hold: with MLA all ranks share what rank 0 stored. */
static struct kvc_stamp_source stamps_of(const struct kvc_bench *bench, struct kvc_bench_id id,
                                         int64_t rank)
{
    const uint64_t owner = bench->is_mla ? 0 : (uint64_t)rank;
    const uint64_t ranks = (uint64_t)bench->options->tp_size;
    return (struct kvc_stamp_source){.seed = bench->options->seed,
                                     .request = id_number(id) * ranks + owner};
}

/* What is wrong with the GPU shows when the request is made, or at the latest when its bytes are
 * checked. */
static void push(struct kvc_bench_client *client, int64_t ranks)
{
    for (int64_t rank = 0; rank < ranks; rank++)
        kvc_worker_push(client->workers[rank], NULL);
}

void kvc_bench_request_fill(struct kvc_bench_client *client,
                            const struct kvc_bench_request *request)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t begin = kvc_now_ns();
    const int64_t writers = bench->is_mla ? 1 : bench->options->tp_size;
    const int64_t first = request->id.shared_tokens / bench->chunk_tokens;
    const struct kvc_ints blocks =
        kvc_bench_request_blocks(bench, request->source_blocks, first, bench->chunk_count);
    for (int64_t rank = 0; rank < writers; rank++)
        kvc_stamp_blocks(&client->workers[rank]->paged, stamps_of(bench, request->id, rank),
                         request->id.shared_tokens, blocks.items, blocks.count);
    push(client, writers);
    kvc_bench_spend(client, KVC_BENCH_FILL, begin);
}

void kvc_bench_request_poison(struct kvc_bench_client *client,
                              const struct kvc_bench_request *request, int64_t end)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t begin = kvc_now_ns();
    const int64_t ranks = bench->options->tp_size;
    const struct kvc_ints blocks = kvc_bench_request_blocks(bench, request->target_blocks, 0, end);
    for (int64_t rank = 0; rank < ranks; rank++)
        for (size_t i = 0; i < blocks.count; i++)
            kvc_paged_fill_block(&client->workers[rank]->paged, blocks.items[i], POISON);
    push(client, ranks);
    kvc_bench_spend(client, KVC_BENCH_FILL, begin);
}

/* Chunks [first, end), which are the id's. */
static kvc_status check_part(const struct kvc_bench *bench, const struct kvc_worker *worker,
                             int64_t rank, const struct kvc_bench_request *request,
                             struct kvc_bench_id id, int64_t first, int64_t end,
                             struct kvc_error *err)
{
    if (first >= end)
        return KVC_OK;
    const struct kvc_ints blocks =
        kvc_bench_request_blocks(bench, request->target_blocks, first, end);
    return kvc_stamp_check_blocks(&worker->paged, stamps_of(bench, id, rank),
                                  first * bench->chunk_tokens, blocks.items, blocks.count, NULL, 0,
                                  err);
}

kvc_status kvc_bench_request_check(struct kvc_bench_client *client,
                                   const struct kvc_bench_request *request, int64_t end,
                                   struct kvc_error *err)
{
    const struct kvc_bench *bench = client->bench;
    const int64_t shared = request->id.shared_tokens / bench->chunk_tokens;
    for (int64_t rank = 0; rank < bench->options->tp_size; rank++) {
        struct kvc_worker *worker = client->workers[rank];
        KVC_GUARD(kvc_worker_pull(worker, err));
        KVC_GUARD(check_part(bench, worker, rank, request, shared_id, 0,
                             shared < end ? shared : end, err));
        KVC_GUARD(check_part(bench, worker, rank, request, request->id, shared, end, err));
        KVC_GUARD(kvc_paged_check_guards(&worker->paged, err));
        if (bench->compare_http)
            KVC_GUARD(kvc_bench_http_compare(
                bench, worker, kvc_bench_request_blocks(bench, request->target_blocks, 0, end),
                err));
    }
    client->tally.bytes_verified += bench->options->tp_size * end *
                                    kvc_geometry_chunk_bytes(&bench->geometry, bench->chunk_tokens);
    return KVC_OK;
}
