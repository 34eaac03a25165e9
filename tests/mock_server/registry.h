/* Who is registered: instances of both transfer modes, the models they serve, and how a worker's
 * memory is laid out. For the mock's handlers. */
#ifndef KVC_TESTS_MOCK_SERVER_REGISTRY_H
#define KVC_TESTS_MOCK_SERVER_REGISTRY_H

#include <sys/queue.h>

#include "src/kv/digest.h"
#include "src/kv/segment.h"
#include "src/wire/types.h"
#include "tests/mock_server/chunk.h"

enum mock_mode { MOCK_ENGINE_DRIVEN, MOCK_LMCACHE_DRIVEN, MOCK_MODE_COUNT };

/* One layer's tensor in a worker's memory, mapped here. */
struct mock_layer {
    struct kvc_segment segment; /* memory of the host */
    uint8_t *mapped;            /* memory of the GPU: the allocation's start; NULL: none */
    struct kvc_group shape;     /* of this one layer */
    uint8_t *data;              /* the tensor's first byte */
    size_t group;               /* SIZE_MAX: in no group, never transferred */
};

/* Layers that are transferred alike: one list of block ids (protocol.md 6.4). */
struct mock_kernel_group {
    struct kvc_group shape;
    int64_t engine_group_id;
    int64_t
        tokens_per_block; /* tokens that one block id stands for; a multiple of the block's slots */
    int64_t chunk_slots;  /* slots of one chunk */
    int64_t blocks_per_chunk;
    uint8_t **tensors; /* shape.num_layers of them, in layer order */
};

struct mock_instance {
    LIST_ENTRY(mock_instance) in_table;
    enum mock_mode mode;
    int64_t id;
    struct kvc_str model; /* its own copy */
    int64_t world_size;
    struct mock_chunk_layout layout;
    int64_t seen_ms; /* last heard of */
    bool has_pinged;
    uint8_t arguments[KVC_BLAKE3_SIZE]; /* digest of the registration's payload */
    /* engine-driven, for /status */
    int64_t block_size;
    bool use_mla;
    /* lmcache-driven */
    struct mock_layer *layers;
    size_t layer_count;
    struct mock_kernel_group groups[KVC_MAX_GROUPS];
    size_t group_count;
    bool on_gpu;
    bool mapping_is_lost; /* a defect */
};

/* A model is served as long as one instance of it is registered. */
struct mock_model {
    LIST_ENTRY(mock_model) in_table;
    struct kvc_str name;
    int64_t world_size;
    size_t instances;
    struct mock_chunk_layout last_layout; /* of its latest registration */
    int64_t last_result;                  /* of its latest lookup; for a defect */
};

struct mock_registry {
    LIST_HEAD(, mock_instance) instances[MOCK_MODE_COUNT];
    LIST_HEAD(, mock_instance) left[MOCK_MODE_COUNT]; /* a defect: gone, and still listed */
    LIST_HEAD(, mock_model) models;
    size_t counts[MOCK_MODE_COUNT];
    bool any_ever; /* somebody has registered since the start */
};

struct mock_instance *mock_registry_find(const struct mock_registry *registry, enum mock_mode mode,
                                         int64_t id);
struct mock_model *mock_registry_model(const struct mock_registry *registry, struct kvc_str name,
                                       int64_t world_size);
/* Takes over a new instance (its id must be free) and counts it for its model. */
void mock_registry_add(struct mock_registry *registry, struct mock_instance *instance);
/* Forgets and frees it; unmaps its memory. Defects: drop_model, its model goes as well, whoever else
 * uses it; stays_listed, it is put among those that have left. */
void mock_registry_remove(struct mock_registry *registry, struct mock_instance *instance,
                          bool drop_model, bool stays_listed);
void mock_registry_clear(struct mock_registry *registry);
/* Frees an instance that was not added. */
void mock_instance_free(struct mock_instance *instance);
struct mock_instance *mock_instance_new(enum mock_mode mode, int64_t id, struct kvc_str model,
                                        int64_t world_size);

/* Whether two layers have the same shape, dtype and layout. */
bool mock_same_shape(const struct kvc_group *a, const struct kvc_group *b);

/* How a tensor is to be read. */
struct mock_reading {
    bool layout_hint_ignored;    /* a defect */
    bool kv_first_always;        /* a defect */
    bool strides_ignored;        /* a defect */
    bool length_unchecked;       /* a defect */
    bool groups_ignored;         /* a defect */
    bool alloc_offset_ignored;   /* a defect */
    bool storage_offset_ignored; /* a defect */
};

/* Finds out a tensor's layout from its shape and the hint (protocol.md 6.1): everything in *group but
 * num_layers. KVC_EUNSUPPORTED for a shape, or strides, that are none of ours. */
kvc_status mock_layout_detect(const struct kvc_tensor_handle *handle,
                              const struct kvc_layout_hints *hints, struct mock_reading reading,
                              struct kvc_group *group, struct kvc_error *err);

/* Maps a worker's tensors and groups its layers, for chunks of chunk_tokens. Nothing the worker says is
 * trusted. Fills layers, groups and layout of *instance; on failure the caller frees it. */
kvc_status mock_instance_map(struct mock_instance *instance,
                             const struct kvc_tensor_handles *handles,
                             const struct kvc_layout_hints *hints,
                             const struct kvc_engine_group_infos *infos, int64_t chunk_tokens,
                             struct mock_reading reading, struct kvc_error *err);

#endif
