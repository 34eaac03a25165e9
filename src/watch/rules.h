/* What a client of an MP server can do wrong: one table, for whoever finds it, says it or lists it. */
#ifndef KVC_WATCH_RULES_H
#define KVC_WATCH_RULES_H

#include <stddef.h>

enum kvc_rule_id {
    /* messages */
    KVC_RULE_SHORT_MESSAGE,
    KVC_RULE_UNKNOWN_OPERATION,
    KVC_RULE_PAYLOAD_COUNT,
    KVC_RULE_PAYLOAD_TYPE,
    KVC_RULE_BAD_SALT,
    KVC_RULE_UID_IN_FLIGHT,
    KVC_RULE_SENT_BEFORE_REPLY,
    /* registration */
    KVC_RULE_NOT_REGISTERED,
    KVC_RULE_REGISTERED_AGAIN,
    KVC_RULE_REGISTERED_NOTHING,
    KVC_RULE_NOT_UNREGISTERED,
    KVC_RULE_FELL_SILENT,
    /* keys */
    KVC_RULE_NO_WORKER,
    KVC_RULE_UNALIGNED_WINDOW,
    KVC_RULE_EMPTY_WINDOW,
    KVC_RULE_END_BEYOND_TOKENS,
    KVC_RULE_TOKEN_RANGE,
    KVC_RULE_OTHER_MODEL,
    KVC_RULE_MODEL_NOT_REGISTERED,
    KVC_RULE_NO_KV_READERS,
    KVC_RULE_REQUEST_ID_REUSED,
    /* block ids */
    KVC_RULE_BLOCK_LISTS,
    KVC_RULE_TOO_FEW_BLOCKS,
    KVC_RULE_TOO_MANY_BLOCKS,
    KVC_RULE_BLOCK_OUT_OF_RANGE,
    /* lookups and locks */
    KVC_RULE_POLLED_WITHOUT_LOOKUP,
    KVC_RULE_POLLED_AFTER_RESULT,
    KVC_RULE_RESULT_NOT_FETCHED,
    KVC_RULE_RETRIEVE_WITHOUT_LOOKUP,
    KVC_RULE_RETRIEVE_BEYOND_HITS,
    KVC_RULE_FREED_NOTHING,
    KVC_RULE_LOCK_NOT_RELEASED,
    /* sessions */
    KVC_RULE_SESSION_NOT_ENDED,
    KVC_RULE_ENDED_AFTER_UNREGISTER,
    /* engine-driven transfers */
    KVC_RULE_COMMIT_WITHOUT_PREPARE,
    KVC_RULE_COMMIT_WITHOUT_SLOTS,
    KVC_RULE_STORE_NOT_COMMITTED,
    KVC_RULE_RETRIEVE_NOT_COMMITTED,
    KVC_RULE_INLINE_DESPITE_POOL,
    KVC_RULE_BAD_INLINE_DATA,
    KVC_RULE_CLEAR_UNDER_TRANSFER,
    /* memory, which only the server sees */
    KVC_RULE_SLOT_NOT_WRITTEN,
    KVC_RULE_WROTE_OUTSIDE_SLOT,
    KVC_RULE_WROTE_AFTER_COMMIT,
    KVC_RULE_MEMORY_GONE,
    /* anything else that a server does not answer */
    KVC_RULE_REFUSED,
    KVC_RULE_COUNT,
};

struct kvc_rule {
    const char *name;   /* kebab-case */
    const char *wrong;  /* what the client did */
    const char *matter; /* what comes of it */
    const char *source; /* "protocol 4.6", "B26" */
};

extern const struct kvc_rule kvc_rules[KVC_RULE_COUNT];

#endif
