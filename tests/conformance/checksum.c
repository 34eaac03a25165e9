/* POST /cache/checksums: digests of a worker's blocks, compared with our own of the same memory. */
#include <jansson.h>
#include <stdio.h>

#include "src/link/http.h"
#include "tests/conformance/transfer_fixture.h"

/* Our own digest of some blocks in all layers of the worker. */
static void own_digest(struct kvc_ctx *ctx, const struct kvc_worker *worker, struct kvc_ints blocks,
                       char hex[KVC_MD5_HEX_SIZE])
{
    const struct kvc_paged *paged = &worker->paged;
    uint8_t **tensors =
        kvc_arena_alloc_array(kvc_ctx_arena(ctx), paged->tensor_count, sizeof *tensors);
    for (size_t i = 0; i < paged->tensor_count; i++)
        tensors[i] = paged->tensors[i].data;
    kvc_block_checksum(&paged->geometry, tensors, blocks.items, blocks.count, hex);
}

/* The server's digests of the blocks, cut into chunks of so many, are ours. */
static void expect_own_digests(struct kvc_ctx *ctx, const struct kvc_worker *worker,
                               struct kvc_ints blocks, size_t per_chunk)
{
    const struct kvc_strs digests =
        kvc_http_checksums(ctx, worker->options.instance_id, blocks, (int64_t)per_chunk);
    const size_t chunks = (blocks.count + per_chunk - 1) / per_chunk;
    kvc_expect_int(ctx, "chunk_checksums", (int64_t)digests.count, (int64_t)chunks);
    for (size_t i = 0; i < chunks; i++) {
        const size_t first = i * per_chunk;
        const size_t left = blocks.count - first;
        char hex[KVC_MD5_HEX_SIZE];
        char what[64];
        own_digest(ctx, worker, kvc_ints_slice(blocks, first, left < per_chunk ? left : per_chunk),
                   hex);
        snprintf(what, sizeof what, "chunk_checksums[%zu]", i);
        kvc_expect_str(ctx, what, digests.items[i], hex);
    }
}

/* A worker whose whole cache is stamped. */
static struct kvc_worker *stamped_worker(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const int64_t num_blocks = worker->options.geometry.groups[0].num_blocks;
    int64_t *all = kvc_arena_alloc_array(kvc_ctx_arena(ctx), (size_t)num_blocks, sizeof *all);
    for (int64_t i = 0; i < num_blocks; i++)
        all[i] = i;
    const struct kvc_key key = {.start = 0};
    kvc_stamp(ctx, worker, &key, (struct kvc_ints){all, (size_t)num_blocks}, 0);
    return worker;
}

#define NEEDS (KVC_NEED_CHECKSUMS | KVC_NEED_LMCACHE_DRIVEN)

static void md5_of_blocks(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = stamped_worker(ctx);
    expect_own_digests(ctx, worker, kvc_chunk_blocks(ctx, worker, 3),
                       (size_t)kvc_blocks_per_chunk(worker));
}

KVC_CHECK(md5_of_blocks, .id = "checksum/md5-of-blocks",
          .clause =
              "A chunk's checksum is the MD5 of its blocks in each layer in turn, bfloat16 widened "
              "to float32.",
          .source = "protocol 8.2", .exchange = "POST /cache/checksums", .level = KVC_LEVEL_MUST,
          .needs = NEEDS, .layouts = KVC_LAYOUT_BIT(KVC_LAYOUT_COUNT) - 1,
          .dtypes = (const char *const[]){"float16", "bfloat16", "float32", "uint8", NULL},
          .run = md5_of_blocks);

static void any_chunk_size(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = stamped_worker(ctx);
    const struct kvc_ints blocks = kvc_ints_slice(kvc_chunk_blocks(ctx, worker, 2), 0, 7);
    size_t per_chunk = 7;
    if (kvc_ctx_variant_is(ctx, "one"))
        per_chunk = 1;
    else if (kvc_ctx_variant_is(ctx, "last-chunk-short"))
        per_chunk = 3;
    else if (kvc_ctx_variant_is(ctx, "more-than-there-are"))
        per_chunk = 1000;
    expect_own_digests(ctx, worker, blocks, per_chunk);
}

