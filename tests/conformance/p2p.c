/* The P2P operations, which every server from 0.5.0 on answers: other servers ask them, and they tell
 * where a chunk lies and what locks it has. */
#include "tests/conformance/p2p_fixture.h"

/* Stored chunks, and how P2P names them. */
struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
    struct kvc_object_keys objects;
    int64_t shape[4];
    int64_t chunk_bytes;
};

static struct stored store_chunks(struct kvc_ctx *ctx, int64_t chunks)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_geometry *geometry = &worker->options.geometry;
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, chunks));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, chunks), 0);
    return (struct stored){
        .worker = worker,
        .key = key,
        .objects = kvc_object_keys(ctx, worker, &key),
        .shape = {2, geometry->groups[0].num_layers, worker->options.chunk_size,
                  kvc_group_hidden(&geometry->groups[0])},
        .chunk_bytes = kvc_geometry_chunk_bytes(geometry, worker->options.chunk_size),
    };
}

static int64_t lock(struct kvc_ctx *ctx, const struct stored *stored, struct kvc_object_keys keys)
{
    return kvc_p2p_lock(ctx, &stored->worker->rpc, keys, (struct kvc_ints){stored->shape, 4},
                        kvc_str_of(stored->worker->options.geometry.groups[0].dtype->name));
}

static void expect_present(struct kvc_ctx *ctx, const struct stored *stored,
                           struct kvc_object_address address)
{
    KVC_EXPECT(ctx, address.offset >= 0, "a stored chunk has offset %lld",
               (long long)address.offset);
    kvc_expect_int(ctx, "size of a stored chunk", address.size, stored->chunk_bytes);
}

static void expect_absent(struct kvc_ctx *ctx, struct kvc_object_address address)
{
    kvc_expect_int(ctx, "offset of a chunk that counts as absent", address.offset, -1);
    kvc_expect_int(ctx, "size of a chunk that counts as absent", address.size, 0);
}

static void finds_objects(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 3, MISSING = 1 };
    const struct stored stored = store_chunks(ctx, CHUNKS);
    struct kvc_object_key keys[CHUNKS];
    uint8_t no_hash[KVC_BLAKE3_SIZE] = {0};
    for (size_t i = 0; i < CHUNKS; i++)
        keys[i] = stored.objects.items[i];
    keys[MISSING].chunk_hash.data = no_hash;
    const struct kvc_object_keys asked = {keys, CHUNKS};
    const struct kvc_object_addresses found =
        kvc_p2p_addresses(ctx, &stored.worker->rpc, lock(ctx, &stored, asked));
    kvc_p2p_unlock(ctx, &stored.worker->rpc, asked);
    kvc_expect_int(ctx, "addresses of three objects", (int64_t)found.count, CHUNKS);
    expect_present(ctx, &stored, found.items[0]);
    expect_absent(ctx, found.items[MISSING]);
    if (kvc_ctx_has(ctx, KVC_FEATURE_P2P_GAPS))
        expect_present(ctx, &stored, found.items[2]);
    else
        expect_absent(ctx, found.items[2]);
}
KVC_CHECK(
    finds_objects, .id = "p2p/behind-a-gap",
    .clause =
        "P2P_LOOKUP_AND_LOCK finds stored chunks by their hashes, in the order of the keys: up to "
        "the first that is absent, or all that are there, as the dialect does it.",
    .source = "protocol 7.3, 7.4",
    .exchange = "REGISTER, store, P2P_LOOKUP_AND_LOCK, P2P_QUERY_LOOKUP_RESULTS, "
                "P2P_UNLOCK_OBJECTS",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_P2P, .paths = KVC_PATHS_ALL,
    .run = finds_objects);

