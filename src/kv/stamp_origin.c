#include "src/kv/stamp_origin.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"

/* Rows that are indexed, at most, of the source that was checked for and of all others together; and
 * among them of tokens before and behind those that were checked. */
enum { MOST_ROWS = 1 << 20, MOST_OTHER_ROWS = 1 << 18, MARGIN_ROWS = 1 << 14 };
enum { WORD = sizeof(uint64_t), SHORTEST = 4 };

struct entry {
    bool used;
    uint16_t source, group;
    uint32_t head;
    int64_t layer_kv;
    int64_t token;
    uint64_t key;
};

struct kvc_stamp_origins {
    const struct kvc_geometry *geometry;
    struct entry *entries;
    size_t mask; /* their number, a power of two, less one */
};

/* ---- keys ---- */

static size_t known_bytes(const struct kvc_group *group)
{
    const size_t row_size = (size_t)group->head_size * group->dtype->size;
    return row_size < WORD ? row_size : WORD;
}

/* Of a short row only the first bytes of the key are known. */
static uint64_t known_part(const struct kvc_group *group, uint64_t key)
{
    const size_t known = known_bytes(group);
    return known == WORD ? key : key & (((uint64_t)1 << (8 * known)) - 1);
}

static struct entry *entry_of(const struct kvc_stamp_origins *origins, uint64_t key)
{
    size_t at = kvc_mix(key) & origins->mask;
    while (origins->entries[at].used && origins->entries[at].key != key)
        at = (at + 1) & origins->mask;
    return &origins->entries[at];
}

/* ---- the index ---- */

static void add_token(struct kvc_stamp_origins *origins, const struct kvc_stamp_plan *plan,
                      size_t source, int64_t layer_kv, int64_t token)
{
    const struct kvc_group *group = plan->group;
    const uint64_t key = kvc_stamp_key(plan, layer_kv, token);
    for (int64_t head = 0; head < group->num_heads; head++) {
        const uint64_t head_part = kvc_stamp_row(plan, head)[0] ^ kvc_stamp_row(plan, 0)[0];
        const uint64_t row_key = known_part(group, key ^ head_part);
        struct entry *entry = entry_of(origins, row_key);
        if (entry->used)
            continue;
        *entry = (struct entry){
            .used = true,
            .source = (uint16_t)source,
            .group = (uint16_t)plan->group_index,
            .head = (uint32_t)head,
            .layer_kv = layer_kv,
            .token = plan->first_token + token,
            .key = row_key,
        };
    }
}

static void add_group(struct kvc_stamp_origins *origins, struct kvc_stamp_source source,
                      size_t source_index, size_t group_index, int64_t first_token, int64_t count)
{
    const struct kvc_group *group = &origins->geometry->groups[group_index];
    struct kvc_stamp_plan plan;
    kvc_stamp_plan_open(source, group, group_index, first_token, count, &plan);
    for (int64_t i = 0; i < group->num_layers * group->kv_size; i++) {
        for (int64_t token = 0; token < count; token++)
            add_token(origins, &plan, source_index, i, token);
    }
    kvc_stamp_plan_close(&plan);
}

static int64_t rows_of_token(const struct kvc_geometry *geometry)
{
    int64_t rows = 0;
    for (size_t g = 0; g < geometry->group_count; g++) {
        const struct kvc_group *group = &geometry->groups[g];
        rows += group->num_layers * group->kv_size * group->num_heads;
    }
    return rows;
}

static size_t power_of_two_above(int64_t count)
{
    size_t power = 1;
    while (power <= (size_t)count)
        power *= 2;
    return power;
}

static void add_source(struct kvc_stamp_origins *origins, struct kvc_stamp_source source,
                       size_t source_index, int64_t first_token, int64_t count)
{
    for (size_t g = 0; g < origins->geometry->group_count && count > 0; g++)
        if (known_bytes(&origins->geometry->groups[g]) >= SHORTEST)
            add_group(origins, source, source_index, g, first_token, count);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct kvc_stamp_origins *kvc_stamp_origins_open(const struct kvc_stamp_search *search)
{
    struct kvc_stamp_origins *origins = kvc_alloc_zero(1, sizeof(*origins));
    const int64_t rows = rows_of_token(search->geometry);
    const int64_t others = (int64_t)search->other_count;
    const int64_t margin = MARGIN_ROWS / rows;
    const int64_t first = search->first_token > margin ? search->first_token - margin : 0;
    const int64_t wanted = search->first_token - first + search->token_count + margin;
    const int64_t count = least(wanted, MOST_ROWS / rows);
    const int64_t other_count = others == 0 ? 0 : least(wanted, MOST_OTHER_ROWS / rows / others);
    origins->geometry = search->geometry;
    origins->mask = power_of_two_above(2 * rows * (count + others * other_count)) - 1;
    origins->entries = kvc_alloc_zero(origins->mask + 1, sizeof(*origins->entries));
    add_source(origins, search->source, 0, first, count);
    for (size_t i = 0; i < search->other_count; i++)
        add_source(origins, search->others[i], i + 1, first, other_count);
    return origins;
}

void kvc_stamp_origins_close(struct kvc_stamp_origins *origins)
{
    if (origins != NULL)
        free(origins->entries);
    free(origins);
}

/* ---- looking up ---- */

/* What the bytes are xored with, put right for where in a word the row has them. */
static uint64_t key_at(const struct kvc_stamp_plan *plan, const uint8_t *row, size_t at)
{
    const size_t known = known_bytes(plan->group);
    uint64_t held = 0, pattern = 0;
    memcpy(&held, row + at, known);
    memcpy(&pattern, (const uint8_t *)kvc_stamp_row(plan, 0) + at, known);
    const uint64_t key = known_part(plan->group, held ^ pattern);
    const size_t turn = 8 * (at % WORD);
    return turn == 0 ? key : key << turn | key >> (64 - turn);
}

bool kvc_stamp_origins_find(const struct kvc_stamp_origins *origins,
                            const struct kvc_stamp_plan *plan, const uint8_t *row, size_t at,
                            struct kvc_stamp_origin *origin)
{
    const size_t row_size = (size_t)plan->group->head_size * plan->group->dtype->size;
    const size_t known = known_bytes(plan->group);
    if (known < SHORTEST)
        return false;
    const size_t whole = at + known <= row_size ? at : row_size - known;
    const struct entry *entry = entry_of(origins, key_at(plan, row, whole));
    if (!entry->used)
        return false;
    const int64_t kv_size = origins->geometry->groups[entry->group].kv_size;
    *origin = (struct kvc_stamp_origin){
        .source = entry->source,
        .place = {.group = entry->group,
                  .layer = entry->layer_kv / kv_size,
                  .kv = entry->layer_kv % kv_size,
                  .token = entry->token,
                  .head = entry->head},
    };
    return true;
}
