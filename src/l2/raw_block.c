/* Objects in slots of equal size on a block device, or in a file of a fixed size, with an index that is
 * written to the device when the store closes. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/l2/l2.h"
#include "src/l2/raw_block_bytes.h"
#include "src/l2/raw_block_index.h"

struct config {
    struct kvc_raw_block_layout layout;
    bool use_odirect;
    bool load_checkpoint_on_init;
    bool meta_verify_on_load;
    int64_t num_store_workers, num_lookup_workers, num_load_workers;
};

struct store {
    struct kvc_raw_block_index index;
    pthread_mutex_t lock; /* of the index */
};

struct lane {
    struct store *store;
    uint8_t *header; /* header_bytes, aligned */
};

#define FIELD(member) offsetof(struct config, member)
#define BYTES(field_name, member, least)                                                           \
    {                                                                                              \
        .name = field_name, .kind = KVC_L2_INTEGER, .offset = FIELD(member), .minimum = least,     \
        .maximum = 1ll << 50, .accepted = "a number of bytes"                                      \
    }
#define SWITCH(field_name, member)                                                                 \
    {                                                                                              \
        .name = field_name, .kind = KVC_L2_BOOL, .offset = FIELD(member),                          \
        .accepted = "true or false"                                                                \
    }
#define WORKERS(field_name, member)                                                                \
    {                                                                                              \
        .name = field_name, .kind = KVC_L2_INTEGER, .offset = FIELD(member), .minimum = 1,         \
        .maximum = 256, .accepted = "a number of threads from 1 to 256"                            \
    }

static const struct kvc_l2_field fields[] = {
    {.name = "device_path",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(layout.device_path),
     .required = true,
     .accepted = "the path of a block device, or of a file of its size"},
    {.name = "slot_bytes",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(layout.slot_bytes),
     .required = true,
     .minimum = 1,
     .maximum = 1ll << 40,
     .accepted = "a number of bytes that is a multiple of block_align"},
    BYTES("capacity_bytes", layout.capacity_bytes, 0),
    BYTES("block_align", layout.block_align, 32),
    BYTES("header_bytes", layout.header_bytes, KVC_RAW_BLOCK_HEADER),
    BYTES("meta_total_bytes", layout.meta_total_bytes, 1),
    {.name = "meta_magic",
     .kind = KVC_L2_TEXT,
     .offset = FIELD(layout.meta_magic),
     .accepted = "eight ASCII characters"},
    {.name = "meta_version",
     .kind = KVC_L2_INTEGER,
     .offset = FIELD(layout.meta_version),
     .minimum = 1,
     .maximum = UINT32_MAX,
     .accepted = "a number, at least 1"},
    SWITCH("use_odirect", use_odirect),
    SWITCH("load_checkpoint_on_init", load_checkpoint_on_init),
    SWITCH("meta_verify_on_load", meta_verify_on_load),
    WORKERS("num_store_workers", num_store_workers),
    WORKERS("num_lookup_workers", num_lookup_workers),
    WORKERS("num_load_workers", num_load_workers),
    {.name = "io_engine", .kind = KVC_L2_ONLY, .only = "\"posix\""},
    {.name = "use_uring_cmd", .kind = KVC_L2_ONLY, .only = "false"},
    {.name = "fdp_enabled", .kind = KVC_L2_ONLY, .only = "false"},
    {.name = "meta_checkpoint_interval_sec", .kind = KVC_L2_NO_MATTER},
    {.name = "meta_idle_quiet_ms", .kind = KVC_L2_NO_MATTER},
    {.name = "meta_enable_periodic", .kind = KVC_L2_NO_MATTER},
    {.name = "enable_zero_copy", .kind = KVC_L2_NO_MATTER},
};

static const struct config defaults = {
    .layout = {.block_align = 4096,
               .header_bytes = 4096,
               .meta_total_bytes = 256 << 20,
               .meta_magic = "LMCIDX01",
               .meta_version = 1},
    .use_odirect = true,
    .load_checkpoint_on_init = true,
    .meta_verify_on_load = true,
    .num_store_workers = 2,
    .num_lookup_workers = 1,
    .num_load_workers = 4,
};

/* ---- opening ---- */

static kvc_status check_multiples(const struct kvc_raw_block_layout *layout, struct kvc_error *err)
{
    const struct {
        const char *name;
        int64_t bytes;
        int64_t least;
    } rows[] = {
        {"slot_bytes", layout->slot_bytes, layout->header_bytes + 1},
        {"header_bytes", layout->header_bytes, KVC_RAW_BLOCK_HEADER},
        {"meta_total_bytes", layout->meta_total_bytes, 4 * layout->block_align},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(rows); i++) {
        if (rows[i].bytes % layout->block_align == 0 && rows[i].bytes >= rows[i].least)
            continue;
        kvc_fail(err, KVC_EUSAGE, "%lld is not accepted", (long long)rows[i].bytes);
        kvc_error_set_where(err, "%s", rows[i].name);
        return kvc_error_set_expected(err, "a multiple of block_align (%lld), at least %lld",
                                      (long long)layout->block_align, (long long)rows[i].least);
    }
    return KVC_OK;
}

