/* How a stamp is made, prepared so that a row (the elements of one head of one token) costs a few
 * instructions. For the stamp files of kv only.
 *
 * A row is a 64-bit key, repeated, xor a pattern that depends on the element alone. Each coordinate
 * (seed, request, group, layer, K or V, token, head) is written in base 128, and each digit adds to
 * each byte of the key its product with a constant of its own in the field of 128 elements; adding is
 * xor there. So, whatever the dtype:
 * - two rows that differ in one digit of one coordinate (the next layer, V for K, the next head, another
 *   token of the same 128, a token n x 128 further) differ in every byte but for its top bit;
 * - two other rows are equal in one byte with odds of about 1 in 128, in n neighbouring bytes in
 *   128^n, and in eight and more 1 in 2^56.
 * The pattern sets the top bits, and makes a shifted row a wrong one with the same odds. A float has
 * its highest key bit moved to the sign, and the exponent bit where that was is the opposite of the
 * one below it: which rules out the exponents of zero, denormals, infinity and NaN. */
#ifndef KVC_KV_STAMP_PLAN_H
#define KVC_KV_STAMP_PLAN_H

#include "src/kv/stamp.h"

struct kvc_stamp_plan {
    const struct kvc_group *group;
    size_t group_index;
    int64_t first_token;
    int64_t token_count;
    uint64_t *layers; /* what source, group, and a layer's K (2 x layer) or V make of the key */
    uint64_t *tokens; /* what first_token + i adds to it */
    uint64_t
        *pattern; /* row after row of one token: the element's pattern, and what the head adds */
    size_t row_words; /* from one head's row to the next, the last word padded */
};

/* Tokens [first_token, first_token + count). Freed with kvc_stamp_plan_close. */
void kvc_stamp_plan_open(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t first_token, int64_t count,
                         struct kvc_stamp_plan *plan);
void kvc_stamp_plan_close(struct kvc_stamp_plan *plan);

/* What the pattern of a token's rows is xored with. layer_kv: layer x kv_size + kv; token counts
 * from the plan's first one. */
static inline uint64_t kvc_stamp_key(const struct kvc_stamp_plan *plan, int64_t layer_kv,
                                     int64_t token)
{
    return plan->layers[layer_kv] ^ plan->tokens[token];
}

static inline const uint64_t *kvc_stamp_row(const struct kvc_stamp_plan *plan, int64_t head)
{
    return plan->pattern + (size_t)head * plan->row_words;
}

#endif
