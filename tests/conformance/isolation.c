/* Chunks of one model, world size, worker or salt are never those of another: tenants do not see each
 * other, and nobody reads bytes of another shape. */
#include <string.h>

#include "tests/conformance/fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* Who asks for the same tokens. */
struct tenant {
    struct kvc_worker *worker;
    struct kvc_key key;
};

/* What the first stores the second does not find; when both have stored, each reads its own. */
static void expect_apart(struct kvc_ctx *ctx, const struct tenant *first,
                         const struct tenant *second)
{
    kvc_store_stamped(ctx, first->worker, &first->key, kvc_chunk_blocks(ctx, first->worker, 2), 0);
    kvc_expect_hits(ctx, second->worker, &second->key, 0);
    kvc_store_stamped(ctx, second->worker, &second->key, kvc_chunk_blocks(ctx, second->worker, 2),
                      1);
    kvc_retrieve_stamped(ctx, first->worker, &first->key, kvc_chunk_blocks(ctx, first->worker, 2),
                         0);
    kvc_retrieve_stamped(ctx, second->worker, &second->key,
                         kvc_chunk_blocks(ctx, second->worker, 2), 1);
}

/* ---- models ---- */

static struct tenant tenant_of_model(struct kvc_ctx *ctx, struct kvc_str model,
                                     struct kvc_ints tokens)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    options.model_name = model;
    struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    return (struct tenant){worker, kvc_key_for(ctx, worker, tokens)};
}

static struct kvc_str text(struct kvc_ctx *ctx, struct kvc_buffer *buffer)
{
    const struct kvc_str copy = kvc_arena_copy_str(
        kvc_ctx_arena(ctx), (struct kvc_str){(const char *)buffer->data, buffer->size});
    kvc_buffer_clear(buffer);
    return copy;
}

static struct kvc_str joined(struct kvc_ctx *ctx, struct kvc_str head, const char *tail)
{
    struct kvc_buffer buffer = {0};
    kvc_buffer_append(&buffer, head.data, head.size);
    kvc_buffer_append_text(&buffer, tail);
    return text(ctx, &buffer);
}

static const char *const other_models[] = {"other-name", "longer-name", "name-with-slash", NULL};

static void keeps_models_apart(struct kvc_ctx *ctx)
{
    const struct kvc_str one = kvc_fresh_name(ctx, "model");
    const struct kvc_str others[] = {kvc_fresh_name(ctx, "model"), joined(ctx, one, "-1"),
                                     joined(ctx, one, "/x")};
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 2);
    const struct tenant first = tenant_of_model(ctx, one, tokens);
    const struct tenant second = tenant_of_model(ctx, others[kvc_variant_index(ctx)], tokens);
    expect_apart(ctx, &first, &second);
}
KVC_CHECK(
    keeps_models_apart, .id = "isolation/model",
    .clause = "Chunks of one model are not found under another, and each model reads its own.",
    .source = "protocol 3.1, 7.1, B24",
    .exchange = "REGISTER x 2, store by one, LOOKUP by the other, store by it, both retrieve",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = other_models,
    .run = keeps_models_apart);

/* ---- salts ---- */

static struct tenant tenant_of_salt(struct kvc_ctx *ctx, struct kvc_worker *worker,
                                    struct kvc_ints tokens, struct kvc_str salt)
{
    struct tenant tenant = {worker, kvc_key_for(ctx, worker, tokens)};
    tenant.key.cache_salt = salt;
    return tenant;
}

static const char *const salt_pairs[] = {"none-to-some", "some-to-none", "some-to-other",
                                         "some-to-longer", NULL};

