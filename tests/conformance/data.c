/* Round trips: the bytes that a worker stored are those that it, or another worker, gets back, in
 * whichever parts, order and way they travel. Layouts have a family of their own. */
#include <string.h>

#include "tests/conformance/transfer_fixture.h"

/* ---- one request ---- */

static void round_trip(struct kvc_ctx *ctx)
{
    const int64_t chunks = kvc_ctx_variant_is(ctx, "one-chunk") ? 1 : 5;
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, chunks);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    kvc_poison(worker);
    kvc_retrieve_stamped(ctx, worker, &again, blocks, 0);
    kvc_expect_untouched_except(ctx, worker, blocks);
}

KVC_CHECK(round_trip, .id = "data/round-trip",
          .clause =
              "Chunks come back byte for byte, into other blocks than they were stored from, and "
              "no other block is written.",
          .source = "protocol 4.17, 6.2", .exchange = "store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"one-chunk", "five-chunks", NULL}, .run = round_trip);

static void many_chunks(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 24 };
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    group->num_blocks = CHUNKS * options.chunk_size / group->block_size + 3;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
}

KVC_CHECK(
    many_chunks, .id = "data/many-chunks",
    .clause = "A sequence of many chunks, stored and retrieved at once, comes back byte for byte.",
    .source = "protocol 4.17, B51", .exchange = "store 24 chunks, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = many_chunks);

static void token_count(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunk_size = worker->options.chunk_size;
    int64_t tokens = 3 * chunk_size;
    if (kvc_ctx_variant_is(ctx, "one-less"))
        tokens--;
    else if (kvc_ctx_variant_is(ctx, "one-more"))
        tokens++;
    const int64_t chunks = tokens / chunk_size;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_tokens(ctx, tokens));
    const struct kvc_key whole_chunks = kvc_key_chunks(worker, &key, 0, chunks);
    kvc_store_stamped(ctx, worker, &whole_chunks, kvc_chunk_blocks(ctx, worker, chunks), 0);
    kvc_expect_hits(ctx, worker, &key, chunks);
    kvc_retrieve_stamped(ctx, worker, &whole_chunks, kvc_chunk_blocks(ctx, worker, chunks), 0);
}

KVC_CHECK(
    token_count, .id = "data/token-count",
    .clause = "Of a sequence just below, at or above a multiple of the chunk size the whole chunks "
              "are a hit and come back.",
    .source = "protocol 4.6, B59", .exchange = "store, LOOKUP, retrieve", .level = KVC_LEVEL_MUST,
    .paths = KVC_PATHS_ALL,
    .variants = (const char *const[]){"one-less", "exact", "one-more", NULL}, .run = token_count);

/* Blocks of which the first is block 0. */
static struct kvc_ints with_block_zero(struct kvc_ctx *ctx, struct kvc_ints blocks)
{
    int64_t *copy = kvc_arena_alloc_array(kvc_ctx_arena(ctx), blocks.count, sizeof *copy);
    memcpy(copy, blocks.items, blocks.count * sizeof *copy);
    copy[0] = 0;
    return (struct kvc_ints){copy, blocks.count};
}

static void block_zero(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints from = with_block_zero(ctx, kvc_chunk_blocks(ctx, worker, 2));
    const struct kvc_ints into = with_block_zero(ctx, kvc_chunk_blocks(ctx, worker, 2));
    kvc_store_stamped(ctx, worker, &key, from, 0);
    kvc_retrieve_stamped(ctx, worker, &key, into, 0);
}

KVC_CHECK(block_zero, .id = "data/block-zero",
          .clause = "Block 0 among other blocks is stored and retrieved like any other.",
          .source = "protocol 4.13, B57", .exchange = "store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = block_zero);

/* Every byte value in every place of an element, not only sane numbers. */
static void fill_with_every_pattern(struct kvc_worker *worker)
{
    uint32_t state = 1;
    for (size_t i = 0; i < worker->paged.tensor_count; i++) {
        struct kvc_tensor *tensor = &worker->paged.tensors[i];
        for (int64_t at = 0; at < tensor->bytes; at++) {
            state = state * 1664525u + 1013904223u;
            tensor->data[at] = (uint8_t)(state >> 24);
        }
    }
}

static void every_bit_pattern(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *reader = kvc_sibling_worker(ctx, worker);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 4);
    fill_with_every_pattern(worker);
    for (size_t i = 0; i < worker->paged.tensor_count; i++)
        memcpy(reader->paged.tensors[i].data, worker->paged.tensors[i].data,
               (size_t)worker->paged.tensors[i].bytes);
    kvc_expect_true(ctx, "success of the store", kvc_store(ctx, worker, &key, blocks));
    kvc_expect_visible(ctx, worker, &key, 4);
    for (size_t i = 0; i < blocks.count; i++)
        kvc_paged_fill_block(&reader->paged, blocks.items[i], KVC_POISON);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, reader, &again), 4);
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, reader, &again, blocks, 0));
    for (size_t i = 0; i < worker->paged.tensor_count; i++) {
        const size_t size = (size_t)worker->paged.tensors[i].bytes;
        kvc_expect_bytes(ctx, "a layer in the same blocks of another worker",
                         (struct kvc_bytes){reader->paged.tensors[i].data, size},
                         (struct kvc_bytes){worker->paged.tensors[i].data, size});
    }
}

