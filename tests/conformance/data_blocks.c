/* Which blocks a chunk is made of: in any order, named twice, larger than the tensor's own. */
#include <string.h>

#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

static const char *const orders[] = {"ascending", "descending", "odd-then-even", NULL};

/* As many blocks as `chunks` chunks have, block 0 not among them, in the order of the variant. */
static struct kvc_ints ordered_blocks(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                      int64_t chunks)
{
    const int64_t count = chunks * kvc_blocks_per_chunk(worker);
    int64_t *blocks = kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)count, sizeof *blocks);
    for (int64_t i = 0; i < count; i++) {
        if (kvc_ctx_variant_is(ctx, "ascending"))
            blocks[i] = 1 + i;
        else if (kvc_ctx_variant_is(ctx, "descending"))
            blocks[i] = count - i;
        else
            blocks[i] = i < (count + 1) / 2 ? 1 + 2 * i : 2 * (i - (count + 1) / 2 + 1);
    }
    return (struct kvc_ints){blocks, (size_t)count};
}

static void any_order(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints ordered = ordered_blocks(ctx, worker, 2);
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, worker, &key, ordered, 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    kvc_poison(worker);
    kvc_retrieve_stamped(ctx, worker, &again, ordered, 0);
    kvc_expect_untouched_except(ctx, worker, ordered);
}
KVC_CHECK(
    any_order, .id = "data/block-order",
    .clause = "The blocks of a store or a retrieve may come in any order, and the order counts.",
    .source = "protocol 4.13, 4.14, 6.2, B58",
    .exchange = "store from ordered blocks, retrieve into others, retrieve into ordered blocks",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = orders, .run = any_order);

static void retrieves_into_same_blocks(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    const struct kvc_ints once = kvc_chunk_blocks(ctx, worker, 1);
    int64_t *twice = kvc_arena_alloc_array(kvc_ctx_arena(ctx), 2 * once.count, sizeof *twice);
    memcpy(twice, once.items, once.count * sizeof *twice);
    memcpy(twice + once.count, once.items, once.count * sizeof *twice);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, worker, &key), 2);
    kvc_poison(worker);
    if (!kvc_retrieve(ctx, worker, &key, (struct kvc_ints){twice, 2 * once.count}, 0)) {
        kvc_expect_untouched(ctx, worker);
        return;
    }
    const struct kvc_key last = kvc_key_chunks(worker, &key, 1, 1);
    kvc_expect_stamped(ctx, worker, &last, once, 0);
    kvc_expect_untouched_except(ctx, worker, once);
}
KVC_CHECK(
    retrieves_into_same_blocks, .id = "data/same-blocks-retrieved-twice",
    .clause =
        "A retrieve that names the same blocks for two chunks is refused, or leaves the later "
        "chunk in them; no other block is written.",
    .source = "B58", .exchange = "store 2 chunks, LOOKUP, retrieve both into the same blocks",
    .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ALL, .run = retrieves_into_same_blocks);

static void every_boundary(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 9, AT_ONCE = 3 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t chunk_size = worker->options.chunk_size;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    for (int64_t first = 0; first < CHUNKS; first += AT_ONCE) {
        const struct kvc_key part = kvc_key_chunks(worker, &key, first, AT_ONCE);
        const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, AT_ONCE);
        kvc_stamp(ctx, worker, &part, blocks, 0);
        kvc_expect_true(ctx, "success of the store", kvc_store(ctx, worker, &part, blocks));
    }
    kvc_expect_visible(ctx, worker, &key, CHUNKS);
    for (int64_t count = chunk_size - 1; count <= CHUNKS * chunk_size; count++) {
        if ((count + 1) % chunk_size > 2)
            continue; /* one less, exact, one more */
        const struct kvc_key cut =
            kvc_key_for(ctx, worker, kvc_ints_slice(key.token_ids, 0, (size_t)count));
        kvc_expect_hits(ctx, worker, &cut, count / chunk_size);
    }
}
KVC_CHECK(
    every_boundary, .id = "lookup/every-boundary",
    .clause =
        "One token less than k chunks finds k - 1 of them, k chunks and one token more find k, for "
        "each k up to 9.",
    .source = "protocol 4.6, B59, N13", .exchange = "store 9 chunks, (LOOKUP, QUERY) x 26",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = every_boundary);

