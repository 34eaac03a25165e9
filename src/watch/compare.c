#include "src/watch/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/inline_data.h"
#include "src/wire/pack.h"

/* What of a value must be the same. */
enum treatment {
    TREAT_EXACT,
    TREAT_TYPE,    /* the type alone */
    TREAT_EMPTY,   /* whether it is empty */
    TREAT_TENSORS, /* what was pickled, not how */
    TREAT_RACY,    /* the type alone, if a STORE came just before */
};

/* Values that differ from server to server; [] stands for any element. */
static const struct exception {
    enum kvc_op op;
    const char *path;
    enum treatment treatment;
} exceptions[] = {
    {KVC_OP_REGISTER_ENGINE_DRIVEN, ".shm_name", TREAT_EMPTY},
    {KVC_OP_REGISTER_ENGINE_DRIVEN, ".pool_size", TREAT_TYPE},
    {KVC_OP_PREPARE_STORE, ".context.slots[].offset", TREAT_TYPE},
    {KVC_OP_PREPARE_RETRIEVE, ".context.slots[].offset", TREAT_TYPE},
    {KVC_OP_PREPARE_RETRIEVE, ".data", TREAT_TENSORS},
    {KVC_OP_STORE, "[0]", TREAT_TYPE},
    {KVC_OP_RETRIEVE, "[0]", TREAT_TYPE},
    {KVC_OP_QUERY_PREFETCH_STATUS, "", TREAT_RACY},
    {KVC_OP_WAIT_PREFETCH_STATUS, "", TREAT_RACY},
    {KVC_OP_QUERY_PREFETCH_LOOKUP_HITS, "", TREAT_RACY},
    {KVC_OP_P2P_LOOKUP_AND_LOCK, "", TREAT_TYPE},
    {KVC_OP_P2P_QUERY_LOOKUP_RESULTS, "[].offset", TREAT_TYPE},
};

struct comparison {
    enum kvc_op op;
    bool is_racy;
    struct kvc_buffer *out;
    char path[256]; /* of the values at hand */
};

/* "[12].a" is "[].a", and "[12].a". */
static bool path_is(const char *path, const char *pattern)
{
    while (*path != '\0' && *pattern != '\0') {
        if (pattern[0] == ']' && path[0] >= '0' && path[0] <= '9') {
            path++;
            continue;
        }
        if (*path++ != *pattern++)
            return false;
    }
    return *path == *pattern;
}

static enum treatment treatment_of(const struct comparison *comparison)
{
    for (size_t i = 0; i < KVC_COUNT_OF(exceptions); i++) {
        if (exceptions[i].op == comparison->op && path_is(comparison->path, exceptions[i].path))
            return exceptions[i].treatment == TREAT_RACY && !comparison->is_racy
                       ? TREAT_EXACT
                       : exceptions[i].treatment;
    }
    return TREAT_EXACT;
}

/* ---- saying what differs ---- */

static void append_value(const msgpack_object *value, struct kvc_buffer *out)
{
    if (value->type == MSGPACK_OBJECT_STR) {
        const struct kvc_str text = {value->via.str.ptr, value->via.str.size};
        kvc_buffer_printf(out, "\"%s\"", kvc_text_show(text).text);
    } else if (value->type == MSGPACK_OBJECT_BOOLEAN) {
        kvc_buffer_append_text(out, value->via.boolean ? "true" : "false");
    } else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER) {
        kvc_buffer_printf(out, "%" PRIu64, value->via.u64);
    } else if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        kvc_buffer_printf(out, "%" PRId64, value->via.i64);
    } else if (value->type == MSGPACK_OBJECT_ARRAY) {
        kvc_buffer_printf(out, "a list of %" PRIu32, value->via.array.size);
    } else if (value->type == MSGPACK_OBJECT_MAP) {
        kvc_buffer_printf(out, "a map of %" PRIu32, value->via.map.size);
    } else if (value->type == MSGPACK_OBJECT_BIN) {
        kvc_buffer_printf(out, "%" PRIu32 " bytes", value->via.bin.size);
    } else {
        kvc_buffer_append_text(out, kvc_msgpack_type_name(value->type));
    }
}

static void differ(const struct comparison *comparison, const msgpack_object *recorded,
                   const msgpack_object *now)
{
    kvc_buffer_printf(comparison->out, "result%s: recorded ", comparison->path);
    append_value(recorded, comparison->out);
    kvc_buffer_append_text(comparison->out, ", now ");
    append_value(now, comparison->out);
    kvc_buffer_append_byte(comparison->out, '\n');
}

/* ---- values ---- */