KVC_CHECK(every_bit_pattern, .id = "data/every-bit-pattern",
          .clause = "Elements that are no numbers, infinite or denormal keep every bit.",
          .source = "protocol 4.11, 6.2, B25",
          .exchange = "store; from another instance: LOOKUP, retrieve", .level = KVC_LEVEL_MUST,
          .paths = KVC_PATHS_ALL,
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "float8_e4m3fn", "int8",
                                          NULL},
          .run = every_bit_pattern);

/* ---- in parts ---- */

static void partial_hit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 5));
    const struct kvc_key known = kvc_key_chunks(worker, &key, 0, 2);
    const struct kvc_key rest = kvc_key_chunks(worker, &key, 2, 3);
    kvc_store_stamped(ctx, worker, &known, kvc_chunk_blocks(ctx, worker, 2), 0);
    const struct kvc_key next = kvc_key_renamed(ctx, &key);
    const struct kvc_key hit = kvc_key_chunks(worker, &next, 0, 2);
    kvc_retrieve_stamped(ctx, worker, &hit, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_store_stamped(ctx, worker, &rest, kvc_chunk_blocks(ctx, worker, 3), 0);
    const struct kvc_key last = kvc_key_renamed(ctx, &key);
    kvc_retrieve_stamped(ctx, worker, &last, kvc_chunk_blocks(ctx, worker, 5), 0);
}

KVC_CHECK(partial_hit, .id = "data/partial-hit",
          .clause =
              "After a partial hit the hit comes back, the rest can be stored behind it, and then "
              "all of it comes back.",
          .source = "protocol 4.17, N14",
          .exchange = "store 2 chunks; LOOKUP of 5, retrieve 2, store 3; LOOKUP, retrieve 5",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = partial_hit);

static void several_stores(struct kvc_ctx *ctx)
{
    static const int64_t parts[][2] = {{0, 1}, {1, 2}, {3, 1}};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 4));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 4);
    kvc_stamp(ctx, worker, &key, blocks, 0);
    for (size_t i = 0; i < KVC_COUNT_OF(parts); i++) {
        const size_t at = kvc_ctx_variant_is(ctx, "backwards") ? KVC_COUNT_OF(parts) - 1 - i : i;
        const struct kvc_key part = kvc_key_chunks(worker, &key, parts[at][0], parts[at][1]);
        kvc_expect_true(
            ctx, "success of a store",
            kvc_store(ctx, worker, &part,
                      kvc_blocks_of_chunks(worker, blocks, parts[at][0], parts[at][1])));
    }
    kvc_expect_visible(ctx, worker, &key, 4);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 4), 0);
}

KVC_CHECK(several_stores, .id = "data/several-stores",
          .clause = "A sequence stored in several parts by one request comes back whole.",
          .source = "B61", .exchange = "store chunk 0, chunks 1 and 2, chunk 3; LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL,
          .variants = (const char *const[]){"in-order", "backwards", NULL}, .run = several_stores);

static void pipelined_stores(struct kvc_ctx *ctx)
{
    enum { PARTS = 4 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, PARTS));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, PARTS);
    const bool backwards = kvc_ctx_variant_is(ctx, "backwards");
    uint64_t uids[PARTS];
    kvc_stamp(ctx, worker, &key, blocks, 0);
    for (int64_t i = 0; i < PARTS; i++) {
        const int64_t chunk = backwards ? PARTS - 1 - i : i;
        const struct kvc_key part = kvc_key_chunks(worker, &key, chunk, 1);
        const struct kvc_request request = kvc_blocks_request(
            ctx, KVC_OP_STORE, worker, &part, kvc_blocks_of_chunks(worker, blocks, chunk, 1));
        uids[i] = kvc_send(ctx, &worker->rpc, &request);
    }
    for (int64_t i = PARTS; i-- > 0;)
        kvc_expect_true(ctx, "success of STORE",
                        kvc_receive(ctx, &worker->rpc, uids[i], KVC_OP_STORE)->transfer.success);
    kvc_expect_visible(ctx, worker, &key, PARTS);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, PARTS), 0);
}

KVC_CHECK(pipelined_stores, .id = "data/pipelined-stores",
          .clause = "Several STOREs of one request may be under way at once, and none is lost.",
          .source = "B61", .exchange = "STORE x4 without waiting; LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = (const char *const[]){"in-order", "backwards", NULL},
          .run = pipelined_stores);

/* ---- several requests ---- */

static void interleaved(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 3 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key keys[2];
    for (size_t i = 0; i < 2; i++)
        keys[i] = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    for (int64_t chunk = 0; chunk < CHUNKS; chunk++) {
        for (uint64_t i = 0; i < 2; i++) {
            const struct kvc_key part = kvc_key_chunks(worker, &keys[i], chunk, 1);
            const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
            kvc_stamp(ctx, worker, &part, blocks, i);
            kvc_expect_true(ctx, "success of a store", kvc_store(ctx, worker, &part, blocks));
        }
    }
    for (uint64_t i = 0; i < 2; i++) {
        kvc_expect_visible(ctx, worker, &keys[i], CHUNKS);
        kvc_retrieve_stamped(ctx, worker, &keys[i], kvc_chunk_blocks(ctx, worker, CHUNKS), i);
    }
}

