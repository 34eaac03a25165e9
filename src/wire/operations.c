#include "src/wire/operations.h"

#include "src/wire/message.h"
#include "src/wire/values.h"

#define PAYLOAD(member, kind)                                                                      \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(struct kvc_request, member)           \
    }
#define PAYLOAD_IF(member, kind, with_features, without_features)                                  \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(struct kvc_request, member),          \
        .features = (with_features), .without = (without_features)                                 \
    }
#define END                                                                                        \
    {                                                                                              \
        .name = NULL                                                                               \
    }

static const struct kvc_payload no_payload[] = {END};

static const struct kvc_payload instance_payload[] = {
    PAYLOAD(instance_id, kvc_type_int),
    END,
};

static const struct kvc_payload register_payloads[] = {
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(handles, kvc_type_tensor_handles),
    PAYLOAD(model_name, kvc_type_str),
    PAYLOAD(world_size, kvc_type_int),
    PAYLOAD(engine_type, kvc_type_engine_type),
    PAYLOAD(layout_hints, kvc_type_layout_hints),
    PAYLOAD(groups, kvc_type_engine_group_infos),
    END,
};

static const struct kvc_payload store_payloads[] = {
    PAYLOAD(key, kvc_type_key),
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(block_ids, kvc_type_int_lists),
    PAYLOAD(event_handle, kvc_type_bin),
    END,
};

static const struct kvc_payload retrieve_payloads[] = {
    PAYLOAD(key, kvc_type_key),
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(block_ids, kvc_type_int_lists),
    PAYLOAD(event_handle, kvc_type_bin),
    PAYLOAD(skip_first_n_tokens, kvc_type_int),
    END,
};

static const struct kvc_payload lookup_payloads[] = {
    PAYLOAD(key, kvc_type_key),
    PAYLOAD(tp_size, kvc_type_int),
    END,
};

static const struct kvc_payload session_payload[] = {
    PAYLOAD(request_id, kvc_type_str),
    END,
};

static const struct kvc_payload wait_payloads[] = {
    PAYLOAD(request_id, kvc_type_str),
    PAYLOAD(timeout_seconds, kvc_type_float),
    END,
};

static const struct kvc_payload engine_driven_payload[] = {
    PAYLOAD(engine_driven, kvc_type_engine_driven_register),
    END,
};

static const struct kvc_payload key_and_instance_payloads[] = {
    PAYLOAD(key, kvc_type_key),
    PAYLOAD(instance_id, kvc_type_int),
    END,
};

static const struct kvc_payload commit_store_payloads[] = {
    PAYLOAD(key, kvc_type_key),
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(data, kvc_type_bin),
    END,
};

static const struct kvc_payload clear_payload[] = {
    PAYLOAD_IF(force, kvc_type_bool, KVC_FEATURE_CLEAR_FORCE, 0),
    END,
};

static const struct kvc_payload ping_payload[] = {
    PAYLOAD(ping_instance, kvc_type_optional_int),
    END,
};

static const struct kvc_payload report_payloads[] = {
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(model_name, kvc_type_str),
    PAYLOAD(allocations, kvc_type_block_allocations),
    END,
};

static const struct kvc_payload p2p_lookup_payloads[] = {
    PAYLOAD(object_keys, kvc_type_object_keys),
    PAYLOAD_IF(object_layout, kvc_type_memory_layout, 0, KVC_FEATURE_P2P_LAYOUT_MAP),
    PAYLOAD_IF(object_layout, kvc_type_memory_layout_by_group, KVC_FEATURE_P2P_LAYOUT_MAP, 0),
    END,
};

static const struct kvc_payload task_payload[] = {
    PAYLOAD(task_id, kvc_type_int),
    END,
};

static const struct kvc_payload object_keys_payload[] = {
    PAYLOAD(object_keys, kvc_type_object_keys),
    END,
};

static const struct kvc_payload subscribe_payloads[] = {
    PAYLOAD(instance_id, kvc_type_int),
    PAYLOAD(model_name, kvc_type_str),
    PAYLOAD(cursor, kvc_type_int),
    PAYLOAD(max_events, kvc_type_int),
    END,
};

/* An operation's row: payloads, whether there is a result, and which member it fills. */
#define VOID(rows)                                                                                 \
    {                                                                                              \
        .payloads = (rows), .presence = KVC_RESULT_NEVER                                           \
    }
#define RESULT(rows, member, kind)                                                                 \
    {                                                                                              \
        .payloads = (rows), .presence = KVC_RESULT_ALWAYS, .result = &(kind),                      \
        .result_offset = offsetof(struct kvc_reply, member)                                        \
    }