KVC_CHECK(
    any_chunk_size, .id = "checksum/any-chunk-size",
    .clause =
        "The request's chunk_size counts blocks and may be any number above 0; the last chunk "
        "may be short.",
    .source = "protocol 8.2", .exchange = "POST /cache/checksums", .level = KVC_LEVEL_MUST,
    .needs = NEEDS,
    .variants = (const char *const[]){"one", "last-chunk-short", "all", "more-than-there-are",
                                      NULL},
    .run = any_chunk_size);

static void in_list_order(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = stamped_worker(ctx);
    static const int64_t there[] = {3, 1, 2};
    static const int64_t back[] = {2, 1, 3};
    static const int64_t same[] = {1, 1, 1};
    expect_own_digests(ctx, worker, (struct kvc_ints){there, 3}, 3);
    expect_own_digests(ctx, worker, (struct kvc_ints){back, 3}, 3);
    expect_own_digests(ctx, worker, (struct kvc_ints){same, 3}, 3);
}

KVC_CHECK(
    in_list_order, .id = "checksum/in-list-order",
    .clause =
        "Blocks are digested in the order of the list, also one that is named more than once.",
    .source = "protocol 8.2", .exchange = "POST /cache/checksums x3", .level = KVC_LEVEL_MUST,
    .needs = NEEDS, .run = in_list_order);

static void follows_the_memory(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = stamped_worker(ctx);
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 1);
    expect_own_digests(ctx, worker, blocks, blocks.count);
    kvc_paged_fill_block(&worker->paged, blocks.items[blocks.count - 1], KVC_POISON);
    expect_own_digests(ctx, worker, blocks, blocks.count);
}

KVC_CHECK(follows_the_memory, .id = "checksum/follows-the-memory",
          .clause = "A checksum is of what the worker's memory holds now.",
          .source = "protocol 8.2", .exchange = "POST /cache/checksums, twice",
          .level = KVC_LEVEL_MUST, .needs = NEEDS, .run = follows_the_memory);

static void same_after_retrieve(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    const struct kvc_ints from = kvc_chunk_blocks(ctx, worker, 2);
    const struct kvc_ints into = kvc_chunk_blocks(ctx, worker, 2);
    const int64_t per_chunk = kvc_blocks_per_chunk(worker);
    kvc_store_stamped(ctx, worker, &key, from, 0);
    const struct kvc_strs before =
        kvc_http_checksums(ctx, worker->options.instance_id, from, per_chunk);
    kvc_poison(worker);
    kvc_retrieve_stamped(ctx, worker, &key, into, 0);
    const struct kvc_strs after =
        kvc_http_checksums(ctx, worker->options.instance_id, into, per_chunk);
    kvc_expect_int(ctx, "chunk_checksums", (int64_t)after.count, (int64_t)before.count);
    for (size_t i = 0; i < before.count; i++)
        kvc_expect_str(ctx, "checksum of a chunk that was retrieved", after.items[i],
                       before.items[i].data);
}

KVC_CHECK(
    same_after_retrieve, .id = "checksum/same-after-retrieve",
    .clause = "Chunks that were retrieved have the checksums of the blocks they were stored from.",
    .source = "protocol 4.17, 8.2, lmcache bench server",
    .exchange = "STORE, POST /cache/checksums, LOOKUP, RETRIEVE, POST /cache/checksums",
    .level = KVC_LEVEL_MUST, .needs = NEEDS, .run = same_after_retrieve);