static kvc_status check_config(const struct config *config, const struct kvc_l2_memory *memory,
                               struct kvc_error *err)
{
    const struct kvc_raw_block_layout *layout = &config->layout;
    const int64_t align = layout->block_align;
    if ((align & (align - 1)) != 0) {
        kvc_fail(err, KVC_EUSAGE, "%lld is not accepted", (long long)align);
        kvc_error_set_where(err, "block_align");
        return kvc_error_set_expected(err, "a power of two");
    }
    KVC_GUARD(check_multiples(layout, err));
    if (strlen(layout->meta_magic) != 8) {
        kvc_fail(err, KVC_EUSAGE, "'%s' is not accepted", layout->meta_magic);
        kvc_error_set_where(err, "meta_magic");
        return kvc_error_set_expected(err, "eight ASCII characters");
    }
    if ((int64_t)memory->object_size > layout->slot_bytes - layout->header_bytes) {
        kvc_fail(err, KVC_EUSAGE, "objects of %zu bytes do not fit a slot with a header of %lld",
                 memory->object_size, (long long)layout->header_bytes);
        return kvc_error_set_where(err, "slot_bytes");
    }
    if (config->use_odirect &&
        (memory->align % (size_t)align != 0 || memory->object_size % (size_t)align != 0)) {
        kvc_fail(err, KVC_EUSAGE,
                 "objects of %zu bytes at addresses aligned to %zu cannot bypass the page cache",
                 memory->object_size, memory->align);
        kvc_error_set_where(err, "use_odirect");
        return kvc_error_set_expected(err, "both as multiples of block_align (%lld)",
                                      (long long)align);
    }
    return KVC_OK;
}

static kvc_status open_device(const struct config *config, int *device, int64_t *size,
                              struct kvc_error *err)
{
    const char *path = config->layout.device_path;
    *device = open(path, O_RDWR | O_CLOEXEC | (config->use_odirect ? O_DIRECT : 0));
    if (*device < 0) {
        kvc_fail(err, KVC_EUSAGE, "cannot open '%s': %s", path, strerror(errno));
        return kvc_error_set_where(err, "device_path");
    }
    *size = lseek(*device, 0, SEEK_END);
    if (*size >= 0)
        return KVC_OK;
    kvc_fail_errno(err, "cannot ask '%s' for its size", path);
    close(*device);
    return KVC_ESYSTEM;
}

static kvc_status raw_block_open(const void *values, const struct kvc_l2_memory *memory,
                                 void **opened, struct kvc_error *err)
{
    const struct config *config = values;
    int device = -1;
    int64_t size = 0;
    KVC_GUARD(check_config(config, memory, err));
    KVC_GUARD(open_device(config, &device, &size, err));
    struct store *store = kvc_alloc_zero(1, sizeof(*store));
    kvc_status status = kvc_raw_block_index_init(&config->layout, device, size, &store->index, err);
    if (status == KVC_OK && config->load_checkpoint_on_init)
        status = kvc_raw_block_index_load(&store->index, config->meta_verify_on_load, err);
    if (status != KVC_OK) {
        kvc_raw_block_index_clear(&store->index);
        close(device);
        free(store);
        return status;
    }
    pthread_mutex_init(&store->lock, NULL);
    *opened = store;
    return KVC_OK;
}

static kvc_status raw_block_close(void *opaque, struct kvc_error *err)
{
    struct store *store = opaque;
    const int device = store->index.device;
    kvc_status status = kvc_raw_block_index_save(&store->index, err);
    if (close(device) != 0 && status == KVC_OK)
        status = kvc_fail_errno(err, "cannot close the device");
    kvc_raw_block_index_clear(&store->index);
    pthread_mutex_destroy(&store->lock);
    free(store);
    return status;
}

static kvc_status raw_block_open_lane(void *store, void **made, struct kvc_error *err)
{
    (void)err;
    struct lane *lane = kvc_alloc_zero(1, sizeof(*lane));
    lane->store = store;
    lane->header = kvc_raw_block_alloc((size_t)lane->store->index.layout.header_bytes);
    *made = lane;
    return KVC_OK;
}

static void raw_block_close_lane(void *opaque)
{
    struct lane *lane = opaque;
    free(lane->header);
    free(lane);
}

/* ---- operations ---- */

static char *name_of(const struct kvc_l2_item *item)
{
    struct kvc_buffer name = {0};
    kvc_l2_key_append_encoded(&item->key, &name);
    return kvc_buffer_take_text(&name);
}

