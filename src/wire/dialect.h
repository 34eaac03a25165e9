/* Dialects as data: which release speaks which operation ids, payload shapes and semantics.
 * For whoever encodes or decodes, and for checks that ask "has this feature?". */
#ifndef KVC_WIRE_DIALECT_H
#define KVC_WIRE_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "src/base/bytes.h"

/* Every operation that any supported dialect has. The order is that of 0.5.6. */
enum kvc_op {
    KVC_OP_NONE = 0,
    KVC_OP_REGISTER_KV_CACHE,
    KVC_OP_UNREGISTER_KV_CACHE,
    KVC_OP_REGISTER_Q_CACHE,
    KVC_OP_UNREGISTER_Q_CACHE,
    KVC_OP_STORE_Q,
    KVC_OP_STORE,
    KVC_OP_RETRIEVE,
    KVC_OP_LOOKUP,
    KVC_OP_QUERY_PREFETCH_STATUS,
    KVC_OP_WAIT_PREFETCH_STATUS,
    KVC_OP_QUERY_PREFETCH_LOOKUP_HITS,
    KVC_OP_FREE_LOOKUP_LOCKS,
    KVC_OP_END_SESSION,
    KVC_OP_REGISTER_ENGINE_DRIVEN,   /* REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT */
    KVC_OP_UNREGISTER_ENGINE_DRIVEN, /* UNREGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT */
    KVC_OP_PREPARE_STORE,
    KVC_OP_COMMIT_STORE,
    KVC_OP_PREPARE_RETRIEVE,
    KVC_OP_COMMIT_RETRIEVE,
    KVC_OP_CLEAR,
    KVC_OP_GET_CHUNK_SIZE,
    KVC_OP_PING,
    KVC_OP_REPORT_BLOCK_ALLOCATION,
    KVC_OP_NOOP,
    KVC_OP_CB_REGISTER_ROPE,
    KVC_OP_CB_UNREGISTER_ROPE,
    KVC_OP_CB_RETRIEVE_PRE_COMPUTED,
    KVC_OP_CB_UNIFIED_LOOKUP,
    KVC_OP_P2P_LOOKUP_AND_LOCK,
    KVC_OP_P2P_QUERY_LOOKUP_RESULTS,
    KVC_OP_P2P_UNLOCK_OBJECTS,
    KVC_OP_GET_EXPERIMENTAL,
    KVC_OP_CB_PROTOCOL_HANDSHAKE,
    KVC_OP_CB_REORDER_PLAN,     /* by name only */
    KVC_OP_SUBSCRIBE_KV_EVENTS, /* by name only */
    KVC_OP_SERVER_MODULE_CALL,  /* by name only */
    /* the blend generation that ended with 0.5.4 */
    KVC_OP_CB_REGISTER_KV_CACHE,
    KVC_OP_CB_UNREGISTER_KV_CACHE,
    KVC_OP_CB_STORE_PRE_COMPUTED,
    KVC_OP_CB_LOOKUP_PRE_COMPUTED,
    KVC_OP_CB_STORE_FINAL,
    KVC_OP_CB_LOOKUP_PRE_COMPUTED_V2,
    KVC_OP_CB_RETRIEVE_PRE_COMPUTED_V2,
    KVC_OP_CB_RETRIEVE_PRE_COMPUTED_V3,
    KVC_OP_CB_REGISTER_ROPE_V3,
    KVC_OP_CB_UNREGISTER_ROPE_V3,
    KVC_OP_COUNT,
};

