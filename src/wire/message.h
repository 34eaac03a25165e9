/* Requests and replies: between the typed members below and frames, in any dialect.
 * For drivers and checks (encode requests, decode replies) and for the mock (the other way round).
 * Which members an operation uses, and in which order they become frames, is one table in
 * message.c: encoder and decoder walk the same rows. */
#ifndef KVC_WIRE_MESSAGE_H
#define KVC_WIRE_MESSAGE_H

#include "src/wire/dialect.h"
#include "src/wire/frames.h"
#include "src/wire/types.h"

/* A request. Set op and the members that the operation uses; the rest stays zero. */
struct kvc_request {
    enum kvc_op op;
    struct kvc_key key;  /* STORE, RETRIEVE, LOOKUP, FREE_LOOKUP_LOCKS, PREPARE_*, COMMIT_* */
    int64_t instance_id; /* (UN)REGISTER_*, STORE, RETRIEVE, PREPARE_*, COMMIT_*, REPORT_* */
    struct kvc_optional_int ping_instance;           /* PING */
    int64_t tp_size;                                 /* LOOKUP, FREE_LOOKUP_LOCKS */
    struct kvc_int_lists block_ids;                  /* STORE, RETRIEVE */
    struct kvc_bytes event_handle;                   /* STORE, RETRIEVE */
    int64_t skip_first_n_tokens;                     /* RETRIEVE */
    struct kvc_str request_id;                       /* QUERY_*, WAIT_*, END_SESSION */
    double timeout_seconds;                          /* WAIT_PREFETCH_STATUS */
    struct kvc_engine_driven_register engine_driven; /* REGISTER_ENGINE_DRIVEN */
    struct kvc_bytes data;                           /* COMMIT_STORE */
    struct kvc_tensor_handles handles;               /* REGISTER_KV_CACHE, REGISTER_Q_CACHE */
    struct kvc_str model_name;                       /* REGISTER_*, REPORT_*, SUBSCRIBE_* */
    int64_t world_size;                              /* REGISTER_KV_CACHE */
    struct kvc_str engine_type;                      /* REGISTER_KV_CACHE: "vllm" */
    struct kvc_layout_hints layout_hints;            /* REGISTER_KV_CACHE */
    struct kvc_engine_group_infos groups;            /* REGISTER_KV_CACHE */
    bool force;                                      /* CLEAR, with KVC_FEATURE_CLEAR_FORCE */
    struct kvc_block_allocations allocations;        /* REPORT_BLOCK_ALLOCATION */
    struct kvc_object_keys object_keys;              /* P2P_LOOKUP_AND_LOCK, P2P_UNLOCK_OBJECTS */
    struct kvc_memory_layout object_layout;          /* P2P_LOOKUP_AND_LOCK (of object group 0) */
    int64_t task_id;                                 /* P2P_QUERY_LOOKUP_RESULTS */
    int64_t cursor;                                  /* SUBSCRIBE_KV_EVENTS */
    int64_t max_events;
};

/* A reply. is_void: two frames, no result; then no member below has a meaning. */
struct kvc_reply {
    enum kvc_op op;
    bool is_void;
    int64_t count;                       /* QUERY_*, WAIT_*, GET_CHUNK_SIZE, P2P_LOOKUP_AND_LOCK */
    bool ok;                             /* COMMIT_*, PING */
    struct kvc_str text;                 /* NOOP */
    struct kvc_transfer_result transfer; /* STORE, RETRIEVE */
    struct kvc_pool_info pool;           /* REGISTER_ENGINE_DRIVEN */
    struct kvc_transfer_context context; /* PREPARE_STORE */
    struct kvc_prepare_retrieve_result retrieve; /* PREPARE_RETRIEVE */
    struct kvc_strs names;                       /* GET_EXPERIMENTAL */
    struct kvc_object_addresses addresses;       /* P2P_QUERY_LOOKUP_RESULTS */

    /* What the views above point into, when decoded. Cleared by kvc_reply_clear. */
    struct kvc_arena arena;
    struct kvc_frames frames;
};

/* Appends the op frame and the payload frames (not the uid) to frames. KVC_EUNSUPPORTED when the
 * dialect lacks the operation or its codec is not written (blend), or data reach 4 GiB. Values are copied: the frames
 * need none of the request's views afterwards. Nothing is checked, so that a check can send what a
 * worker never would. */
kvc_status kvc_request_encode(const struct kvc_dialect *dialect, const struct kvc_request *request,
                              struct kvc_frames *frames, struct kvc_error *err);

/* Which operation a request frames[1] names in this dialect: any integer width, or a name where
 * the dialect has names. KVC_EFORMAT when it names none. */
kvc_status kvc_request_op(const struct kvc_dialect *dialect, struct kvc_bytes op_frame,
                          enum kvc_op *op, struct kvc_error *err);

/* Decodes request frames [uid, op, payload…] as a server does (protocol.md 1.3: lenient for a
 * top-level int or bool, strict inside). Views point into frames and arena. KVC_EFORMAT with the
 * payload and field in where: "payload 0 (key).token_ids[3]". */
kvc_status kvc_request_decode(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                              struct kvc_arena *arena, struct kvc_request *request,
                              struct kvc_error *err);

/* Appends the result frame, if there is one, for reply->op (the caller has put uid and op). */
kvc_status kvc_reply_encode(const struct kvc_dialect *dialect, const struct kvc_reply *reply,
                            struct kvc_frames *frames, struct kvc_error *err);

/* Decodes reply frames [uid, op] or [uid, op, result] to a request of operation op. Strict: a
 * missing field, another type, a count out of range or a surplus frame is KVC_EFORMAT. Takes over
 * *frames (emptied) on success and on failure; the caller clears the reply either way. */
kvc_status kvc_reply_decode(const struct kvc_dialect *dialect, enum kvc_op op,
                            struct kvc_frames *frames, struct kvc_reply *reply,
                            struct kvc_error *err);
void kvc_reply_clear(struct kvc_reply *reply);

/* How many payload frames a request of this operation has in this dialect; -1: not known here. */
int kvc_request_payload_count(const struct kvc_dialect *dialect, enum kvc_op op);
/* True when the operation's reply never has a result frame. */
bool kvc_reply_always_void(enum kvc_op op);

/* The key alone as one payload (for hand-made requests). */
void kvc_key_encode(const struct kvc_dialect *dialect, const struct kvc_key *key,
                    struct kvc_buffer *out);

#endif
