/* Digests: MD5 as the HTTP checksum route computes it, and BLAKE3 chunk hashes (protocol.md 7, 8.2).
 * For checks, bench and the mock. */
#ifndef KVC_KV_DIGEST_H
#define KVC_KV_DIGEST_H

#include "src/kv/geometry.h"

enum { KVC_BLAKE3_SIZE = 32, KVC_MD5_HEX_SIZE = 33 };

/* BLAKE3 of any length of input, 32 bytes out. */
void kvc_blake3(const void *data, size_t size, uint8_t digest[KVC_BLAKE3_SIZE]);

/* The hashes of the full chunks of a token sequence, one after another (KVC_BLAKE3_SIZE bytes
 * each). Tokens must fit uint32. Returns how many chunks; out has room for count / chunk_tokens. */
size_t kvc_chunk_hashes(const int64_t *tokens, size_t count, int64_t chunk_tokens, uint8_t *out);

/* One chunk's checksum as POST /cache/checksums gives it: lower-case hex MD5 over the layers in
 * order, each restricted to the blocks; bfloat16 widened to float32. tensors: every layer of every
 * group, in order. hex is NUL-terminated. */
void kvc_block_checksum(const struct kvc_geometry *geometry, uint8_t *const *tensors,
                        const int64_t *block_ids, size_t block_count, char hex[KVC_MD5_HEX_SIZE]);
/* One layer's checksum (layerwise: true). */
void kvc_layer_checksum(const struct kvc_group *group, const uint8_t *tensor,
                        const int64_t *block_ids, size_t block_count, char hex[KVC_MD5_HEX_SIZE]);
/* Plain MD5, lower-case hex. */
void kvc_md5_hex(const void *data, size_t size, char hex[KVC_MD5_HEX_SIZE]);

#endif
