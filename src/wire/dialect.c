#include "src/wire/dialect.h"

#include <string.h>

/* One row an operation: name, then its id in 0.5.0, 0.5.3, 0.5.5 and 0.5.6 (protocol.md 2).
 * ABSENT: the dialect lacks it; NAMED: it has a name, but no id. */
enum { ABSENT = -1, NAMED = -2 };

/* clang-format off */
#define OPERATIONS(ROW)                                                                            \
    ROW(REGISTER_KV_CACHE,            "register_kv_cache",                  1,      1,      1,      1)      \
    ROW(UNREGISTER_KV_CACHE,          "unregister_kv_cache",                2,      2,      2,      2)      \
    ROW(REGISTER_Q_CACHE,             "register_q_cache",                   ABSENT, 3,      3,      3)      \
    ROW(UNREGISTER_Q_CACHE,           "unregister_q_cache",                 ABSENT, 4,      4,      4)      \
    ROW(STORE_Q,                      "store_q",                            ABSENT, 5,      5,      5)      \
    ROW(STORE,                        "store",                              3,      6,      6,      6)      \
    ROW(RETRIEVE,                     "retrieve",                           4,      7,      7,      7)      \
    ROW(LOOKUP,                       "lookup",                             5,      8,      8,      8)      \
    ROW(QUERY_PREFETCH_STATUS,        "query_prefetch_status",              6,      9,      9,      9)      \
    ROW(WAIT_PREFETCH_STATUS,         "wait_prefetch_status",               7,      10,     10,     10)     \
    ROW(QUERY_PREFETCH_LOOKUP_HITS,   "query_prefetch_lookup_hits",         8,      11,     11,     ABSENT) \
    ROW(FREE_LOOKUP_LOCKS,            "free_lookup_locks",                  9,      12,     12,     12)     \
    ROW(END_SESSION,                  "end_session",                        10,     13,     13,     13)     \
    ROW(REGISTER_ENGINE_DRIVEN,       "register_kv_cache_engine_driven_context",                   \
                                                                            11,     14,     14,     14)     \
    ROW(UNREGISTER_ENGINE_DRIVEN,     "unregister_kv_cache_engine_driven_context",                 \
                                                                            12,     15,     15,     15)     \
    ROW(PREPARE_STORE,                "prepare_store",                      13,     16,     16,     16)     \
    ROW(COMMIT_STORE,                 "commit_store",                       14,     17,     17,     17)     \
    ROW(PREPARE_RETRIEVE,             "prepare_retrieve",                   15,     18,     18,     18)     \
    ROW(COMMIT_RETRIEVE,              "commit_retrieve",                    16,     19,     19,     19)     \
    ROW(CLEAR,                        "clear",                              17,     20,     20,     20)     \
    ROW(GET_CHUNK_SIZE,               "get_chunk_size",                     18,     21,     21,     21)     \
    ROW(PING,                         "ping",                               19,     22,     22,     22)     \
    ROW(REPORT_BLOCK_ALLOCATION,      "report_block_allocation",            20,     23,     23,     23)     \
    ROW(NOOP,                         "noop",                               21,     24,     24,     24)     \
    ROW(CB_REGISTER_ROPE,             "cb_register_rope",                   ABSENT, ABSENT, 25,     25)     \
    ROW(CB_UNREGISTER_ROPE,           "cb_unregister_rope",                 ABSENT, ABSENT, 26,     26)     \
    ROW(CB_RETRIEVE_PRE_COMPUTED,     "cb_retrieve_pre_computed",           26,     29,     27,     27)     \
    ROW(CB_UNIFIED_LOOKUP,            "cb_unified_lookup",                  33,     36,     28,     28)     \
    ROW(P2P_LOOKUP_AND_LOCK,          "p2p_lookup_and_lock",                34,     37,     29,     29)     \
    ROW(P2P_QUERY_LOOKUP_RESULTS,     "p2p_query_lookup_results",           35,     38,     30,     30)     \
    ROW(P2P_UNLOCK_OBJECTS,           "p2p_unlock_objects",                 36,     39,     31,     31)     \
    ROW(GET_EXPERIMENTAL,             "get_experimental",                   ABSENT, 40,     32,     32)     \
    ROW(CB_PROTOCOL_HANDSHAKE,        "cb_protocol_handshake",              ABSENT, ABSENT, 33,     33)     \
    ROW(CB_REORDER_PLAN,              "cb_reorder_plan",                    ABSENT, ABSENT, ABSENT, NAMED)  \
    ROW(SUBSCRIBE_KV_EVENTS,          "subscribe_kv_events",                ABSENT, ABSENT, ABSENT, NAMED)  \
    ROW(SERVER_MODULE_CALL,           "server_module_call",                 ABSENT, ABSENT, ABSENT, NAMED)  \
    ROW(CB_REGISTER_KV_CACHE,         "cb_register_kv_cache",               22,     25,     ABSENT, ABSENT) \
    ROW(CB_UNREGISTER_KV_CACHE,       "cb_unregister_kv_cache",             23,     26,     ABSENT, ABSENT) \
    ROW(CB_STORE_PRE_COMPUTED,        "cb_store_pre_computed",              24,     27,     ABSENT, ABSENT) \
    ROW(CB_LOOKUP_PRE_COMPUTED,       "cb_lookup_pre_computed",             25,     28,     ABSENT, ABSENT) \
    ROW(CB_STORE_FINAL,               "cb_store_final",                     27,     30,     ABSENT, ABSENT) \
    ROW(CB_LOOKUP_PRE_COMPUTED_V2,    "cb_lookup_pre_computed_v2",          28,     31,     ABSENT, ABSENT) \
    ROW(CB_RETRIEVE_PRE_COMPUTED_V2,  "cb_retrieve_pre_computed_v2",        29,     32,     ABSENT, ABSENT) \
    ROW(CB_RETRIEVE_PRE_COMPUTED_V3,  "cb_retrieve_pre_computed_v3",        32,     35,     ABSENT, ABSENT) \
    ROW(CB_REGISTER_ROPE_V3,          "cb_register_rope_v3",                30,     33,     ABSENT, ABSENT) \
    ROW(CB_UNREGISTER_ROPE_V3,        "cb_unregister_rope_v3",              31,     34,     ABSENT, ABSENT)