/* What a dialect has or does. Checks and encoders ask for these, never for a version. */
enum kvc_feature {
    KVC_FEATURE_OP_NAMES = 1u << 0,       /* operations may be named by a string */
    KVC_FEATURE_HANDLE_PICKLE = 1u << 1,  /* tensor handles are pickles */
    KVC_FEATURE_HANDLE_MSGPACK = 1u << 2, /* tensor handles are msgpack descriptors */
    KVC_FEATURE_KV_READERS = 1u << 3,     /* the key has request_configs, num_kv_readers; needed */
    KVC_FEATURE_PHYSICAL_SLOTS = 1u << 4, /* engine-driven register: num_physical_slots */
    KVC_FEATURE_GROUP_TAGS = 1u << 5, /* EngineGroupInfo: extra_object_group_tag, recurrent_state */
    KVC_FEATURE_CLEAR_FORCE = 1u << 6,        /* CLEAR takes one bool */
    KVC_FEATURE_LOOKUP_END = 1u << 7,         /* LOOKUP honours key.end */
    KVC_FEATURE_LAYOUT_HINT_ON_CPU = 1u << 8, /* kv_layout decides NHD or HND; before: always HND */
    KVC_FEATURE_WRITE_STAGING = 1u << 9,      /* uncommitted objects live in invisible staging */
    KVC_FEATURE_UNKNOWN_OP_SURVIVED = 1u << 10, /* releases of it survive an unknown operation */
    KVC_FEATURE_STORE_UNKNOWN_ANSWERED = 1u
                                         << 11, /* STORE of an unknown instance: [empty, false] */
    KVC_FEATURE_END_BOUND = 1u << 12,           /* key.end > len(token_ids) is refused */
    KVC_FEATURE_LOOKUP_HITS = 1u << 13,         /* QUERY_PREFETCH_LOOKUP_HITS exists */
    KVC_FEATURE_P2P_LAYOUT_MAP = 1u << 14,      /* P2P_LOOKUP_AND_LOCK: layouts by group, not one */
    KVC_FEATURE_EXPERIMENTAL = 1u << 15,        /* GET_EXPERIMENTAL exists */
    KVC_FEATURE_KV_EVENTS = 1u << 16,           /* SUBSCRIBE_KV_EVENTS exists */
    KVC_FEATURE_NULL_BLOCK = 1u << 17,          /* a chunk of null blocks only is not stored */
    KVC_FEATURE_FREE_NEEDS_LOOKUP = 1u
                                    << 18, /* FREE_LOOKUP_LOCKS acts on the session's own lookup */
    KVC_FEATURE_TP_SIZE_LOCKS = 1u << 19,  /* lock count from tp_size and world_size */
    KVC_FEATURE_FUSED_SPLIT = 1u << 20,    /* 4-D fused tensors are split into K and V */
    KVC_FEATURE_P2P_GAPS = 1u << 21,       /* P2P_LOOKUP_AND_LOCK: also what is behind a gap */
    KVC_FEATURE_ALLOC_OFFSET = 1u << 22,   /* CUDA tensors may lie anywhere in their allocation */
};

struct kvc_dialect {
    const char *name;            /* its first release: "0.5.0", "0.5.3", "0.5.5", "0.5.6" */
    const char *const *releases; /* all of them, NULL-terminated */
    int16_t id[KVC_OP_COUNT];    /* the integer id; -1: has none */
    bool has[KVC_OP_COUNT];      /* the operation exists (by id or by name) */
    uint32_t features;           /* enum kvc_feature */
};

/* The dialects, oldest first. The position is the order that "first" and "last" of a check mean. */
extern const struct kvc_dialect *const kvc_dialects[];
extern const size_t kvc_dialect_count;

/* The dialect that a release speaks ("0.5.1"; a suffix such as "-g97…" or "+cpu" is ignored), or
 * NULL. */
const struct kvc_dialect *kvc_dialect_find(struct kvc_str release);
/* Its position in kvc_dialects. */
size_t kvc_dialect_position(const struct kvc_dialect *dialect);
bool kvc_dialect_has(const struct kvc_dialect *dialect, enum kvc_feature feature);

/* The operation's name as 0.5.6 spells it on the wire: "lookup", "register_kv_cache", … */
const char *kvc_op_name(enum kvc_op op);
/* KVC_OP_NONE when nothing has that name, or the dialect lacks that id. */
enum kvc_op kvc_op_by_name(struct kvc_str name);
enum kvc_op kvc_op_by_id(const struct kvc_dialect *dialect, int64_t id);

#endif
