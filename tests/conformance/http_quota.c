/* Quotas by salt: set, shown, removed. What they do is up to the server's eviction policy. */
#include "tests/conformance/http_fixture.h"

static const char *quota_path(struct kvc_ctx *ctx, struct kvc_str salt)
{
    struct kvc_buffer path = {0};
    kvc_buffer_printf(&path, "/quota/" KVC_STR_FMT, KVC_STR_ARG(salt));
    const struct kvc_str copy =
        kvc_arena_copy_str(kvc_ctx_arena(ctx), kvc_str_of(kvc_buffer_text(&path)));
    kvc_buffer_clear(&path);
    return copy.data;
}

static void expect_limit(struct kvc_ctx *ctx, const json_t *quota, double expected)
{
    const double limit = json_number_value(json_object_get(quota, "limit_gb"));
    KVC_EXPECT(ctx, limit == expected, "limit_gb is %g, not %g", limit, expected);
}

static void expect_exists(struct kvc_ctx *ctx, const char *path, bool expected, double limit)
{
    const json_t *quota = kvc_http_expect(ctx, "GET", path, NULL, 200);
    kvc_expect_int(ctx, "the quota exists", json_is_true(json_object_get(quota, "exists")),
                   expected);
    expect_limit(ctx, quota, limit);
}

static void keeps_quota(struct kvc_ctx *ctx)
{
    const struct kvc_str salt = kvc_fresh_name(ctx, "salt");
    const char *path = quota_path(ctx, salt);
    expect_exists(ctx, path, false, 0);
    kvc_http_expect_text(ctx, kvc_http_expect(ctx, "PUT", path, "{\"limit_gb\": 1.5}", 200),
                         "status", "ok");
    expect_exists(ctx, path, true, 1.5);
    kvc_http_expect(ctx, "PUT", path, "{\"limit_gb\": 2}", 200);
    const json_t *users =
        json_object_get(kvc_http_expect(ctx, "GET", "/quota", NULL, 200), "users");
    const json_t *listed = json_object_get(users, salt.data);
    KVC_EXPECT(ctx, listed != NULL, "GET /quota does not list a quota that was set");
    expect_limit(ctx, listed, 2);
    kvc_http_expect_text(ctx, kvc_http_expect(ctx, "DELETE", path, NULL, 200), "status", "removed");
    expect_exists(ctx, path, false, 0);
    kvc_http_expect_text(ctx, kvc_http_expect(ctx, "DELETE", path, NULL, 200), "status",
                         "not_found");
}
KVC_CHECK(
    keeps_quota, .id = "http/quota",
    .clause =
        "A quota that is set for a salt is shown, alone and in the list, until it is removed.",
    .source = "protocol 8.4",
    .exchange = "GET, PUT, GET, PUT, GET /quota, DELETE, GET, DELETE of /quota/SALT",
    .level = KVC_LEVEL_OBSERVED, .needs = KVC_NEED_HTTP, .run = keeps_quota);

static const char *const bad_quota_names[] = {"negative", "text",    "no-limit",
                                              "no-json",  "no-body", NULL};
static const char *const bad_quotas[] = {"{\"limit_gb\": -1}", "{\"limit_gb\": \"abc\"}", "{}",
                                         "zzz", NULL};

static void refuses_bad_quota(struct kvc_ctx *ctx)
{
    const char *path = quota_path(ctx, kvc_fresh_name(ctx, "salt"));
    kvc_http_expect_refused(ctx, "PUT", path, bad_quotas[kvc_variant_index(ctx)]);
    expect_exists(ctx, path, false, 0);
}
KVC_CHECK(refuses_bad_quota, .id = "http/bad-quota",
          .clause = "A quota that is no number from 0 on is answered with status 4xx and not set.",
          .source = "protocol 8.4", .exchange = "PUT /quota/SALT, GET /quota/SALT",
          .level = KVC_LEVEL_SHOULD, .needs = KVC_NEED_HTTP, .variants = bad_quota_names,
          .run = refuses_bad_quota);
