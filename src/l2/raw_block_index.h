/* What a raw_block store holds and where: an index in memory, written to the device as a checkpoint, in
 * the form of LMCache. For raw_block. */
#ifndef KVC_L2_RAW_BLOCK_INDEX_H
#define KVC_L2_RAW_BLOCK_INDEX_H

#include <jansson.h>

#include "src/base/bytes.h"

/* The layout, as the config gives it. The device begins with two places for checkpoints, which are
 * written in turn; slots follow. */
struct kvc_raw_block_layout {
    const char *device_path;
    int64_t capacity_bytes; /* 0: all of the device */
    int64_t block_align;
    int64_t header_bytes; /* of a slot, before its object */
    int64_t slot_bytes;
    int64_t meta_total_bytes;
    const char *meta_magic; /* eight characters */
    int64_t meta_version;
};

struct kvc_raw_block_index {
    struct kvc_raw_block_layout layout;
    int device;
    json_t *entries; /* name → {"offset", "size", …} */
    int64_t max_slots, next_slot;
    int64_t *free_slots; /* below next_slot; to be used again at once */
    size_t free_count;
    int64_t *left_slots; /* left since the last checkpoint, which may name them yet */
    size_t left_count;
    uint64_t sequence; /* of the last checkpoint */
    bool changed;      /* since then */
};

/* Works out the slots. KVC_EUSAGE when there is no room for one. Free with kvc_raw_block_index_clear. */
kvc_status kvc_raw_block_index_init(const struct kvc_raw_block_layout *layout, int device,
                                    int64_t device_size, struct kvc_raw_block_index *index,
                                    struct kvc_error *err);
/* Reads the newer checkpoint that is whole; none: an empty store. KVC_EUSAGE for one of another
 * layout: what it names would be lost. With verify, entries whose slot is another's are dropped. */
kvc_status kvc_raw_block_index_load(struct kvc_raw_block_index *index, bool verify,
                                    struct kvc_error *err);
/* Writes a checkpoint if something has changed. KVC_ESYSTEM, KVC_EREFUSED (no room for it). */
kvc_status kvc_raw_block_index_save(struct kvc_raw_block_index *index, struct kvc_error *err);
void kvc_raw_block_index_clear(struct kvc_raw_block_index *index);

/* False when there is no such object. */
bool kvc_raw_block_index_find(const struct kvc_raw_block_index *index, const char *name,
                              int64_t *offset, int64_t *size);
/* A slot that holds nothing. When only slots are left that the last checkpoint may name, a new one is
 * written first, so that no object is ever overwritten in place. KVC_EREFUSED: full. */
kvc_status kvc_raw_block_index_take_slot(struct kvc_raw_block_index *index, int64_t *offset,
                                         struct kvc_error *err);
/* The object in the slot is whole: it takes the place of the one of that name. */
void kvc_raw_block_index_add(struct kvc_raw_block_index *index, const char *name, int64_t offset,
                             int64_t size);
/* False when there is no such object. */
bool kvc_raw_block_index_remove(struct kvc_raw_block_index *index, const char *name);
/* The slot is not used after all. */
void kvc_raw_block_index_leave_slot(struct kvc_raw_block_index *index, int64_t offset);

#endif
