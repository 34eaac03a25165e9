#include "src/wire/values.h"

#include <string.h>

/* Rows of a field table: in every map; not needed in a request; only in dialects with a feature. */
#define REQUIRED(owner, member, kind)                                                              \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member), .flag = KVC_NO_FLAG   \
    }
#define DEFAULTED(owner, member, kind, value)                                                      \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member),                       \
        .presence = KVC_DEFAULTED, .default_int = (value), .flag = KVC_NO_FLAG                     \
    }
#define WITH_FEATURE(owner, member, kind, value, feature)                                          \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member),                       \
        .presence = KVC_DEFAULTED, .default_int = (value), .features = (feature),                  \
        .flag = KVC_NO_FLAG                                                                        \
    }
#define OMITTED(owner, member, kind)                                                               \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member),                       \
        .presence = KVC_OMITTED, .flag = KVC_NO_FLAG                                               \
    }
#define FLAGGED(owner, member, kind, flag_member)                                                  \
    {                                                                                              \
        .name = #member, .type = &(kind), .offset = offsetof(owner, member),                       \
        .presence = KVC_OMITTED, .flag = offsetof(owner, flag_member)                              \
    }

#define FIELDS(table) .fields = (table), .field_count = KVC_COUNT_OF(table)

#define DEFINE_LIST(name, list_struct, element_type)                                               \
    const struct kvc_type name = {                                                                 \
        .kind = KVC_KIND_LIST, .size = sizeof(list_struct), .element = &(element_type)}

/* ---- what a server refuses ---- */

static kvc_status refuse(struct kvc_error *err, struct kvc_str got, const char *expected)
{
    kvc_fail(err, KVC_EFORMAT, "the value is not accepted");
    kvc_error_set_expected(err, "%s", expected);
    kvc_error_set_got(err, "\"%s\"", kvc_text_show(got).text);
    return KVC_EFORMAT;
}

static bool is_one_of(struct kvc_str value, const char *const *choices)
{
    for (; *choices != NULL; choices++)
        if (kvc_str_is(value, *choices))
            return true;
    return false;
}

enum { MAX_SALT_CHARACTERS = 128 };

/* protocol.md 3.1 */
static kvc_status check_salt(const struct kvc_dialect *dialect, const void *value,
                             struct kvc_error *err)
{
    (void)dialect;
    const struct kvc_str salt = *(const struct kvc_str *)value;
    size_t characters = 0;
    for (size_t i = 0; i < salt.size; i++) {
        if (memchr("@/\\", salt.data[i], 4) != NULL)
            return refuse(err, salt, "a salt without @, /, \\ and NUL");
        characters += (salt.data[i] & 0xc0) != 0x80;
    }
    if (characters > MAX_SALT_CHARACTERS)
        return refuse(err, salt, "a salt of at most 128 characters");
    return KVC_OK;
}

/* protocol.md 3.5 */
static kvc_status check_engine_type(const struct kvc_dialect *dialect, const void *value,
                                    struct kvc_error *err)
{
    static const char *const engines[] = {"vllm", "sglang", "trtllm", "mock", NULL};
    const struct kvc_str engine = *(const struct kvc_str *)value;
    if (is_one_of(engine, engines) ||
        (kvc_dialect_has(dialect, KVC_FEATURE_GROUP_TAGS) && kvc_str_is(engine, "atom")))
        return KVC_OK;
    return refuse(err, engine, "vllm, sglang, trtllm, mock, or atom from 0.5.5 on");
}

static kvc_status check_kv_layout(const struct kvc_dialect *dialect, const void *value,
                                  struct kvc_error *err)
{
    static const char *const layouts[] = {"NHD", "HND", NULL};
    static const char *const packed_layouts[] = {"BLHNC", "BLNHC", NULL};
    const struct kvc_str layout = *(const struct kvc_str *)value;
    if (is_one_of(layout, layouts) ||
        (kvc_dialect_has(dialect, KVC_FEATURE_GROUP_TAGS) && is_one_of(layout, packed_layouts)))
        return KVC_OK;
    return refuse(err, layout, "NHD, HND, or BLHNC, BLNHC from 0.5.5 on");
}

static kvc_status check_kv_list_layout(const struct kvc_dialect *dialect, const void *value,
                                       struct kvc_error *err)
{
    const struct kvc_str layout = *(const struct kvc_str *)value;
    if (kvc_str_is(layout, "k_v") ||
        (kvc_dialect_has(dialect, KVC_FEATURE_HANDLE_MSGPACK) && kvc_str_is(layout, "unified")))
        return KVC_OK;
    return refuse(err, layout, "k_v, or unified from 0.5.6 on");
}

/* ---- the key ---- */

static const struct kvc_type type_salt = {
    .kind = KVC_KIND_STR, .size = sizeof(struct kvc_str), .check = check_salt};
static const struct kvc_type type_packed_map = {.kind = KVC_KIND_PACKED_MAP,
                                                .size = sizeof(struct kvc_bytes)};

