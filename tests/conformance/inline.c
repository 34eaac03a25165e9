/* Where no pool is offered the bytes travel in the message: what COMMIT_STORE takes, and what
 * PREPARE_RETRIEVE gives. */
#include "src/wire/inline_data.h"
#include "tests/conformance/transfer_fixture.h"

/* ---- payloads ---- */

/* A chunk of the key with the stamps of a request, in the shape and dtype of the worker's. */
static struct kvc_inline_tensor chunk_tensor(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                             const struct kvc_key *key, int64_t chunk,
                                             uint64_t request)
{
    struct kvc_arena *arena = kvc_ctx_arena(ctx);
    const struct kvc_group *group = &worker->options.geometry.groups[0];
    const int64_t chunk_size = worker->options.chunk_size;
    const size_t size = (size_t)kvc_group_chunk_bytes(group, chunk_size);
    const struct kvc_stamp_source source = {.seed = kvc_ctx_seed(ctx), .request = request};
    uint8_t *bytes = kvc_arena_alloc(arena, size);
    kvc_stamp_chunk(&worker->options.geometry, source, key->start + chunk * chunk_size, chunk_size,
                    bytes);
    int64_t *shape = kvc_arena_alloc_array(arena, 4, sizeof *shape);
    shape[0] = group->kv_size;
    shape[1] = group->num_layers;
    shape[2] = chunk_size;
    shape[3] = kvc_group_hidden(group);
    const struct kvc_ints all = {shape, 4};
    return (struct kvc_inline_tensor){.dtype = kvc_str_of(group->dtype->name),
                                      .shape =
                                          group->kv_size == 1 ? kvc_ints_slice(all, 1, 3) : all,
                                      .data = {bytes, size}};
}

/* All chunks of the key's window. */
static struct kvc_inline_tensor *chunk_tensors(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                               const struct kvc_key *key, uint64_t request)
{
    const int64_t chunks = (key->end - key->start) / worker->options.chunk_size;
    struct kvc_inline_tensor *tensors =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)chunks, sizeof *tensors);
    for (int64_t i = 0; i < chunks; i++)
        tensors[i] = chunk_tensor(ctx, worker, key, i, request);
    return tensors;
}

typedef kvc_status encode_func(const struct kvc_inline_tensor *tensors, size_t count,
                               struct kvc_buffer *out, struct kvc_error *err);

static struct kvc_request commit_request(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                                         const struct kvc_key *key, encode_func *encode,
                                         const struct kvc_inline_tensor *tensors, size_t count)
{
    struct kvc_buffer data = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    const kvc_status status = encode(tensors, count, &data, &err);
    const struct kvc_str copy = kvc_arena_copy_str(
        kvc_ctx_arena(ctx), (struct kvc_str){(const char *)data.data, data.size});
    kvc_buffer_clear(&data);
    kvc_expect_ok(ctx, "encoding the data of COMMIT_STORE", status, &err);
    struct kvc_request request = kvc_transfer_request(KVC_OP_COMMIT_STORE, worker, key);
    request.data = (struct kvc_bytes){(const uint8_t *)copy.data, copy.size};
    return request;
}

/* What COMMIT_STORE answers to these tensors. */
static bool commit(struct kvc_ctx *ctx, const struct kvc_worker *worker, const struct kvc_key *key,
                   const struct kvc_inline_tensor *tensors, size_t count)
{
    const struct kvc_request request =
        commit_request(ctx, worker, key, kvc_inline_encode_numpy, tensors, count);
    return kvc_call(ctx, &worker->rpc, &request)->ok;
}

/* A right commit of the same chunks says true, and they come back. */
static void expect_storable(struct kvc_ctx *ctx, struct kvc_worker *worker,
                            const struct kvc_key *key)
{
    const struct kvc_key again = kvc_key_renamed(ctx, key);
    const int64_t chunks = (key->end - key->start) / worker->options.chunk_size;
    kvc_expect_true(
        ctx, "the answer of a right COMMIT_STORE",
        commit(ctx, worker, &again, chunk_tensors(ctx, worker, &again, 0), (size_t)chunks));
    kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, chunks), 0);
}

/* ---- storing ---- */