static void two_groups(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_geometry *geometry = &options.geometry;
    geometry->group_count = 2;
    geometry->groups[1] = geometry->groups[0];
    geometry->groups[1].num_layers = 1;
    geometry->groups[1].num_heads = 1;
    geometry->groups[1].head_size = 32;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    const struct kvc_key key = {.start = 0};
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_stamp(ctx, worker, &key, blocks, 0);
    expect_own_digests(ctx, worker, blocks, (size_t)kvc_blocks_per_chunk(worker));
}

KVC_CHECK(two_groups, .id = "checksum/two-groups",
          .clause = "A checksum covers the layers of every group.", .source = "protocol 8.2",
          .exchange = "POST /cache/checksums", .level = KVC_LEVEL_MUST, .needs = NEEDS,
          .run = two_groups);

/* ---- requests by hand ---- */

/* Posts a body with the worker's instance id; the caller clears the response. */
static struct kvc_http_response post(struct kvc_ctx *ctx, const char *body)
{
    const struct kvc_facts *facts = kvc_ctx_facts(ctx);
    struct kvc_http_response response = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_expect_ok(ctx, "POST /cache/checksums",
                  kvc_http_request("POST", facts->http_url, "/cache/checksums", body,
                                   facts->timeout_ms, &response, &err),
                  &err);
    return response;
}

static long post_status(struct kvc_ctx *ctx, const char *body)
{
    struct kvc_http_response response = post(ctx, body);
    const long status = response.status;
    kvc_http_response_clear(&response);
    return status;
}

/* The answer to a good request about blocks 3 and 1, as JSON. */
static json_t *ask(struct kvc_ctx *ctx, const struct kvc_worker *worker, bool layerwise)
{
    char body[160];
    snprintf(body, sizeof body,
             "{\"instance_id\": %lld, \"block_ids\": [3, 1], \"chunk_size\": 2, \"layerwise\": %s}",
             (long long)worker->options.instance_id, layerwise ? "true" : "false");
    struct kvc_http_response response = post(ctx, body);
    json_t *answer = json_loadb((const char *)response.body.data, response.body.size, 0, NULL);
    const long status = response.status;
    kvc_http_response_clear(&response);
    kvc_expect_int(ctx, "HTTP status", status, 200);
    KVC_EXPECT(ctx, answer != NULL, "POST /cache/checksums answers what is no JSON");
    return answer;
}

static void layerwise(struct kvc_ctx *ctx)
{
    static const int64_t blocks[] = {3, 1};
    struct kvc_worker *worker = stamped_worker(ctx);
    json_t *answer = ask(ctx, worker, true);
    for (size_t i = 0; i < worker->paged.tensor_count; i++) {
        char name[32];
        char hex[KVC_MD5_HEX_SIZE];
        snprintf(name, sizeof name, "layer_%zu", i);
        const json_t *layer = json_object_get(json_object_get(answer, "chunk_checksums"), name);
        const char *digest = json_string_value(json_array_get(layer, 0));
        kvc_layer_checksum(&worker->options.geometry.groups[0], worker->paged.tensors[i].data,
                           blocks, 2, hex);
        kvc_expect_str(ctx, name, kvc_str_of(digest), hex);
    }
    json_decref(answer);
}

KVC_CHECK(
    layerwise, .id = "checksum/layerwise",
    .clause = "With layerwise there is one list of checksums for each layer, of that layer alone.",
    .source = "protocol 8.2", .exchange = "POST /cache/checksums", .level = KVC_LEVEL_MUST,
    .needs = NEEDS, .dtypes = (const char *const[]){"float16", "bfloat16", NULL}, .run = layerwise);

static void says_what_it_did(struct kvc_ctx *ctx)
{
    json_t *answer = ask(ctx, stamped_worker(ctx), false);
    kvc_expect_str(ctx, "status", kvc_str_of(json_string_value(json_object_get(answer, "status"))),
                   "success");
    kvc_expect_int(ctx, "chunk_size", json_integer_value(json_object_get(answer, "chunk_size")), 2);
    kvc_expect_int(ctx, "num_chunks", json_integer_value(json_object_get(answer, "num_chunks")), 1);
    kvc_expect_true(ctx, "layerwise, which is false",
                    json_is_false(json_object_get(answer, "layerwise")));
    json_decref(answer);
}

