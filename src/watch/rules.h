/* What a client of an MP server can do wrong: one row each, for whoever finds it, says it or lists it. */
#ifndef KVC_WATCH_RULES_H
#define KVC_WATCH_RULES_H

#include <stddef.h>

/* clang-format off */
/* X(identifier, name, what the client did, what comes of it, source) */
#define KVC_RULES(X) \
    /* messages */ \
    X(SHORT_MESSAGE, "short-message", "a message of fewer than two frames", "it ends the request loop of every release: nobody is answered any more", "protocol 11.1, B01") \
    X(UNKNOWN_OPERATION, "unknown-operation", "an operation that the dialect does not have", "up to 0.5.5 it ends the request loop, from 0.5.6 on it is ignored", "protocol 1.2, 11.1, B01") \
    X(PAYLOAD_COUNT, "payload-count", "another number of payload frames than the operation has", "the request is never answered", "protocol 1.3, 2") \
    X(PAYLOAD_TYPE, "payload-type", "a payload that does not read as what it should be", "the request is never answered", "protocol 1.3, 3") \
    X(BAD_SALT, "bad-salt", "a cache salt that is longer than 128 characters, or has a separator (@, /, \\, NUL) in it", "the request is never answered", "protocol 3.1, B19") \
    X(UID_IN_FLIGHT, "uid-in-flight", "a uid that an earlier request waits with", "the two replies cannot be told apart", "protocol 1.1, B04") \
    X(SENT_BEFORE_REPLY, "sent-before-reply", "a request sent before the reply of one that it depends on", "there is no order between classes of operations: it may run first", "protocol 1.5, B37") \
    /* registration */ \
    X(NOT_REGISTERED, "not-registered", "an operation of an instance that is not registered", "most are never answered; what is answered did nothing", "protocol 4.3, 4.10, 4.13") \
    X(REGISTERED_AGAIN, "registered-again", "another registration, with other arguments, of an instance that is registered", "releases acknowledge it and go on with the old memory and geometry", "protocol 4.2, 4.3, B22") \
    X(REGISTERED_NOTHING, "registered-nothing", "a registration without a tensor, a layer or a byte", "it, or every transfer after it, is never answered", "protocol 4.2, 4.3") \
    X(NOT_UNREGISTERED, "not-unregistered", "an instance that was never unregistered", "its memory stays mapped and its model served until it is reaped", "protocol 4.4, 4.5, B43, B69") \
    X(FELL_SILENT, "fell-silent", "an instance that was silent for longer than servers wait", "it is dropped, with all that it has under way", "protocol 4.5, B42") \
    /* keys */ \
    X(NO_WORKER, "no-worker", "a transfer without worker_id, or with a rank that the world does not have", "without one it is never answered; with a wrong one the chunks are found by no lookup", "protocol 3.1, 4.6") \
    X(UNALIGNED_WINDOW, "unaligned-window", "a window that does not begin and end on a chunk", "the transfer is never answered", "protocol 4.10, 4.12, 4.13, B63") \
    X(EMPTY_WINDOW, "empty-window", "a transfer of no chunk", "nothing is stored, a retrieve fails", "protocol 4.10, 4.12, 4.13") \
    X(END_BEYOND_TOKENS, "end-beyond-tokens", "a window that ends behind the tokens", "from 0.5.5 on it is never answered; before, chunks of meaningless hashes are stored", "protocol 4.10") \
    X(TOKEN_RANGE, "token-range", "a token that does not fit 32 bits", "the request is never answered", "protocol 3.1") \
    X(OTHER_MODEL, "other-model", "a key of another model or world than the instance's", "it is accepted, and the bytes go to the other model's chunks", "protocol 4.3, B24") \
    X(MODEL_NOT_REGISTERED, "model-not-registered", "a lookup for a model and world that no instance serves", "it finds nothing, whatever is cached", "protocol 4.6") \
    X(NO_KV_READERS, "no-kv-readers", "a lookup whose key has no num_kv_readers of at least 1", "it is never answered, and looks like a cold cache", "protocol 4.6, B27") \
    X(REQUEST_ID_REUSED, "request-id-reused", "a request id used again with other tokens, before its session was ended", "releases store and retrieve under the hashes of the first tokens", "protocol 4.9, B37") \
    /* block ids */ \
    X(BLOCK_LISTS, "block-lists", "another number of block id lists than kernel groups", "the transfer is never answered", "protocol 4.13, 6.4") \
    X(TOO_FEW_BLOCKS, "too-few-blocks", "fewer block ids than the window has blocks", "nothing is transferred, and releases leave locks behind", "protocol 4.13, 4.14, B63") \
    X(TOO_MANY_BLOCKS, "too-many-blocks", "more block ids than the window has blocks", "the transfer is never answered", "protocol 4.13") \
    X(BLOCK_OUT_OF_RANGE, "block-out-of-range", "a block id that the registered tensors do not have", "nothing is transferred, and releases leave the chunks reserved", "protocol 4.13, N01") \
    /* lookups and locks */ \
    X(POLLED_WITHOUT_LOOKUP, "polled-without-lookup", "a question for the result of a lookup that was not made", "the answer is 0, and looks like a cold cache", "protocol 4.7") \
    X(POLLED_AFTER_RESULT, "polled-after-result", "a question for a lookup's result after it was delivered", "the answer is 0, and looks like a cold cache", "protocol 4.7, B39") \
    X(RESULT_NOT_FETCHED, "result-not-fetched", "a lookup whose result nobody asked for", "whatever it has locked stays locked until the lease ends", "protocol 4.6, 4.7, B26") \
    X(RETRIEVE_WITHOUT_LOOKUP, "retrieve-without-lookup", "a retrieve for a request that has made no lookup", "it fails, or uses up a lock that somebody else took", "protocol 4.12, 4.14") \
    X(RETRIEVE_BEYOND_HITS, "retrieve-beyond-hits", "a retrieve of chunks that the request's lookup has not locked, or that are used up", "it fails, or uses up a lock that somebody else took", "protocol 4.12, 4.14") \
    X(FREED_NOTHING, "freed-nothing", "FREE_LOOKUP_LOCKS where the request holds no lock", "up to 0.5.3 it takes the locks of others", "protocol 4.8, B28") \
    X(LOCK_NOT_RELEASED, "lock-not-released", "chunks that a lookup locked and that were neither retrieved nor freed", "no release frees them at END_SESSION: they cannot be evicted until the lease ends", "protocol 4.6, 4.9, 11.3, B26") \
    /* sessions */ \
    X(SESSION_NOT_ENDED, "session-not-ended", "a request that was never ended by END_SESSION", "the server keeps its tokens and hashes for 600 s", "protocol 4.9") \
    X(ENDED_AFTER_UNREGISTER, "ended-after-unregister", "END_SESSION after the last instance of its model has left", "no release answers it", "protocol 4.4") \
    /* engine-driven transfers */ \
    X(COMMIT_WITHOUT_PREPARE, "commit-without-prepare", "a commit of what was not prepared, or was committed already", "a store answers false; a retrieve has read what it was not given", "protocol 4.10, 4.12, B33") \
    X(COMMIT_WITHOUT_SLOTS, "commit-without-slots", "a commit where the preparation gave no slot", "there was nothing to write; it answers false", "protocol 4.10") \
    X(STORE_NOT_COMMITTED, "store-not-committed", "slots that were given to write and never committed", "they stay reserved for 600 s; if the instance leaves, releases publish what they hold", "protocol 4.4, 4.10, B33") \
    X(RETRIEVE_NOT_COMMITTED, "retrieve-not-committed", "slots that were given to read and never given back", "the chunks stay locked until the lease ends", "protocol 4.12, B26") \
    X(INLINE_DESPITE_POOL, "inline-despite-pool", "data sent inside the message though a pool was offered", "it is slow, and the slots that were prepared stay reserved", "protocol 4.10, 5.2, B64") \
    X(BAD_INLINE_DATA, "bad-inline-data", "data that are not the chunks of the window in the registered shape", "nothing, or a part, is stored, and the chunks stay reserved", "protocol 3.8, 4.11, B33, B64") \
    X(CLEAR_UNDER_TRANSFER, "clear-under-transfer", "a forced CLEAR while slots are being written or read", "the pool uses the slots again under whoever has them", "protocol 4.15, 11.3, B70") \
    /* memory, which only the server sees */ \
    X(SLOT_NOT_WRITTEN, "slot-not-written", "a slot that was committed and not, or not wholly, written", "the next retrieve gets what was there before", "protocol 4.10, 5, B64") \
    X(WROTE_OUTSIDE_SLOT, "wrote-outside-slot", "bytes written into the pool beside the slot", "they are somebody else's chunk", "protocol 5") \
    X(WROTE_AFTER_COMMIT, "wrote-after-commit", "bytes written into a chunk that is committed", "whoever reads it gets a mixture", "protocol 4.10, 5, B51") \
    X(MEMORY_GONE, "memory-gone", "registered memory that was cut short before the instance left", "the server touches pages that are not there", "protocol 3.6, B65") \
    /* anything else that a server does not answer */ \
    X(REFUSED, "refused", "a request that the server does not answer, for another reason", "the client waits until it gives up", "protocol 1.4, B02")
/* clang-format on */

enum kvc_rule_id {
#define X(identifier, name, wrong, matter, source) KVC_RULE_##identifier,
    KVC_RULES(X)
#undef X
        KVC_RULE_COUNT
};

struct kvc_rule {
    const char *name;   /* kebab-case */
    const char *wrong;  /* what the client did */
    const char *matter; /* what comes of it */
    const char *source; /* "protocol 4.6", "B26" */
};

extern const struct kvc_rule kvc_rules[KVC_RULE_COUNT];

#endif