static void keeps_salts_apart(struct kvc_ctx *ctx)
{
    const struct kvc_str none = KVC_STR(""), some = kvc_fresh_name(ctx, "salt");
    const struct kvc_str pairs[][2] = {{none, some},
                                       {some, none},
                                       {some, kvc_fresh_name(ctx, "salt")},
                                       {some, joined(ctx, some, "x")}};
    const struct kvc_str *pair = pairs[kvc_variant_index(ctx)];
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 2);
    const struct tenant first = tenant_of_salt(ctx, worker, tokens, pair[0]);
    const struct tenant second = tenant_of_salt(ctx, worker, tokens, pair[1]);
    expect_apart(ctx, &first, &second);
}
KVC_CHECK(keeps_salts_apart, .id = "isolation/salt",
          .clause =
              "Chunks stored with one salt, or with none, are not found with another, and each "
              "reads its own.",
          .source = "protocol 3.1, 7.1, B17, B18",
          .exchange =
              "REGISTER, store with one salt, LOOKUP with the other, store with it, retrieve both",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = salt_pairs,
          .run = keeps_salts_apart);

static const char *const split_points[] = {"in-the-model", "in-the-salt", NULL};

/* False when the server does not answer: @ may be refused in a model's name. */
static bool store_is_answered(struct kvc_ctx *ctx, const struct tenant *tenant)
{
    struct kvc_store_result result = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    tenant->worker->rpc.timeout_ms = kvc_ctx_facts(ctx)->silence_ms;
    const kvc_status status = kvc_worker_store(
        tenant->worker, &tenant->key, kvc_chunk_blocks(ctx, tenant->worker, 2), &result, &err);
    tenant->worker->rpc.timeout_ms = kvc_ctx_facts(ctx)->timeout_ms;
    if (status != KVC_ETIMEOUT)
        kvc_expect_ok(ctx, "store", status, &err);
    return status == KVC_OK;
}

static void expect_no_hit(struct kvc_ctx *ctx, const struct tenant *tenant)
{
    const struct kvc_request lookup = kvc_lookup_request(&tenant->key);
    const struct kvc_request query = {.op = KVC_OP_QUERY_PREFETCH_STATUS,
                                      .request_id = tenant->key.request_id};
    struct kvc_reply *reply;
    if (kvc_try_call(ctx, &tenant->worker->rpc, &lookup, &reply))
        kvc_expect_int(ctx, "chunks that LOOKUP finds of the other",
                       kvc_call(ctx, &tenant->worker->rpc, &query)->count, 0);
}

/* ("m@x", "") and ("m", "x") would be the same if the two were simply joined. */
static void does_not_join_model_and_salt(struct kvc_ctx *ctx)
{
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 2);
    const struct tenant in_model = tenant_of_model(ctx, joined(ctx, model, "@x"), tokens);
    struct tenant in_salt = tenant_of_model(ctx, model, tokens);
    in_salt.key.cache_salt = KVC_STR("x");
    const bool model_first = kvc_ctx_variant_is(ctx, "in-the-model");
    const struct tenant *first = model_first ? &in_model : &in_salt;
    const struct tenant *second = model_first ? &in_salt : &in_model;
    if (!store_is_answered(ctx, first))
        return;
    kvc_expect_visible(ctx, first->worker, &first->key, 2);
    expect_no_hit(ctx, second);
}
KVC_CHECK(
    does_not_join_model_and_salt, .id = "isolation/model-and-salt",
    .clause = "A model name that ends in @x, if it is allowed, and the salt x are two things.",
    .source = "protocol 3.1, B19", .exchange = "REGISTER x 2, store by one, LOOKUP by the other",
    .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = split_points,
    .run = does_not_join_model_and_salt);

static const char *const good_salt_names[] = {"one-character", "128-characters", "spaces-and-dots",
                                              "other-scripts", NULL};

static struct kvc_str repeated(struct kvc_ctx *ctx, char character, size_t count)
{
    struct kvc_buffer buffer = {0};
    while (buffer.size < count)
        kvc_buffer_append_byte(&buffer, (uint8_t)character);
    return text(ctx, &buffer);
}