KVC_CHECK(says_what_it_did, .id = "checksum/says-what-it-did",
          .clause = "The answer repeats chunk_size and layerwise, and counts the chunks.",
          .source = "protocol 8.2", .exchange = "POST /cache/checksums", .level = KVC_LEVEL_SHOULD,
          .needs = NEEDS, .run = says_what_it_did);

static void unknown_instance(struct kvc_ctx *ctx)
{
    char body[128];
    snprintf(body, sizeof body, "{\"instance_id\": %lld, \"block_ids\": [1], \"chunk_size\": 1}",
             (long long)kvc_fresh_instance_id(ctx));
    kvc_expect_int(ctx, "HTTP status", post_status(ctx, body), 404);
}

KVC_CHECK(
    unknown_instance, .id = "checksum/unknown-instance",
    .clause = "A checksum for an instance that is not registered is answered with status 404.",
    .source = "protocol 8.2, B15", .exchange = "POST /cache/checksums", .level = KVC_LEVEL_SHOULD,
    .needs = NEEDS, .run = unknown_instance);

static void engine_driven_instance(struct kvc_ctx *ctx)
{
    char body[128];
    snprintf(body, sizeof body, "{\"instance_id\": %lld, \"block_ids\": [1], \"chunk_size\": 1}",
             (long long)kvc_default_worker(ctx)->options.instance_id);
    kvc_expect_int(ctx, "HTTP status", post_status(ctx, body), 404);
}

KVC_CHECK(engine_driven_instance, .id = "checksum/engine-driven-instance",
          .clause =
              "There is no checksum of an instance whose memory the server has not mapped: status "
              "404.",
          .source = "protocol 8.2", .exchange = "REGISTER (engine-driven), POST /cache/checksums",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_CHECKSUMS,
          .paths = KVC_PATHS_ENGINE_DRIVEN, .run = engine_driven_instance);

/* What is wrong, and the rest of a body behind the instance id that has it. */
static const char *const bad_request_names[] = {
    "no-blocks",          "chunk-size-zero",  "chunk-size-negative",
    "block-is-text",      "blocks-is-number", "no-json",
    "block-out-of-range", "block-negative",   NULL};
static const char *const bad_requests[] = {
    "\"block_ids\": [], \"chunk_size\": 1",        "\"block_ids\": [1], \"chunk_size\": 0",
    "\"block_ids\": [1], \"chunk_size\": -1",      "\"block_ids\": [\"x\"], \"chunk_size\": 1",
    "\"block_ids\": 1, \"chunk_size\": 1",         "\"block_ids\": [1",
    "\"block_ids\": [1000000], \"chunk_size\": 1", "\"block_ids\": [-1], \"chunk_size\": 1",
};

static void bad_request(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = stamped_worker(ctx);
    char body[160];
    snprintf(body, sizeof body, "{\"instance_id\": %lld, %s}",
             (long long)worker->options.instance_id, bad_requests[kvc_variant_index(ctx)]);
    const long status = post_status(ctx, body);
    KVC_EXPECT(ctx, status >= 400 && status <= 499,
               "a request that the client got wrong is answered with status %ld, not 4xx", status);
    expect_own_digests(ctx, worker, kvc_chunk_blocks(ctx, worker, 1), 4);
}

KVC_CHECK(
    bad_request, .id = "checksum/bad-request",
    .clause = "A request that makes no sense is answered with status 4xx, and the next one is "
              "served.",
    .source = "protocol 8.2, B15", .exchange = "POST /cache/checksums, twice",
    .level = KVC_LEVEL_SHOULD, .needs = NEEDS, .variants = bad_request_names, .run = bad_request);
