#include "tests/mock_server/http_routes.h"

/* The names that /status has for layouts (protocol.md 6.1). */
static const char *const layout_names[KVC_LAYOUT_COUNT] = {
    [KVC_LAYOUT_NHD] = "NL_X_TWO_NB_BS_NH_HS",
    [KVC_LAYOUT_HND] = "NL_X_TWO_NB_NH_BS_HS",
    [KVC_LAYOUT_FLASHINFER_NHD] = "NL_X_NB_TWO_BS_NH_HS",
    [KVC_LAYOUT_FLASHINFER_HND] = "NL_X_NB_TWO_NH_BS_HS",
    [KVC_LAYOUT_MLA] = "NL_X_NB_BS_HS",
};

static json_t *text_of(struct kvc_str text)
{
    json_t *value = json_stringn(text.data, text.size);
    return value != NULL ? value : json_string("");
}

static json_t *l1_status(struct mock *mock)
{
    json_int_t reserved = 0, staged_bytes = 0, locked = 0;
    struct mock_object *object;
    TAILQ_FOREACH(object, &mock->store.by_use, by_use)
    {
        reserved += !object->ready;
        staged_bytes += object->ready ? 0 : object->layout.bytes;
        locked += mock_object_locks(object, mock->now_ms) > 0;
    }
    const bool says_empty = mock_has(mock, MOCK_DEFECT_STATUS_EMPTY);
    const json_int_t count = says_empty ? 0 : (json_int_t)mock->store.count;
    const json_int_t used = says_empty ? 0 : (json_int_t)mock->pool.used;
    const double ratio = (double)used / (double)mock->pool.size;
    json_t *status = json_pack(
        "{s:b, s:I, s:I, s:I, s:i, s:I, s:I, s:f, s:f, s:f}", "is_healthy", 1, "total_object_count",
        count, "write_locked_count", reserved, "read_locked_count", locked, "temporary_count", 0,
        "memory_used_bytes", used, "memory_total_bytes", (json_int_t)mock->pool.size,
        "memory_usage_ratio", ratio, "write_ttl_seconds", (double)mock->options.write_ttl_ms / 1000,
        "read_ttl_seconds", (double)mock->options.read_ttl_ms / 1000);
    if (mock_speaks(mock, KVC_FEATURE_WRITE_STAGING)) {
        json_object_set_new(status, "staging_object_count", json_integer(reserved));
        json_object_set_new(status, "staging_bytes", json_integer(staged_bytes));
        json_object_set_new(status, "memory_configured_bytes", json_integer(mock->pool.size));
    }
    return status;
}

static json_t *storage_status(struct mock *mock)
{
    json_t *l1 = l1_status(mock);
    json_t *status = json_pack("{s:b, s:O, s:[], s:i}", "is_healthy", 1, "l1_manager", l1,
                               "l2_adapters", "num_l2_adapters", 0);
    if (mock_speaks(mock, KVC_FEATURE_WRITE_STAGING))
        json_object_set_new(status, "l1_managers", json_pack("{s:O}", "_default", l1));
    json_decref(l1);
    return status;
}

static json_t *group_status(const struct mock_kernel_group *group)
{
    int64_t shape[5], stride[5];
    const size_t rank = kvc_group_tensor_shape(&group->shape, shape, stride);
    json_t *dimensions = json_array();
    for (size_t i = 0; i < rank; i++)
        json_array_append_new(dimensions, json_integer(shape[i]));
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:i}", "engine_kv_format",
                     layout_names[group->shape.layout], "shape", dimensions, "dtype",
                     group->shape.dtype->name, "num_layers", (json_int_t)group->shape.num_layers,
                     "engine_group_id", (json_int_t)group->engine_group_id, "tokens_per_block",
                     (json_int_t)group->tokens_per_block, "object_group_idx", 0);
}

/* Of KV cache, in all layers of the group. */
static int64_t token_bytes_of(const struct mock_kernel_group *group)
{
    return kvc_group_block_bytes(&group->shape) * group->shape.num_layers / group->tokens_per_block;
}

static json_t *instance_status(const struct mock *mock, const struct mock_instance *instance)
{
    json_t *status = json_pack("{s:o, s:I}", "model_name", text_of(instance->model), "world_size",
                               (json_int_t)instance->world_size);
    if (instance->mode == MOCK_ENGINE_DRIVEN) {
        json_object_set_new(status, "block_size", json_integer(instance->block_size));
        json_object_set_new(status, "use_mla", json_boolean(instance->use_mla));
        return status;
    }
    json_t *groups = json_array();
    int64_t token_bytes = 0;
    for (size_t i = 0; i < instance->group_count; i++)
        token_bytes += token_bytes_of(&instance->groups[i]);
    const bool only_first = mock_has(mock, MOCK_DEFECT_STATUS_FIRST_GROUP);
    for (size_t i = 0; i < (only_first ? 1 : instance->group_count); i++)
        json_array_append_new(groups, group_status(&instance->groups[i]));
    json_object_set_new(status, "kv_cache_layout",
                        json_pack("{s:I, s:I, s:o}", "num_layers",
                                  (json_int_t)instance->layer_count, "cache_size_per_token",
                                  (json_int_t)token_bytes, "kernel_groups", groups));
    return status;
}

