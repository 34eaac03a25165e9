#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/wire/frames.h"
#include "src/wire/message.h"
#include "src/wire/operations.h"
#include "src/wire/pack.h"

enum {
    LIST_ITEMS = 8,    /* shown of a list in a line of its own */
    SUMMARY_ITEMS = 2, /* … and in a summary */
};

/* The name of a frame that comes after uid and operation. */
static const char *payload_name(const struct kvc_dialect *dialect, enum kvc_op op, size_t count,
                                size_t number)
{
    if (kvc_request_payload_count(dialect, op) != (int)count)
        return NULL;
    for (const struct kvc_payload *row = kvc_operation_find(op)->payloads; row->name != NULL; row++)
        if (kvc_payload_exists(row, dialect) && number-- == 0)
            return row->name;
    return NULL;
}

/* The uid as the reference client makes it, a number; else its bytes. */
static void describe_uid(struct kvc_bytes uid, struct kvc_buffer *out)
{
    msgpack_zone zone;
    msgpack_object object;
    if (uid.size == 0)
        kvc_buffer_append_text(out, "(empty)");
    else if (kvc_msgpack_read(uid, &zone, &object, NULL) == KVC_OK &&
             object.type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        kvc_buffer_printf(out, "%" PRIu64, object.via.u64);
    else
        kvc_hex_encode((struct kvc_bytes){uid.data, uid.size < 16 ? uid.size : 16}, out);
    if (uid.size > 0)
        msgpack_zone_destroy(&zone);
}

static void describe_op(const struct kvc_dialect *dialect, struct kvc_bytes frame, enum kvc_op op,
                        struct kvc_buffer *out)
{
    if (op != KVC_OP_NONE) {
        kvc_buffer_append_text(out, kvc_op_name(op));
        return;
    }
    kvc_buffer_printf(out, "no operation of dialect %s: ", dialect->name);
    kvc_msgpack_describe(frame, LIST_ITEMS, out);
}

static void describe_line(const char *label, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "%-20s ", label);
}

static void describe_payload(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                             enum kvc_op op, bool is_reply, size_t number, struct kvc_buffer *out)
{
    char numbered[32];
    const char *name = is_reply ? "result" : payload_name(dialect, op, frames->count - 2, number);
    snprintf(numbered, sizeof(numbered), "payload %zu", number);
    describe_line(name != NULL && (!is_reply || number == 0) ? name : numbered, out);
    kvc_msgpack_describe(kvc_frames_view(frames, number + 2), LIST_ITEMS, out);
    kvc_buffer_append_byte(out, '\n');
}

void kvc_frames_describe(const struct kvc_frames *frames, const struct kvc_dialect *dialect,
                         bool is_reply, struct kvc_buffer *out)
{
    enum kvc_op op = KVC_OP_NONE;
    if (frames->count == 0) {
        kvc_buffer_append_text(out, "(no frames)\n");
        return;
    }
    describe_line("uid", out);
    describe_uid(kvc_frames_view(frames, 0), out);
    kvc_buffer_append_byte(out, '\n');
    if (frames->count == 1)
        return;
    const struct kvc_bytes op_frame = kvc_frames_view(frames, 1);
    kvc_request_op(dialect, op_frame, &op, NULL);
    describe_line("operation", out);
    describe_op(dialect, op_frame, op, out);
    kvc_buffer_append_byte(out, '\n');
    for (size_t i = 2; i < frames->count; i++)
        describe_payload(dialect, frames, op, is_reply, i - 2, out);
    if (is_reply && frames->count == 2) {
        describe_line("result", out);
        kvc_buffer_append_text(out, "void\n");
    }
}

/* Values that say most by themselves, containers by what they are called and how much they hold. */
static void summarise_payload(const char *name, struct kvc_bytes frame, struct kvc_buffer *out)
{
    msgpack_zone zone;
    msgpack_object object;
    const bool reads = kvc_msgpack_read(frame, &zone, &object, NULL) == KVC_OK;
    if (reads && object.type == MSGPACK_OBJECT_MAP && name != NULL)
        kvc_buffer_printf(out, "%s{…}", name);
    else if (reads && object.type == MSGPACK_OBJECT_ARRAY && name != NULL)
        kvc_buffer_printf(out, "%s[%u]", name, object.via.array.size);
    else if (reads && object.type == MSGPACK_OBJECT_BIN)
        kvc_buffer_printf(out, "%u bytes", object.via.bin.size);
    else
        kvc_msgpack_describe(frame, SUMMARY_ITEMS, out);
    msgpack_zone_destroy(&zone);
}

static void summarise_request(const struct kvc_frames *frames, const struct kvc_dialect *dialect,
                              enum kvc_op op, struct kvc_buffer *out)
{
    kvc_buffer_append_byte(out, '(');
    for (size_t i = 2; i < frames->count; i++) {
        if (i > 2)
            kvc_buffer_append_text(out, ", ");
        summarise_payload(payload_name(dialect, op, frames->count - 2, i - 2),
                          kvc_frames_view(frames, i), out);
    }
    kvc_buffer_append_byte(out, ')');
}

static void summarise_reply(const struct kvc_frames *frames, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, frames->count == 2 ? " → void" : " →");
    for (size_t i = 2; i < frames->count; i++) {
        kvc_buffer_append_byte(out, ' ');
        kvc_msgpack_describe(kvc_frames_view(frames, i), SUMMARY_ITEMS, out);
    }
}

/* Cuts the text that begins at start after width characters. */
static void cut(struct kvc_buffer *out, size_t start, size_t width)
{
    size_t characters = 0;
    size_t end = start; /* of what stays when the text is too long */
    for (size_t i = start; i < out->size; i++) {
        if ((out->data[i] & 0xc0) == 0x80)
            continue;
        if (++characters == width)
            end = i;
    }
    if (characters > width) {
        out->size = end;
        kvc_buffer_append_text(out, "…");
    }
}

void kvc_frames_summarise(const struct kvc_frames *frames, const struct kvc_dialect *dialect,
                          bool is_reply, size_t width, struct kvc_buffer *out)
{
    const size_t start = out->size;
    enum kvc_op op = KVC_OP_NONE;
    if (frames->count == 0) {
        kvc_buffer_append_text(out, "(no frames)");
        return;
    }
    kvc_buffer_append_byte(out, '#');
    describe_uid(kvc_frames_view(frames, 0), out);
    if (frames->count > 1) {
        const struct kvc_bytes op_frame = kvc_frames_view(frames, 1);
        kvc_request_op(dialect, op_frame, &op, NULL);
        kvc_buffer_append_byte(out, ' ');
        describe_op(dialect, op_frame, op, out);
        if (is_reply)
            summarise_reply(frames, out);
        else
            summarise_request(frames, dialect, op, out);
    }
    cut(out, start, width);
}
