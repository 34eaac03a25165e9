#include "src/l2/raw_block_index.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/l2/raw_block_bytes.h"

enum { COPIES = 2, JSON_FORM = 1 };

static size_t round_up(size_t size, int64_t unit)
{
    return (size + (size_t)unit - 1) / (size_t)unit * (size_t)unit;
}

/* ---- slots ---- */

static int64_t slot_of(const struct kvc_raw_block_index *index, int64_t offset)
{
    return (offset - index->layout.meta_total_bytes) / index->layout.slot_bytes;
}

static void append_slot(int64_t **slots, size_t *count, int64_t slot)
{
    *slots = kvc_realloc(*slots, (*count + 1) * sizeof((*slots)[0]));
    (*slots)[(*count)++] = slot;
}

kvc_status kvc_raw_block_index_init(const struct kvc_raw_block_layout *layout, int device,
                                    int64_t device_size, struct kvc_raw_block_index *index,
                                    struct kvc_error *err)
{
    *index = (struct kvc_raw_block_index){.layout = *layout, .device = device};
    if (layout->capacity_bytes == 0 || layout->capacity_bytes > device_size)
        index->layout.capacity_bytes = device_size;
    index->max_slots =
        (index->layout.capacity_bytes - layout->meta_total_bytes) / layout->slot_bytes;
    index->entries = json_object();
    if (index->max_slots > 0)
        return KVC_OK;
    kvc_fail(err, KVC_EUSAGE,
             "%lld bytes have no room for a slot of %lld behind %lld for checkpoints",
             (long long)index->layout.capacity_bytes, (long long)layout->slot_bytes,
             (long long)layout->meta_total_bytes);
    kvc_error_set_where(err, "device_path");
    return KVC_EUSAGE;
}

void kvc_raw_block_index_clear(struct kvc_raw_block_index *index)
{
    json_decref(index->entries);
    free(index->free_slots);
    free(index->left_slots);
    *index = (struct kvc_raw_block_index){0};
}

kvc_status kvc_raw_block_index_take_slot(struct kvc_raw_block_index *index, int64_t *offset,
                                         struct kvc_error *err)
{
    if (index->free_count == 0 && index->next_slot == index->max_slots && index->left_count > 0)
        KVC_GUARD(kvc_raw_block_index_save(index, err));
    int64_t slot;
    if (index->free_count > 0)
        slot = index->free_slots[--index->free_count];
    else if (index->next_slot < index->max_slots)
        slot = index->next_slot++;
    else
        return kvc_fail(err, KVC_EREFUSED, "the store is full: all of its %lld slots are in use",
                        (long long)index->max_slots);
    *offset = index->layout.meta_total_bytes + slot * index->layout.slot_bytes;
    return KVC_OK;
}

void kvc_raw_block_index_leave_slot(struct kvc_raw_block_index *index, int64_t offset)
{
    append_slot(&index->left_slots, &index->left_count, slot_of(index, offset));
    index->changed = true;
}

/* ---- entries ---- */

bool kvc_raw_block_index_find(const struct kvc_raw_block_index *index, const char *name,
                              int64_t *offset, int64_t *size)
{
    const json_t *entry = json_object_get(index->entries, name);
    *offset = json_integer_value(json_object_get(entry, "offset"));
    *size = json_integer_value(json_object_get(entry, "size"));
    return entry != NULL;
}

bool kvc_raw_block_index_remove(struct kvc_raw_block_index *index, const char *name)
{
    int64_t offset, size;
    if (!kvc_raw_block_index_find(index, name, &offset, &size))
        return false;
    json_object_del(index->entries, name);
    kvc_raw_block_index_leave_slot(index, offset);
    return true;
}

void kvc_raw_block_index_add(struct kvc_raw_block_index *index, const char *name, int64_t offset,
                             int64_t size)
{
    kvc_raw_block_index_remove(index, name);
    json_object_set_new(index->entries, name,
                        json_pack("{s:I, s:I, s:[I], s:s, s:s, s:n}", "offset", (json_int_t)offset,
                                  "size", (json_int_t)size, "shape", (json_int_t)size, "dtype",
                                  "uint8", "fmt", "KV_2LTD", "cached_positions"));
    index->changed = true;
}

/* ---- checkpoints ---- */

static int64_t place_size(const struct kvc_raw_block_layout *layout)
{
    return layout->meta_total_bytes / COPIES / layout->block_align * layout->block_align;
}

