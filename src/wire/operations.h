/* Which payloads a request of each operation has, and which result. Inside src/wire only. */
#ifndef KVC_WIRE_OPERATIONS_H
#define KVC_WIRE_OPERATIONS_H

#include "src/wire/schema.h"

/* One payload frame of a request. */
struct kvc_payload {
    const char *name;
    const struct kvc_type *type;
    size_t offset;     /* in struct kvc_request */
    uint32_t features; /* only in dialects that have these … */
    uint32_t without;  /* … and have none of these */
};

enum kvc_result_presence {
    KVC_RESULT_NEVER,  /* always void */
    KVC_RESULT_ALWAYS, /* never void */
    KVC_RESULT_OR_VOID,
    KVC_RESULT_UNKNOWN, /* no codec: a stream */
};

struct kvc_operation {
    const struct kvc_payload *payloads; /* with a NULL name at the end; NULL: no codec */
    enum kvc_result_presence presence;
    const struct kvc_type *result;
    size_t result_offset; /* in struct kvc_reply */
};

/* Never NULL; payloads is NULL where the codec is not written (blend). */
const struct kvc_operation *kvc_operation_find(enum kvc_op op);

/* Whether the payload is sent in this dialect. */
bool kvc_payload_exists(const struct kvc_payload *payload, const struct kvc_dialect *dialect);

#endif