static void prepare_gives_no_slots(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_transfer_context *context = kvc_prepare_store(ctx, worker, &key);
    kvc_expect_false(ctx, "the presence of slots in PREPARE_STORE's answer", context->has_slots);
    kvc_expect_false(ctx, "the presence of chunk_indices in PREPARE_STORE's answer",
                     context->has_chunk_indices);
}

KVC_CHECK(prepare_gives_no_slots, .id = "inline/prepare-gives-no-slots",
          .clause = "Where no pool is offered PREPARE_STORE answers with an empty context.",
          .source = "protocol 3.3, 4.11, B64", .exchange = "PREPARE_STORE", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN, .run = prepare_gives_no_slots);

static void either_form(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    encode_func *encode =
        kvc_ctx_variant_is(ctx, "torch") ? kvc_inline_encode_torch : kvc_inline_encode_numpy;
    const struct kvc_request request =
        commit_request(ctx, worker, &key, encode, chunk_tensors(ctx, worker, &key, 0), 2);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", kvc_call(ctx, &worker->rpc, &request)->ok);
    kvc_expect_hits(ctx, worker, &key, 2);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
}

KVC_CHECK(
    either_form, .id = "inline/either-form",
    .clause = "COMMIT_STORE takes tensors as torch pickles them, and tensors built through numpy.",
    .source = "protocol 3.8", .exchange = "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
    .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_NHD) | KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
    .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
    .variants = (const char *const[]){"numpy", "torch", NULL}, .run = either_form);

static void megabytes(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.geometry.groups[0].num_heads = 16;
    options.geometry.groups[0].head_size = 64;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3), 0);
    kvc_retrieve_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 3), 0);
}