/* ---- groups ---- */

static void groups_are_no_slot(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_geometry *geometry = &options.geometry;
    const struct kvc_geometry one_group = *geometry;
    geometry->groups[geometry->group_count++] = geometry->groups[0];
    geometry->groups[1].num_heads = 1;
    struct kvc_worker *writer = kvc_open_worker(ctx, &options);
    struct kvc_worker *reader =
        kvc_partner_worker(ctx, writer, kvc_engine_driven_path(ctx), &one_group);
    const struct kvc_key key = kvc_key_for(ctx, writer, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, writer, &key, kvc_chunk_blocks(ctx, writer, 1), 0);
    kvc_lookup(ctx, reader, &key);
    const struct kvc_request read = kvc_transfer_request(KVC_OP_PREPARE_RETRIEVE, reader, &key);
    kvc_expect_false(ctx, "success of PREPARE_RETRIEVE of a chunk of two groups",
                     kvc_succeeds(ctx, reader, &read));
}
KVC_CHECK(
    groups_are_no_slot, .id = "data/groups-are-no-slot",
    .clause =
        "A chunk of two groups of layers is not given to an engine-driven worker, whose slots have "
        "one shape.",
    .source = "protocol 4.12, 6.4, B53",
    .exchange = "REGISTER_KV_CACHE, STORE; REGISTER_ENGINE_DRIVEN, LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_ENGINE_DRIVEN,
    .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = groups_are_no_slot);

/* ---- block ids that stand for more than the tensor's blocks ---- */

/* Registers with blocks of twice the tokens that the tensors have slots for. */
static void register_compressed(struct kvc_ctx *ctx, const struct kvc_worker_options *options,
                                const struct kvc_paged *paged)
{
    struct kvc_request request = kvc_registration(ctx, options, paged);
    struct kvc_engine_group_info group = request.groups.items[0];
    group.tokens_per_block *= 2;
    request.groups.items = &group;
    kvc_call(ctx, kvc_ctx_rpc(ctx), &request);
}

static void takes_wide_blocks(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    const struct kvc_worker *model = kvc_default_worker(ctx); /* for keys and calls */
    options.model_name = model->options.model_name;
    struct kvc_paged *paged = kvc_shared_cache(ctx, &options.geometry);
    register_compressed(ctx, &options, paged);
    const struct kvc_key key = kvc_key_for(ctx, model, kvc_fresh_chunks(ctx, 1));
    const size_t ids = (size_t)kvc_blocks_per_chunk(model) / 2;
    const struct kvc_ints from = kvc_ints_slice(kvc_chunk_blocks(ctx, model, 1), 0, ids);
    const struct kvc_ints into = kvc_ints_slice(kvc_chunk_blocks(ctx, model, 1), 0, ids);
    const struct kvc_stamp_source source = {.seed = kvc_ctx_seed(ctx)};
    struct kvc_request store = kvc_blocks_request(ctx, KVC_OP_STORE, model, &key, from);
    struct kvc_request retrieve = kvc_blocks_request(ctx, KVC_OP_RETRIEVE, model, &key, into);
    store.instance_id = retrieve.instance_id = options.instance_id;
    kvc_stamp_blocks(paged, source, 0, from.items, from.count);
    kvc_expect_true(ctx, "success of STORE", kvc_call(ctx, &model->rpc, &store)->transfer.success);
    struct kvc_worker finder = *model;
    kvc_expect_visible(ctx, &finder, &key, 1);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, &finder, &key), 1);
    kvc_paged_fill(paged, KVC_POISON);
    kvc_expect_true(ctx, "success of RETRIEVE",
                    kvc_call(ctx, &model->rpc, &retrieve)->transfer.success);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the retrieved bytes are those that were stored",
                  kvc_stamp_check_blocks(paged, source, 0, into.items, into.count, NULL, 0, &err),
                  &err);
}
KVC_CHECK(
    takes_wide_blocks, .id = "registration/wide-blocks",
    .clause =
        "A block id may stand for a multiple of the tokens that the tensor has slots for; a chunk "
        "then has that many fewer ids.",
    .source = "protocol 3.5, 6.3",
    .exchange = "REGISTER_KV_CACHE with tokens_per_block twice the slots, STORE, LOOKUP, RETRIEVE",
    .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = takes_wide_blocks);
