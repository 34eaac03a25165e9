/* What a check's process says about itself, and how that travels to the runner through a pipe. */
#ifndef KVC_RUN_VERDICT_H
#define KVC_RUN_VERDICT_H

#include "src/run/outcome.h"

/* outcome is pass, fail, skip or error. Texts may hold any byte but NUL. */
struct kvc_verdict {
    enum kvc_outcome outcome;
    struct kvc_buffer message, expected, got, details;
};

enum {
    KVC_VERDICT_MAX_TEXT = 64 << 10, /* bytes of each text; the rest is cut, and said to be */
    KVC_VERDICT_MAX_BYTES = 5 * KVC_VERDICT_MAX_TEXT,
};

void kvc_verdict_clear(struct kvc_verdict *verdict);
/* Appends the verdict as bytes, at most KVC_VERDICT_MAX_BYTES. */
void kvc_verdict_encode(const struct kvc_verdict *verdict, struct kvc_buffer *out);
/* Reads it back. KVC_EFORMAT when the bytes are cut short or are no verdict. */
kvc_status kvc_verdict_decode(struct kvc_bytes bytes, struct kvc_verdict *verdict,
                              struct kvc_error *err);

#endif
