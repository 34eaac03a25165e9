#include "tests/mock_server/http_routes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Stands for the commit that a release was built from. */
#define MOCK_COMMIT "kvconform"

typedef void route_handler(struct mock *mock, const struct mock_http_request *request,
                           struct mock_http_reply *reply);

/* Which servers have a route. */
enum era { ALWAYS, UP_TO_0_5_0, SINCE_0_5_1 };

struct route {
    const char *method;
    const char *path;
    enum era era;
    route_handler *handle;
};

void mock_http_detail(struct mock_http_reply *reply, unsigned status, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    reply->status = status;
    reply->body = json_pack("{s:s}", "detail", text);
}

static bool is_unwell(const struct mock *mock, struct mock_http_reply *reply)
{
    if (!mock_has(mock, MOCK_DEFECT_HTTP_UNWELL))
        return false;
    mock_http_detail(reply, 503, "the engine is not initialised");
    return true;
}

/* The release that the mock names itself. */
static const char *release_of(const struct mock *mock)
{
    return mock_has(mock, MOCK_DEFECT_VERSION_STALE) ? "0.4.7" : mock->options.version;
}

static void on_root(struct mock *mock, const struct mock_http_request *request,
                    struct mock_http_reply *reply)
{
    (void)request;
    if (is_unwell(mock, reply))
        return;
    reply->body = json_pack("{s:s, s:s}", "status", "ok", "service", "LMCache HTTP API");
}

static void on_health(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply)
{
    (void)request;
    if (is_unwell(mock, reply))
        return;
    reply->body = json_pack("{s:s}", "status", "healthy");
}

static void on_version(struct mock *mock, const struct mock_http_request *request,
                       struct mock_http_reply *reply)
{
    (void)request;
    reply->body = json_sprintf("%s-" MOCK_COMMIT, release_of(mock));
}

static void on_release(struct mock *mock, const struct mock_http_request *request,
                       struct mock_http_reply *reply)
{
    (void)request;
    reply->body = json_string(release_of(mock));
}

static void on_commit(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply)
{
    (void)mock, (void)request;
    reply->body = json_string(MOCK_COMMIT);
}

static void on_status(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply)
{
    (void)request;
    reply->body = mock_http_status(mock);
}

static void on_config(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply)
{
    (void)request;
    reply->body = mock_http_config(mock);
}

static void clear(struct mock *mock, bool force)
{
    if (mock_has(mock, MOCK_DEFECT_HTTP_CLEAR_FORCED))
        force = true;
    if (mock_has(mock, MOCK_DEFECT_HTTP_CLEAR_GENTLE))
        force = false;
    if (!mock_has(mock, MOCK_DEFECT_HTTP_CLEAR_IDLE))
        mock_clear(mock, force);
}

/* The optional body {"tier": "l1", "force": bool}. Up to 0.5.5 force is read and always taken as true. */
static void on_clear(struct mock *mock, const struct mock_http_request *request,
                     struct mock_http_reply *reply)
{
    const char *tier = "l1";
    int force = 0;
    json_t *body = NULL;
    if (mock_has(mock, MOCK_DEFECT_HTTP_CLEAR_FIRST))
        mock_clear(mock, true);
    if (request->body.size > 0) {
        body = json_loadb((const char *)request->body.data, request->body.size, 0, NULL);
        if (json_unpack(body, "{s?s, s?b}", "tier", &tier, "force", &force) != 0) {
            json_decref(body);
            mock_http_detail(reply, 422, "the body must be {\"tier\": str, \"force\": bool}");
            return;
        }
    }
    if (strcmp(tier, "l1") != 0) {
        mock_http_detail(reply, 400, "tier '%.32s' not supported; only 'l1'", tier);
    } else {
        clear(mock, force || !mock_speaks(mock, KVC_FEATURE_CLEAR_FORCE));
        reply->body = json_pack("{s:s, s:{s:s}}", "status", "ok", "cleared", "tier", "l1");
    }
    json_decref(body);
}

static void on_old_clear(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply)
{
    (void)request;
    mock_clear(mock, true);
    reply->body = json_pack("{s:s}", "status", "ok");
}

static const struct route routes[] = {
    {"GET", "/", ALWAYS, on_root},
    {"GET", "/healthcheck", ALWAYS, on_health},
    {"GET", "/version", ALWAYS, on_version},
    {"GET", "/lmc_version", ALWAYS, on_release},
    {"GET", "/commit_id", ALWAYS, on_commit},
    {"GET", "/status", ALWAYS, on_status},
    {"GET", "/conf", UP_TO_0_5_0, on_config},
    {"GET", "/config", SINCE_0_5_1, on_config},
    {"GET", "/kvcache/check", UP_TO_0_5_0, mock_http_kvcache_check},
    {"POST", "/cache/checksums", SINCE_0_5_1, mock_http_checksums},
    {"POST", "/clear-cache", UP_TO_0_5_0, on_old_clear},
    {"POST", "/cache/clear", SINCE_0_5_1, on_clear},
    {"GET", "/quota", ALWAYS, mock_http_quotas},
    {"GET", "/quota/*", ALWAYS, mock_http_quota_get},
    {"PUT", "/quota/*", ALWAYS, mock_http_quota_put},
    {"DELETE", "/quota/*", ALWAYS, mock_http_quota_delete},
};

/* A path that ends in * stands for all that go on from there. */
static bool path_matches(const char *pattern, const char *path)
{
    const size_t fixed = strcspn(pattern, "*");
    if (pattern[fixed] == '\0')
        return strcmp(pattern, path) == 0;
    return strncmp(pattern, path, fixed) == 0 && path[fixed] != '\0';
}

static bool is_there(const struct mock *mock, const struct route *route)
{
    const bool is_0_5_0 = strncmp(mock->options.version, "0.5.0", 5) == 0;
    return route->era == ALWAYS || (route->era == UP_TO_0_5_0) == is_0_5_0;
}

/* The route's answer; no body when one of its texts is not UTF-8. */
static void route(struct mock *mock, const struct mock_http_request *request,
                  struct mock_http_reply *reply)
{
    bool path_is_known = false;
    reply->status = 200;
    for (size_t i = 0; i < KVC_COUNT_OF(routes); i++) {
        const struct route *candidate = &routes[i];
        if (!is_there(mock, candidate) || !path_matches(candidate->path, request->path))
            continue;
        if (strcmp(candidate->method, request->method) == 0 ||
            mock_has(mock, MOCK_DEFECT_HTTP_METHOD_IGNORED)) {
            candidate->handle(mock, request, reply);
            return;
        }
        path_is_known = true;
    }
    if (path_is_known)
        mock_http_detail(reply, 405, "Method Not Allowed");
    else if (mock_has(mock, MOCK_DEFECT_HTTP_UNKNOWN_OK))
        reply->body = json_pack("{s:s}", "status", "ok");
    else
        mock_http_detail(reply, 404, "Not Found");
}

void mock_http_route(struct mock *mock, const struct mock_http_request *request,
                     struct mock_http_reply *reply)
{
    route(mock, request, reply);
    if (reply->body == NULL)
        mock_http_detail(reply, 400, "a text of the request is not UTF-8");
    if (mock_has(mock, MOCK_DEFECT_HTTP_ERRORS_500) &&
        (reply->status == 400 || reply->status == 422))
        reply->status = 500;
}
