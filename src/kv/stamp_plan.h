/* How a stamp is made, prepared so that a row (the elements of one head of one token) costs a few
 * instructions. For the stamp files of kv only.
 *
 * A row is a 64-bit key, repeated, xor a pattern that depends on the element alone. The key is
 * divided into lanes as wide as the dtype; each lane is a sum, modulo the lane, of each coordinate
 * (seed, request, group, layer, K or V, token, head) written in base 128, each digit times an odd
 * number of its own. So, whatever the width of the dtype:
 * - two rows that differ in one digit of one coordinate (the next layer, V for K, the next head,
 *   another token of the same 128, a token n x 128 further) differ in every element;
 * - two other rows are equal in one element with odds of at most 1 in 2^14 (two bytes), 2^30 (four),
 *   128 (one byte; 64 for floats), and in n neighbouring elements with the nth power of that, up to
 *   the whole key: 2^48 for one-byte floats, 2^56 and more for the others.
 * Floats lose one bit of a lane: exponent bit n - 2 is the opposite of bit n - 3, which rules out
 * the exponents of zero, denormals, infinity and NaN. */
#ifndef KVC_KV_STAMP_PLAN_H
#define KVC_KV_STAMP_PLAN_H

#include "src/kv/stamp.h"

struct kvc_stamp_lanes {
    uint64_t top;     /* the highest bit of each lane */
    uint64_t guarded; /* the exponent bit that is made the opposite of its neighbour; 0: integers */
};

struct kvc_stamp_plan {
    const struct kvc_group *group;
    size_t group_index;
    int64_t first_token;
    int64_t token_count;
    struct kvc_stamp_lanes lanes;
    uint64_t *layers;  /* what a layer's K (2 x layer) or V adds to the key; has source and group */
    uint64_t *tokens;  /* the same for first_token + i */
    uint64_t *heads;   /* the same for a head */
    uint64_t *pattern; /* a row's worth of it, the last word padded */
};

/* Tokens [first_token, first_token + count). Freed with kvc_stamp_plan_close. */
void kvc_stamp_plan_open(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t first_token, int64_t count,
                         struct kvc_stamp_plan *plan);
void kvc_stamp_plan_close(struct kvc_stamp_plan *plan);

/* Adds lane by lane, no carry from one to the next. */
static inline uint64_t kvc_stamp_add(const struct kvc_stamp_lanes *lanes, uint64_t a, uint64_t b)
{
    return ((a & ~lanes->top) + (b & ~lanes->top)) ^ ((a ^ b) & lanes->top);
}

/* The row's key from the sum of its parts. */
static inline uint64_t kvc_stamp_finish(const struct kvc_stamp_lanes *lanes, uint64_t sum)
{
    const uint64_t guarded = lanes->guarded;
    const uint64_t kept = sum & ~(guarded | guarded << 1);
    const uint64_t moved = guarded != 0 ? (sum & guarded) << 1 : 0;
    return kept | moved | (~(sum << 1) & guarded);
}

/* layer_kv: layer x kv_size + kv; token counts from the plan's first one. */
static inline uint64_t kvc_stamp_key(const struct kvc_stamp_plan *plan, int64_t layer_kv,
                                     int64_t token, int64_t head)
{
    const uint64_t sum = kvc_stamp_add(&plan->lanes, plan->layers[layer_kv], plan->tokens[token]);
    return kvc_stamp_finish(&plan->lanes, kvc_stamp_add(&plan->lanes, sum, plan->heads[head]));
}

#endif
