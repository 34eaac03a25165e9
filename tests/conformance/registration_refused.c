/* Registrations that a server must not accept, and that leave it as it was. */
#include "tests/conformance/registration_fixture.h"
#include "tests/conformance/transfer_fixture.h"

static const char *const bad_dtype_names[] = {"torch-prefix", "unknown", "empty", NULL};
static const struct kvc_str bad_dtypes[] = {{"torch.float16", 13}, {"float17", 7}, {"", 0}};

static void refuses_bad_dtype(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_registration(ctx, &options, NULL);
    request.engine_driven.dtype_str = bad_dtypes[kvc_variant_index(ctx)];
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request, "an element type that does not exist");
}
KVC_CHECK(refuses_bad_dtype, .id = "registration/bad-dtype",
          .clause = "An engine-driven registration whose element type is no bare torch name is not "
                    "answered.",
          .source = "protocol 3.2, 4.3", .exchange = "REGISTER_ENGINE_DRIVEN, NOOP",
          .level = KVC_LEVEL_SHOULD, .paths = KVC_PATHS_ENGINE_DRIVEN, .variants = bad_dtype_names,
          .run = refuses_bad_dtype);

static void allows_retry(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_fresh_registration(ctx, &options);
    request.engine_driven.dtype_str = KVC_STR("float17");
    if (request.op == KVC_OP_REGISTER_KV_CACHE)
        kvc_own_handles(ctx, &request)->dtype = KVC_STR("float17");
    struct kvc_reply *reply;
    if (kvc_try_call(ctx, kvc_ctx_rpc(ctx), &request, &reply))
        kvc_ctx_skip(ctx, "the server accepts the registration that it should refuse");
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 1), 0);
}
KVC_CHECK(allows_retry, .id = "registration/retry",
          .clause = "After a registration that was refused the same instance can register rightly.",
          .source = "protocol 4.2",
          .exchange = "REGISTER with a bad dtype, REGISTER, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = allows_retry);

/* ---- handles ---- */

static const char *const bad_handles[] = {"none",
                                          "missing-segment",
                                          "longer-than-segment",
                                          "view-beyond-bytes",
                                          "negative-bytes",
                                          "unknown-dtype",
                                          NULL};

/* Changes the last handle, so that a server that stops half way is seen. */
static void spoil_handles(struct kvc_ctx *ctx, struct kvc_request *registration)
{
    struct kvc_tensor_handle *last =
        &kvc_own_handles(ctx, registration)[registration->handles.count - 1];
    if (kvc_ctx_variant_is(ctx, "none")) {
        registration->handles = (struct kvc_tensor_handles){0};
    } else if (kvc_ctx_variant_is(ctx, "missing-segment")) {
        last->shm_name = KVC_STR("/kvconform-no-such-segment");
    } else if (kvc_ctx_variant_is(ctx, "longer-than-segment")) {
        last->nbytes += 1 << 20;
    } else if (kvc_ctx_variant_is(ctx, "view-beyond-bytes")) {
        last->storage_offset = 1;
    } else if (kvc_ctx_variant_is(ctx, "negative-bytes")) {
        last->nbytes = -1;
    } else {
        last->dtype = KVC_STR("float17");
    }
}

static void refuses_bad_handles(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_fresh_registration(ctx, &options);
    spoil_handles(ctx, &request);
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request, "handles that cannot be mapped");
}
KVC_CHECK(refuses_bad_handles, .id = "registration/bad-handles",
          .clause =
              "A registration with a tensor that is not there, ends behind its memory, or has an "
              "unknown element type is not answered.",
          .source = "protocol 3.6, 4.2, N23", .exchange = "REGISTER_KV_CACHE, NOOP",
          .level = KVC_LEVEL_SHOULD, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = bad_handles, .run = refuses_bad_handles);

static const char *const bad_engine_names[] = {"unknown", "upper-case", "empty", "sglang",
                                               "trtllm",  "mock",       "atom",  NULL};
static const struct kvc_str bad_engines[] = {
    {"kvconform", 9}, {"VLLM", 4}, {"", 0}, {"sglang", 6}, {"trtllm", 6}, {"mock", 4}, {"atom", 4}};

static void refuses_bad_engine(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_fresh_registration(ctx, &options);
    request.engine_type = bad_engines[kvc_variant_index(ctx)];
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request, "an engine that does not exist");
}
KVC_CHECK(refuses_bad_engine, .id = "registration/bad-engine",
          .clause =
              "A registration that names no known engine, in lower case, or one whose tensors look "
              "otherwise, is not answered.",
          .source = "protocol 3.5, 4.2", .exchange = "REGISTER_KV_CACHE, NOOP",
          .level = KVC_LEVEL_OBSERVED, .paths = 1u << KVC_PATH_LMCACHE_DRIVEN,
          .variants = bad_engine_names, .run = refuses_bad_engine);

static const char *const bad_groups[] = {"layer-out-of-range", "split-block", NULL};

static void refuses_bad_group(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_fresh_registration(ctx, &options);
    struct kvc_engine_group_info group = request.groups.items[0];
    const int64_t layers[] = {0, options.geometry.groups[0].num_layers};
    if (kvc_ctx_variant_is(ctx, "layer-out-of-range"))
        group.layer_indices = (struct kvc_ints){layers, 2};
    else
        group.tokens_per_block += 1;
    request.groups.items = &group;
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request, "a group that does not fit the tensors");
}
KVC_CHECK(
    refuses_bad_group, .id = "registration/bad-group",
    .clause = "A registration with a layer that has no tensor, or with blocks that are no whole "
              "number of the tensor's, is not answered.",
    .source = "protocol 4.2, 6.3", .exchange = "REGISTER_KV_CACHE, NOOP", .level = KVC_LEVEL_SHOULD,
    .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .variants = bad_groups, .run = refuses_bad_group);

static const char *const bad_world_names[] = {"zero", "negative", NULL};
static const int64_t bad_worlds[] = {0, -1};

static void refuses_bad_world(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.world_size = bad_worlds[kvc_variant_index(ctx)];
    const struct kvc_request request = kvc_fresh_registration(ctx, &options);
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request,
                       "a model that runs on less than one worker");
}
KVC_CHECK(refuses_bad_world, .id = "registration/bad-world",
          .clause = "A registration for a world of less than one worker is not answered.",
          .source = "protocol 4.2, 4.3", .exchange = "REGISTER, NOOP", .level = KVC_LEVEL_SHOULD,
          .paths = KVC_PATHS_ALL, .variants = bad_world_names, .run = refuses_bad_world);

static void refuses_no_slots(struct kvc_ctx *ctx)
{
    const struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_request request = kvc_registration(ctx, &options, NULL);
    request.engine_driven.num_physical_slots = KVC_SOME_INT(0);
    kvc_expect_silence(ctx, kvc_ctx_rpc(ctx), &request, "no slots at all");
}
KVC_CHECK(refuses_no_slots, .id = "registration/no-physical-slots",
          .clause = "A registration with num_physical_slots 0 is not answered.",
          .source = "protocol 4.3", .exchange = "REGISTER_ENGINE_DRIVEN, NOOP",
          .level = KVC_LEVEL_OBSERVED, .features = KVC_FEATURE_PHYSICAL_SLOTS,
          .needs = KVC_NEED_ENGINE_DRIVEN, .run = refuses_no_slots);
