/* What the HTTP side says of the server, and how it refuses. */
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "tests/conformance/http_fixture.h"
#include "tests/conformance/transfer_fixture.h"

/* ---- which server it is ---- */

static const char *const signs_of_life[] = {"root", "healthcheck", NULL};

static void is_alive(struct kvc_ctx *ctx)
{
    const bool root = kvc_ctx_variant_is(ctx, "root");
    const json_t *answer = kvc_http_expect(ctx, "GET", root ? "/" : "/healthcheck", NULL, 200);
    kvc_http_expect_text(ctx, answer, "status", root ? "ok" : "healthy");
}
KVC_CHECK(is_alive, .id = "http/alive",
          .clause = "GET / and GET /healthcheck of a server that serves say that all is well.",
          .source = "protocol 8.1", .exchange = "GET / | GET /healthcheck",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP, .variants = signs_of_life,
          .run = is_alive);

static const char *const version_names[] = {"lmc-version", "version", NULL};

static void says_its_version(struct kvc_ctx *ctx)
{
    const char *path = kvc_ctx_variant_is(ctx, "version") ? "/version" : "/lmc_version";
    const char *version = json_string_value(kvc_http_expect(ctx, "GET", path, NULL, 200));
    KVC_EXPECT(ctx, version != NULL, "GET %s gives no text", path);
    const struct kvc_dialect *dialect = kvc_dialect_find(kvc_str_of(version));
    const struct kvc_dialect *spoken = kvc_ctx_facts(ctx)->dialect;
    KVC_EXPECT(ctx, dialect == spoken,
               "GET %s names release %s, which does not speak the dialect of %s that the server "
               "speaks",
               path, version, spoken->name);
}
KVC_CHECK(says_its_version, .id = "http/version",
          .clause =
              "GET /lmc_version names a release that speaks the server's dialect, and /version "
              "begins with it: over ZMQ there is no safe way to find out.",
          .source = "protocol 1.8, 8.1, B07, B08, N02",
          .exchange = "GET /lmc_version | GET /version", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_HTTP, .variants = version_names, .run = says_its_version);

