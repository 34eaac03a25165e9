/* What the objects of a bench or check hold: every eight bytes say which object they belong to, and
 * where in it. For the bench and checks. */
#ifndef KVC_L2_PAYLOAD_H
#define KVC_L2_PAYLOAD_H

#include "src/base/bytes.h"

enum kvc_l2_payload_kind {
    KVC_L2_STAMPS,
    KVC_L2_FILL, /* what `lmcache bench l2` writes: one byte throughout, the key's place in its submit */
};

struct kvc_l2_payload {
    enum kvc_l2_payload_kind kind;
    uint64_t seed;   /* stamps */
    size_t num_keys; /* fill: keys a submit */
};

/* Writes object `index`'s bytes. Stamps reach 32 GiB far; index counts to 2^32. */
void kvc_l2_payload_write(const struct kvc_l2_payload *payload, uint32_t index, uint8_t *data,
                          size_t size);
/* KVC_EMISMATCH: what says how many bytes of how many are wrong and where the first one is; expected
 * and got say what it should hold and what it holds: another object's bytes, another place's, one
 * byte throughout, or nothing that was written. */
kvc_status kvc_l2_payload_check(const struct kvc_l2_payload *payload, uint32_t index,
                                const uint8_t *data, size_t size, struct kvc_error *err);

/* What load buffers hold before. */
enum { KVC_L2_POISON = 0x5a };

#endif
