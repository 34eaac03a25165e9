/* What an inference worker does with an MP server: register, look up, store, retrieve, unregister.
 * One table of functions for each path the bytes can take. For checks and bench alike. */
#ifndef KVC_DRIVER_WORKER_H
#define KVC_DRIVER_WORKER_H

#include "src/device/cuda_cache.h"
#include "src/driver/mode.h"
#include "src/driver/rpc.h"
#include "src/kv/paged.h"

/* How a lmcache-driven worker names memory of a GPU. */
enum kvc_gpu_handle {
    KVC_GPU_TORCH, /* as torch shares a storage, one for each tensor: what vLLM's workers do */
    KVC_GPU_TORCH_WHOLE, /* the same, where a whole allocation is one storage */
    KVC_GPU_RAW,         /* by the CUDA IPC handle alone */
};

struct kvc_worker_options {
    struct kvc_geometry geometry;
    int64_t instance_id;
    struct kvc_str model_name;
    int64_t world_size; /* 0: 1 */
    int64_t worker_id;
    int64_t num_kv_readers;      /* 0: 1 */
    enum kvc_transfer_mode mode; /* not auto */
    bool force_inline;           /* engine-driven: inline even where a pool is offered */
    bool
        keep_groups_empty; /* lmcache-driven: send no EngineGroupInfo; the server finds the groups */
    int64_t chunk_size;    /* the server's, tokens */
    const struct kvc_device *device; /* where the cache lives; NULL: the CPU */
    enum kvc_gpu_handle gpu_handle;
    enum kvc_cuda_placement placement; /* on a GPU; KVC_GPU_RAW: other than at its base needs
                                          KVC_FEATURE_ALLOC_OFFSET */
};

struct kvc_worker;

/* What a store did. */
struct kvc_store_result {
    bool success;         /* what the server said */
    int64_t chunks_asked; /* chunks in the window */
    int64_t
        chunks_written; /* chunks the worker wrote (engine-driven); -1: the server does not say */
};

/* The steps that differ by path. All block ids are for the whole window [key->start, key->end): one
 * for each block of tokens, the same list for every group. */
struct kvc_worker_ops {
    const char *name; /* kvc_path_name */
    kvc_status (*enroll)(struct kvc_worker *worker, struct kvc_error *err);
    kvc_status (*store)(struct kvc_worker *worker, const struct kvc_key *key,
                        struct kvc_ints block_ids, struct kvc_store_result *result,
                        struct kvc_error *err);
    kvc_status (*retrieve)(struct kvc_worker *worker, const struct kvc_key *key,
                           struct kvc_ints block_ids, int64_t skip_first_n_tokens, bool *success,
                           struct kvc_error *err);
    kvc_status (*withdraw)(struct kvc_worker *worker, struct kvc_error *err);
};

struct kvc_worker_timing {
    int64_t encode_ns, wait_ns, copy_ns; /* of the last store or retrieve */
};

struct kvc_worker {
    struct kvc_worker_options options; /* model_name is a copy owned by the worker */
    struct kvc_rpc rpc;
    const struct kvc_worker_ops *ops;
    enum kvc_path path;
    char path_reason[160];         /* which path was taken and why */
    struct kvc_paged paged;        /* the worker's KV cache; of one on a GPU the mirror */
    struct kvc_cuda_cache *on_gpu; /* NULL: the cache is on the CPU */
    struct kvc_segment pool;       /* engine-driven over shared memory: the server's pool */
    char pool_name[96];            /* as the server gave it */
    int64_t pool_size;
    bool pool_is_pinned; /* registered with the GPU's driver */
    bool registered;
    struct kvc_worker_timing timing;
};

/* Allocates the paged cache and registers. KVC_ETIMEOUT: the server did not answer the registration.
 * On failure nothing is left behind. Where the server offers a pool that cannot be mapped, the error
 * says so (KVC_EFORMAT or KVC_ESYSTEM); it does not fall back in silence. */
kvc_status kvc_worker_open(const struct kvc_rpc *rpc, const struct kvc_worker_options *options,
                           struct kvc_worker **worker, struct kvc_error *err);
/* Unregisters (unless it was done or never worked) and frees. Returns what unregistering returned;
 * everything local is freed in any case. worker may be NULL. */
kvc_status kvc_worker_close(struct kvc_worker *worker, struct kvc_error *err);
/* Unregisters now; kvc_worker_close then does not. */
kvc_status kvc_worker_unregister(struct kvc_worker *worker, struct kvc_error *err);

/* Lmcache-driven: the request that registers this worker, for who sends it by hand. Views into the worker and
 * the arena. */
kvc_status kvc_worker_registration(const struct kvc_worker *worker, struct kvc_arena *arena,
                                   struct kvc_request *request, struct kvc_error *err);

/* Copy a GPU's cache from its mirror, or to it; on the CPU there is nothing to do. Stores read the GPU's
 * memory, retrieves write it. */
kvc_status kvc_worker_push(struct kvc_worker *worker, struct kvc_error *err);
kvc_status kvc_worker_pull(struct kvc_worker *worker, struct kvc_error *err);

/* Maps what there is of the server's pool, as in a worker that has used all of it: see
 * kvc_segment_map_ahead. Without a pool there is nothing to do. */
void kvc_worker_map_ahead(const struct kvc_worker *worker);

/* A key of this worker's model, world size and readers, for tokens [start, end). */
struct kvc_key kvc_worker_key(const struct kvc_worker *worker, struct kvc_ints tokens,
                              int64_t start, int64_t end, struct kvc_str request_id,
                              struct kvc_str salt);

/* Leading chunks ready. The key's worker_id is sent as nil. */
kvc_status kvc_worker_lookup(struct kvc_worker *worker, const struct kvc_key *key, int64_t *chunks,
                             struct kvc_error *err);
/* Stores the blocks as the tokens [key->start, key->end). The key's worker_id is set to this
 * worker's. Slots are checked before a byte is written: inside the pool, of the right length, not
 * overlapping; KVC_EFORMAT if not. Engine-driven, where the worker copies: KVC_EUSAGE, and nothing is
 * sent, for a window that is not whole chunks, or block ids that are too few, too many or none of the
 * cache's. Lmcache-driven, the server judges them. */
kvc_status kvc_worker_store(struct kvc_worker *worker, const struct kvc_key *key,
                            struct kvc_ints block_ids, struct kvc_store_result *result,
                            struct kvc_error *err);
/* Retrieves into the blocks; *success is what the server said. Needs a lookup before. */
kvc_status kvc_worker_retrieve(struct kvc_worker *worker, const struct kvc_key *key,
                               struct kvc_ints block_ids, int64_t skip_first_n_tokens,
                               bool *success, struct kvc_error *err);
kvc_status kvc_worker_end_session(struct kvc_worker *worker, struct kvc_str request_id,
                                  struct kvc_error *err);

/* Waits until a lookup with fresh request ids sees at least `chunks` chunks, freeing the locks it
 * takes (STORE becomes visible a little after its reply). KVC_ETIMEOUT with the number seen. */
kvc_status kvc_worker_wait_visible(struct kvc_worker *worker, const struct kvc_key *key,
                                   int64_t chunks, int64_t timeout_ms, struct kvc_error *err);

/* The slot checks alone, for checks that make the exchange by hand. expected_bytes: one chunk. */
kvc_status kvc_slots_check(struct kvc_slots slots, int64_t pool_size, int64_t expected_bytes,
                           struct kvc_error *err);

#endif
