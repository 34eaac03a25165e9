/* The values that travel: one C struct for each map of the protocol. Views point into the message
 * they were decoded from, or into memory of whoever builds the message.
 * Field names, order and defaults are those of the wire (protocol.md 3). */
#ifndef KVC_WIRE_TYPES_H
#define KVC_WIRE_TYPES_H

#include "src/base/bytes.h"

struct kvc_optional_int {
    bool present; /* false: nil on the wire */
    int64_t value;
};

#define KVC_SOME_INT(number) ((struct kvc_optional_int){.present = true, .value = (number)})
#define KVC_NIL_INT          ((struct kvc_optional_int){.present = false})

struct kvc_ints {
    const int64_t *items;
    size_t count;
};

/* Block ids: one list for each kernel group. */
struct kvc_int_lists {
    const struct kvc_ints *items;
    size_t count;
};

struct kvc_strs {
    const struct kvc_str *items;
    size_t count;
};

/* IPCCacheServerKey: names a window [start, end) of a token sequence. token_ids are always the whole
 * sequence from token 0. */
struct kvc_key {
    struct kvc_str model_name;
    int64_t world_size;
    struct kvc_optional_int worker_id; /* nil: all ranks (LOOKUP, FREE_LOOKUP_LOCKS) */
    struct kvc_ints token_ids;
    int64_t start; /* token index, inclusive */
    int64_t end;   /* exclusive */
    struct kvc_str request_id;
    struct kvc_str cache_salt;
    struct kvc_bytes request_configs; /* one msgpack map as bytes; size 0: nil */
    int64_t num_kv_readers;           /* KVC_FEATURE_KV_READERS only; LOOKUP needs at least 1 */
};

/* RegisterEngineDrivenContextPayload */
struct kvc_engine_driven_register {
    int64_t instance_id;
    struct kvc_str model_name;
    int64_t world_size;
    int64_t block_size; /* tokens a block */
    int64_t num_layers;
    int64_t hidden_dim_size;  /* heads on this rank times head size, in elements */
    struct kvc_str dtype_str; /* bare torch name: "float16" */
    bool use_mla;
    struct kvc_optional_int num_physical_slots; /* KVC_FEATURE_PHYSICAL_SLOTS only */
};

/* RegisterEngineDrivenContextResponse: both empty means "send the bytes inline". */
struct kvc_pool_info {
    struct kvc_str shm_name; /* without leading slash */
    int64_t pool_size;       /* bytes */
};

/* One chunk's place in the pool. */
struct kvc_slot {
    int64_t offset; /* bytes from the start of the pool */
    int64_t length; /* bytes */
    struct kvc_ints shape;
    struct kvc_str dtype; /* bare torch name */
};

struct kvc_slots {
    const struct kvc_slot *items;
    size_t count;
};

/* The context of PREPARE_STORE ({slots, chunk_indices} or {}) and PREPARE_RETRIEVE ({slots} or {}). */
struct kvc_transfer_context {
    bool has_slots;
    struct kvc_slots slots;
    bool has_chunk_indices;
    struct kvc_ints chunk_indices; /* which chunks of [start, end) the slots are for, from 0 */
};

struct kvc_prepare_retrieve_result {
    bool success;
    struct kvc_bytes data; /* inline mode: the pickled tensors; else empty */
    struct kvc_transfer_context context;
};

/* STORE and RETRIEVE */
struct kvc_transfer_result {
    struct kvc_bytes event_handle;
    bool success;
};

/* Pairs of a map that this suite has no member for, kept as they came: msgpack key, value, … */
struct kvc_packed_pairs {
    struct kvc_bytes pairs;
    size_t count;
};

struct kvc_layout_hints {
    struct kvc_str kv_layout; /* "NHD", "HND", …; empty: left out */
    struct kvc_optional_int num_kv_heads;
    struct kvc_optional_int tokens_per_block;
    struct kvc_optional_int head_dim;
    struct kvc_str kv_list_layout;  /* empty: left out */
    struct kvc_packed_pairs others; /* written after the members above */
};

