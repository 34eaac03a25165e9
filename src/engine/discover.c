#include "src/engine/discover.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "src/engine/transfer.h"

enum { MAX_BODY = 8 << 20 };

static size_t take_body(char *data, size_t size, size_t count, void *user)
{
    struct kvc_buffer *body = user;
    const size_t bytes = size * count;
    if (bytes > MAX_BODY - body->size)
        return 0;
    kvc_buffer_append(body, data, bytes);
    return bytes;
}

static kvc_status read_json(const struct kvc_buffer *body, json_t **root, struct kvc_error *err)
{
    *root = json_loadb((const char *)body->data, body->size, 0, NULL);
    if (json_is_object(*root))
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "the answer is no JSON object");
}

/* The caller releases *root, also after an error. */
static kvc_status get(const char *url, const char *api_key, int64_t timeout_ms, json_t **root,
                      struct kvc_error *err)
{
    char problem[CURL_ERROR_SIZE];
    struct kvc_buffer body = {0};
    struct curl_slist *headers = kvc_engine_headers_new(api_key);
    CURL *curl = kvc_engine_transfer_new(url, headers, problem);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    long code = 0;
    kvc_status status;
    const CURLcode result = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_WRITE_ERROR)
        status = kvc_fail(err, KVC_EFORMAT, "the answer is larger than %d MiB", MAX_BODY >> 20);
    else if (result != CURLE_OK)
        status = kvc_engine_transfer_fail(curl, result, problem, err);
    else if (code != 200)
        status =
            kvc_engine_refusal(curl, (struct kvc_str){(const char *)body.data, body.size}, err);
    else
        status = read_json(&body, root, err);
    kvc_error_set_where(err, "%s", url);
    curl_easy_cleanup(curl);
    curl_slist_free_all(headers);
    kvc_buffer_clear(&body);
    return status;
}

kvc_status kvc_engine_find_model(const char *base_url, const char *api_key, int64_t timeout_ms,
                                 char **model, struct kvc_error *err)
{
    json_t *root = NULL;
    char *url = kvc_format("%s/models", base_url);
    kvc_status status = get(url, api_key, timeout_ms, &root, err);
    if (status == KVC_OK) {
        const json_t *first = json_array_get(json_object_get(root, "data"), 0);
        const char *id = json_string_value(json_object_get(first, "id"));
        if (id != NULL) {
            *model = kvc_strdup(id);
        } else {
            status = kvc_fail(err, KVC_EFORMAT, "the engine lists no model; name it with --model");
            kvc_error_set_where(err, "%s", url);
        }
    }
    json_decref(root);
    free(url);
    return status;
}

static kvc_status unknown_model(const json_t *instances, const char *model, struct kvc_error *err)
{
    struct kvc_buffer known = {0};
    const char *key;
    json_t *instance;
    json_object_foreach((json_t *)instances, key, instance)
    {
        const char *name = json_string_value(json_object_get(instance, "model_name"));
        if (name != NULL && known.size < 160)
            kvc_buffer_printf(&known, "%s%s", known.size > 0 ? ", " : "",
                              kvc_text_show(kvc_str_of(name)).text);
    }
    if (known.size == 0)
        kvc_fail(err, KVC_EREFUSED, "no engine is registered at the LMCache server");
    else
        kvc_fail(err, KVC_EREFUSED, "the LMCache server knows no model '%s', only %s",
                 kvc_text_show(kvc_str_of(model)).text, kvc_buffer_text(&known));
    kvc_buffer_clear(&known);
    return kvc_error_set_expected(err, "a model it serves, or --tokens-per-gb-kvcache");
}

static const json_t *find_instance(const json_t *instances, const char *model)
{
    const char *key;
    json_t *instance;
    json_object_foreach((json_t *)instances, key, instance)
    {
        const char *name = json_string_value(json_object_get(instance, "model_name"));
        if (name != NULL && strcmp(name, model) == 0)
            return instance;
    }
    return NULL;
}

static kvc_status read_tokens_per_gb(const json_t *root, const char *model, int64_t *tokens,
                                     struct kvc_error *err)
{
    const json_t *instances = json_object_get(root, "cache_context_meta");
    if (json_object_size(instances) == 0)
        instances = json_object_get(root, "cb_gpu_context_meta"); /* CacheBlend alone */
    const json_t *instance = find_instance(instances, model);
    if (instance == NULL)
        return unknown_model(instances, model, err);
    const json_t *layout = json_object_get(instance, "kv_cache_layout");
    const json_t *ranks = json_object_get(instance, "world_size");
    const json_int_t size = json_integer_value(json_object_get(layout, "cache_size_per_token"));
    const json_int_t world_size = ranks == NULL ? 1 : json_integer_value(ranks);
    if (size < 1 || world_size < 1 || size > (1 << 30) / world_size)
        return kvc_fail(err, KVC_EFORMAT,
                        "the LMCache server gives no usable cache_size_per_token for '%s'; give "
                        "--tokens-per-gb-kvcache",
                        kvc_text_show(kvc_str_of(model)).text);
    *tokens = (1 << 30) / (size * world_size);
    return KVC_OK;
}

kvc_status kvc_engine_find_tokens_per_gb(const char *lmcache_url, const char *model,
                                         int64_t timeout_ms, int64_t *tokens, struct kvc_error *err)
{
    json_t *root = NULL;
    char *url = kvc_format("%s/status", lmcache_url);
    kvc_status status = get(url, NULL, timeout_ms, &root, err);
    if (status == KVC_OK) {
        status = read_tokens_per_gb(root, model, tokens, err);
        kvc_error_set_where(err, "%s", url);
    }
    json_decref(root);
    free(url);
    return status;
}