/* clang-format on */

#define ID(column)                      ((column) < 0 ? -1 : (column))
#define NAME_ROW(op, name, a, b, c, d)  [KVC_OP_##op] = (name),
#define ID_0_5_0(op, name, a, b, c, d)  [KVC_OP_##op] = ID(a),
#define ID_0_5_3(op, name, a, b, c, d)  [KVC_OP_##op] = ID(b),
#define ID_0_5_5(op, name, a, b, c, d)  [KVC_OP_##op] = ID(c),
#define ID_0_5_6(op, name, a, b, c, d)  [KVC_OP_##op] = ID(d),
#define HAS_0_5_0(op, name, a, b, c, d) [KVC_OP_##op] = (a) != ABSENT,
#define HAS_0_5_3(op, name, a, b, c, d) [KVC_OP_##op] = (b) != ABSENT,
#define HAS_0_5_5(op, name, a, b, c, d) [KVC_OP_##op] = (c) != ABSENT,
#define HAS_0_5_6(op, name, a, b, c, d) [KVC_OP_##op] = (d) != ABSENT,

static const char *const op_names[KVC_OP_COUNT] = {OPERATIONS(NAME_ROW)};

static const char *const releases_0_5_0[] = {"0.5.0", "0.5.1", "0.5.2", NULL};
static const char *const releases_0_5_3[] = {"0.5.3", "0.5.4", NULL};
static const char *const releases_0_5_5[] = {"0.5.5", NULL};
static const char *const releases_0_5_6[] = {"0.5.6", NULL};

static const struct kvc_dialect dialect_0_5_0 = {
    .name = "0.5.0",
    .releases = releases_0_5_0,
    .id = {[KVC_OP_NONE] = -1, OPERATIONS(ID_0_5_0)},
    .has = {OPERATIONS(HAS_0_5_0)},
    .features = KVC_FEATURE_HANDLE_PICKLE | KVC_FEATURE_LOOKUP_HITS | KVC_FEATURE_TP_SIZE_LOCKS |
                KVC_FEATURE_FUSED_SPLIT,
};

/* Null blocks are left out from 0.5.4 on: the later release speaks for the dialect. */
static const struct kvc_dialect dialect_0_5_3 = {
    .name = "0.5.3",
    .releases = releases_0_5_3,
    .id = {[KVC_OP_NONE] = -1, OPERATIONS(ID_0_5_3)},
    .has = {OPERATIONS(HAS_0_5_3)},
    .features = KVC_FEATURE_HANDLE_PICKLE | KVC_FEATURE_LOOKUP_HITS | KVC_FEATURE_TP_SIZE_LOCKS |
                KVC_FEATURE_P2P_LAYOUT_MAP | KVC_FEATURE_P2P_GAPS | KVC_FEATURE_EXPERIMENTAL |
                KVC_FEATURE_NULL_BLOCK,
};