static const struct kvc_field key_fields[] = {
    REQUIRED(struct kvc_key, model_name, kvc_type_str),
    REQUIRED(struct kvc_key, world_size, kvc_type_int),
    REQUIRED(struct kvc_key, worker_id, kvc_type_optional_int),
    REQUIRED(struct kvc_key, token_ids, kvc_type_ints),
    REQUIRED(struct kvc_key, start, kvc_type_int),
    REQUIRED(struct kvc_key, end, kvc_type_int),
    REQUIRED(struct kvc_key, request_id, kvc_type_str),
    DEFAULTED(struct kvc_key, cache_salt, type_salt, 0),
    WITH_FEATURE(struct kvc_key, request_configs, type_packed_map, 0, KVC_FEATURE_KV_READERS),
    WITH_FEATURE(struct kvc_key, num_kv_readers, kvc_type_int, 0, KVC_FEATURE_KV_READERS),
};
const struct kvc_type kvc_type_key = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_key), FIELDS(key_fields)};

/* ---- registration ---- */

static const struct kvc_field engine_driven_register_fields[] = {
    REQUIRED(struct kvc_engine_driven_register, instance_id, kvc_type_int),
    REQUIRED(struct kvc_engine_driven_register, model_name, kvc_type_str),
    REQUIRED(struct kvc_engine_driven_register, world_size, kvc_type_int),
    REQUIRED(struct kvc_engine_driven_register, block_size, kvc_type_int),
    REQUIRED(struct kvc_engine_driven_register, num_layers, kvc_type_int),
    REQUIRED(struct kvc_engine_driven_register, hidden_dim_size, kvc_type_int),
    REQUIRED(struct kvc_engine_driven_register, dtype_str, kvc_type_str),
    REQUIRED(struct kvc_engine_driven_register, use_mla, kvc_type_bool),
    WITH_FEATURE(struct kvc_engine_driven_register, num_physical_slots, kvc_type_optional_int, 0,
                 KVC_FEATURE_PHYSICAL_SLOTS),
};
const struct kvc_type kvc_type_engine_driven_register = {
    .kind = KVC_KIND_MAP,
    .size = sizeof(struct kvc_engine_driven_register),
    FIELDS(engine_driven_register_fields)};

static const struct kvc_field pool_info_fields[] = {
    REQUIRED(struct kvc_pool_info, shm_name, kvc_type_str),
    REQUIRED(struct kvc_pool_info, pool_size, kvc_type_int),
};
const struct kvc_type kvc_type_pool_info = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_pool_info), FIELDS(pool_info_fields)};

static const struct kvc_type type_tensor_handle = {.kind = KVC_KIND_HANDLE,
                                                   .size = sizeof(struct kvc_tensor_handle)};
DEFINE_LIST(kvc_type_tensor_handles, struct kvc_tensor_handles, type_tensor_handle);

const struct kvc_type kvc_type_engine_type = {
    .kind = KVC_KIND_STR, .size = sizeof(struct kvc_str), .check = check_engine_type};

static const struct kvc_type type_kv_layout = {
    .kind = KVC_KIND_STR, .size = sizeof(struct kvc_str), .check = check_kv_layout};
static const struct kvc_type type_kv_list_layout = {
    .kind = KVC_KIND_STR, .size = sizeof(struct kvc_str), .check = check_kv_list_layout};

static const struct kvc_field layout_hints_fields[] = {
    OMITTED(struct kvc_layout_hints, kv_layout, type_kv_layout),
    OMITTED(struct kvc_layout_hints, num_kv_heads, kvc_type_optional_int),
    OMITTED(struct kvc_layout_hints, tokens_per_block, kvc_type_optional_int),
    OMITTED(struct kvc_layout_hints, head_dim, kvc_type_optional_int),
    OMITTED(struct kvc_layout_hints, kv_list_layout, type_kv_list_layout),
};
const struct kvc_type kvc_type_layout_hints = {.kind = KVC_KIND_MAP,
                                               .size = sizeof(struct kvc_layout_hints),
                                               FIELDS(layout_hints_fields),
                                               .others = offsetof(struct kvc_layout_hints, others)};

static const struct kvc_field engine_group_info_fields[] = {
    REQUIRED(struct kvc_engine_group_info, engine_group_id, kvc_type_int),
    DEFAULTED(struct kvc_engine_group_info, layer_indices, kvc_type_ints, 0),
    DEFAULTED(struct kvc_engine_group_info, tokens_per_block, kvc_type_int, 0),
    DEFAULTED(struct kvc_engine_group_info, sw_size_tokens, kvc_type_int, -1),
    WITH_FEATURE(struct kvc_engine_group_info, extra_object_group_tag, kvc_type_int, 0,
                 KVC_FEATURE_GROUP_TAGS),
    WITH_FEATURE(struct kvc_engine_group_info, recurrent_state, kvc_type_bool, 0,
                 KVC_FEATURE_GROUP_TAGS),
};
static const struct kvc_type type_engine_group_info = {.kind = KVC_KIND_MAP,
                                                       .size = sizeof(struct kvc_engine_group_info),
                                                       FIELDS(engine_group_info_fields)};