#define RESULT_OR_VOID(rows, member, kind)                                                         \
    {                                                                                              \
        .payloads = (rows), .presence = KVC_RESULT_OR_VOID, .result = &(kind),                     \
        .result_offset = offsetof(struct kvc_reply, member)                                        \
    }
#define STREAM(rows)                                                                               \
    {                                                                                              \
        .payloads = (rows), .presence = KVC_RESULT_UNKNOWN                                         \
    }

/* protocol.md 2, "Core payloads and results" */
static const struct kvc_operation operations[KVC_OP_COUNT] = {
    [KVC_OP_REGISTER_KV_CACHE] = VOID(register_payloads),
    [KVC_OP_UNREGISTER_KV_CACHE] = VOID(instance_payload),
    [KVC_OP_REGISTER_Q_CACHE] = VOID(register_payloads),
    [KVC_OP_UNREGISTER_Q_CACHE] = VOID(instance_payload),
    [KVC_OP_STORE_Q] = RESULT(store_payloads, transfer, kvc_type_transfer_result),
    [KVC_OP_STORE] = RESULT(store_payloads, transfer, kvc_type_transfer_result),
    [KVC_OP_RETRIEVE] = RESULT(retrieve_payloads, transfer, kvc_type_transfer_result),
    [KVC_OP_LOOKUP] = VOID(lookup_payloads),
    [KVC_OP_QUERY_PREFETCH_STATUS] = RESULT_OR_VOID(session_payload, count, kvc_type_int),
    [KVC_OP_WAIT_PREFETCH_STATUS] = RESULT_OR_VOID(wait_payloads, count, kvc_type_int),
    [KVC_OP_QUERY_PREFETCH_LOOKUP_HITS] = RESULT_OR_VOID(session_payload, count, kvc_type_int),
    [KVC_OP_FREE_LOOKUP_LOCKS] = VOID(lookup_payloads),
    [KVC_OP_END_SESSION] = VOID(session_payload),
    [KVC_OP_REGISTER_ENGINE_DRIVEN] = RESULT(engine_driven_payload, pool, kvc_type_pool_info),
    [KVC_OP_UNREGISTER_ENGINE_DRIVEN] = VOID(instance_payload),
    [KVC_OP_PREPARE_STORE] =
        RESULT(key_and_instance_payloads, context, kvc_type_prepare_store_result),
    [KVC_OP_COMMIT_STORE] = RESULT(commit_store_payloads, ok, kvc_type_bool),
    [KVC_OP_PREPARE_RETRIEVE] =
        RESULT(key_and_instance_payloads, retrieve, kvc_type_prepare_retrieve_result),
    [KVC_OP_COMMIT_RETRIEVE] = RESULT(key_and_instance_payloads, ok, kvc_type_bool),
    [KVC_OP_CLEAR] = VOID(clear_payload),
    [KVC_OP_GET_CHUNK_SIZE] = RESULT(no_payload, count, kvc_type_int),
    [KVC_OP_PING] = RESULT(ping_payload, ok, kvc_type_bool),
    [KVC_OP_REPORT_BLOCK_ALLOCATION] = VOID(report_payloads),
    [KVC_OP_NOOP] = RESULT(no_payload, text, kvc_type_str),
    [KVC_OP_P2P_LOOKUP_AND_LOCK] = RESULT(p2p_lookup_payloads, count, kvc_type_int),
    [KVC_OP_P2P_QUERY_LOOKUP_RESULTS] =
        RESULT_OR_VOID(task_payload, addresses, kvc_type_object_addresses),
    [KVC_OP_P2P_UNLOCK_OBJECTS] = VOID(object_keys_payload),
    [KVC_OP_GET_EXPERIMENTAL] = RESULT(no_payload, names, kvc_type_strs),
    [KVC_OP_SUBSCRIBE_KV_EVENTS] = STREAM(subscribe_payloads),
};

const struct kvc_operation *kvc_operation_find(enum kvc_op op)
{
    static const struct kvc_operation unknown = {.presence = KVC_RESULT_UNKNOWN};
    if ((size_t)op >= KVC_OP_COUNT || operations[op].payloads == NULL)
        return &unknown;
    return &operations[op];
}

bool kvc_payload_exists(const struct kvc_payload *payload, const struct kvc_dialect *dialect)
{
    return (dialect->features & payload->features) == payload->features &&
           (dialect->features & payload->without) == 0;
}