static void add_instance(json_t *ids, json_t *meta, const struct mock *mock,
                         const struct mock_instance *instance)
{
    char id[32];
    snprintf(id, sizeof(id), "%lld", (long long)instance->id);
    json_array_append_new(ids, json_integer(instance->id));
    json_object_set_new(meta, id, instance_status(mock, instance));
}

/* The registered instances of one mode: a list of their ids, and what is known of each. */
static void add_instances(json_t *status, const struct mock *mock, enum mock_mode mode,
                          const char *ids_name, const char *meta_name)
{
    json_t *ids = json_array();
    json_t *meta = json_object();
    const struct mock_instance *instance;
    LIST_FOREACH(instance, &mock->registry.instances[mode], in_table)
    {
        add_instance(ids, meta, mock, instance);
    }
    LIST_FOREACH(instance, &mock->registry.left[mode], in_table)
    {
        add_instance(ids, meta, mock, instance);
    }
    json_object_set_new(status, ids_name, ids);
    json_object_set_new(status, meta_name, meta);
}

static json_int_t unfetched_lookups(const struct mock *mock)
{
    json_int_t count = 0;
    for (size_t i = 0; i < MOCK_SESSION_BUCKETS; i++) {
        const struct mock_session *session;
        LIST_FOREACH(session, &mock->sessions.buckets[i], in_bucket)
        {
            count += session->has_result;
        }
    }
    return count;
}

json_t *mock_http_status(struct mock *mock)
{
    const size_t tracked =
        mock->registry.counts[MOCK_ENGINE_DRIVEN] + mock->registry.counts[MOCK_LMCACHE_DRIVEN];
    json_t *status = json_pack(
        "{s:b, s:s, s:I, s:s, s:I, s:o, s:I, s:I, s:b, s:{s:b, s:f, s:f, s:I}}", "is_healthy",
        !mock_has(mock, MOCK_DEFECT_STATUS_UNHEALTHY), "engine_type", "MPCacheServer", "chunk_size",
        (json_int_t)mock->options.chunk_size, "hash_algorithm", "blake3", "active_sessions",
        (json_int_t)mock->sessions.count, "storage_manager", storage_status(mock),
        "active_prefetch_jobs", unfetched_lookups(mock), "active_p2p_lookup_jobs",
        (json_int_t)mock->p2p.count, "p2p_enabled", 0, "worker_liveness", "enabled", 1,
        "reap_timeout_seconds", (double)mock->options.reap_ms / 1000, "registration_grace_seconds",
        3600.0, "tracked_instances", (json_int_t)tracked);
    const bool swapped = mock_has(mock, MOCK_DEFECT_STATUS_MODES_SWAPPED);
    add_instances(status, mock, swapped ? MOCK_ENGINE_DRIVEN : MOCK_LMCACHE_DRIVEN,
                  "registered_gpu_ids", "cache_context_meta");
    add_instances(status, mock, swapped ? MOCK_LMCACHE_DRIVEN : MOCK_ENGINE_DRIVEN,
                  "registered_non_cuda_instance_ids", "non_cuda_context_meta");
    return status;
}

json_t *mock_http_config(const struct mock *mock)
{
    const char *pool = mock->pool.shared ? mock->pool.segment.name + 1 : "";
    const json_int_t chunk_size =
        mock_has(mock, MOCK_DEFECT_CONFIG_STALE) ? 257 : (json_int_t)mock->options.chunk_size;
    return json_pack("{s:{s:I, s:s, s:s}, s:{s:s, s:I, s:I, s:f, s:f}}", "mp", "chunk_size",
                     chunk_size, "hash_algorithm", "blake3", "supported_transfer_mode", "auto",
                     "storage_manager", "shm_name", pool, "l1_size_bytes",
                     (json_int_t)mock->pool.size, "l1_align_bytes", (json_int_t)MOCK_POOL_ALIGN,
                     "l1_write_ttl_seconds", (double)mock->options.write_ttl_ms / 1000,
                     "l1_read_ttl_seconds", (double)mock->options.read_ttl_ms / 1000);
}