static void takes_good_salt(struct kvc_ctx *ctx)
{
    const struct kvc_str salts[] = {KVC_STR("s"), repeated(ctx, 's', 128), KVC_STR(" a. b:c-d_e "),
                                    KVC_STR("соль-盐-🧂")};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct tenant tenant =
        tenant_of_salt(ctx, worker, kvc_fresh_chunks(ctx, 1), salts[kvc_variant_index(ctx)]);
    kvc_store_stamped(ctx, worker, &tenant.key, kvc_chunk_blocks(ctx, worker, 1), 0);
    kvc_retrieve_stamped(ctx, worker, &tenant.key, kvc_chunk_blocks(ctx, worker, 1), 0);
}
KVC_CHECK(takes_good_salt, .id = "isolation/good-salts",
          .clause = "A salt may be any text of up to 128 characters without @, / , \\ and NUL.",
          .source = "protocol 3.1, B19", .exchange = "REGISTER, store, LOOKUP, retrieve",
          .level = KVC_LEVEL_MUST, .variants = good_salt_names, .run = takes_good_salt);

static const char *const bad_salt_names[] = {"at",  "slash",          "backslash",
                                             "nul", "129-characters", NULL};

static void refuses_bad_salt(struct kvc_ctx *ctx)
{
    const struct kvc_str salts[] = {KVC_STR("x@"), KVC_STR("a/b"), KVC_STR("a\\b"), KVC_STR("a\0b"),
                                    repeated(ctx, 's', 129)};
    struct kvc_worker *worker = kvc_default_worker(ctx);
    struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 1));
    key.cache_salt = salts[kvc_variant_index(ctx)];
    const struct kvc_request request = kvc_lookup_request(&key);
    kvc_expect_silence(ctx, &worker->rpc, &request, "a salt that is not allowed");
}
KVC_CHECK(refuses_bad_salt, .id = "isolation/bad-salts",
          .clause = "A request whose salt has @, /, \\ or NUL, or more than 128 characters, is not "
                    "answered.",
          .source = "protocol 3.1, B19", .exchange = "REGISTER, LOOKUP, NOOP",
          .level = KVC_LEVEL_SHOULD, .variants = bad_salt_names, .run = refuses_bad_salt);

/* ---- ranks and world sizes ---- */

static void store_rank(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                       uint64_t request)
{
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_stamp(ctx, worker, key, blocks, request);
    kvc_expect_true(ctx, "success of a rank's store", kvc_store(ctx, worker, key, blocks));
}

static void retrieve_rank(struct kvc_ctx *ctx, struct kvc_worker *worker, const struct kvc_key *key,
                          uint64_t request)
{
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, worker, 2);
    kvc_poison(worker);
    kvc_expect_true(ctx, "success of a rank's retrieve", kvc_retrieve(ctx, worker, key, blocks, 0));
    kvc_expect_stamped(ctx, worker, key, blocks, request);
}

static void keeps_ranks_apart(struct kvc_ctx *ctx)
{
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    struct kvc_worker *rank_0 = kvc_rank_of_two(ctx, model, 0),
                      *rank_1 = kvc_rank_of_two(ctx, model, 1);
    const struct kvc_key key = kvc_key_for(ctx, rank_0, kvc_fresh_chunks(ctx, 2));
    store_rank(ctx, rank_0, &key, 0);
    store_rank(ctx, rank_1, &key, 1);
    kvc_expect_visible(ctx, rank_0, &key, 2);
    kvc_expect_int(ctx, "chunks that LOOKUP finds", kvc_lookup(ctx, rank_0, &key), 2);
    retrieve_rank(ctx, rank_1, &key, 1);
    retrieve_rank(ctx, rank_0, &key, 0);
}
KVC_CHECK(keeps_ranks_apart, .id = "isolation/worker",
          .clause = "Each rank of a model reads what it stored itself, also under one request id.",
          .source = "protocol 3.1, 4.6, B27",
          .exchange = "REGISTER x 2, store by both, LOOKUP for all ranks, retrieve by both",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .run = keeps_ranks_apart);

