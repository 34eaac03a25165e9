/* Names of objects in a store below LMCache's L1 (an "L2"), as LMCache's adapters write them, so that
 * objects are interchangeable. For the adapters, the bench and checks. */
#ifndef KVC_L2_KEY_H
#define KVC_L2_KEY_H

#include "src/base/bytes.h"

struct kvc_l2_key {
    struct kvc_bytes chunk_hash; /* 1 to KVC_L2_MAX_HASH bytes */
    struct kvc_str model;        /* without '@' and NUL */
    uint32_t kv_rank;            /* world size, rank, local world size, local rank: a byte each */
    uint32_t group;              /* of layers, from 0 */
    struct kvc_str salt;         /* mostly empty; without '@', '/', '\' and NUL */
};

enum { KVC_L2_MAX_HASH = 64, KVC_L2_MAX_SALT = 128 };

/* KVC_EUSAGE for a key that no LMCache makes: the '@' between the parts of a name would not be the
 * only ones. */
kvc_status kvc_l2_key_check(const struct kvc_l2_key *key, struct kvc_error *err);

/* Each appends a name of a checked key. resp and s3: "<model>@<rank>@<group>@<hash>", with the rank as
 * eight hex digits and "@<salt>" behind it where there is one. */
void kvc_l2_key_append(const struct kvc_l2_key *key, struct kvc_buffer *out);
/* fs: "<model>@0x<rank>@<group>@<hash>[@<salt>].data", '/' in the model written as "-SEP-". KVC_EUSAGE
 * for a model that holds "-SEP-" itself, which would be another one's file, and for a name that no
 * file system takes (255 bytes). */
kvc_status kvc_l2_key_append_file_name(const struct kvc_l2_key *key, struct kvc_buffer *out,
                                       struct kvc_error *err);
/* raw_block: the same as fs without ".data", the model percent-encoded. */
void kvc_l2_key_append_encoded(const struct kvc_l2_key *key, struct kvc_buffer *out);
/* Appends text with everything but letters, digits, "-._~" and the characters of `kept` as %XX. */
void kvc_l2_percent_encode(struct kvc_str text, const char *kept, struct kvc_buffer *out);

#endif