/* The first member of that name, however deep. */
static const json_t *find_member(const json_t *value, const char *name)
{
    const json_t *found = json_object_get(value, name);
    const char *key;
    json_t *member;
    if (found != NULL || !json_is_object(value))
        return found;
    json_object_foreach((json_t *)value, key, member)
    {
        found = find_member(member, name);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static void says_its_configuration(struct kvc_ctx *ctx)
{
    const struct kvc_http_answer answer = kvc_http_ask(ctx, "GET", "/config", NULL);
    if (answer.status == 404)
        kvc_ctx_skip(ctx, "the server has no GET /config: before 0.5.1 it is /conf");
    kvc_expect_int(ctx, "the status of GET /config", answer.status, 200);
    const json_t *chunk_size = find_member(answer.json, "chunk_size");
    KVC_EXPECT(ctx, json_is_integer(chunk_size), "GET /config says no chunk_size");
    kvc_expect_int(ctx, "chunk_size of GET /config", json_integer_value(chunk_size),
                   kvc_ctx_facts(ctx)->chunk_size);
}
KVC_CHECK(says_its_configuration, .id = "http/config",
          .clause = "GET /config shows the configuration in effect, the chunk size among it.",
          .source = "protocol 8.1, B15", .exchange = "GET /config", .level = KVC_LEVEL_OBSERVED,
          .needs = KVC_NEED_HTTP, .run = says_its_configuration);

/* ---- its state ---- */

static void says_its_state(struct kvc_ctx *ctx)
{
    const json_t *status = kvc_http_expect(ctx, "GET", "/status", NULL, 200);
    kvc_expect_true(ctx, "is_healthy of GET /status",
                    json_is_true(json_object_get(status, "is_healthy")));
    kvc_expect_int(ctx, "chunk_size of GET /status",
                   json_integer_value(json_object_get(status, "chunk_size")),
                   kvc_ctx_facts(ctx)->chunk_size);
}
KVC_CHECK(says_its_state, .id = "http/status",
          .clause = "GET /status says that the server is healthy, and its chunk size.",
          .source = "protocol 8.1", .exchange = "GET /status", .level = KVC_LEVEL_SHOULD,
          .needs = KVC_NEED_STATUS, .run = says_its_state);

#define L1 "storage_manager.l1_manager."

enum { COUNTED_CHUNKS = 3 };

/* How many objects and bytes GET /status shows more after COUNTED_CHUNKS new chunks were stored. */
static int64_t grown_by(struct kvc_ctx *ctx, struct kvc_worker *worker, int64_t *more_bytes)
{
    const int64_t objects = kvc_status_count(ctx, L1 "total_object_count");
    const int64_t bytes = kvc_status_count(ctx, L1 "memory_used_bytes");
    const struct kvc_key key = kvc_key_for(ctx, worker, kvc_fresh_chunks(ctx, COUNTED_CHUNKS));
    kvc_store_stamped(ctx, worker, &key, kvc_chunk_blocks(ctx, worker, COUNTED_CHUNKS), 0);
    const int64_t more = kvc_status_count(ctx, L1 "total_object_count") - objects;
    *more_bytes = kvc_status_count(ctx, L1 "memory_used_bytes") - bytes;
    return more;
}

static void counts_chunks(struct kvc_ctx *ctx)
{
    enum { ATTEMPTS = 5 };
    struct kvc_worker *worker = kvc_default_worker(ctx);
    int64_t more_bytes = 0;
    int64_t more = grown_by(ctx, worker, &more_bytes);
    /* Meanwhile a full server evicts, and what others left unfinished is dropped. */
    for (int attempt = 1; attempt < ATTEMPTS && more != COUNTED_CHUNKS; attempt++) {
        kvc_sleep_ms(100);
        more = grown_by(ctx, worker, &more_bytes);
    }
    kvc_expect_int(ctx, "chunks more in " L1 "total_object_count", more, COUNTED_CHUNKS);
    const int64_t least = COUNTED_CHUNKS * kvc_geometry_chunk_bytes(&worker->options.geometry,
                                                                    worker->options.chunk_size);
    KVC_EXPECT(ctx, more_bytes >= least,
               "memory_used_bytes of GET /status grows by %lld when %d chunks of %lld bytes are "
               "stored",
               (long long)more_bytes, COUNTED_CHUNKS, (long long)(least / COUNTED_CHUNKS));
}
KVC_CHECK(counts_chunks, .id = "http/status-counts-chunks",
          .clause = "GET /status counts the chunks that are stored, and the memory that they take.",
          .source = "protocol 8.1", .exchange = "REGISTER, GET /status, store, GET /status",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_STATUS, .flags = KVC_FLAG_EXCLUSIVE,
          .paths = KVC_PATHS_ALL, .run = counts_chunks);

/* Whether a list has the number, as a number or as text. */
static bool lists(const json_t *list, int64_t number)
{
    char text[24];
    size_t index;
    const json_t *item;
    snprintf(text, sizeof text, "%lld", (long long)number);
    json_array_foreach((json_t *)list, index, item)
    {
        if (json_is_string(item) ? strcmp(json_string_value(item), text) == 0
                                 : json_is_integer(item) && json_integer_value(item) == number)
            return true;
    }
    return false;
}

static void lists_instances(struct kvc_ctx *ctx)
{
    const struct kvc_worker *worker = kvc_default_worker(ctx);
    const bool mapped = worker->path == KVC_PATH_LMCACHE_DRIVEN;
    const json_t *status = kvc_http_expect(ctx, "GET", "/status", NULL, 200);
    kvc_expect_int(
        ctx, "the instance is in registered_gpu_ids",
        lists(json_object_get(status, "registered_gpu_ids"), worker->options.instance_id), mapped);
    kvc_expect_int(ctx, "the instance is in registered_non_cuda_instance_ids",
                   lists(json_object_get(status, "registered_non_cuda_instance_ids"),
                         worker->options.instance_id),
                   !mapped);
}
KVC_CHECK(lists_instances, .id = "http/status-lists-instances",
          .clause = "GET /status lists an instance by its id among those of its transfer mode.",
          .source = "protocol 8.1", .exchange = "REGISTER, GET /status",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_STATUS, .paths = KVC_PATHS_ALL,
          .run = lists_instances);

static void shows_groups(struct kvc_ctx *ctx)
{
    struct kvc_worker_options options = kvc_worker_defaults(ctx);
    struct kvc_geometry *geometry = &options.geometry;
    geometry->groups[geometry->group_count++] = geometry->groups[0];
    geometry->groups[1].num_heads = 1;
    const struct kvc_worker *worker = kvc_open_worker(ctx, &options);
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)worker->options.instance_id);
    const json_t *status = kvc_http_expect(ctx, "GET", "/status", NULL, 200);
    const json_t *instance = json_object_get(json_object_get(status, "cache_context_meta"), id);
    const json_t *groups =
        json_object_get(json_object_get(instance, "kv_cache_layout"), "kernel_groups");
    kvc_expect_int(ctx, "kernel_groups of an instance with two shapes of layers",
                   (int64_t)json_array_size(groups), 2);
    for (size_t i = 0; i < 2; i++)
        kvc_expect_int(
            ctx, "tokens_per_block of a kernel group",
            json_integer_value(json_object_get(json_array_get(groups, i), "tokens_per_block")),
            geometry->groups[i].block_size);
}
KVC_CHECK(shows_groups, .id = "http/status-shows-groups",
          .clause = "GET /status shows the groups of layers that the server found in an instance's "
                    "tensors.",
          .source = "protocol 6.4, 8.1, B53", .exchange = "REGISTER_KV_CACHE, GET /status",
          .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_STATUS,
          .paths = 1u << KVC_PATH_LMCACHE_DRIVEN, .run = shows_groups);

