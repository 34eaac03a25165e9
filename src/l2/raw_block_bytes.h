/* What raw_block writes and reads: whole pieces, little-endian numbers, a slot's header. For raw_block and
 * its index. */
#ifndef KVC_L2_RAW_BLOCK_BYTES_H
#define KVC_L2_RAW_BLOCK_BYTES_H

#include "src/base/bytes.h"

/* A slot's header of 24 bytes: a mark, whose it is, the size of its object. */
enum { KVC_RAW_BLOCK_HEADER = 24 };
void kvc_raw_block_write_header(const char *name, int64_t size, uint8_t *header);

/* pwrite and pread of all of it. With O_DIRECT everything must be aligned. KVC_ESYSTEM. */
kvc_status kvc_raw_block_write(int device, const void *data, size_t size, int64_t offset,
                               struct kvc_error *err);
kvc_status kvc_raw_block_read(int device, void *data, size_t size, int64_t offset,
                              struct kvc_error *err);

void kvc_raw_block_put(uint8_t *at, uint64_t value, size_t bytes);
uint64_t kvc_raw_block_get(const uint8_t *at, size_t bytes);
uint32_t kvc_raw_block_crc32(const uint8_t *data, size_t size);
/* Zeroed, and aligned for O_DIRECT; free() it. */
uint8_t *kvc_raw_block_alloc(size_t size);

#endif
