#include "src/wire/message.h"

#include <inttypes.h>
#include <string.h>

#include "src/wire/lenient.h"
#include "src/wire/operations.h"
#include "src/wire/values.h"

static kvc_status no_codec(const struct kvc_dialect *dialect, enum kvc_op op, struct kvc_error *err)
{
    return kvc_fail(err, KVC_EUNSUPPORTED, "%s cannot be written or read in dialect %s",
                    kvc_op_name(op), dialect->name);
}

static bool has_codec(const struct kvc_dialect *dialect, enum kvc_op op)
{
    return (size_t)op < KVC_OP_COUNT && dialect->has[op] &&
           kvc_operation_find(op)->payloads != NULL;
}

int kvc_request_payload_count(const struct kvc_dialect *dialect, enum kvc_op op)
{
    if (!has_codec(dialect, op))
        return -1;
    int count = 0;
    for (const struct kvc_payload *row = kvc_operation_find(op)->payloads; row->name != NULL; row++)
        count += kvc_payload_exists(row, dialect);
    return count;
}

bool kvc_reply_always_void(enum kvc_op op)
{
    return kvc_operation_find(op)->presence == KVC_RESULT_NEVER;
}

void kvc_key_encode(const struct kvc_dialect *dialect, const struct kvc_key *key,
                    struct kvc_buffer *out)
{
    /* A key holds no byte string, the only thing whose encoding can fail. */
    kvc_schema_encode(dialect, &kvc_type_key, key, out, NULL);
}

/* Appends the value as a frame of its own. */
static kvc_status append_value(const struct kvc_dialect *dialect, const struct kvc_type *type,
                               const void *value, struct kvc_frames *frames, struct kvc_error *err)
{
    struct kvc_buffer buffer = {0};
    const kvc_status status = kvc_schema_encode(dialect, type, value, &buffer, err);
    if (status == KVC_OK)
        kvc_frames_append_buffer(frames, &buffer);
    kvc_buffer_clear(&buffer);
    return status;
}

static void append_op(const struct kvc_dialect *dialect, enum kvc_op op, struct kvc_frames *frames)
{
    struct kvc_buffer buffer = {0};
    if (dialect->id[op] >= 0)
        kvc_msgpack_write_int(&buffer, dialect->id[op]);
    else
        kvc_msgpack_write_str(&buffer, kvc_str_of(kvc_op_name(op)));
    kvc_frames_append_buffer(frames, &buffer);
}

kvc_status kvc_request_encode(const struct kvc_dialect *dialect, const struct kvc_request *request,
                              struct kvc_frames *frames, struct kvc_error *err)
{
    if (!has_codec(dialect, request->op))
        return no_codec(dialect, request->op, err);
    append_op(dialect, request->op, frames);
    size_t number = 0;
    for (const struct kvc_payload *row = kvc_operation_find(request->op)->payloads;
         row->name != NULL; row++) {
        if (!kvc_payload_exists(row, dialect))
            continue;
        const void *value = (const uint8_t *)request + row->offset;
        const kvc_status status = append_value(dialect, row->type, value, frames, err);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "payload %zu (%s)", number, row->name);
            return status;
        }
        number++;
    }
    return KVC_OK;
}

/* Reads bytes as one value of the type; lenient where a server is (protocol.md 1.3). */
static kvc_status decode_value(const struct kvc_decoding *decoding, const struct kvc_type *type,
                               struct kvc_bytes bytes, void *value, struct kvc_error *err)
{
    msgpack_zone zone;
    msgpack_object object;
    kvc_status status = kvc_msgpack_read(bytes, &zone, &object, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, " at ");
    else if (decoding->is_request && type->kind == KVC_KIND_INT)
        status = kvc_lenient_int(&object, value, err);
    else if (decoding->is_request && type->kind == KVC_KIND_BOOL)
        *(bool *)value = kvc_lenient_bool(&object);
    else
        status = kvc_schema_decode(decoding, type, &object, value, err);
    msgpack_zone_destroy(&zone);
    return status;
}

kvc_status kvc_request_op(const struct kvc_dialect *dialect, struct kvc_bytes op_frame,
                          enum kvc_op *op, struct kvc_error *err)
{
    msgpack_zone zone;
    msgpack_object object;
    *op = KVC_OP_NONE;
    kvc_status status = kvc_msgpack_read(op_frame, &zone, &object, err);
    if (status != KVC_OK) {
        kvc_error_prepend_where(err, "operation at ");
    } else if (object.type == MSGPACK_OBJECT_POSITIVE_INTEGER && object.via.u64 <= INT16_MAX) {
        *op = kvc_op_by_id(dialect, (int64_t)object.via.u64);
    } else if (object.type == MSGPACK_OBJECT_STR &&
               kvc_dialect_has(dialect, KVC_FEATURE_OP_NAMES)) {
        *op = kvc_op_by_name((struct kvc_str){object.via.str.ptr, object.via.str.size});
        if (!dialect->has[*op])
            *op = KVC_OP_NONE;
    }
    msgpack_zone_destroy(&zone);
    if (status == KVC_OK && *op == KVC_OP_NONE) {
        kvc_fail(err, KVC_EFORMAT, "no operation of dialect %s", dialect->name);
        status = KVC_EFORMAT;
        kvc_error_set_where(err, "operation");
    }
    return status;
}