KVC_CHECK(interleaved, .id = "data/interleaved",
          .clause = "Requests whose stores alternate keep their own bytes.", .source = "N05, N19",
          .exchange = "store chunk by chunk for two requests in turn; retrieve both",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = interleaved);

static void shared_prefix(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 4);
    const struct kvc_ints others = kvc_fresh_chunks(ctx, 4);
    const size_t shared = 2 * (size_t)worker->options.chunk_size;
    int64_t *mixed = kvc_arena_alloc_array(kvc_ctx_arena(ctx), tokens.count, sizeof *mixed);
    memcpy(mixed, tokens.items, shared * sizeof *mixed);
    memcpy(mixed + shared, others.items + shared, (tokens.count - shared) * sizeof *mixed);
    const struct kvc_key a = kvc_key_for(ctx, worker, tokens);
    const struct kvc_key b = kvc_key_for(ctx, worker, (struct kvc_ints){mixed, tokens.count});
    const struct kvc_key b_prefix = kvc_key_chunks(worker, &b, 0, 2);
    const struct kvc_key b_rest = kvc_key_chunks(worker, &b, 2, 2);
    kvc_store_stamped(ctx, worker, &a, kvc_chunk_blocks(ctx, worker, 4), 0);
    kvc_expect_hits(ctx, worker, &b, 2);
    kvc_store_stamped(ctx, worker, &b_rest, kvc_chunk_blocks(ctx, worker, 2), 1);
    kvc_retrieve_stamped(ctx, worker, &b_prefix, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &b_rest, kvc_chunk_blocks(ctx, worker, 2), 1);
    const struct kvc_key again = kvc_key_renamed(ctx, &a);
    kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 4), 0);
}

KVC_CHECK(
    shared_prefix, .id = "data/shared-prefix",
    .clause = "Sequences with a common prefix share its chunks, and each has its own behind it.",
    .source = "protocol 7.3",
    .exchange = "store 4 chunks; LOOKUP, store 2 chunks of another "
                "sequence with the same first 2; retrieve both",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = shared_prefix);

static void mutated_after_store(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 3);
    kvc_stamp(ctx, worker, &key, blocks, 0);
    kvc_expect_true(ctx, "success of STORE", kvc_store(ctx, worker, &key, blocks));
    kvc_poison(worker);
    kvc_expect_visible(ctx, worker, &key, 3);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3), 0);
}

KVC_CHECK(
    mutated_after_store, .id = "data/mutated-after-store",
    .clause = "What the worker does to its blocks after STORE was answered does not change what "
              "is stored.",
    .source = "protocol 3.7, 4.13, B58", .exchange = "STORE, LOOKUP, RETRIEVE",
    .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = mutated_after_store);

static void mutated_after_retrieve(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    for (int i = 0; i < 2; i++) {
        const struct kvc_key again = kvc_key_renamed(ctx, &key);
        kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2), 0);
        kvc_poison(worker);
    }
}

KVC_CHECK(mutated_after_retrieve, .id = "data/mutated-after-retrieve",
          .clause = "What the worker does to its blocks after a retrieve does not change what is "
                    "stored.",
          .source = "protocol 4.12, 4.14", .exchange = "store; LOOKUP, retrieve, twice",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = mutated_after_retrieve);

static void same_block_twice(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key first = kvc_key_chunks(worker, &key, 0, 1);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    int64_t *twice = kvc_arena_alloc_array(kvc_ctx_arena(ctx), 2 * blocks.count, sizeof *twice);
    memcpy(twice, blocks.items, blocks.count * sizeof *twice);
    memcpy(twice + blocks.count, blocks.items, blocks.count * sizeof *twice);
    kvc_stamp(ctx, worker, &first, blocks, 0);
    kvc_expect_true(ctx, "success of the store",
                    kvc_store(ctx, worker, &key, (struct kvc_ints){twice, 2 * blocks.count}));
    kvc_expect_visible(ctx, worker, &key, 2);
    const struct kvc_ints into = kvc_chunk_blocks(ctx, worker, 2);
    kvc_poison(worker);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), 2);
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, &key, into, 0));
    kvc_expect_stamped(ctx, worker, &first, kvc_blocks_of_chunks(worker, into, 0, 1), 0);
    kvc_expect_stamped(ctx, worker, &first, kvc_blocks_of_chunks(worker, into, 1, 1), 0);
}

KVC_CHECK(same_block_twice, .id = "data/same-block-twice",
          .clause = "A block that is named twice in one store is stored in both places.",
          .source = "B58", .exchange = "store, LOOKUP, retrieve", .level = KVC_LEVEL_SHOULD,
          .paths = KVC_PATHS_ALL, .run = same_block_twice);
