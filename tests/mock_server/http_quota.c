#include <stdlib.h>
#include <string.h>

#include "tests/mock_server/http_routes.h"
#include "tests/mock_server/text.h"

/* Bytes of a quota's unit. */
#define GIB ((double)(1 << 30))

/* How the routes spell the empty salt. */
#define EMPTY_SALT "_default"

static struct mock_quota *find(const struct mock *mock, struct kvc_str salt)
{
    struct mock_quota *quota;
    LIST_FOREACH(quota, &mock->quotas, in_list)
    {
        if (kvc_str_equal(quota->salt, salt))
            return quota;
    }
    return NULL;
}

static void forget(struct mock_quota *quota)
{
    LIST_REMOVE(quota, in_list);
    mock_text_free(quota->salt);
    free(quota);
}

void mock_quotas_clear(struct mock *mock)
{
    while (!LIST_EMPTY(&mock->quotas))
        forget(LIST_FIRST(&mock->quotas));
}

static double used_gb(const struct mock *mock, struct kvc_str salt)
{
    int64_t bytes = 0;
    const struct mock_object *object;
    TAILQ_FOREACH(object, &mock->store.by_use, by_use)
    {
        if (kvc_str_equal(object->key.salt, salt))
            bytes += object->layout.bytes;
    }
    return (double)bytes / GIB;
}

/* The name in the path, and the salt that it stands for. */
static struct kvc_str name_of(const struct mock_http_request *request)
{
    return kvc_str_of(request->path + strlen("/quota/"));
}

static struct kvc_str salt_of(const struct mock_http_request *request)
{
    const struct kvc_str name = name_of(request);
    return kvc_str_is(name, EMPTY_SALT) ? (struct kvc_str){"", 0} : name;
}

static void refuse(struct mock_http_reply *reply, const char *text)
{
    reply->status = 400;
    reply->body = json_pack("{s:s}", "error", text);
}

void mock_http_quotas(struct mock *mock, const struct mock_http_request *request,
                      struct mock_http_reply *reply)
{
    json_t *users = json_object();
    const struct mock_quota *quota;
    (void)request;
    LIST_FOREACH(quota, &mock->quotas, in_list)
    {
        json_object_set_new(users, quota->salt.size > 0 ? quota->salt.data : EMPTY_SALT,
                            json_pack("{s:f, s:f}", "limit_gb", quota->limit_gb, "current_usage_gb",
                                      used_gb(mock, quota->salt)));
    }
    reply->body = json_pack("{s:o}", "users", users);
}

void mock_http_quota_get(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply)
{
    const struct mock_quota *quota = find(mock, salt_of(request));
    reply->body = json_pack("{s:s, s:f, s:f, s:b}", "cache_salt", name_of(request).data, "limit_gb",
                            quota != NULL ? quota->limit_gb : 0.0, "current_usage_gb",
                            used_gb(mock, salt_of(request)), "exists", quota != NULL);
}

static void set_limit(struct mock *mock, struct kvc_str salt, double limit_gb)
{
    struct mock_quota *quota = find(mock, salt);
    if (quota == NULL) {
        quota = kvc_alloc_zero(1, sizeof(*quota));
        quota->salt = mock_text_copy(salt);
        LIST_INSERT_HEAD(&mock->quotas, quota, in_list);
    }
    quota->limit_gb = limit_gb;
}

void mock_http_quota_put(struct mock *mock, const struct mock_http_request *request,
                         struct mock_http_reply *reply)
{
    json_t *body =
        json_loadb((const char *)request->body.data, request->body.size, JSON_DECODE_ANY, NULL);
    const json_t *limit = json_object_get(body, "limit_gb");
    if (body == NULL) {
        refuse(reply, "invalid JSON body");
    } else if (limit == NULL) {
        refuse(reply, "body must be {'limit_gb': <float>}");
    } else if (!json_is_number(limit)) {
        refuse(reply, "limit_gb must be numeric");
    } else if (json_number_value(limit) < 0 && !mock_has(mock, MOCK_DEFECT_QUOTA_UNCHECKED)) {
        refuse(reply, "limit_gb must be non-negative");
    } else {
        set_limit(mock, salt_of(request), json_number_value(limit));
        reply->body = json_pack("{s:s, s:f, s:s}", "cache_salt", name_of(request).data, "limit_gb",
                                json_number_value(limit), "status", "ok");
    }
    json_decref(body);
}

void mock_http_quota_delete(struct mock *mock, const struct mock_http_request *request,
                            struct mock_http_reply *reply)
{
    struct mock_quota *quota = find(mock, salt_of(request));
    reply->body = json_pack("{s:s, s:s}", "cache_salt", name_of(request).data, "status",
                            quota != NULL ? "removed" : "not_found");
    if (quota != NULL && !mock_has(mock, MOCK_DEFECT_QUOTA_STAYS))
        forget(quota);
}
