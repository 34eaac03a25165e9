/* Joining and leaving: what registration gives, what a second one does, what remains. */
#include "src/kv/segment.h"
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* Stores one chunk and reads it back into other blocks. */
static void expect_round_trip(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
}

/* ---- the pool that registration names ---- */

static struct kvc_request engine_driven_registration(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.mode = KVC_MODE_ENGINE_DRIVEN;
    return kvc_registration(ctx, &options, NULL);
}

static void close_segment(void *segment)
{
    kvc_segment_close(segment);
}

static void expect_pool_exists(struct kvc_ctx *ctx, struct kvc_pool_info pool)
{
    const struct kvc_str name = kvc_arena_copy_str(kvc_ctx_arena(ctx), pool.shm_name);
    struct kvc_segment *segment = kvc_arena_alloc(kvc_ctx_arena(ctx), sizeof *segment);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_ctx_defer(ctx, close_segment, segment);
    kvc_expect_ok(ctx, "opening the pool that registration names",
                  kvc_segment_open(name.data, (size_t)pool.pool_size, segment, &err), &err);
}

/* Has no needs: the runner counts a server whose pool cannot be opened among those without one. */
static void says_the_truth_of_pool(struct kvc_ctx *ctx)
{
    const struct kvc_request request = engine_driven_registration(ctx);
    struct kvc_reply *reply;
    if (!kvc_try_call(ctx, kvc_ctx_rpc(ctx), &request, &reply))
        kvc_ctx_skip(ctx, "the server does not answer engine-driven registrations");
    const struct kvc_pool_info pool = reply->pool;
    if (pool.shm_name.size == 0) {
        kvc_expect_int(ctx, "pool_size without a pool", pool.pool_size, 0);
        return;
    }
    KVC_EXPECT(ctx, pool.pool_size > 0, "registration names the pool " KVC_STR_FMT " of %lld bytes",
               KVC_STR_ARG(pool.shm_name), (long long)pool.pool_size);
    expect_pool_exists(ctx, pool);
}
KVC_CHECK(
    says_the_truth_of_pool, .id = "registration/pool",
    .clause = "Registration names a pool that can be opened and is as large as it says, or no "
              "name and size 0.",
    .source = "protocol 4.3, 5, 5.2, B64", .exchange = "REGISTER_ENGINE_DRIVEN, shm_open, fstat",
    .level = KVC_LEVEL_MUST, .run = says_the_truth_of_pool);

static void names_no_pool(struct kvc_ctx *ctx)
{
    const struct kvc_request request = engine_driven_registration(ctx);
    const struct kvc_pool_info pool = kvc_call(ctx, kvc_ctx_rpc(ctx), &request)->pool;
    kvc_expect_str(ctx, "the pool's name where there is none", pool.shm_name, "");
    kvc_expect_int(ctx, "pool_size without a pool", pool.pool_size, 0);
}
KVC_CHECK(names_no_pool, .id = "registration/no-pool",
          .clause = "A server without a pool answers a registration with no name and size 0.",
          .source = "protocol 4.3, 5.2, B64", .exchange = "REGISTER_ENGINE_DRIVEN",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = names_no_pool);

static const char *const slot_counts[] = {"nil", "100", "chunk-size-plus-1", NULL};

static void uses_physical_slots(struct kvc_ctx *ctx)
{
    const int64_t chunk_size = kvc_ctx_facts(ctx)->chunk_size;
    const struct kvc_optional_int asked[] = {KVC_NIL_INT, KVC_SOME_INT(100),
                                             KVC_SOME_INT(chunk_size + 1)};
    const int64_t expected[] = {chunk_size, 100, chunk_size + 1};
    const size_t variant = kvc_variant_index(ctx);
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_registration(ctx, &options, NULL);
    request.engine_driven.num_physical_slots = asked[variant];
    kvc_call(ctx, &worker->rpc, &request);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_request prepare = kvc_transfer_request(KVC_OP_PREPARE_STORE, worker, &key);
    prepare.instance_id = options.instance_id;
    const struct kvc_slots slots = kvc_call(ctx, &worker->rpc, &prepare)->context.slots;
    kvc_expect_int(ctx, "slots for one chunk", (int64_t)slots.count, 1);
    kvc_expect_int(ctx, "dimensions of the slot", (int64_t)slots.items[0].shape.count, 4);
    kvc_expect_int(ctx, "tokens in the slot's shape", slots.items[0].shape.items[2],
                   expected[variant]);
}
KVC_CHECK(
    uses_physical_slots, .id = "registration/physical-slots",
    .clause = "num_physical_slots takes the place of the chunk size in the slots of an instance.",
    .source = "protocol 4.3", .exchange = "REGISTER_ENGINE_DRIVEN, PREPARE_STORE",
    .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_PHYSICAL_SLOTS,
    .needs = KVC_NEED_POOL | KVC_NEED_ENGINE_DRIVEN, .variants = slot_counts,
    .run = uses_physical_slots);

/* ---- the same instance again ---- */