KVC_CHECK(megabytes, .id = "inline/megabytes",
          .clause = "Messages of several megabytes arrive whole, both ways.",
          .source = "protocol 1.1", .exchange = "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = megabytes);

static void beside_a_pool(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_worker *sender =
        kvc_partner_worker(ctx, worker, KVC_PATH_ENGINE_DRIVEN_INLINE, &worker->options.geometry);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_key again = kvc_key_renamed(ctx, &key);
    kvc_store_stamped(ctx, sender, &key, kvc_chunk_blocks(ctx, sender, 2), 0);
    kvc_retrieve_stamped(ctx, worker, &again, kvc_chunk_blocks(ctx, worker, 2), 0);
}

KVC_CHECK(
    beside_a_pool, .id = "inline/beside-a-pool",
    .clause = "A server that offers a pool also takes a COMMIT_STORE that brings its bytes along.",
    .source = "protocol 4.10, 5.2",
    .exchange = "COMMIT_STORE with data; from another instance: LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_POOL, .run = beside_a_pool);

/* ---- payloads that are not right ---- */

/* Two chunks, the second of which has another shape. */
static void give_wrong_shape(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                             struct kvc_inline_tensor *tensor)
{
    int64_t *shape = kvc_arena_alloc_array(kvc_ctx_arena(ctx), 4, sizeof *shape);
    for (size_t i = 0; i < tensor->shape.count; i++)
        shape[i] = tensor->shape.items[i];
    const size_t last = tensor->shape.count - 1;
    tensor->shape.items = shape;
    if (kvc_ctx_variant_is(ctx, "one-dimension")) {
        shape[0] = (int64_t)(tensor->data.size / worker->options.geometry.groups[0].dtype->size);
        tensor->shape.count = 1;
    } else if (kvc_ctx_variant_is(ctx, "axes-exchanged")) {
        shape[last] = tensor->shape.items[last - 1];
        shape[last - 1] = kvc_group_hidden(&worker->options.geometry.groups[0]);
    } else {
        shape[last] /= 2;
        tensor->data.size /= 2;
    }
}

static void wrong_shape(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_inline_tensor *tensors = chunk_tensors(ctx, worker, &key, 0);
    give_wrong_shape(ctx, worker, &tensors[0]);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE", commit(ctx, worker, &key, tensors, 2));
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(wrong_shape, .id = "inline/wrong-shape",
          .clause =
              "COMMIT_STORE of a tensor of another shape than registered answers false, and that "
              "chunk is no hit.",
          .source = "protocol 4.11, B33, B53", .exchange = "COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .variants = (const char *const[]){"one-dimension", "axes-exchanged", "half", NULL},
          .run = wrong_shape);

static void wrong_dtype(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_inline_tensor *tensors = chunk_tensors(ctx, worker, &key, 0);
    const bool is_half = kvc_str_is(tensors[0].dtype, "float16");
    tensors[0].dtype = kvc_str_of(is_half ? "bfloat16" : "float16");
    kvc_expect_false(ctx, "the answer of COMMIT_STORE", commit(ctx, worker, &key, tensors, 2));
    kvc_expect_hits(ctx, worker, &key, 0);
}

KVC_CHECK(wrong_dtype, .id = "inline/wrong-dtype",
          .clause = "COMMIT_STORE of a tensor of another dtype than registered answers false, and "
                    "that chunk is no hit: it could not come back as it was given.",
          .source = "protocol 4.11, B33", .exchange = "COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .dtypes = (const char *const[]){"float16", "bfloat16", NULL}, .run = wrong_dtype);

static void too_few_tensors(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const size_t given = kvc_ctx_variant_is(ctx, "none") ? 0 : 2;
    const struct kvc_inline_tensor *tensors = chunk_tensors(ctx, worker, &key, 0);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE", commit(ctx, worker, &key, tensors, given));
    const int64_t hits = kvc_peek(ctx, worker, &key);
    KVC_EXPECT(ctx, hits <= (int64_t)given, "LOOKUP finds %lld chunks, %zu were given",
               (long long)hits, given);
}

KVC_CHECK(too_few_tensors, .id = "inline/too-few-tensors",
          .clause =
              "COMMIT_STORE with fewer tensors than chunks answers false, and what was not given "
              "is no hit.",
          .source = "protocol 4.11, B33", .exchange = "COMMIT_STORE, LOOKUP",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .variants = (const char *const[]){"one-less", "none", NULL}, .run = too_few_tensors);

static void works_after_a_bad_commit(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    struct kvc_inline_tensor *tensors = chunk_tensors(ctx, worker, &key, 0);
    const size_t given = kvc_ctx_variant_is(ctx, "too-few-tensors") ? 1 : 2;
    if (given == 2)
        give_wrong_shape(ctx, worker, &tensors[1]);
    kvc_expect_false(ctx, "the answer of COMMIT_STORE", commit(ctx, worker, &key, tensors, given));
    expect_storable(ctx, worker, &key);
}

KVC_CHECK(
    works_after_a_bad_commit, .id = "inline/works-after-a-bad-commit",
    .clause = "After a COMMIT_STORE that answered false the same chunks can be stored at once.",
    .source = "protocol 4.11, B33",
    .exchange = "COMMIT_STORE (bad), COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
    .variants = (const char *const[]){"wrong-shape", "too-few-tensors", NULL},
    .run = works_after_a_bad_commit);

static void too_many_tensors(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_key two = kvc_key_chunks(worker, &key, 0, 2);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE",
                    commit(ctx, worker, &two, chunk_tensors(ctx, worker, &key, 0), 3));
    kvc_expect_hits(ctx, worker, &key, 2);
    kvc_retrieve_stamped(ctx, worker, &two, kvc_chunk_blocks(ctx, worker, 2), 0);
}

KVC_CHECK(too_many_tensors, .id = "inline/too-many-tensors",
          .clause =
              "COMMIT_STORE with more tensors than chunks stores the chunks and leaves the rest "
              "alone.",
          .source = "protocol 4.11", .exchange = "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = too_many_tensors);

static void undecodable(struct kvc_ctx *ctx)
{
    static const uint8_t garbage[] = {0xff, 0x00, 0x80, 0x04, 0x13, 0x37};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    struct kvc_request request = commit_request(ctx, worker, &key, kvc_inline_encode_numpy,
                                                chunk_tensors(ctx, worker, &key, 0), 1);
    if (kvc_ctx_variant_is(ctx, "empty"))
        request.data.size = 0;
    else if (kvc_ctx_variant_is(ctx, "garbage"))
        request.data = (struct kvc_bytes){garbage, sizeof garbage};
    else
        request.data.size /= 2;
    kvc_expect_silence(ctx, &worker->rpc, &request, "the data are no list of tensors");
    expect_storable(ctx, worker, &key);
}

KVC_CHECK(undecodable, .id = "inline/undecodable",
          .clause =
              "COMMIT_STORE whose data are no list of tensors is not answered, and the chunks can "
              "then be stored.",
          .source = "protocol 4.11, B64",
          .exchange = "COMMIT_STORE (bad), COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .variants = (const char *const[]){"empty", "garbage", "cut", NULL}, .run = undecodable);

static void empty_list(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    const struct kvc_key empty = kvc_key_window(&key, 0, 0);
    kvc_expect_true(ctx, "the answer of COMMIT_STORE", commit(ctx, worker, &empty, NULL, 0));
}

KVC_CHECK(empty_list, .id = "inline/empty-list",
          .clause = "COMMIT_STORE of no tensor for an empty window answers true.",
          .source = "protocol 4.11", .exchange = "COMMIT_STORE", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN, .run = empty_list);

/* ---- retrieving ---- */

static const struct kvc_prepare_retrieve_result *
retrieve_inline(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key)
{
    kvc_store_stamped(
        ctx, worker, key,
        kvc_chunk_blocks(ctx, worker, (int64_t)key->token_ids.count / worker->options.chunk_size),
        0);
    kvc_lookup(ctx, worker, key);
    const struct kvc_prepare_retrieve_result *result = kvc_prepare_retrieve(ctx, worker, key);
    kvc_expect_true(ctx, "success of PREPARE_RETRIEVE", result->success);
    return result;
}

static void tensor_for_each_chunk(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 3));
    const struct kvc_prepare_retrieve_result *result = retrieve_inline(ctx, worker, &key);
    struct kvc_inline_tensor *tensors = NULL;
    size_t count = 0;
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "the data of PREPARE_RETRIEVE",
                  kvc_inline_decode(result->data, kvc_ctx_arena(ctx), &tensors, &count, &err),
                  &err);
    kvc_expect_int(ctx, "tensors for 3 chunks", (int64_t)count, 3);
    for (size_t i = 0; i < count; i++) {
        const struct kvc_inline_tensor expected = chunk_tensor(ctx, worker, &key, (int64_t)i, 0);
        kvc_expect_str(ctx, "dtype of a tensor", tensors[i].dtype, kvc_ctx_dtype(ctx)->name);
        kvc_expect_int(ctx, "dimensions of a tensor", (int64_t)tensors[i].shape.count,
                       (int64_t)expected.shape.count);
        for (size_t j = 0; j < expected.shape.count; j++)
            kvc_expect_int(ctx, "a dimension of a tensor", tensors[i].shape.items[j],
                           expected.shape.items[j]);
        kvc_expect_bytes(ctx, "the bytes of a tensor", tensors[i].data, expected.data);
    }
}

KVC_CHECK(tensor_for_each_chunk, .id = "inline/tensor-for-each-chunk",
          .clause =
              "PREPARE_RETRIEVE gives one tensor for each chunk, in order, of the registered shape "
              "and dtype.",
          .source = "protocol 3.8, 4.11", .exchange = "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_MUST, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_NHD) | KVC_LAYOUT_BIT(KVC_LAYOUT_MLA),
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
          .run = tensor_for_each_chunk);

static void prepare_releases_the_lock(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    retrieve_inline(ctx, worker, &key);
    kvc_expect_false(ctx, "success of a second PREPARE_RETRIEVE",
                     kvc_prepare_retrieve(ctx, worker, &key)->success);
}

KVC_CHECK(prepare_releases_the_lock, .id = "inline/prepare-releases-the-lock",
          .clause = "PREPARE_RETRIEVE that brings the bytes along releases the lookup's locks.",
          .source = "protocol 4.12",
          .exchange = "COMMIT_STORE, LOOKUP, PREPARE_RETRIEVE, PREPARE_RETRIEVE",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_NO_POOL | KVC_NEED_ENGINE_DRIVEN,
          .run = prepare_releases_the_lock);
