/* The BLAKE2b digest of eight bytes: what raw_block puts into a slot's header to say whose it is. (OpenSSL
 * 3.0 gives BLAKE2b in its full length only, and a shorter one is not its beginning.) For raw_block. */
#ifndef KVC_L2_BLAKE2B_H
#define KVC_L2_BLAKE2B_H

#include "src/base/bytes.h"

/* As a little-endian number. */
uint64_t kvc_l2_blake2b_8(struct kvc_bytes text);

#endif