static kvc_status wrong_count(struct kvc_error *err, enum kvc_op op, size_t expected, size_t got)
{
    kvc_fail(err, KVC_EFORMAT, "wrong number of payloads for %s", kvc_op_name(op));
    kvc_error_set_expected(err, "%zu", expected);
    kvc_error_set_got(err, "%zu", got);
    return KVC_EFORMAT;
}

kvc_status kvc_request_decode(const struct kvc_dialect *dialect, const struct kvc_frames *frames,
                              struct kvc_arena *arena, struct kvc_request *request,
                              struct kvc_error *err)
{
    *request = (struct kvc_request){.op = KVC_OP_NONE};
    if (frames->count < 2)
        return kvc_fail(err, KVC_EFORMAT, "a request has at least a uid and an operation");
    KVC_GUARD(kvc_request_op(dialect, kvc_frames_view(frames, 1), &request->op, err));
    const int expected = kvc_request_payload_count(dialect, request->op);
    if (expected < 0)
        return no_codec(dialect, request->op, err);
    if (frames->count - 2 != (size_t)expected)
        return wrong_count(err, request->op, (size_t)expected, frames->count - 2);

    const struct kvc_decoding decoding = {dialect, arena, .is_request = true};
    size_t number = 0;
    for (const struct kvc_payload *row = kvc_operation_find(request->op)->payloads;
         row->name != NULL; row++) {
        if (!kvc_payload_exists(row, dialect))
            continue;
        const kvc_status status =
            decode_value(&decoding, row->type, kvc_frames_view(frames, number + 2),
                         (uint8_t *)request + row->offset, err);
        if (status != KVC_OK) {
            kvc_error_prepend_where(err, "payload %zu (%s)", number, row->name);
            return status;
        }
        number++;
    }
    return KVC_OK;
}

kvc_status kvc_reply_encode(const struct kvc_dialect *dialect, const struct kvc_reply *reply,
                            struct kvc_frames *frames, struct kvc_error *err)
{
    const struct kvc_operation *operation = kvc_operation_find(reply->op);
    if (operation->presence == KVC_RESULT_UNKNOWN)
        return no_codec(dialect, reply->op, err);
    if (operation->presence == KVC_RESULT_NEVER || reply->is_void)
        return KVC_OK;
    const kvc_status status = append_value(
        dialect, operation->result, (const uint8_t *)reply + operation->result_offset, frames, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, "result");
    return status;
}

static kvc_status decode_result(const struct kvc_dialect *dialect,
                                const struct kvc_operation *operation, struct kvc_reply *reply,
                                struct kvc_error *err)
{
    const struct kvc_decoding decoding = {dialect, &reply->arena, .is_request = false};
    const kvc_status status =
        decode_value(&decoding, operation->result, kvc_frames_view(&reply->frames, 2),
                     (uint8_t *)reply + operation->result_offset, err);
    if (status != KVC_OK)
        kvc_error_prepend_where(err, "result");
    return status;
}

kvc_status kvc_reply_decode(const struct kvc_dialect *dialect, enum kvc_op op,
                            struct kvc_frames *frames, struct kvc_reply *reply,
                            struct kvc_error *err)
{
    *reply = (struct kvc_reply){.op = op, .frames = *frames};
    *frames = (struct kvc_frames){0};
    const struct kvc_operation *operation = kvc_operation_find(op);
    if (operation->presence == KVC_RESULT_UNKNOWN)
        return no_codec(dialect, op, err);
    if (reply->frames.count < 2 || reply->frames.count > 3)
        return kvc_fail(err, KVC_EFORMAT, "a reply to %s has 2 or 3 frames, this one has %zu",
                        kvc_op_name(op), reply->frames.count);
    reply->is_void = reply->frames.count == 2;
    if (reply->is_void && operation->presence == KVC_RESULT_ALWAYS)
        return kvc_fail(err, KVC_EFORMAT, "the reply to %s has no result frame", kvc_op_name(op));
    if (!reply->is_void && operation->presence == KVC_RESULT_NEVER)
        return kvc_fail(err, KVC_EFORMAT, "the reply to %s has a result frame, it must be void",
                        kvc_op_name(op));
    return reply->is_void ? KVC_OK : decode_result(dialect, operation, reply, err);
}

void kvc_reply_clear(struct kvc_reply *reply)
{
    kvc_arena_clear(&reply->arena);
    kvc_frames_clear(&reply->frames);
    *reply = (struct kvc_reply){.op = KVC_OP_NONE};
}
