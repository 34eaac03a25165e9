/* Element types of KV caches, by their bare torch name. For kv, wire (inline payload), the mock. */
#ifndef KVC_KV_DTYPE_H
#define KVC_KV_DTYPE_H

#include "src/base/bytes.h"

struct kvc_dtype {
    const char *name;       /* "float16" */
    const char *short_name; /* for ids: "f16" */
    size_t size;            /* bytes an element */
    const char *
        numpy; /* numpy array-protocol string ("<f2"), or of the unsigned integer of the same size */
    bool numpy_view; /* numpy lacks it: an integer array viewed as the dtype ("bfloat16") */
    const char *torch_storage; /* legacy storage class in torch files ("HalfStorage"), NULL: none */
    size_t float_size;         /* bytes of each float an element is made of, 0: an integer */
};

/* NULL when unknown. Also takes torch's aliases ("half" is float16). */
const struct kvc_dtype *kvc_dtype_find(struct kvc_str name);
/* By the short name that ids have. NULL when unknown. */
const struct kvc_dtype *kvc_dtype_find_short(struct kvc_str name);
/* Appends the short names, joined by ", ". */
void kvc_dtype_list(struct kvc_buffer *out);

#endif
