/* Clearing the cache over HTTP: the same rules as for the operation, and refusals that leave everything
 * as it was. Each empties the server's whole cache. */
#include "tests/conformance/http_fixture.h"
#include "tests/conformance/transfer_fixture.h"

#define CLEAR_FLAGS (KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE)

/* The tests/conformance/clear.c of HTTP; before 0.5.1 the route has another name. */
static void clear(struct kvc_ctx *ctx, const char *body)
{
    const struct kvc_http_answer answer = kvc_http_ask(ctx, "POST", "/cache/clear", body);
    if (answer.status == 404)
        kvc_ctx_skip(ctx, "the server has no POST /cache/clear: before 0.5.1 it is /clear-cache");
    kvc_expect_int(ctx, "the status of POST /cache/clear", answer.status, 200);
}

/* Two stored chunks. */
struct stored {
    struct kvc_worker *worker;
    struct kvc_key key;
};

static struct stored store_two(struct kvc_ctx *ctx)
{
    struct kvc_worker *worker = kvc_default_worker(ctx);
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, 2));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, 2), 0);
    return (struct stored){worker, key};
}

static bool retrieve(struct kvc_ctx *ctx, const struct stored *stored)
{
    const struct kvc_ints blocks = kvc_chunk_blocks(ctx, stored->worker, 2);
    kvc_poison(stored->worker);
    const bool success = kvc_retrieve(ctx, stored->worker, &stored->key, blocks, 0);
    if (success)
        kvc_expect_stamped(ctx, stored->worker, &stored->key, blocks, 0);
    else
        kvc_expect_untouched(ctx, stored->worker);
    return success;
}

static const char *const body_names[] = {"no-body", "empty-object", "tier", "forced", NULL};
static const char *const bodies[] = {NULL, "{}", "{\"tier\": \"l1\"}",
                                     "{\"tier\": \"l1\", \"force\": true}"};

static void drops_chunks(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two(ctx);
    clear(ctx, bodies[kvc_variant_index(ctx)]);
    kvc_expect_hits(ctx, stored.worker, &stored.key, 0);
}
KVC_CHECK(drops_chunks, .id = "http/clear",
          .clause = "After POST /cache/clear nothing is found of what nobody had locked.",
          .source = "protocol 8.3, B15, B70",
          .exchange = "REGISTER, store, POST /cache/clear, LOOKUP", .level = KVC_LEVEL_MUST,
          .needs = KVC_NEED_HTTP, .flags = CLEAR_FLAGS, .variants = body_names,
          .run = drops_chunks);

static const char *const gentle_names[] = {"by-default", "unforced", NULL};
static const char *const gentle_bodies[] = {NULL, "{\"force\": false}"};

static void spares_locked(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two(ctx);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 2);
    clear(ctx, gentle_bodies[kvc_variant_index(ctx)]);
    kvc_expect_true(ctx, "success of a retrieve of locked chunks", retrieve(ctx, &stored));
}
KVC_CHECK(spares_locked, .id = "http/clear-spares-locked",
          .clause = "POST /cache/clear without force keeps the chunks that a lookup has locked.",
          .source = "protocol 8.3, 10 row 30, B70",
          .exchange = "REGISTER, store, LOOKUP, POST /cache/clear, retrieve",
          .level = KVC_LEVEL_MUST, .features = KVC_FEATURE_CLEAR_FORCE, .needs = KVC_NEED_HTTP,
          .flags = CLEAR_FLAGS, .variants = gentle_names, .run = spares_locked);

static void forces_locked(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two(ctx);
    kvc_expect_int(ctx, "chunks found", kvc_lookup(ctx, stored.worker, &stored.key), 2);
    clear(ctx, "{\"force\": true}");
    kvc_expect_false(ctx, "success of a retrieve of dropped chunks", retrieve(ctx, &stored));
}
KVC_CHECK(
    forces_locked, .id = "http/clear-forces-locked",
    .clause = "POST /cache/clear with force drops locked chunks, too; retrieving them is refused.",
    .source = "protocol 8.3, 11.5, B70",
    .exchange = "REGISTER, store, LOOKUP, POST /cache/clear, retrieve", .level = KVC_LEVEL_OBSERVED,
    .needs = KVC_NEED_HTTP, .flags = CLEAR_FLAGS, .run = forces_locked);

static const char *const bad_names[] = {
    "tier-l2", "unknown-tier", "tier-is-number", "force-is-text", "no-object", "no-json", NULL};
static const char *const bad_bodies[] = {
    "{\"tier\": \"l2\"}", "{\"tier\": \"l9\"}", "{\"tier\": 1}", "{\"force\": \"perhaps\"}", "[1]",
    "{\"tier\": "};

static void refuses_bad_body(struct kvc_ctx *ctx)
{
    const struct stored stored = store_two(ctx);
    kvc_http_expect_refused(ctx, "POST", "/cache/clear", bad_bodies[kvc_variant_index(ctx)]);
    kvc_retrieve_stamped(ctx, stored.worker, &stored.key, kvc_chunk_blocks(ctx, stored.worker, 2),
                         0);
}
KVC_CHECK(
    refuses_bad_body, .id = "http/clear-bad-body",
    .clause = "POST /cache/clear of another tier than l1, or with a body that makes no sense, is "
              "answered with status 4xx and clears nothing.",
    .source = "protocol 8.3", .exchange = "REGISTER, store, POST /cache/clear, LOOKUP, retrieve",
    .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP, .flags = CLEAR_FLAGS, .variants = bad_names,
    .run = refuses_bad_body);
