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

/* The element's bytes (dtype->size of them, little endian) at a position; token counts from token 0
 * of the sequence. Never a NaN, infinity, zero or denormal for a float dtype, so that a server that
 * converts and back keeps it. Positions that differ in one coordinate alone, and there in one digit
 * to base 128, differ in every element. Any two others agree in one element with odds of 1 in 128
 * (one byte), 2^14 (two) or 2^28 (four), and in eight neighbouring bytes with 1 in 2^56;
 * stamp_plan.h has the construction. */
uint64_t kvc_stamp_value(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t layer, int64_t kv, int64_t token, int64_t head,
                         int64_t element);

/* Writes the stamps of tokens [first_token, first_token + count x block_size) into the blocks, in
 * the order of block_ids, in every layer of every group. */
void kvc_stamp_blocks(struct kvc_paged *paged, struct kvc_stamp_source source, int64_t first_token,
                      const int64_t *block_ids, size_t block_count);
/* Checks them. KVC_EMISMATCH: what says how many elements of how many are wrong, where the first one
 * is, and how many hold what ("3072 hold layer 3 where layer 4 belongs, 1024 hold zero"); expected and got describe its stamp ("layer 3 K token 257 head 1 element 0") and
 * what it holds: "poison 0x5a" or "zero"; or the place that its bytes belong to, searched for in
 * this source (all of it near the tokens checked), then in the `others` (e.g. other requests), then
 * at any byte offset; or "nothing we wrote". where is the block and the slot in it. */
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
