#include "src/kv/stamp_plan.h"

#include <stdlib.h>

#include "src/base/clock.h"

enum coordinate { SEED, REQUEST, GROUP, LAYER, KV, TOKEN, HEAD, ELEMENT };

#define ALL_BYTES(byte) (0x0101010101010101u * (uint64_t)(byte))

/* In each float of a word, the exponent bit that is made the opposite of the one below it. */
static uint64_t guarded_bits(const struct kvc_dtype *dtype)
{
    uint64_t bits = 0;
    for (size_t end = dtype->float_size; end != 0 && end <= 8; end += dtype->float_size)
        bits |= (uint64_t)1 << (8 * end - 2);
    return bits;
}

/* Moves the guarded bits to the signs and puts a copy of the bits below in their place. */
static uint64_t fit_float(uint64_t key, uint64_t guarded)
{
    return (key & ~guarded) | (key & guarded) << 1 | (key << 1 & guarded);
}

static uint64_t random_word(enum coordinate coordinate, uint64_t number)
{
    return kvc_mix(((uint64_t)coordinate << 32 | number) + 1);
}

/* What a coordinate adds to the key. Eight products at once in the field of 128 elements, which are
 * polynomials over GF(2) modulo x^7 + x + 1. */
static uint64_t part_of(enum coordinate coordinate, uint64_t value, uint64_t guarded)
{
    uint64_t sum = 0;
    for (uint64_t digit = 0; value != 0; digit++, value >>= 7) {
        /* No factor may be 0. */
        uint64_t product = (random_word(coordinate, digit) & ALL_BYTES(0x7f)) | ALL_BYTES(1);
        for (uint64_t bits = value & 0x7f; bits != 0; bits >>= 1) {
            if ((bits & 1) != 0)
                sum ^= product;
            const uint64_t overflow = product >> 6 & ALL_BYTES(1);
            product = (product << 1 & ALL_BYTES(0x7f)) ^ overflow ^ overflow << 1;
        }
    }
    return fit_float(sum, guarded);
}

/* Has each guarded bit equal to the one below it, so that the key decides that they differ. */
static uint64_t pattern_word(uint64_t word, uint64_t guarded)
{
    const uint64_t bits = random_word(ELEMENT, word);
    return (bits & ~guarded) | (bits << 1 & guarded);
}

static uint64_t base_of(struct kvc_stamp_source source, size_t group_index, uint64_t guarded)
{
    return guarded ^ part_of(SEED, source.seed, guarded) ^
           part_of(REQUEST, source.request, guarded) ^ part_of(GROUP, group_index, guarded);
}

/* The lowest digit of a token and the others add up, so 128 tokens share the work for the others. */
static void plan_tokens(struct kvc_stamp_plan *plan, uint64_t guarded)
{
    uint64_t lowest[128];
    for (uint64_t digit = 0; digit < KVC_COUNT_OF(lowest); digit++)
        lowest[digit] = part_of(TOKEN, digit, guarded);
    uint64_t others = 0;
    for (int64_t i = 0; i < plan->token_count; i++) {
        const uint64_t token = (uint64_t)(plan->first_token + i);
        if (i == 0 || token % 128 == 0)
            others = part_of(TOKEN, token - token % 128, guarded);
        plan->tokens[i] = others ^ lowest[token % 128];
    }
}

void kvc_stamp_plan_open(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t first_token, int64_t count,
                         struct kvc_stamp_plan *plan)
{
    const uint64_t guarded = guarded_bits(group->dtype);
    const int64_t layers = group->num_layers * group->kv_size;
    const size_t words = ((size_t)group->head_size * group->dtype->size + 7) / 8;
    *plan = (struct kvc_stamp_plan){
        .group = group,
        .group_index = group_index,
        .first_token = first_token,
        .token_count = count,
        .layers = kvc_alloc((size_t)layers * sizeof(uint64_t)),
        .tokens = kvc_alloc((size_t)count * sizeof(uint64_t)),
        .pattern = kvc_alloc((size_t)group->num_heads * words * sizeof(uint64_t)),
        .row_words = words,
    };
    const uint64_t base = base_of(source, group_index, guarded);
    for (int64_t i = 0; i < layers; i++)
        plan->layers[i] = base ^ part_of(LAYER, (uint64_t)(i / group->kv_size), guarded) ^
                          part_of(KV, (uint64_t)(i % group->kv_size), guarded);
    plan_tokens(plan, guarded);
    for (int64_t head = 0; head < group->num_heads; head++) {
        uint64_t *row = plan->pattern + (size_t)head * words;
        const uint64_t part = part_of(HEAD, (uint64_t)head, guarded);
        for (size_t i = 0; i < words; i++)
            row[i] = pattern_word(i, guarded) ^ part;
    }
}

void kvc_stamp_plan_close(struct kvc_stamp_plan *plan)
{
    free(plan->layers);
    free(plan->tokens);
    free(plan->pattern);
    *plan = (struct kvc_stamp_plan){.group = NULL};
}

uint64_t kvc_stamp_value(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t layer, int64_t kv, int64_t token, int64_t head,
                         int64_t element)
{
    const uint64_t guarded = guarded_bits(group->dtype);
    const size_t size = group->dtype->size;
    const uint64_t key =
        base_of(source, group_index, guarded) ^ part_of(LAYER, (uint64_t)layer, guarded) ^
        part_of(KV, (uint64_t)kv, guarded) ^ part_of(TOKEN, (uint64_t)token, guarded) ^
        part_of(HEAD, (uint64_t)head, guarded);
    const uint64_t offset = (uint64_t)element * size;
    const uint64_t value = (key ^ pattern_word(offset / 8, guarded)) >> (8 * (offset % 8));
    return size == 8 ? value : value & (((uint64_t)1 << (8 * size)) - 1);
}
