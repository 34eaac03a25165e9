/* Models that run on several ranks: tensor parallel, where each rank has chunks of its own, and MLA,
 * where all ranks read the same ones. */
#include "tests/conformance/transfer_fixture.h"

enum { MOST_RANKS = 4, CHUNKS = 2 };

static const char *const world_sizes[] = {"of-two", "of-four", NULL};

static int64_t world_size(struct kvc_ctx *ctx)
{
    return kvc_ctx_variant_is(ctx, "of-two") ? 2 : MOST_RANKS;
}

/* All ranks of one model, and a key for each: they differ by the rank alone. */
struct world {
    int64_t size;
    struct kvc_worker *ranks[MOST_RANKS];
    struct kvc_key keys[MOST_RANKS];
};

static struct world open_world(struct kvc_ctx *ctx, int64_t size)
{
    struct world world = {.size = size};
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.world_size = size;
    for (int64_t i = 0; i < size; i++) {
        options.instance_id = kvc_fresh_instance_id(ctx);
        options.worker_id = i;
        world.ranks[i] = kvc_open_worker(ctx, &options);
    }
    const struct kvc_key key = kvc_key_for(ctx, world.ranks[0], kvc_fresh_chunks(ctx, CHUNKS));
    for (int64_t i = 0; i < size; i++) {
        world.keys[i] = key;
        world.keys[i].worker_id = KVC_SOME_INT(i);
    }
    return world;
}

/* Stores the first `chunks` chunks of one rank, stamped as its own. */
static void store_rank(struct kvc_ctx *ctx, const struct world *world, int64_t rank, int64_t chunks)
{
    struct kvc_worker *worker = world->ranks[rank];
    const struct kvc_key key = kvc_key_chunks(worker, &world->keys[rank], 0, chunks);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, chunks);
    kvc_stamp(ctx, worker, &key, blocks, (uint64_t)rank);
    kvc_expect_true(ctx, "success of a rank's store", kvc_store(ctx, worker, &key, blocks));
}

static void store_all(struct kvc_ctx *ctx, const struct world *world)
{
    for (int64_t i = 0; i < world->size; i++)
        store_rank(ctx, world, i, CHUNKS);
    kvc_expect_visible(ctx, world->ranks[0], &world->keys[0], CHUNKS);
}

static void look_up(struct kvc_ctx *ctx, const struct world *world)
{
    kvc_expect_int(ctx, "chunks that LOOKUP finds",
                   kvc_lookup(ctx, world->ranks[0], &world->keys[0]), CHUNKS);
}

static bool retrieve_rank(struct kvc_ctx *ctx, const struct world *world, int64_t rank,
                          struct kvc_ints blocks)
{
    kvc_poison(world->ranks[rank]);
    return kvc_retrieve(ctx, world->ranks[rank], &world->keys[rank], blocks, 0);
}

static void expect_own_bytes(struct kvc_ctx *ctx, const struct world *world, int64_t rank)
{
    struct kvc_worker *worker = world->ranks[rank];
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, CHUNKS);
    kvc_expect_true(ctx, "success of a rank's retrieve", retrieve_rank(ctx, world, rank, blocks));
    kvc_expect_stamped(ctx, worker, &world->keys[rank], blocks, (uint64_t)rank);
}

/* ---- chunks of their own ---- */

static void reads_own_bytes(struct kvc_ctx *ctx)
{
    const struct world world = open_world(ctx, world_size(ctx));
    store_all(ctx, &world);
    look_up(ctx, &world);
    for (int64_t i = world.size; i-- > 0;)
        expect_own_bytes(ctx, &world, i);
}
KVC_CHECK(reads_own_bytes, .id = "ranks/own-bytes",
          .clause =
              "After one lookup for all ranks each rank retrieves what it stored itself, in any "
              "order.",
          .source = "protocol 3.1, 4.6, B27",
          .exchange = "REGISTER and store by each rank, LOOKUP once, retrieve by each rank",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = world_sizes,
          .run = reads_own_bytes);

static const char *const incomplete_worlds[] = {"first-missing", "second-missing", "last-missing",
                                                "last-shorter", NULL};

static void finds_what_all_have(struct kvc_ctx *ctx)
{
    static const int64_t missing_ranks[] = {0, 1, MOST_RANKS - 1, MOST_RANKS - 1};
    const int64_t missing = missing_ranks[kvc_variant_index(ctx)];
    const int64_t chunks = kvc_ctx_variant_is(ctx, "last-shorter") ? 1 : 0;
    const struct world world = open_world(ctx, MOST_RANKS);
    for (int64_t i = 0; i < world.size; i++) {
        if (i != missing)
            store_rank(ctx, &world, i, CHUNKS);
    }
    if (chunks > 0)
        store_rank(ctx, &world, missing, chunks);
    kvc_expect_visible(ctx, world.ranks[0], &world.keys[0], chunks);
    kvc_expect_hits(ctx, world.ranks[0], &world.keys[0], chunks);
    store_rank(ctx, &world, missing, CHUNKS);
    kvc_expect_visible(ctx, world.ranks[0], &world.keys[0], CHUNKS);
}
KVC_CHECK(finds_what_all_have, .id = "ranks/all-have-it",
          .clause = "Of a model on four ranks LOOKUP counts the chunks that all four have stored, "
                    "whichever of them lacks one.",
          .source = "protocol 4.6, B27",
          .exchange = "REGISTER by four ranks, store by three, LOOKUP, store by the fourth, LOOKUP",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = incomplete_worlds,
          .run = finds_what_all_have);

