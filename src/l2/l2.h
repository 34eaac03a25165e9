/* Stores below LMCache's L1: one table of functions each, configured by the JSON that LMCache takes
 * for --l2-adapter. For the bench and checks. */
#ifndef KVC_L2_L2_H
#define KVC_L2_L2_H

#include "src/l2/key.h"

enum kvc_l2_operation {
    KVC_L2_STORE,
    KVC_L2_LOOKUP,
    KVC_L2_LOAD,
    KVC_L2_REMOVE,
    KVC_L2_OPERATION_COUNT,
};

enum kvc_l2_outcome {
    KVC_L2_FAILED, /* also when nothing was tried */
    KVC_L2_ABSENT, /* lookup, load, remove: no such object */
    KVC_L2_DONE,
};

/* One object of an operation. Its key is a checked one. */
struct kvc_l2_item {
    struct kvc_l2_key key;
    uint8_t *data; /* store: only read; load: filled; else unused */
    size_t size;   /* load: what the object must have */
    enum kvc_l2_outcome outcome;
};

/* What a store should know of the objects before the first one. */
struct kvc_l2_memory {
    size_t object_size;
    size_t align; /* of every object's address */
};

/* Does it, and sets the outcome where that is not KVC_L2_FAILED, which it was before. KVC_OK, also for
 * an absent object, or what failed. */
typedef kvc_status kvc_l2_func(void *lane, struct kvc_l2_item *item, struct kvc_error *err);

/* A member of the JSON. */
enum kvc_l2_field_kind {
    KVC_L2_TEXT,      /* const char *: not empty when required */
    KVC_L2_BOOL,      /* bool */
    KVC_L2_INTEGER,   /* int64_t, from minimum to maximum */
    KVC_L2_NUMBER,    /* double, from minimum to maximum */
    KVC_L2_INNER,     /* struct kvc_l2_config *: another adapter's JSON */
    KVC_L2_ONLY,      /* one value, the default of LMCache: text of the JSON in `only` */
    KVC_L2_NO_MATTER, /* whatever LMCache takes: it changes nothing here */
};

struct kvc_l2_field {
    const char *name;
    enum kvc_l2_field_kind kind;
    size_t offset; /* in the adapter's config */
    bool required;
    bool secret; /* not for reports */
    double minimum;
    double maximum; /* 0: none */
    const char *only;
    const char *accepted; /* for messages: "a folder's path" */
};

struct kvc_l2_adapter {
    const char *type;  /* the "type" of the JSON */
    const char *title; /* what `lmcache bench l2` calls it */
    const struct kvc_l2_field *fields;
    size_t field_count;
    size_t config_size;
    const void *defaults; /* config_size bytes */
    size_t batch;         /* items that a lane should get at once; at least 1 */
    /* The workers that a config asks for. NULL: one a processor. */
    size_t (*lanes)(const void *config);

    /* Opens the store. KVC_EUSAGE for what the config or the memory makes impossible, KVC_ECONNECT,
     * KVC_ESYSTEM, KVC_EUNSUPPORTED. */
    kvc_status (*open)(const void *config, const struct kvc_l2_memory *memory, void **store,
                       struct kvc_error *err);
    /* A lane is what one thread works with: a connection, say. Errors as for open. */
    kvc_status (*open_lane)(void *store, void **lane, struct kvc_error *err);
    kvc_l2_func *operations[KVC_L2_OPERATION_COUNT];
    void (*close_lane)(void *lane);
    /* Closes the store when every lane is closed; makes durable what is not. */
    kvc_status (*close)(void *store, struct kvc_error *err);
};

extern const struct kvc_l2_adapter kvc_l2_fs;
extern const struct kvc_l2_adapter kvc_l2_mock;
extern const struct kvc_l2_adapter kvc_l2_defective;
extern const struct kvc_l2_adapter kvc_l2_raw_block;
extern const struct kvc_l2_adapter kvc_l2_s3;
extern const struct kvc_l2_adapter kvc_l2_resp; /* in builds with hiredis */

struct kvc_l2_config {
    const struct kvc_l2_adapter *adapter;
    void *values;
    const char *shown;           /* the JSON as given, or with "***" for each secret */
    struct kvc_l2_config *inner; /* of an adapter in front of another; NULL: none */
    struct kvc_arena arena;
};

/* Reads the JSON. KVC_EUSAGE: where is the member, expected what it takes. A member that neither
 * LMCache nor this program knows is an error, too. Free with kvc_l2_config_clear, also after an
 * error. */
kvc_status kvc_l2_config_parse(const char *json, struct kvc_l2_config *config,
                               struct kvc_error *err);
void kvc_l2_config_clear(struct kvc_l2_config *config);
/* Appends the types that this build knows: "fs, mock". */
void kvc_l2_append_types(struct kvc_buffer *out);

/* Does the operation on every item of a lane. KVC_OK, or the error of the first that failed. */
kvc_status kvc_l2_run(const struct kvc_l2_adapter *adapter, void *lane,
                      enum kvc_l2_operation operation, struct kvc_l2_item *items, size_t count,
                      struct kvc_error *err);

#endif
