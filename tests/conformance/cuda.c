/* KV caches on a GPU: what the server must do with device memory that it maps, and that every path carries
 * the bytes of device memory. */
#include "tests/conformance/transfer_fixture.h"

enum { CHUNKS = 2, LATE_MS = 250 };

#define ALL_LAYOUTS   (KVC_LAYOUT_BIT(KVC_LAYOUT_COUNT) - 1)
#define NEEDS_MAPPING (KVC_NEED_CUDA | KVC_NEED_LMCACHE_DRIVEN)

/* The whole cache is poison, on the GPU, too. */
static void poison(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    kvc_poison(worker);
    kvc_push(ctx, worker);
}

/* Two chunks go in and come out, into other blocks, and nothing else is written. */
static void expect_round_trip(struct kvc_ctx *ctx, struct kvc_worker *worker)
{
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const struct kvc_ints into = kvc_chunk_blocks(ctx, worker, CHUNKS);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    poison(ctx, worker);
    kvc_retrieve_stamped(ctx, worker, &key, into, 0);
    kvc_expect_untouched_except(ctx, worker, into);
}

static void round_trip(struct kvc_ctx *ctx)
{
    expect_round_trip(ctx, kvc_default_worker(ctx));
}
KVC_CHECK(round_trip, .id = "cuda/round-trip",
          .clause = "Chunks of every layout come back byte for byte to device memory.",
          .source = "protocol 3.6, 6.1, 6.2, B52", .exchange = "REGISTER, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_CUDA, .paths = KVC_PATHS_ALL,
          .layouts = ALL_LAYOUTS, .run = round_trip);

