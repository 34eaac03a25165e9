/* The tables of the structs of types.h, for the rows of the operations. Inside src/wire only. */
#ifndef KVC_WIRE_VALUES_H
#define KVC_WIRE_VALUES_H

#include "src/wire/schema.h"

/* Parts of requests. */
extern const struct kvc_type kvc_type_key;
extern const struct kvc_type kvc_type_engine_driven_register;
extern const struct kvc_type kvc_type_tensor_handles;
extern const struct kvc_type kvc_type_engine_type;
extern const struct kvc_type kvc_type_layout_hints;
extern const struct kvc_type kvc_type_engine_group_infos;
extern const struct kvc_type kvc_type_block_allocations;
extern const struct kvc_type kvc_type_object_keys;
extern const struct kvc_type kvc_type_memory_layout;
extern const struct kvc_type kvc_type_memory_layout_by_group;

/* Parts of replies. */
extern const struct kvc_type kvc_type_transfer_result;
extern const struct kvc_type kvc_type_pool_info;
extern const struct kvc_type kvc_type_prepare_store_result; /* on a struct kvc_transfer_context */
extern const struct kvc_type kvc_type_prepare_retrieve_result;
extern const struct kvc_type kvc_type_object_addresses;

#endif