static bool find(struct store *store, const char *name, int64_t *offset, int64_t *size)
{
    pthread_mutex_lock(&store->lock);
    const bool found = kvc_raw_block_index_find(&store->index, name, offset, size);
    pthread_mutex_unlock(&store->lock);
    return found;
}

static kvc_status write_slot(struct lane *lane, const char *name, const struct kvc_l2_item *item,
                             int64_t offset, struct kvc_error *err)
{
    const struct kvc_raw_block_layout *layout = &lane->store->index.layout;
    const int device = lane->store->index.device;
    kvc_raw_block_write_header(name, (int64_t)item->size, lane->header);
    KVC_GUARD(kvc_raw_block_write(device, lane->header, (size_t)layout->header_bytes, offset, err));
    return kvc_raw_block_write(device, item->data, item->size, offset + layout->header_bytes, err);
}

static kvc_status store_named(struct lane *lane, const char *name, struct kvc_l2_item *item,
                              struct kvc_error *err)
{
    struct store *store = lane->store;
    int64_t offset = 0;
    if ((int64_t)item->size > store->index.layout.slot_bytes - store->index.layout.header_bytes)
        return kvc_fail(err, KVC_EREFUSED, "%zu bytes do not fit a slot", item->size);
    pthread_mutex_lock(&store->lock);
    kvc_status status = kvc_raw_block_index_take_slot(&store->index, &offset, err);
    pthread_mutex_unlock(&store->lock);
    if (status != KVC_OK)
        return status;
    status = write_slot(lane, name, item, offset, err);
    pthread_mutex_lock(&store->lock);
    if (status == KVC_OK)
        kvc_raw_block_index_add(&store->index, name, offset, (int64_t)item->size);
    else
        kvc_raw_block_index_leave_slot(&store->index, offset);
    pthread_mutex_unlock(&store->lock);
    if (status == KVC_OK)
        item->outcome = KVC_L2_DONE;
    return status;
}

static kvc_status raw_block_store(void *lane, struct kvc_l2_item *item, struct kvc_error *err)
{
    char *name = name_of(item);
    const kvc_status status = store_named(lane, name, item, err);
    free(name);
    return status;
}

static kvc_status raw_block_lookup(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    (void)err;
    struct lane *lane = opaque;
    int64_t offset, size;
    char *name = name_of(item);
    item->outcome = find(lane->store, name, &offset, &size) ? KVC_L2_DONE : KVC_L2_ABSENT;
    free(name);
    return KVC_OK;
}

static kvc_status raw_block_load(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    struct lane *lane = opaque;
    const struct kvc_raw_block_index *index = &lane->store->index;
    int64_t offset, size;
    char *name = name_of(item);
    const bool found = find(lane->store, name, &offset, &size);
    free(name);
    if (!found) {
        item->outcome = KVC_L2_ABSENT;
        return KVC_OK;
    }
    if (size != (int64_t)item->size)
        return kvc_fail(err, KVC_EFORMAT, "the slot holds %lld bytes, not %zu", (long long)size,
                        item->size);
    KVC_GUARD(kvc_raw_block_read(index->device, item->data, item->size,
                                 offset + index->layout.header_bytes, err));
    item->outcome = KVC_L2_DONE;
    return KVC_OK;
}

static kvc_status raw_block_remove(void *opaque, struct kvc_l2_item *item, struct kvc_error *err)
{
    (void)err;
    struct lane *lane = opaque;
    char *name = name_of(item);
    pthread_mutex_lock(&lane->store->lock);
    item->outcome =
        kvc_raw_block_index_remove(&lane->store->index, name) ? KVC_L2_DONE : KVC_L2_ABSENT;
    pthread_mutex_unlock(&lane->store->lock);
    free(name);
    return KVC_OK;
}

static size_t raw_block_lanes(const void *values)
{
    const struct config *config = values;
    const int64_t most = config->num_store_workers > config->num_load_workers
                             ? config->num_store_workers
                             : config->num_load_workers;
    return (size_t)(most > config->num_lookup_workers ? most : config->num_lookup_workers);
}

const struct kvc_l2_adapter kvc_l2_raw_block = {
    .type = "raw_block",
    .title = "RawBlockL2Adapter",
    .fields = fields,
    .field_count = KVC_COUNT_OF(fields),
    .config_size = sizeof(struct config),
    .defaults = &defaults,
    .batch = 4,
    .lanes = raw_block_lanes,
    .open = raw_block_open,
    .open_lane = raw_block_open_lane,
    .operations = {raw_block_store, raw_block_lookup, raw_block_load, raw_block_remove},
    .close_lane = raw_block_close_lane,
    .close = raw_block_close,
};