static const char *const world_orders[] = {"one-to-two", "two-to-one", NULL};

static void keeps_worlds_apart(struct kvc_ctx *ctx)
{
    const struct kvc_str model = kvc_fresh_name(ctx, "model");
    const struct kvc_ints tokens = kvc_fresh_chunks(ctx, 2);
    const struct tenant alone = tenant_of_model(ctx, model, tokens);
    struct kvc_worker *rank_0 = kvc_rank_of_two(ctx, model, 0),
                      *rank_1 = kvc_rank_of_two(ctx, model, 1);
    const struct kvc_key in_two = kvc_key_for(ctx, rank_0, tokens);
    if (kvc_ctx_variant_is(ctx, "one-to-two")) {
        kvc_store_stamped(ctx, alone.worker, &alone.key, kvc_chunk_blocks(ctx, alone.worker, 2), 0);
        kvc_expect_hits(ctx, rank_0, &in_two, 0);
        return;
    }
    store_rank(ctx, rank_0, &in_two, 0);
    store_rank(ctx, rank_1, &in_two, 1);
    kvc_expect_visible(ctx, rank_0, &in_two, 2);
    kvc_expect_hits(ctx, alone.worker, &alone.key, 0);
}
KVC_CHECK(keeps_worlds_apart, .id = "isolation/world-size",
          .clause = "Chunks stored in one world size are not found in another.",
          .source = "protocol 3.1, 4.6, B24",
          .exchange = "REGISTER in both world sizes, store in one, LOOKUP in the other",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = world_orders,
          .run = keeps_worlds_apart);

/* ---- shapes ---- */

static const char *const other_shapes[] = {"wider-dtype", "more-layers", "dtype-of-the-same-size",
                                           NULL};

static struct kvc_worker *worker_of_other_shape(struct kvc_ctx *ctx,
                                                const struct kvc_worker *worker)
{
    struct kvc_worker_options options = worker->options;
    options.instance_id = kvc_fresh_instance_id(ctx);
    struct kvc_group *group = &options.geometry.groups[0];
    if (kvc_ctx_variant_is(ctx, "wider-dtype"))
        group->dtype = kvc_dtype_find(KVC_STR("float32"));
    else if (kvc_ctx_variant_is(ctx, "more-layers"))
        group->num_layers += 1;
    else
        group->dtype = kvc_dtype_find(KVC_STR("bfloat16"));
    return kvc_open_worker(ctx, &options);
}

static void serves_no_other_shape(struct kvc_ctx *ctx)
{
    struct kvc_worker *writer = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, writer, kvc_fresh_chunks(ctx, 1));
    kvc_store_stamped(ctx, writer, &key, kvc_chunk_blocks(ctx, writer, 1), 0);
    struct kvc_worker *reader = worker_of_other_shape(ctx, writer);
    const struct kvc_key asked = kvc_key_renamed(ctx, &key);
    kvc_poison(reader);
    kvc_lookup(ctx, reader, &asked);
    bool success = false;
    struct kvc_error err = KVC_ERROR_INIT;
    /* No answer, false, or slots that say of what shape they are: the reader sees that it is not
     * his. */
    const kvc_status status =
        kvc_worker_retrieve(reader, &asked, kvc_chunk_blocks(ctx, reader, 1), 0, &success, &err);
    KVC_EXPECT(ctx, status != KVC_OK || !success,
               "a chunk of another shape is served as if it were of the reader's");
    kvc_expect_untouched(ctx, reader);
}
KVC_CHECK(serves_no_other_shape, .id = "isolation/geometry",
          .clause =
              "A chunk is not served to a worker of the same model whose cache has another shape "
              "or element type without the worker being able to see it.",
          .source = "protocol 4.3, B24, B25",
          .exchange = "REGISTER x 2, store by one, LOOKUP and retrieve by the other",
          .level = KVC_LEVEL_MUST, .paths = KVC_PATHS_ALL, .variants = other_shapes,
          .run = serves_no_other_shape);