static json_t *layout_json(const struct kvc_raw_block_layout *layout)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:I}", "device_path", layout->device_path,
                     "block_align", (json_int_t)layout->block_align, "header_bytes",
                     (json_int_t)layout->header_bytes, "slot_bytes", (json_int_t)layout->slot_bytes,
                     "meta_total_bytes", (json_int_t)layout->meta_total_bytes, "meta_magic",
                     layout->meta_magic, "meta_version", (json_int_t)layout->meta_version);
}

static char *checkpoint_text(const struct kvc_raw_block_index *index)
{
    json_t *state = layout_json(&index->layout);
    json_object_set_new(state, "version", json_integer(JSON_FORM));
    json_object_set_new(state, "capacity_bytes", json_integer(index->layout.capacity_bytes));
    json_object_set_new(state, "data_base_offset", json_integer(index->layout.meta_total_bytes));
    json_object_set_new(state, "next_slot", json_integer(index->next_slot));
    json_object_set(state, "entries", index->entries);
    char *text = json_dumps(state, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(state);
    if (text == NULL)
        kvc_out_of_memory(0);
    return text;
}

static void pass_left_slots_on(struct kvc_raw_block_index *index)
{
    for (size_t i = 0; i < index->left_count; i++)
        append_slot(&index->free_slots, &index->free_count, index->left_slots[i]);
    index->left_count = 0;
}

/* The payload first: a header never stands before one that is not whole. */
static kvc_status write_checkpoint(struct kvc_raw_block_index *index, const char *text,
                                   struct kvc_error *err)
{
    const struct kvc_raw_block_layout *layout = &index->layout;
    const size_t size = strlen(text);
    const size_t padded = round_up(size, layout->block_align);
    if ((int64_t)padded > place_size(layout) - layout->block_align) {
        kvc_fail(err, KVC_EREFUSED, "an index of %zu bytes does not fit where checkpoints go",
                 size);
        kvc_error_set_where(err, "meta_total_bytes");
        return KVC_EREFUSED;
    }
    const int64_t place = (int64_t)(index->sequence % COPIES) * place_size(layout);
    uint8_t *block = kvc_raw_block_alloc(padded + (size_t)layout->block_align);
    memcpy(block, text, size);
    kvc_status status =
        kvc_raw_block_write(index->device, block, padded, place + layout->block_align, err);
    if (status == KVC_OK && fdatasync(index->device) != 0)
        status = kvc_fail_errno(err, "cannot flush the device");
    uint8_t *header = block + padded;
    memcpy(header, layout->meta_magic, 8);
    kvc_raw_block_put(header + 8, (uint64_t)layout->meta_version, 4);
    kvc_raw_block_put(header + 12, index->sequence + 1, 8);
    kvc_raw_block_put(header + 20, size, 8);
    kvc_raw_block_put(header + 28, kvc_raw_block_crc32(block, size), 4);
    if (status == KVC_OK)
        status =
            kvc_raw_block_write(index->device, header, (size_t)layout->block_align, place, err);
    free(block);
    return status;
}

kvc_status kvc_raw_block_index_save(struct kvc_raw_block_index *index, struct kvc_error *err)
{
    if (!index->changed)
        return KVC_OK;
    char *text = checkpoint_text(index);
    const kvc_status status = write_checkpoint(index, text, err);
    free(text);
    if (status != KVC_OK)
        return status;
    index->sequence++;
    index->changed = false;
    pass_left_slots_on(index);
    return KVC_OK;
}

/* ---- reading ---- */

/* NULL when there is no whole checkpoint at that place; the caller frees it. */
static json_t *read_checkpoint(const struct kvc_raw_block_index *index, int64_t place,
                               uint64_t *sequence)
{
    const struct kvc_raw_block_layout *layout = &index->layout;
    uint8_t *header = kvc_raw_block_alloc((size_t)layout->block_align);
    json_t *state = NULL;
    if (kvc_raw_block_read(index->device, header, (size_t)layout->block_align, place, NULL) !=
        KVC_OK)
        goto done;
    const uint64_t size = kvc_raw_block_get(header + 20, 8);
    *sequence = kvc_raw_block_get(header + 12, 8);
    if (memcmp(header, layout->meta_magic, 8) != 0 ||
        kvc_raw_block_get(header + 8, 4) != (uint64_t)layout->meta_version || size == 0 ||
        size > (uint64_t)(place_size(layout) - layout->block_align))
        goto done;
    const size_t padded = round_up(size, layout->block_align);
    uint8_t *text = kvc_raw_block_alloc(padded);
    if (kvc_raw_block_read(index->device, text, padded, place + layout->block_align, NULL) ==
            KVC_OK &&
        kvc_raw_block_crc32(text, size) == kvc_raw_block_get(header + 28, 4))
        state = json_loadb((const char *)text, size, 0, NULL);
    free(text);
done:
    free(header);
    return state;
}

static kvc_status check_layout(const struct kvc_raw_block_layout *layout, const json_t *state,
                               struct kvc_error *err)
{
    json_t *ours = layout_json(layout);
    const char *name;
    json_t *value;
    kvc_status status = KVC_OK;
    json_object_foreach(ours, name, value)
    {
        const json_t *theirs = json_object_get(state, name);
        if (status != KVC_OK || theirs == NULL || json_equal(value, theirs))
            continue;
        char *text = json_dumps(theirs, JSON_ENCODE_ANY);
        status = kvc_fail(err, KVC_EUSAGE, "the device holds a store of another layout");
        kvc_error_set_where(err, "%s", name);
        kvc_error_set_expected(err, "%s",
                               kvc_text_show(kvc_str_of(text == NULL ? "another" : text)).text);
        free(text);
    }
    json_decref(ours);
    return status;
}

static bool is_usable(const struct kvc_raw_block_index *index, const char *name,
                      const json_t *entry, bool verify)
{
    const struct kvc_raw_block_layout *layout = &index->layout;
    const int64_t offset = json_integer_value(json_object_get(entry, "offset"));
    const int64_t size = json_integer_value(json_object_get(entry, "size"));
    const int64_t behind = offset - layout->meta_total_bytes;
    if (behind < 0 || behind % layout->slot_bytes != 0 ||
        slot_of(index, offset) >= index->next_slot || size <= 0 ||
        size > layout->slot_bytes - layout->header_bytes)
        return false;
    if (!verify)
        return true;
    uint8_t expected[KVC_RAW_BLOCK_HEADER];
    uint8_t *header = kvc_raw_block_alloc((size_t)layout->header_bytes);
    kvc_raw_block_write_header(name, size, expected);
    const bool same = kvc_raw_block_read(index->device, header, (size_t)layout->header_bytes,
                                         offset, NULL) == KVC_OK &&
                      memcmp(header, expected, sizeof(expected)) == 0;
    free(header);
    return same;
}

static void take_entries(struct kvc_raw_block_index *index, json_t *entries, bool verify)
{
    bool *used = kvc_alloc_zero((size_t)index->next_slot + 1, sizeof(used[0]));
    const char *name;
    json_t *entry;
    json_object_foreach(entries, name, entry)
    {
        int64_t offset, size;
        if (!is_usable(index, name, entry, verify))
            continue;
        json_object_set(index->entries, name, entry);
        if (kvc_raw_block_index_find(index, name, &offset, &size))
            used[slot_of(index, offset)] = true;
    }
    for (int64_t slot = 0; slot < index->next_slot; slot++)
        if (!used[slot])
            append_slot(&index->free_slots, &index->free_count, slot);
    free(used);
}

kvc_status kvc_raw_block_index_load(struct kvc_raw_block_index *index, bool verify,
                                    struct kvc_error *err)
{
    json_t *newest = NULL;
    for (int copy = 0; copy < COPIES; copy++) {
        uint64_t sequence = 0;
        json_t *state = read_checkpoint(index, copy * place_size(&index->layout), &sequence);
        if (state == NULL || (newest != NULL && sequence <= index->sequence)) {
            json_decref(state);
            continue;
        }
        json_decref(newest);
        newest = state;
        index->sequence = sequence;
    }
    if (newest == NULL)
        return KVC_OK;
    const kvc_status status = check_layout(&index->layout, newest, err);
    const int64_t next_slot = json_integer_value(json_object_get(newest, "next_slot"));
    if (status == KVC_OK) {
        index->next_slot =
            next_slot < 0 || next_slot > index->max_slots ? index->max_slots : next_slot;
        take_entries(index, json_object_get(newest, "entries"), verify);
    }
    json_decref(newest);
    return status;
}