static void gives_result_once(struct kvc_ctx *ctx)
{
    const struct stored stored = store_chunks(ctx, 1);
    const struct kvc_rpc *rpc = &stored.worker->rpc;
    const int64_t task = lock(ctx, &stored, stored.objects);
    kvc_p2p_addresses(ctx, rpc, task);
    kvc_p2p_unlock(ctx, rpc, stored.objects);
    const struct kvc_request again = {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .task_id = task};
    kvc_expect_true(ctx, "the answer to a second question for a task's result is void",
                    kvc_call(ctx, rpc, &again)->is_void);
    const struct kvc_request unknown = {.op = KVC_OP_P2P_QUERY_LOOKUP_RESULTS, .task_id = -7};
    kvc_expect_true(ctx, "the answer for a task that there never was is void",
                    kvc_call(ctx, rpc, &unknown)->is_void);
}
KVC_CHECK(
    gives_result_once, .id = "p2p/result-once",
    .clause =
        "The result of a P2P task is given once; afterwards, and for an unknown task, the answer "
        "is void.",
    .source = "protocol 7.4",
    .exchange = "REGISTER, store, P2P_LOOKUP_AND_LOCK, P2P_QUERY_LOOKUP_RESULTS x 3",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_P2P, .run = gives_result_once);

#define LOCKED "storage_manager.l1_manager.read_locked_count"

static void locks_objects(struct kvc_ctx *ctx)
{
    enum { CHUNKS = 2 };
    const struct stored stored = store_chunks(ctx, CHUNKS);
    const struct kvc_rpc *rpc = &stored.worker->rpc;
    const int64_t before = kvc_status_count(ctx, LOCKED);
    kvc_p2p_addresses(ctx, rpc, lock(ctx, &stored, stored.objects));
    kvc_expect_status_count(ctx, LOCKED, before + CHUNKS);
    kvc_p2p_unlock(ctx, rpc, stored.objects);
    kvc_expect_status_count(ctx, LOCKED, before);
}
KVC_CHECK(
    locks_objects, .id = "p2p/locks",
    .clause =
        "P2P_LOOKUP_AND_LOCK locks each object that it finds, and P2P_UNLOCK_OBJECTS unlocks them.",
    .source = "protocol 7.4, 8.1",
    .exchange = "REGISTER, store, P2P_LOOKUP_AND_LOCK, GET /status, P2P_UNLOCK_OBJECTS, GET "
                "/status",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_P2P | KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
    .run = locks_objects);

static void joins_groups(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_geometry *geometry = &options.geometry;
    geometry->groups[geometry->group_count++] = geometry->groups[0];
    geometry->groups[1].num_layers = 1;
    geometry->groups[1].num_heads = 3;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_worker *mapper = kvc_partner_worker(
        ctx, worker, KVC_PATH_ENGINE_DRIVEN,
        &(struct kvc_geometry){.groups = {geometry->groups[0]}, .group_count = 1});
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    const struct kvc_object_keys objects = kvc_object_keys(ctx, worker, &key);
    const int64_t shape[] = {2, 2, options.chunk_size, 16};
    const struct kvc_object_addresses found = kvc_p2p_addresses(
        ctx, &worker->rpc,
        kvc_p2p_lock(ctx, &worker->rpc, objects, (struct kvc_ints){shape, 4}, KVC_STR("float16")));
    const int64_t bytes = kvc_geometry_chunk_bytes(geometry, options.chunk_size);
    kvc_expect_int(ctx, "size of an object of two groups", found.items[0].size, bytes);
    KVC_EXPECT(ctx,
               found.items[0].offset >= 0 && found.items[0].offset <= mapper->pool_size - bytes,
               "the object lies at %lld in a pool of %lld bytes", (long long)found.items[0].offset,
               (long long)mapper->pool_size);
    const struct kvc_stamp_source source = {.seed = kvc_ctx_seed(ctx)};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the object holds one group behind the other",
                  kvc_stamp_check_chunk(geometry, source, 0, options.chunk_size,
                                        mapper->pool.data + found.items[0].offset, NULL, 0, &err),
                  &err);
    kvc_p2p_unlock(ctx, &worker->rpc, objects);
}
KVC_CHECK(
    joins_groups, .id = "p2p/groups-in-one-object",
    .clause =
        "The chunk of a worker with two groups of layers is one object: the groups' arrays one "
        "behind the other, without a gap.",
    .source = "protocol 5.1, 6.4, 7.4, B53, B55",
    .exchange = "REGISTER_KV_CACHE, STORE, P2P_LOOKUP_AND_LOCK, P2P_QUERY_LOOKUP_RESULTS",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_P2P | KVC_NEED_POOL,
    .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = joins_groups);