static const struct kvc_dialect dialect_0_5_5 = {
    .name = "0.5.5",
    .releases = releases_0_5_5,
    .id = {[KVC_OP_NONE] = -1, OPERATIONS(ID_0_5_5)},
    .has = {OPERATIONS(HAS_0_5_5)},
    .features = KVC_FEATURE_HANDLE_PICKLE | KVC_FEATURE_LOOKUP_HITS | KVC_FEATURE_KV_READERS |
                KVC_FEATURE_PHYSICAL_SLOTS | KVC_FEATURE_GROUP_TAGS |
                KVC_FEATURE_LAYOUT_HINT_ON_CPU | KVC_FEATURE_STORE_UNKNOWN_ANSWERED |
                KVC_FEATURE_END_BOUND | KVC_FEATURE_P2P_LAYOUT_MAP | KVC_FEATURE_P2P_GAPS |
                KVC_FEATURE_EXPERIMENTAL | KVC_FEATURE_NULL_BLOCK | KVC_FEATURE_ALLOC_OFFSET,
};

static const struct kvc_dialect dialect_0_5_6 = {
    .name = "0.5.6",
    .releases = releases_0_5_6,
    .id = {[KVC_OP_NONE] = -1, OPERATIONS(ID_0_5_6)},
    .has = {OPERATIONS(HAS_0_5_6)},
    .features = KVC_FEATURE_OP_NAMES | KVC_FEATURE_HANDLE_MSGPACK | KVC_FEATURE_KV_READERS |
                KVC_FEATURE_PHYSICAL_SLOTS | KVC_FEATURE_GROUP_TAGS | KVC_FEATURE_CLEAR_FORCE |
                KVC_FEATURE_LOOKUP_END | KVC_FEATURE_LAYOUT_HINT_ON_CPU |
                KVC_FEATURE_WRITE_STAGING | KVC_FEATURE_UNKNOWN_OP_SURVIVED |
                KVC_FEATURE_STORE_UNKNOWN_ANSWERED | KVC_FEATURE_END_BOUND |
                KVC_FEATURE_P2P_LAYOUT_MAP | KVC_FEATURE_P2P_GAPS | KVC_FEATURE_EXPERIMENTAL |
                KVC_FEATURE_KV_EVENTS | KVC_FEATURE_NULL_BLOCK | KVC_FEATURE_FREE_NEEDS_LOOKUP |
                KVC_FEATURE_ALLOC_OFFSET,
};

const struct kvc_dialect *const kvc_dialects[] = {
    &dialect_0_5_0,
    &dialect_0_5_3,
    &dialect_0_5_5,
    &dialect_0_5_6,
};
const size_t kvc_dialect_count = KVC_COUNT_OF(kvc_dialects);

/* The release without what packagers append: "0.5.6-g3e11e108", "0.5.1+cpu". */
static struct kvc_str without_suffix(struct kvc_str release)
{
    size_t size = 0;
    while (size < release.size && release.data[size] != '-' && release.data[size] != '+')
        size++;
    return (struct kvc_str){release.data, size};
}

const struct kvc_dialect *kvc_dialect_find(struct kvc_str release)
{
    const struct kvc_str wanted = without_suffix(release);
    for (size_t i = 0; i < kvc_dialect_count; i++)
        for (const char *const *name = kvc_dialects[i]->releases; *name != NULL; name++)
            if (kvc_str_is(wanted, *name))
                return kvc_dialects[i];
    return NULL;
}

size_t kvc_dialect_position(const struct kvc_dialect *dialect)
{
    size_t position = 0;
    while (position < kvc_dialect_count && kvc_dialects[position] != dialect)
        position++;
    return position;
}

bool kvc_dialect_has(const struct kvc_dialect *dialect, enum kvc_feature feature)
{
    return (dialect->features & (uint32_t)feature) != 0;
}

const char *kvc_op_name(enum kvc_op op)
{
    const char *name = (size_t)op < KVC_OP_COUNT ? op_names[op] : NULL;
    return name != NULL ? name : "none";
}

enum kvc_op kvc_op_by_name(struct kvc_str name)
{
    for (int op = KVC_OP_NONE + 1; op < KVC_OP_COUNT; op++)
        if (kvc_str_is(name, op_names[op]))
            return (enum kvc_op)op;
    return KVC_OP_NONE;
}

enum kvc_op kvc_op_by_id(const struct kvc_dialect *dialect, int64_t id)
{
    if (id < 0)
        return KVC_OP_NONE;
    for (int op = KVC_OP_NONE + 1; op < KVC_OP_COUNT; op++)
        if (dialect->id[op] == id)
            return (enum kvc_op)op;
    return KVC_OP_NONE;
}
