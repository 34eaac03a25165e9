/* msgpack on top of msgpack-c: writing into a kvc_buffer, and reading with limits.
 * For the codecs of this folder, and for checks that craft requests by hand. */
#ifndef KVC_WIRE_PACK_H
#define KVC_WIRE_PACK_H

#include <msgpack.h>

#include "src/base/bytes.h"

/* Append one value in its shortest form. Containers are headers only: the elements follow. */
void kvc_msgpack_write_nil(struct kvc_buffer *out);
void kvc_msgpack_write_bool(struct kvc_buffer *out, bool value);
void kvc_msgpack_write_int(struct kvc_buffer *out, int64_t value);
/* Many, without an array's header. */
void kvc_msgpack_write_ints(struct kvc_buffer *out, const int64_t *values, size_t count);
void kvc_msgpack_write_uint(struct kvc_buffer *out, uint64_t value);
void kvc_msgpack_write_float(struct kvc_buffer *out, double value);
void kvc_msgpack_write_str(struct kvc_buffer *out, struct kvc_str value);
void kvc_msgpack_write_bin(struct kvc_buffer *out, struct kvc_bytes value);
void kvc_msgpack_write_array(struct kvc_buffer *out, uint32_t count);
void kvc_msgpack_write_map(struct kvc_buffer *out, uint32_t count);
void kvc_msgpack_write_ext(struct kvc_buffer *out, int8_t type, struct kvc_bytes body);

/* Limits for one value read from a peer. */
enum { KVC_MSGPACK_MAX_DEPTH = 24 };

/* Checks that bytes are exactly one well-formed value (nothing after it, no count beyond the bytes
 * there are, not nested deeper than KVC_MSGPACK_MAX_DEPTH, text valid UTF-8), then reads it.
 * The object lives in *zone (the caller destroys it with msgpack_zone_destroy) and points into
 * bytes. KVC_EFORMAT otherwise, with the byte position in where. */
kvc_status kvc_msgpack_read(struct kvc_bytes bytes, msgpack_zone *zone, msgpack_object *object,
                            struct kvc_error *err);
/* The check alone. */
kvc_status kvc_msgpack_validate(struct kvc_bytes bytes, struct kvc_error *err);

/* Appends a value as text: {"model_name": "m", "token_ids": [1, 2, … 510 more]}; bytes as
 * bin(16) 00ff…, with the shapes where they are pickled tensors; a tensor handle as what it says;
 * not well-formed bytes as malformed(…). Lists are cut after max_items, all of it after 16 KiB. */
void kvc_msgpack_describe(struct kvc_bytes bytes, size_t max_items, struct kvc_buffer *out);
/* "int", "str", "bin", "array", "map", "nil", "bool", "float", "ext". */
const char *kvc_msgpack_type_name(msgpack_object_type type);

#endif