static void accepts_repetition(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_request again = kvc_registration(ctx, &worker->options, &worker->paged);
    const struct kvc_reply *reply = kvc_call(ctx, &worker->rpc, &again);
    if (worker->path == KVC_PATH_ENGINE_DRIVEN) {
        kvc_expect_str(ctx, "shm_name of the repeated registration", reply->pool.shm_name,
                       worker->pool_name);
        kvc_expect_int(ctx, "pool_size of the repeated registration", reply->pool.pool_size,
                       worker->pool_size);
    }
    expect_round_trip(ctx, worker);
}
KVC_CHECK(accepts_repetition, .id = "registration/repeated",
          .clause = "A registration that is repeated word for word gets the same answer, and the "
                    "instance goes on working.",
          .source = "protocol 4.2, 4.3", .exchange = "REGISTER x 2, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = accepts_repetition);

/* Registers a living instance with other options: that is refused, or holds from then on. Both
 * workers hold stamps in the blocks that are stored, so that the reader sees whose were taken. */
static void expect_replaced_or_refused(struct kvc_ctx *ctx, struct kvc_worker *first,
                                       const struct kvc_worker_options *options)
{
    struct kvc_worker *second = kvc_try_worker(ctx, options);
    if (second == NULL)
        return;
    const struct kvc_key key = kvc_key_for(ctx, second, kvc_fresh_chunks(ctx, 1));
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, second, 1);
    kvc_stamp(ctx, first, &key, blocks, 0);
    kvc_stamp(ctx, second, &key, blocks, 1);
    if (!kvc_store(ctx, second, &key, blocks))
        return;
    struct kvc_worker *reader = kvc_sibling_worker(ctx, second);
    kvc_expect_visible(ctx, reader, &key, 1);
    kvc_retrieve_stamped(ctx, reader, &key, kvc_chunk_blocks(ctx, reader, 1), 1);
}

static const char *const other_geometries[] = {"more-layers", "wider-heads", "wider-dtype", NULL};

static void replaces_geometry(struct kvc_ctx *ctx)
{
    struct kvc_worker *first = kvc_default_worker(ctx);
    struct kvc_worker_options options = first->options;
    struct kvc_group *group = &options.geometry.groups[0];
    if (kvc_ctx_variant_is(ctx, "more-layers"))
        group->num_layers *= 2;
    else if (kvc_ctx_variant_is(ctx, "wider-heads"))
        group->head_size *= 2;
    else
        group->dtype = kvc_dtype_find(KVC_STR("float32"));
    expect_replaced_or_refused(ctx, first, &options);
}
KVC_CHECK(replaces_geometry, .id = "registration/other-geometry",
          .clause = "Registering a living instance with another geometry is refused, or the new "
                    "geometry is used from then on.",
          .source = "protocol 4.2, 4.3, B22",
          .exchange = "REGISTER x 2, store; REGISTER of another instance, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = other_geometries,
          .run = replaces_geometry);

static void replaces_memory(struct kvc_ctx *ctx)
{
    struct kvc_worker *first = kvc_default_worker(ctx);
    expect_replaced_or_refused(ctx, first, &first->options);
}
KVC_CHECK(replaces_memory, .id = "registration/other-memory",
          .clause =
              "Registering a living instance with other tensors is refused, or the new tensors "
              "are used from then on.",
          .source = "protocol 4.2, B21, B22",
          .exchange = "REGISTER x 2, store; REGISTER of another instance, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = replaces_memory);

/* ---- instance ids ---- */

static const char *const id_ranges[] = {"negative", "two-40", "two-62", NULL};

static void takes_wide_ids(struct kvc_ctx *ctx)
{
    const int64_t fresh = kvc_fresh_instance_id(ctx);
    const int64_t ids[] = {-fresh, fresh + (1ll << 40), fresh + (1ll << 62)};
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.instance_id = ids[kvc_variant_index(ctx)];
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(takes_wide_ids, .id = "registration/instance-id-range",
          .clause = "An instance id may be any 64-bit integer.", .source = "protocol 4.3",
          .exchange = "REGISTER, store, LOOKUP, retrieve", .level = KVC_LEVEL_OBSERVED,
          .paths = KVC_PATHS_ALL, .variants = id_ranges, .run = takes_wide_ids);

static void keeps_modes_apart(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.mode = KVC_MODE_ENGINE_DRIVEN;
    struct kvc_worker *engine_driven = kvc_open_worker(ctx, &options);
    options.mode = KVC_MODE_LMCACHE_DRIVEN;
    options.model_name = kvc_fresh_name(ctx, "model");
    struct kvc_worker *lmcache_driven = kvc_open_worker(ctx, &options);
    expect_round_trip(ctx, engine_driven);
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(engine_driven, &err), &err);
    expect_round_trip(ctx, lmcache_driven);
}
KVC_CHECK(
    keeps_modes_apart, .id = "registration/one-id-in-two-modes",
    .clause = "One number may be an instance in both transfer modes, and each leaves for itself.",
    .source = "protocol 4.1",
    .exchange = "REGISTER in both modes, store and retrieve, UNREGISTER one, store and retrieve",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_ENGINE_DRIVEN | KVC_NEED_LMCACHE_DRIVEN,
    .run = keeps_modes_apart);

static void outlives_segment_names(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    for (size_t i = 0; i < worker->paged.tensor_count; i++)
        kvc_segment_unlink(&worker->paged.tensors[i].segment);
    expect_round_trip(ctx, worker);
}
KVC_CHECK(
    outlives_segment_names, .id = "registration/unlinked-segments",
    .clause = "Tensors are mapped when the registration is answered: the worker may then remove "
              "the segments' names.",
    .source = "protocol 3.6", .exchange = "REGISTER, shm_unlink, store, LOOKUP, retrieve",
    .level = KVC_LEVEL_MUST, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = outlives_segment_names);