static bool is_int(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static bool same_type(const msgpack_object *a, const msgpack_object *b)
{
    return a->type == b->type || (is_int(a) && is_int(b));
}

static struct kvc_bytes bytes_of(const msgpack_object *value)
{
    if (value->type == MSGPACK_OBJECT_STR)
        return (struct kvc_bytes){(const uint8_t *)value->via.str.ptr, value->via.str.size};
    return (struct kvc_bytes){(const uint8_t *)value->via.bin.ptr, value->via.bin.size};
}

static bool same_tensor(const struct kvc_inline_tensor *a, const struct kvc_inline_tensor *b)
{
    return kvc_str_equal(a->dtype, b->dtype) && a->shape.count == b->shape.count &&
           memcmp(a->shape.items, b->shape.items, a->shape.count * sizeof(int64_t)) == 0 &&
           kvc_bytes_equal(a->data, b->data);
}

/* Pickles of tensors name the addresses of their storages: two of equal tensors differ. */
static bool same_tensors(struct kvc_bytes a, struct kvc_bytes b)
{
    struct kvc_arena arena = {0};
    struct kvc_inline_tensor *tensors[2] = {0};
    size_t counts[2] = {0};
    bool same = kvc_bytes_equal(a, b);
    if (!same && kvc_inline_decode(a, &arena, &tensors[0], &counts[0], NULL) == KVC_OK &&
        kvc_inline_decode(b, &arena, &tensors[1], &counts[1], NULL) == KVC_OK) {
        same = counts[0] == counts[1];
        for (size_t i = 0; same && i < counts[0]; i++)
            same = same_tensor(&tensors[0][i], &tensors[1][i]);
    }
    kvc_arena_clear(&arena);
    return same;
}

static bool same_scalar(const msgpack_object *a, const msgpack_object *b, enum treatment treatment)
{
    const bool is_text = a->type == MSGPACK_OBJECT_STR || a->type == MSGPACK_OBJECT_BIN;
    if (treatment == TREAT_TYPE || treatment == TREAT_RACY)
        return true;
    if (treatment == TREAT_EMPTY && is_text)
        return (bytes_of(a).size == 0) == (bytes_of(b).size == 0);
    if (treatment == TREAT_TENSORS && is_text)
        return same_tensors(bytes_of(a), bytes_of(b));
    return msgpack_object_equal(*a, *b);
}

static void compare(struct comparison *comparison, const msgpack_object *recorded,
                    const msgpack_object *now);

/* Goes one step down, and comes back. */
static void compare_below(struct comparison *comparison, const char *step,
                          const msgpack_object *recorded, const msgpack_object *now)
{
    const size_t size = strlen(comparison->path);
    snprintf(comparison->path + size, sizeof(comparison->path) - size, "%s", step);
    compare(comparison, recorded, now);
    comparison->path[size] = '\0';
}

static void compare_arrays(struct comparison *comparison, const msgpack_object *recorded,
                           const msgpack_object *now)
{
    if (recorded->via.array.size != now->via.array.size) {
        differ(comparison, recorded, now);
        return;
    }
    for (uint32_t i = 0; i < now->via.array.size; i++) {
        char step[16];
        snprintf(step, sizeof(step), "[%" PRIu32 "]", i);
        compare_below(comparison, step, &recorded->via.array.ptr[i], &now->via.array.ptr[i]);
    }
}

/* Servers write the keys of a map in one order (protocol.md 3). */
static void compare_maps(struct comparison *comparison, const msgpack_object *recorded,
                         const msgpack_object *now)
{
    if (recorded->via.map.size != now->via.map.size) {
        differ(comparison, recorded, now);
        return;
    }
    for (uint32_t i = 0; i < now->via.map.size; i++) {
        const msgpack_object_kv *a = &recorded->via.map.ptr[i], *b = &now->via.map.ptr[i];
        char step[64] = ".?";
        if (!msgpack_object_equal(a->key, b->key)) {
            differ(comparison, &a->key, &b->key);
            continue;
        }
        if (a->key.type == MSGPACK_OBJECT_STR)
            snprintf(step, sizeof(step), ".%.*s", (int)a->key.via.str.size, a->key.via.str.ptr);
        compare_below(comparison, step, &a->val, &b->val);
    }
}

static void compare(struct comparison *comparison, const msgpack_object *recorded,
                    const msgpack_object *now)
{
    if (!same_type(recorded, now))
        differ(comparison, recorded, now);
    else if (now->type == MSGPACK_OBJECT_ARRAY)
        compare_arrays(comparison, recorded, now);
    else if (now->type == MSGPACK_OBJECT_MAP)
        compare_maps(comparison, recorded, now);
    else if (!same_scalar(recorded, now, treatment_of(comparison)))
        differ(comparison, recorded, now);
}

/* ---- frames ---- */

static void compare_results(enum kvc_op op, bool is_racy, struct kvc_bytes recorded,
                            struct kvc_bytes now, struct kvc_buffer *out)
{
    struct comparison comparison = {.op = op, .is_racy = is_racy, .out = out};
    msgpack_zone zones[2];
    msgpack_object objects[2];
    const bool read = kvc_msgpack_read(recorded, &zones[0], &objects[0], NULL) == KVC_OK;
    const bool reads = kvc_msgpack_read(now, &zones[1], &objects[1], NULL) == KVC_OK;
    if (read && reads)
        compare(&comparison, &objects[0], &objects[1]);
    else if (read || !kvc_bytes_equal(recorded, now))
        kvc_buffer_printf(out, "result: %s\n",
                          read ? "it cannot be read now" : "the recorded one cannot be read");
    msgpack_zone_destroy(&zones[0]);
    msgpack_zone_destroy(&zones[1]);
}

void kvc_replies_compare(enum kvc_op op, bool is_racy, const struct kvc_frames *recorded,
                         const struct kvc_frames *now, struct kvc_buffer *out)
{
    if (recorded->count != now->count) {
        kvc_buffer_printf(out, "recorded %zu frames, now %zu\n", recorded->count, now->count);
        return;
    }
    if (now->count > 1 && !kvc_bytes_equal(kvc_frames_view(recorded, 1), kvc_frames_view(now, 1)))
        kvc_buffer_append_text(out, "the operation frame is another one\n");
    if (op == KVC_OP_SUBSCRIBE_KV_EVENTS) /* events are whatever has happened */
        return;
    for (size_t i = 2; i < now->count; i++)
        compare_results(op, is_racy, kvc_frames_view(recorded, i), kvc_frames_view(now, i), out);
}
