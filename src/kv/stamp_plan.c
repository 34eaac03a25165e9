#include "src/kv/stamp_plan.h"

#include <stdlib.h>

#include "src/base/clock.h"

/* Seed and request are not positions: they take any 64-bit value. */
enum coordinate { SEED, REQUEST, GROUP, LAYER, KV, TOKEN, HEAD, ELEMENT };

static struct kvc_stamp_lanes lanes_of(const struct kvc_dtype *dtype)
{
    const size_t size = dtype->float_size != 0 ? dtype->float_size : dtype->size;
    struct kvc_stamp_lanes lanes = {0, 0};
    for (size_t lane = 0; lane < 8 / size; lane++)
        lanes.top |= (uint64_t)1 << (8 * size * (lane + 1) - 1);
    lanes.guarded = dtype->float_size != 0 ? lanes.top >> 1 : 0;
    return lanes;
}

/* What a coordinate adds to the key: its digits in base 128, each times an odd number that is
 * another one for each lane. */
static uint64_t part_of(const struct kvc_stamp_lanes *lanes, enum coordinate coordinate,
                        uint64_t value)
{
    uint64_t sum = 0;
    for (uint64_t digit = 0; value != 0; digit++, value >>= 7) {
        /* Odd in each lane: the lowest bit of a lane is the one above the highest of the last. */
        const uint64_t odd = lanes->top << 1 | 1;
        uint64_t factor = kvc_mix(((uint64_t)coordinate << 32 | digit) + 1) | odd;
        for (uint64_t rest = value & 127; rest != 0; rest >>= 1) {
            if ((rest & 1) != 0)
                sum = kvc_stamp_add(lanes, sum, factor);
            factor = kvc_stamp_add(lanes, factor, factor);
        }
    }
    return sum;
}

static uint64_t pattern_word(const struct kvc_stamp_lanes *lanes, uint64_t word)
{
    const uint64_t bits = kvc_mix(((uint64_t)ELEMENT << 32 | word) + 1);
    /* Xor must keep the guarded bit the opposite of its neighbour. */
    return (bits & ~lanes->guarded) | (bits << 1 & lanes->guarded);
}

static uint64_t base_of(const struct kvc_stamp_lanes *lanes, struct kvc_stamp_source source,
                        size_t group_index)
{
    const uint64_t seed = part_of(lanes, SEED, source.seed);
    const uint64_t request = part_of(lanes, REQUEST, source.request);
    const uint64_t group = part_of(lanes, GROUP, group_index);
    return kvc_stamp_add(lanes, kvc_stamp_add(lanes, seed, request), group);
}

void kvc_stamp_plan_open(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t first_token, int64_t count,
                         struct kvc_stamp_plan *plan)
{
    const struct kvc_stamp_lanes lanes = lanes_of(group->dtype);
    const int64_t layers = group->num_layers * group->kv_size;
    const size_t words = ((size_t)group->head_size * group->dtype->size + 7) / 8;
    *plan = (struct kvc_stamp_plan){
        .group = group,
        .group_index = group_index,
        .first_token = first_token,
        .token_count = count,
        .lanes = lanes,
        .layers = kvc_alloc((size_t)layers * sizeof(uint64_t)),
        .tokens = kvc_alloc((size_t)count * sizeof(uint64_t)),
        .heads = kvc_alloc((size_t)group->num_heads * sizeof(uint64_t)),
        .pattern = kvc_alloc(words * sizeof(uint64_t)),
    };
    const uint64_t base = base_of(&lanes, source, group_index);
    for (int64_t i = 0; i < layers; i++) {
        const uint64_t layer = part_of(&lanes, LAYER, (uint64_t)(i / group->kv_size));
        const uint64_t kv = part_of(&lanes, KV, (uint64_t)(i % group->kv_size));
        plan->layers[i] = kvc_stamp_add(&lanes, base, kvc_stamp_add(&lanes, layer, kv));
    }
    for (int64_t i = 0; i < count; i++)
        plan->tokens[i] = part_of(&lanes, TOKEN, (uint64_t)(first_token + i));
    for (int64_t i = 0; i < group->num_heads; i++)
        plan->heads[i] = part_of(&lanes, HEAD, (uint64_t)i);
    for (size_t i = 0; i < words; i++)
        plan->pattern[i] = pattern_word(&lanes, i);
}

void kvc_stamp_plan_close(struct kvc_stamp_plan *plan)
{
    free(plan->layers);
    free(plan->tokens);
    free(plan->heads);
    free(plan->pattern);
    *plan = (struct kvc_stamp_plan){.group = NULL};
}

uint64_t kvc_stamp_value(struct kvc_stamp_source source, const struct kvc_group *group,
                         size_t group_index, int64_t layer, int64_t kv, int64_t token, int64_t head,
                         int64_t element)
{
    const struct kvc_stamp_lanes lanes = lanes_of(group->dtype);
    const size_t size = group->dtype->size;
    const uint64_t parts[] = {
        part_of(&lanes, LAYER, (uint64_t)layer),
        part_of(&lanes, KV, (uint64_t)kv),
        part_of(&lanes, TOKEN, (uint64_t)token),
        part_of(&lanes, HEAD, (uint64_t)head),
    };
    uint64_t sum = base_of(&lanes, source, group_index);
    for (size_t i = 0; i < KVC_COUNT_OF(parts); i++)
        sum = kvc_stamp_add(&lanes, sum, parts[i]);
    const uint64_t offset = (uint64_t)element * size;
    const uint64_t word = kvc_stamp_finish(&lanes, sum) ^ pattern_word(&lanes, offset / 8);
    const uint64_t value = word >> (8 * (offset % 8));
    return size == 8 ? value : value & (((uint64_t)1 << (8 * size)) - 1);
}