DEFINE_LIST(kvc_type_engine_group_infos, struct kvc_engine_group_infos, type_engine_group_info);

/* ---- transfers ---- */

static const struct kvc_field slot_fields[] = {
    REQUIRED(struct kvc_slot, offset, kvc_type_int),
    REQUIRED(struct kvc_slot, length, kvc_type_int),
    REQUIRED(struct kvc_slot, shape, kvc_type_ints),
    REQUIRED(struct kvc_slot, dtype, kvc_type_str),
};
static const struct kvc_type type_slot = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_slot), FIELDS(slot_fields)};
static DEFINE_LIST(type_slots, struct kvc_slots, type_slot);

static const struct kvc_field transfer_context_fields[] = {
    FLAGGED(struct kvc_transfer_context, slots, type_slots, has_slots),
    FLAGGED(struct kvc_transfer_context, chunk_indices, kvc_type_ints, has_chunk_indices),
};
static const struct kvc_type type_transfer_context = {.kind = KVC_KIND_MAP,
                                                      .size = sizeof(struct kvc_transfer_context),
                                                      FIELDS(transfer_context_fields)};

/* The reply keeps the context itself, so the map around it has one field at offset 0. */
static const struct kvc_field prepare_store_result_fields[] = {
    {.name = "context", .type = &type_transfer_context, .flag = KVC_NO_FLAG},
};
const struct kvc_type kvc_type_prepare_store_result = {.kind = KVC_KIND_MAP,
                                                       .size = sizeof(struct kvc_transfer_context),
                                                       FIELDS(prepare_store_result_fields)};

static const struct kvc_field prepare_retrieve_result_fields[] = {
    REQUIRED(struct kvc_prepare_retrieve_result, success, kvc_type_bool),
    REQUIRED(struct kvc_prepare_retrieve_result, data, kvc_type_bin),
    REQUIRED(struct kvc_prepare_retrieve_result, context, type_transfer_context),
};
const struct kvc_type kvc_type_prepare_retrieve_result = {
    .kind = KVC_KIND_MAP,
    .size = sizeof(struct kvc_prepare_retrieve_result),
    FIELDS(prepare_retrieve_result_fields)};

static const struct kvc_field transfer_result_fields[] = {
    REQUIRED(struct kvc_transfer_result, event_handle, kvc_type_bin),
    REQUIRED(struct kvc_transfer_result, success, kvc_type_bool),
};
const struct kvc_type kvc_type_transfer_result = {.kind = KVC_KIND_TUPLE,
                                                  .size = sizeof(struct kvc_transfer_result),
                                                  FIELDS(transfer_result_fields)};

/* ---- observability ---- */

static const struct kvc_field block_allocation_fields[] = {
    REQUIRED(struct kvc_block_allocation, req_id, kvc_type_str),
    REQUIRED(struct kvc_block_allocation, new_block_ids, kvc_type_ints),
    REQUIRED(struct kvc_block_allocation, new_token_ids, kvc_type_ints),
};
static const struct kvc_type type_block_allocation = {.kind = KVC_KIND_MAP,
                                                      .size = sizeof(struct kvc_block_allocation),
                                                      FIELDS(block_allocation_fields)};
DEFINE_LIST(kvc_type_block_allocations, struct kvc_block_allocations, type_block_allocation);

/* ---- peer to peer ---- */

static const struct kvc_field object_key_fields[] = {
    REQUIRED(struct kvc_object_key, chunk_hash, kvc_type_bin),
    REQUIRED(struct kvc_object_key, model_name, kvc_type_str),
    REQUIRED(struct kvc_object_key, kv_rank, kvc_type_int),
    DEFAULTED(struct kvc_object_key, object_group_id, kvc_type_int, 0),
    DEFAULTED(struct kvc_object_key, cache_salt, type_salt, 0),
};
static const struct kvc_type type_object_key = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_object_key), FIELDS(object_key_fields)};
DEFINE_LIST(kvc_type_object_keys, struct kvc_object_keys, type_object_key);

static const struct kvc_field memory_layout_fields[] = {
    REQUIRED(struct kvc_memory_layout, shapes, kvc_type_int_lists),
    REQUIRED(struct kvc_memory_layout, dtypes, kvc_type_strs),
};
const struct kvc_type kvc_type_memory_layout = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_memory_layout), FIELDS(memory_layout_fields)};
const struct kvc_type kvc_type_memory_layout_by_group = {.kind = KVC_KIND_ZERO_MAP,
                                                         .size = sizeof(struct kvc_memory_layout),
                                                         .element = &kvc_type_memory_layout};

static const struct kvc_field object_address_fields[] = {
    REQUIRED(struct kvc_object_address, offset, kvc_type_int),
    REQUIRED(struct kvc_object_address, size, kvc_type_int),
};
static const struct kvc_type type_object_address = {
    .kind = KVC_KIND_MAP, .size = sizeof(struct kvc_object_address), FIELDS(object_address_fields)};
DEFINE_LIST(kvc_type_object_addresses, struct kvc_object_addresses, type_object_address);