static void two_groups(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.geometry.groups[1] = options.geometry.groups[0];
    options.geometry.groups[1].num_heads = 3;
    options.geometry.groups[1].num_layers = 1;
    options.geometry.group_count = 2;
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(two_groups, .id = "cuda/two-groups",
          .clause = "Layers of two shapes in device memory are stored and retrieved together.",
          .source = "protocol 6.4, B53", .exchange = "REGISTER, STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .run = two_groups);

static void skips(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const int64_t per_chunk = kvc_blocks_per_chunk(worker), skipped = per_chunk + 1;
    const struct kvc_ints into = kvc_chunk_blocks(ctx, worker, CHUNKS);
    const struct kvc_ints written =
        kvc_ints_slice(into, (size_t)skipped, into.count - (size_t)skipped);
    const int64_t tokens = skipped * worker->options.geometry.groups[0].block_size;
    const struct kvc_key behind = kvc_key_window(&key, tokens, key.end);
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
    poison(ctx, worker);
    kvc_lookup(ctx, worker, &key);
    kvc_expect_true(ctx, "success of the retrieve", kvc_retrieve(ctx, worker, &key, into, tokens));
    kvc_expect_stamped(ctx, worker, &behind, written, 0);
    kvc_expect_untouched_except(ctx, worker, written);
}
KVC_CHECK(skips, .id = "cuda/skip",
          .clause =
              "A retrieve into device memory leaves the first tokens alone that it is told to "
              "skip.",
          .source = "protocol 4.14, B63", .exchange = "store, LOOKUP, retrieve with a skip",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_CUDA, .paths = KVC_PATHS_ALL, .run = skips);

static void other_device(struct kvc_ctx *ctx)
{
    struct kvc_worker *on_gpu = kvc_default_worker(ctx);
    struct kvc_worker template = *on_gpu;
    template.options.device = NULL;
    struct kvc_worker *on_cpu = kvc_sibling_worker(ctx, &template);
    struct kvc_worker *const pairs[][2] = {{on_gpu, on_cpu}, {on_cpu, on_gpu}};
    for (size_t i = 0; i < KVC_COUNT_OF(pairs); i++) {
        const struct kvc_key key = kvc_key_for(ctx, pairs[i][0], kvc_fresh_chunks(ctx, CHUNKS));
        const struct kvc_key again = kvc_key_renamed(ctx, &key);
        kvc_store_stamped(ctx, pairs[i][0], &key, kvc_chunk_blocks(ctx, pairs[i][0], CHUNKS), 0);
        kvc_retrieve_stamped(ctx, pairs[i][1], &again, kvc_chunk_blocks(ctx, pairs[i][1], CHUNKS),
                             0);
    }
}
KVC_CHECK(other_device, .id = "cuda/other-device",
          .clause = "Chunks stored from device memory are retrieved into memory of the host, and "
                    "the other way round.",
          .source = "protocol 5.1, 6.2", .exchange = "REGISTER x 2, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .run = other_device);

/* ---- where tensors lie ---- */

static void raw_handle(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.gpu_handle = KVC_GPU_RAW;
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(raw_handle, .id = "cuda/raw-handle",
          .clause = "Device memory may be named by its CUDA IPC handle alone, as workers do that "
                    "share no files with the server.",
          .source = "protocol 3.6, B46", .exchange = "REGISTER, STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .layouts = ALL_LAYOUTS,
          .run = raw_handle);

static void interior(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.gpu_handle = KVC_GPU_RAW;
    options.placement =
        kvc_ctx_variant_is(ctx, "in-one-allocation") ? KVC_CUDA_TOGETHER : KVC_CUDA_INSIDE;
    options.geometry.groups[0].num_layers = 3;
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(interior, .id = "cuda/interior-offset",
          .clause = "A tensor may lie anywhere in its allocation, and several in one: each is "
                    "mapped where alloc_offset says.",
          .source = "protocol 3.6, B46, N21, N26", .exchange = "REGISTER, STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_ALLOC_OFFSET, .needs = NEEDS_MAPPING,
          .variants = (const char *const[]){"behind-its-guard", "in-one-allocation", NULL},
          .run = interior);

static const struct {
    const char *variant;
    enum kvc_cuda_placement placement;
    enum kvc_gpu_handle handle;
} storages[] = {
    {"storage-in-allocation", KVC_CUDA_INSIDE, KVC_GPU_TORCH},
    {"storages-in-allocation", KVC_CUDA_TOGETHER, KVC_GPU_TORCH},
    {"tensor-in-storage", KVC_CUDA_INSIDE, KVC_GPU_TORCH_WHOLE},
    {"tensors-in-storage", KVC_CUDA_TOGETHER, KVC_GPU_TORCH_WHOLE},
};

static void torch_storage(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    for (size_t i = 0; i < KVC_COUNT_OF(storages); i++) {
        if (!kvc_ctx_variant_is(ctx, storages[i].variant))
            continue;
        options.placement = storages[i].placement;
        options.gpu_handle = storages[i].handle;
    }
    options.geometry.groups[0].num_layers = 3;
    expect_round_trip(ctx, kvc_open_worker(ctx, &options));
}
KVC_CHECK(torch_storage, .id = "cuda/torch-storage",
          .clause = "A storage that torch shares may lie anywhere in its allocation, and a tensor "
                    "anywhere in its storage: both offsets count.",
          .source = "protocol 3.6, B46, N26", .exchange = "REGISTER, STORE, LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING,
          .variants = (const char *const[]){"storage-in-allocation", "storages-in-allocation",
                                            "tensor-in-storage", "tensors-in-storage", NULL},
          .run = torch_storage);

/* ---- order ---- */

static void stored_after_event(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, CHUNKS));
    const struct kvc_ints from = kvc_chunk_blocks(ctx, worker, CHUNKS);
    const struct kvc_stamp_source source = {.seed = kvc_ctx_seed(ctx)};
    struct kvc_error err = KVC_ERROR_INIT;
    void *staging = NULL;
    poison(ctx, worker);
    kvc_stamp_blocks(&worker->paged, source, key.start, from.items, from.count);
    kvc_expect_ok(ctx, "starting a kernel that writes late",
                  kvc_cuda_cache_push_late(worker->on_gpu, LATE_MS, &staging, &err), &err);
    kvc_ctx_defer(ctx, kvc_device_cuda.free, staging);
    kvc_expect_true(ctx, "success of the store", kvc_store(ctx, worker, &key, from));
    kvc_expect_visible(ctx, worker, &key, CHUNKS);
    poison(ctx, worker);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, CHUNKS), 0);
}
KVC_CHECK(stored_after_event, .id = "cuda/stored-after-event",
          .clause = "STORE reads the blocks after the event that it was given, however late that "
                    "happens.",
          .source = "protocol 3.7, B49, B50, N04",
          .exchange = "REGISTER; a kernel that waits, then writes; STORE with the event behind it; "
                      "LOOKUP, RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .run = stored_after_event);

static void reply_event(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    for (int round = 0; round < 4; round++)
        expect_round_trip(ctx, worker);
}
KVC_CHECK(reply_event, .id = "cuda/reply-event",
          .clause = "The reply to STORE and RETRIEVE names an event that the worker can open and "
                    "wait for; after it the blocks are the worker's again.",
          .source = "protocol 3.7, B48, B51", .exchange = "REGISTER, (STORE, LOOKUP, RETRIEVE) x 4",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .run = reply_event);

/* ---- handles more than once ---- */

static void register_by_hand(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                             int64_t instance_id)
{
    struct kvc_request request;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "handles of the GPU's memory",
                  kvc_worker_registration(worker, kvc_ctx_arena(ctx), &request, &err), &err);
    request.instance_id = instance_id;
    kvc_call(ctx, &worker->rpc, &request);
}

static const char *const handle_names[] = {"torch", "raw", NULL};

/* A worker whose handles are those of the variant. */
static struct kvc_worker *open_with_handle(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.gpu_handle = kvc_ctx_variant_is(ctx, "raw") ? KVC_GPU_RAW : KVC_GPU_TORCH;
    return kvc_open_worker(ctx, &options);
}

static void opened_twice(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = open_with_handle(ctx);
    const struct kvc_request leave = {.op = KVC_OP_UNREGISTER_KV_CACHE,
                                      .instance_id = kvc_fresh_instance_id(ctx)};
    register_by_hand(ctx, worker, leave.instance_id);
    expect_round_trip(ctx, worker);
    kvc_call(ctx, &worker->rpc, &leave);
    expect_round_trip(ctx, worker);
}
KVC_CHECK(
    opened_twice, .id = "cuda/handle-opened-twice",
    .clause = "One handle may be registered for two instances; when one of them leaves, the "
              "other's memory stays mapped.",
    .source = "protocol 3.6, N21",
    .exchange = "REGISTER x 2 with the same handles, round trip, UNREGISTER of one, round trip "
                "by the other",
    .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .variants = handle_names, .run = opened_twice);

static void registered_again(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = open_with_handle(ctx);
    struct kvc_error err = KVC_ERROR_INIT;
    expect_round_trip(ctx, worker);
    kvc_expect_ok(ctx, "UNREGISTER", kvc_worker_unregister(worker, &err), &err);
    register_by_hand(ctx, worker, worker->options.instance_id);
    worker->registered = true;
    expect_round_trip(ctx, worker);
}
KVC_CHECK(registered_again, .id = "cuda/registered-again",
          .clause = "Device memory that was unregistered can be registered again by the same "
                    "handles.",
          .source = "protocol 4.2, B45, N21",
          .exchange = "REGISTER, round trip, UNREGISTER, REGISTER, round trip",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING, .variants = handle_names,
          .run = registered_again);

static void after_restart(struct kvc_ctx *ctx)
{
    struct kvc_worker *old = kvc_default_worker(ctx);
    expect_round_trip(ctx, old);
    kvc_ctx_end_server(ctx, KVC_END_KILL);
    kvc_ctx_start_server(ctx);
    expect_round_trip(ctx, kvc_open_worker(ctx, &old->options));
}
KVC_CHECK(after_restart, .id = "cuda/registered-after-restart",
          .clause = "When a server that was killed is back a worker registers its device memory "
                    "again, and what it stores comes back.",
          .source = "protocol 4.2, B45, B46, N21",
          .exchange = "REGISTER, round trip; the server is killed and starts; REGISTER, round trip",
          .level = KVC_LEVEL_MUST, .needs = NEEDS_MAPPING | KVC_NEED_RESTART,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .limit_ms = 180 * 1000,
          .run = after_restart);
