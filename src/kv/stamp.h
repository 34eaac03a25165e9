/* Stamps: every element says where it belongs, so that a wrong byte is reported as what it is.
 * For checks and bench. */
#ifndef KVC_KV_STAMP_H
#define KVC_KV_STAMP_H

#include "src/kv/paged.h"

/* Whose data: elements depend on all of these, and on group, layer, K or V, token, head, element. */
struct kvc_stamp_source {
    uint64_t seed;
    uint64_t request; /* a number for the request (or worker, or salt) whose data this is */
};

/* The element's bytes (dtype->size of them, little endian) at a position. Never a NaN, infinity or
 * denormal for a float dtype, so that a server that converts and back keeps it; elements of one byte
 * repeat sooner, which the check knows. token counts from token 0 of the sequence. */
uint64_t kvc_stamp_value(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t layer, int64_t kv, int64_t token, int64_t head,
                         int64_t element);

/* Writes the stamps of tokens [first_token, first_token + count x block_size) into the blocks, in
 * the order of block_ids, in every layer of every group. */
void kvc_stamp_blocks(struct kvc_paged *paged, struct kvc_stamp_source source, int64_t first_token,
                      const int64_t *block_ids, size_t block_count);
/* Checks them. KVC_EMISMATCH: what says how many elements of how many are wrong and where the
 * first one is; expected and got describe its stamp ("layer 3 K token 257 head 1 element 0") and
 * what it holds, searched for in all positions of this source, then of the `others` (e.g. other
 * requests), then as a poison byte; "nothing we wrote" if it is none. */
kvc_status kvc_stamp_check_blocks(const struct kvc_paged *paged, struct kvc_stamp_source source,
                                  int64_t first_token, const int64_t *block_ids, size_t block_count,
                                  const struct kvc_stamp_source *others, size_t other_count,
                                  struct kvc_error *err);

/* The same for one chunk in chunk layout (a slot of the pool): all groups one after another. */
void kvc_stamp_chunk(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                     int64_t first_token, int64_t chunk_tokens, uint8_t *chunk);
kvc_status kvc_stamp_check_chunk(const struct kvc_geometry *geometry,
                                 struct kvc_stamp_source source, int64_t first_token,
                                 int64_t chunk_tokens, const uint8_t *chunk,
                                 const struct kvc_stamp_source *others, size_t other_count,
                                 struct kvc_error *err);

/* Appends a hex view of expected and actual bytes side by side around the first difference, with
 * the place of each line. At most max_lines lines. */
void kvc_stamp_hex_diff(const uint8_t *expected, const uint8_t *actual, size_t size,
                        size_t max_lines, struct kvc_buffer *out);

#endif