static void frees_every_rank(struct kvc_ctx *ctx)
{
    const struct world world = open_world(ctx, world_size(ctx));
    store_all(ctx, &world);
    look_up(ctx, &world);
    kvc_free_locks(ctx, world.ranks[0], &world.keys[0]);
    for (int64_t i = 0; i < world.size; i++)
        kvc_expect_false(
            ctx, "success of a rank's retrieve after FREE_LOOKUP_LOCKS",
            retrieve_rank(ctx, &world, i, kvc_chunk_blocks(ctx, world.ranks[i], CHUNKS)));
}
KVC_CHECK(frees_every_rank, .id = "ranks/free",
          .clause = "FREE_LOOKUP_LOCKS without a worker id releases the chunks of every rank.",
          .source = "protocol 3.1, 4.8, B26",
          .exchange = "REGISTER and store by each rank, LOOKUP, FREE, retrieve by each rank",
          .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .variants = world_sizes,
          .run = frees_every_rank);

static void outlives_a_rank(struct kvc_ctx *ctx)
{
    const struct world world = open_world(ctx, world_size(ctx));
    const int64_t gone = world.size - 1;
    struct kvc_error err = KVC_ERROR_INIT;
    store_all(ctx, &world);
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(world.ranks[gone], &err), &err);
    look_up(ctx, &world);
    for (int64_t i = 0; i < gone; i++)
        expect_own_bytes(ctx, &world, i);
}
KVC_CHECK(
    outlives_a_rank, .id = "ranks/one-leaves",
    .clause = "When one rank leaves, the others go on finding and reading what they stored.",
    .source = "protocol 4.4, B23",
    .exchange = "REGISTER and store by each rank, UNREGISTER one, LOOKUP, retrieve by the rest",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = world_sizes,
    .run = outlives_a_rank);

/* ---- worker ids that are no rank ---- */

static const char *const odd_rank_names[] = {"minus-one", "256", NULL};
static const int64_t odd_ranks[] = {-1, 256};

/* PREPARE_STORE; NULL if it is refused, else the slot of the one chunk. */
static const struct kvc_transfer_context *
try_prepare(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key)
{
    const struct kvc_request request = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, key);
    struct kvc_reply *reply;
    if (!kvc_try_call(ctx, &worker->rpc, &request, &reply))
        return NULL;
    kvc_expect_int(ctx, "slots for a chunk that nobody has stored",
                   (int64_t)reply->context.slots.count, 1);
    return &reply->context;
}

static void keeps_odd_ranks_apart(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *of_two = kvc_rank_of_two(ctx, worker->options.model_name, 0);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_key odd = key;
    odd.worker_id = KVC_SOME_INT(odd_ranks[kvc_variant_index(ctx)]);
    struct kvc_key odd_of_two = kvc_key_renamed(ctx, &odd);
    odd_of_two.world_size = 2;
    const struct kvc_transfer_context *slots = try_prepare(ctx, worker, &odd);
    if (slots == NULL)
        return;
    kvc_stamp_slots(ctx, worker, &odd, slots, 0);
    kvc_commit_store(ctx, worker, &odd);
    kvc_expect_hits(ctx, worker, &key, 0);
    try_prepare(ctx, of_two, &odd_of_two);
}
KVC_CHECK(
    keeps_odd_ranks_apart, .id = "ranks/no-such-rank",
    .clause =
        "A worker id that is none, -1 or 256, is refused, or what it stores is neither the chunk "
        "of a rank nor that of another world's.",
    .source = "protocol 3.1, 7.2, B24, B27",
    .exchange = "REGISTER x 2, PREPARE_STORE and COMMIT_STORE under that worker id, LOOKUP of all "
                "ranks, PREPARE_STORE in a world of two",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN,
    .variants = odd_rank_names, .run = keeps_odd_ranks_apart);

/* ---- the same chunks for all: MLA ---- */

static void reads_shared_chunks(struct kvc_ctx *ctx)
{
    const int64_t readers = world_size(ctx);
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.num_kv_readers = readers;
    struct kvc_worker *writer = kvc_open_worker(ctx, &options);
    struct kvc_key key = kvc_key_for(ctx, writer, kvc_fresh_chunks(ctx, CHUNKS));
    kvc_store_stamped(ctx, writer, &key, kvc_chunk_blocks(ctx, writer, CHUNKS), 0);
    struct kvc_key asked = kvc_key_renamed(ctx, &key);
    asked.worker_id = KVC_NIL_INT;
    int64_t chunks = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "LOOKUP", kvc_rpc_lookup(&writer->rpc, &asked, readers, &chunks, &err),
                  &err);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", chunks, CHUNKS);
    for (int64_t i = 0; i < readers; i++) {
        struct kvc_worker *reader = kvc_sibling_worker(ctx, writer);
        const struct kvc_ints blocks = kvc_chunk_blocks(ctx, reader, CHUNKS);
        kvc_poison(reader);
        kvc_expect_true(ctx, "success of a reader's retrieve",
                        kvc_retrieve(ctx, reader, &asked, blocks, 0));
        kvc_expect_stamped(ctx, reader, &asked, blocks, 0);
        kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(reader, &err), &err);
    }
}
KVC_CHECK(
    reads_shared_chunks, .id = "ranks/shared-chunks",
    .clause = "MLA: chunks that one rank stored are retrieved by as many ranks as the lookup was "
              "made for, also when each leaves as soon as it has read.",
    .source = "protocol 4.6, 10.20, B24, B27",
    .exchange = "REGISTER, store, LOOKUP for n readers, (REGISTER, retrieve, UNREGISTER) x n",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
    .variants = world_sizes, .run = reads_shared_chunks);