struct kvc_engine_group_info {
    int64_t engine_group_id;
    struct kvc_ints layer_indices;
    int64_t tokens_per_block;       /* 0: take it from the tensor */
    int64_t sw_size_tokens;         /* -1: full attention */
    int64_t extra_object_group_tag; /* KVC_FEATURE_GROUP_TAGS only */
    bool recurrent_state;           /* KVC_FEATURE_GROUP_TAGS only */
};

struct kvc_engine_group_infos {
    const struct kvc_engine_group_info *items;
    size_t count;
};

struct kvc_block_allocation {
    struct kvc_str req_id;
    struct kvc_ints new_block_ids;
    struct kvc_ints new_token_ids;
};

struct kvc_block_allocations {
    const struct kvc_block_allocation *items;
    size_t count;
};

enum kvc_handle_kind {
    KVC_HANDLE_CPU,        /* a shared-memory segment: CpuShmTensorWrapper */
    KVC_HANDLE_CUDA,       /* device memory by its CUDA IPC handle: RawCudaIPCWrapper */
    KVC_HANDLE_CUDA_TORCH, /* the same as a storage that torch shares: CudaIPCWrapper */
    KVC_HANDLE_CUDA_VMM,   /* memory of CUDA's virtual-memory API: VmmCudaIPCWrapper */
    KVC_HANDLE_KIND_COUNT,
};

enum { KVC_IPC_HANDLE_SIZE = 64, KVC_TORCH_HANDLE_SIZE = 66 };

/* What torch says of a storage besides where it is. */
struct kvc_torch_share {
    int64_t device_index;         /* of the sender */
    struct kvc_bytes ref_counter; /* the name of the segment where receivers are counted */
    int64_t ref_counter_offset;   /* in counters */
    struct kvc_bytes ready_event; /* a CUDA IPC event handle */
    bool has_event;               /* receivers wait for it */
};

/* How memory of the virtual-memory API is found. */
struct kvc_vmm_export {
    struct kvc_bytes id;     /* 16 bytes */
    struct kvc_str kind;     /* "posix_fd": a file descriptor that travels elsewhere; or "fabric" */
    struct kvc_bytes fabric; /* NULL: none */
    int64_t alloc_size;
};

/* DeviceIPCWrapper: where one layer's tensor lives. */
struct kvc_tensor_handle {
    enum kvc_handle_kind kind;
    struct kvc_str shm_name;      /* CPU: with leading slash */
    struct kvc_bytes ipc_handle;  /* CUDA: 64 bytes; torch: behind its prefix, NULL: no memory */
    struct kvc_torch_share torch; /* CUDA_TORCH */
    struct kvc_vmm_export vmm;    /* CUDA_VMM */
    int64_t
        alloc_offset; /* bytes of the allocation before nbytes; CUDA: KVC_FEATURE_ALLOC_OFFSET */
    int64_t nbytes;   /* of the segment, the tensor, or torch's storage */
    struct kvc_str dtype; /* bare torch name */
    struct kvc_ints shape;
    struct kvc_ints stride;     /* elements */
    int64_t storage_offset;     /* elements */
    struct kvc_str device_uuid; /* "cpu", or the GPU's, as torch writes it */
};

struct kvc_tensor_handles {
    const struct kvc_tensor_handle *items;
    size_t count;
};

/* ObjectKey of the P2P operations. */
struct kvc_object_key {
    struct kvc_bytes chunk_hash; /* 32 bytes */
    struct kvc_str model_name;
    int64_t kv_rank; /* world << 24 | worker << 16 | world << 8 | worker */
    int64_t object_group_id;
    struct kvc_str cache_salt;
};

struct kvc_object_keys {
    const struct kvc_object_key *items;
    size_t count;
};

/* MemoryLayoutDesc: the arrays that make one object. */
struct kvc_memory_layout {
    struct kvc_int_lists shapes;
    struct kvc_strs dtypes;
};

/* One place in a P2P result; absent: offset -1, size 0. */
struct kvc_object_address {
    int64_t offset;
    int64_t size;
};

struct kvc_object_addresses {
    const struct kvc_object_address *items;
    size_t count;
};

#endif