/* ---- what is refused ---- */

static const char *const unknown_paths[] = {"get", "post", "below-a-known-one", NULL};

static void refuses_unknown_path(struct kvc_ctx *ctx)
{
    const bool post = kvc_ctx_variant_is(ctx, "post");
    const char *path =
        kvc_ctx_variant_is(ctx, "below-a-known-one") ? "/status/nothing" : "/nothing/here";
    kvc_http_expect(ctx, post ? "POST" : "GET", path, post ? "{}" : NULL, 404);
}
KVC_CHECK(refuses_unknown_path, .id = "http/unknown-path",
          .clause = "A path that there is not is answered with status 404.",
          .source = "protocol 8, 10 row 31, B15", .exchange = "GET | POST of an unknown path",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP, .variants = unknown_paths,
          .run = refuses_unknown_path);

static const char *const wrong_methods[] = {"post-healthcheck", "get-checksums", "delete-status",
                                            NULL};

static void refuses_wrong_method(struct kvc_ctx *ctx)
{
    static const char *const requests[][2] = {
        {"POST", "/healthcheck"}, {"GET", "/cache/checksums"}, {"DELETE", "/status"}};
    const char *const *request = requests[kvc_variant_index(ctx)];
    kvc_http_expect(ctx, request[0], request[1], request[0][0] == 'P' ? "{}" : NULL, 405);
}
KVC_CHECK(refuses_wrong_method, .id = "http/wrong-method",
          .clause = "A path that is asked with another method is answered with status 405.",
          .source = "protocol 8.1", .exchange = "a known path with another method",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP | KVC_NEED_CHECKSUMS,
          .variants = wrong_methods, .run = refuses_wrong_method);

static const char *const odd_requests[] = {"checksums-of-nothing",
                                           "checksums-no-object",
                                           "checksums-huge-number",
                                           "checksums-deep",
                                           "clear-deep",
                                           "quota-deep",
                                           "quota-not-utf-8",
                                           "path-of-8-kib",
                                           "path-with-nul",
                                           NULL};

/* Brackets inside each other. */
static const char *deep_json(struct kvc_ctx *ctx)
{
    enum { DEPTH = 50000 };
    char *text = kvc_arena_alloc(kvc_ctx_arena(ctx), 2 * DEPTH + 1);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    return text;
}

static const char *long_path(struct kvc_ctx *ctx)
{
    enum { LENGTH = 8 << 10 };
    char *text = kvc_arena_alloc(kvc_ctx_arena(ctx), LENGTH + 1);
    memset(text, 'a', LENGTH);
    text[0] = '/';
    return text;
}

static void survives_odd_request(struct kvc_ctx *ctx)
{
    const char *method = "POST", *path = "/cache/checksums", *body = "{}";
    if (kvc_ctx_variant_is(ctx, "checksums-no-object")) {
        body = "17";
    } else if (kvc_ctx_variant_is(ctx, "checksums-huge-number")) {
        body = "{\"instance_id\": 99999999999999999999999999999999, \"block_ids\": [0], "
               "\"chunk_size\": 1}";
    } else if (kvc_ctx_variant_is(ctx, "checksums-deep")) {
        body = deep_json(ctx);
    } else if (kvc_ctx_variant_is(ctx, "clear-deep")) {
        path = "/cache/clear";
        body = deep_json(ctx);
    } else if (kvc_ctx_variant_is(ctx, "quota-deep")) {
        method = "PUT";
        path = "/quota/kvconform";
        body = deep_json(ctx);
    } else if (kvc_ctx_variant_is(ctx, "quota-not-utf-8")) {
        method = "GET";
        path = "/quota/%ff%fe";
        body = NULL;
    } else if (kvc_ctx_variant_is(ctx, "path-of-8-kib")) {
        method = "GET";
        path = long_path(ctx);
        body = NULL;
    } else if (kvc_ctx_variant_is(ctx, "path-with-nul")) {
        method = "GET";
        path = "/status%00";
        body = NULL;
    }
    const long status = kvc_http_ask(ctx, method, path, body).status;
    KVC_EXPECT(ctx, status < 500 || status == 501 || status == 503,
               "a request that the client got wrong is answered with status %ld", status);
    kvc_http_expect(ctx, "GET", "/healthcheck", NULL, 200);
    kvc_expect_served(ctx, kvc_ctx_rpc(ctx), "NOOP after an odd HTTP request");
}
KVC_CHECK(survives_odd_request, .id = "http/odd-request",
          .clause = "No request to the HTTP side is answered with a server error, and the next one "
                    "is served, there and over ZMQ.",
          .source = "protocol 8, B15",
          .exchange = "the request of the variant, GET /healthcheck, NOOP",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP,
          .flags = KVC_FLAG_DESTRUCTIVE | KVC_FLAG_EXCLUSIVE, .variants = odd_requests,
          .run = survives_odd_request);
