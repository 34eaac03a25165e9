#include "src/kv/stamp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/kv/region.h"
#include "src/kv/stamp_plan.h"
#include "src/kv/stamp_search.h"

/* ---- one row ---- */

/* Memory is read and written through these, so that a row may start at any byte. */
typedef uint64_t vector __attribute__((vector_size(32)));
enum { WORDS = sizeof(vector) / sizeof(uint64_t) };

static void write_row(const uint64_t *pattern, uint64_t key, uint8_t *row, size_t size)
{
    size_t i = 0;
    for (; (i + 1) * sizeof(uint64_t) <= size; i++) {
        const uint64_t word = pattern[i] ^ key;
        memcpy(row + i * sizeof(word), &word, sizeof(word));
    }
    const uint64_t word = size % sizeof(word) != 0 ? pattern[i] ^ key : 0;
    memcpy(row + i * sizeof(word), &word, size % sizeof(word));
}

/* 0 when the row is what it must be. */
static inline uint64_t compare_row(const uint64_t *pattern, uint64_t key, const uint8_t *row,
                                   size_t size)
{
    const vector keys = {key, key, key, key};
    vector different = {0};
    size_t at = 0;
    for (; at + sizeof(vector) <= size; at += sizeof(vector)) {
        vector held, expected;
        memcpy(&held, row + at, sizeof(held));
        memcpy(&expected, (const uint8_t *)pattern + at, sizeof(expected));
        different |= held ^ expected ^ keys;
    }
    uint64_t all = different[0] | different[1] | different[2] | different[3];
    for (; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        uint64_t held;
        memcpy(&held, row + at, sizeof(held));
        all |= held ^ pattern[at / sizeof(uint64_t)] ^ key;
    }
    if (at < size) {
        uint64_t held = 0, expected = 0;
        const uint64_t word = pattern[at / sizeof(uint64_t)] ^ key;
        memcpy(&held, row + at, size - at);
        memcpy(&expected, &word, size - at);
        all |= held ^ expected;
    }
    return all;
}

/* ---- the rows of a region ---- */

/* Where a region of memory belongs. */
struct place {
    struct kvc_region region;
    int64_t layer_kv;    /* layer x kv_size + kv */
    int64_t first_token; /* counted from the plan's first */
    int64_t block;       /* -1: in a chunk */
};

static void write_region(const struct kvc_stamp_plan *plan, const struct place *place)
{
    const struct kvc_region *region = &place->region;
    for (int64_t slot = 0; slot < region->block_size; slot++) {
        for (int64_t head = 0; head < region->num_heads; head++) {
            const uint64_t key =
                kvc_stamp_key(plan, place->layer_kv, place->first_token + slot, head);
            write_row(plan->pattern, key,
                      region->data + slot * region->slot_stride + head * region->head_stride,
                      (size_t)region->row_size);
        }
    }
}

static bool region_is_right(const struct kvc_stamp_plan *plan, const struct place *place)
{
    const struct kvc_region *region = &place->region;
    uint64_t different = 0;
    for (int64_t slot = 0; slot < region->block_size; slot++) {
        for (int64_t head = 0; head < region->num_heads; head++) {
            const uint64_t key =
                kvc_stamp_key(plan, place->layer_kv, place->first_token + slot, head);
            different |=
                compare_row(plan->pattern, key,
                            region->data + slot * region->slot_stride + head * region->head_stride,
                            (size_t)region->row_size);
        }
    }
    return different == 0;
}

/* ---- all regions of a set of blocks, or of a chunk ---- */

typedef void (*visitor)(void *context, const struct kvc_stamp_plan *plan,
                        const struct place *place);

static void visit_blocks(const struct kvc_paged *paged, struct kvc_stamp_source source,
                         int64_t first_token, const int64_t *block_ids, size_t block_count,
                         visitor visit, void *context)
{
    const struct kvc_tensor *tensor = paged->tensors;
    for (size_t g = 0; g < paged->geometry.group_count; g++) {
        const struct kvc_group *group = &paged->geometry.groups[g];
        struct kvc_stamp_plan plan;
        kvc_stamp_plan_open(source, group, g, first_token, (int64_t)block_count * group->block_size,
                            &plan);
        for (int64_t layer = 0; layer < group->num_layers; layer++, tensor++) {
            for (int64_t kv = 0; kv < group->kv_size; kv++) {
                for (size_t i = 0; i < block_count; i++) {
                    const struct place place = {
                        .region = kvc_region_of(group, tensor->data, kv, block_ids[i]),
                        .layer_kv = layer * group->kv_size + kv,
                        .first_token = (int64_t)i * group->block_size,
                        .block = block_ids[i],
                    };
                    visit(context, &plan, &place);
                }
            }
        }
        kvc_stamp_plan_close(&plan);
    }
}

static void visit_chunk(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                        int64_t first_token, int64_t chunk_tokens, uint8_t *chunk, visitor visit,
                        void *context)
{
    for (size_t g = 0; g < geometry->group_count; g++) {
        const struct kvc_group *group = &geometry->groups[g];
        struct kvc_stamp_plan plan;
        kvc_stamp_plan_open(source, group, g, first_token, chunk_tokens, &plan);
        for (int64_t layer = 0; layer < group->num_layers; layer++) {
            for (int64_t kv = 0; kv < group->kv_size; kv++) {
                const struct place place = {
                    .region = kvc_region_of_chunk(group, chunk, chunk_tokens, kv, layer),
                    .layer_kv = layer * group->kv_size + kv,
                    .block = -1,
                };
                visit(context, &plan, &place);
            }
        }
        chunk += kvc_group_chunk_bytes(group, chunk_tokens);
        kvc_stamp_plan_close(&plan);
    }
}

static void visit_to_write(void *context, const struct kvc_stamp_plan *plan,
                           const struct place *place)
{
    (void)context;
    write_region(plan, place);
}

void kvc_stamp_blocks(struct kvc_paged *paged, struct kvc_stamp_source source, int64_t first_token,
                      const int64_t *block_ids, size_t block_count)
{
    visit_blocks(paged, source, first_token, block_ids, block_count, visit_to_write, NULL);
}

void kvc_stamp_chunk(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                     int64_t first_token, int64_t chunk_tokens, uint8_t *chunk)
{
    visit_chunk(geometry, source, first_token, chunk_tokens, chunk, visit_to_write, NULL);
}

/* ---- checking ---- */

struct findings {
    int64_t total; /* elements */
    int64_t wrong;
    struct kvc_stamp_place first; /* the first wrong element */
    int64_t block;                /* where it is: the block, -1 in a chunk, and its slot there */
    int64_t slot;
    uint8_t held[KVC_STAMP_EVIDENCE]; /* that element and the wrong ones behind it in its row */
    size_t held_size;
};

/* Takes down the first wrong element and those that follow it without a right one between. */
static void note_first(struct findings *findings, const struct kvc_stamp_plan *plan,
                       const struct place *place, int64_t slot, int64_t head, const uint8_t *row,
                       const uint8_t *expected, size_t at)
{
    const struct kvc_group *group = plan->group;
    const size_t size = group->dtype->size;
    findings->first = (struct kvc_stamp_place){
        .group = plan->group_index,
        .layer = place->layer_kv / group->kv_size,
        .kv = place->layer_kv % group->kv_size,
        .token = plan->first_token + place->first_token + slot,
        .head = head,
        .element = (int64_t)(at / size),
    };
    findings->block = place->block;
    findings->slot = slot;
    const size_t row_size = (size_t)place->region.row_size;
    while (at < row_size && findings->held_size + size <= sizeof(findings->held) &&
           memcmp(row + at, expected + at, size) != 0) {
        memcpy(findings->held + findings->held_size, row + at, size);
        findings->held_size += size;
        at += size;
    }
}

static void count_wrong(struct findings *findings, const struct kvc_stamp_plan *plan,
                        const struct place *place)
{
    const struct kvc_region *region = &place->region;
    const size_t row_size = (size_t)region->row_size, size = plan->group->dtype->size;
    uint8_t *expected = kvc_alloc(row_size);
    for (int64_t slot = 0; slot < region->block_size; slot++) {
        for (int64_t head = 0; head < region->num_heads; head++) {
            const uint8_t *row =
                region->data + slot * region->slot_stride + head * region->head_stride;
            write_row(plan->pattern,
                      kvc_stamp_key(plan, place->layer_kv, place->first_token + slot, head),
                      expected, row_size);
            for (size_t at = 0; at < row_size; at += size) {
                if (memcmp(row + at, expected + at, size) == 0)
                    continue;
                if (findings->wrong++ == 0)
                    note_first(findings, plan, place, slot, head, row, expected, at);
            }
        }
    }
    free(expected);
}

static void visit_to_check(void *context, const struct kvc_stamp_plan *plan,
                           const struct place *place)
{
    struct findings *findings = context;
    findings->total += place->region.size / (int64_t)plan->group->dtype->size;
    if (!region_is_right(plan, place))
        count_wrong(findings, plan, place);
}

/* "0x1234" of the first element in bytes. */
static void append_element(struct kvc_buffer *out, const uint8_t *bytes, size_t size)
{
    kvc_buffer_append_text(out, " (0x");
    for (size_t i = size; i-- > 0;)
        kvc_buffer_printf(out, "%02x", bytes[i]);
    kvc_buffer_append_text(out, ")");
}

static void describe_expected(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                              const struct kvc_stamp_place *place, struct kvc_buffer *out)
{
    const struct kvc_group *group = &geometry->groups[place->group];
    const uint64_t value = kvc_stamp_value(source, group, place->group, place->layer, place->kv,
                                           place->token, place->head, place->element);
    kvc_stamp_place_describe(geometry, place, out);
    append_element(out, (const uint8_t *)&value, group->dtype->size);
}

static kvc_status report(const struct kvc_geometry *geometry, const struct findings *findings,
                         const struct kvc_stamp_search *search, struct kvc_error *err)
{
    struct kvc_buffer text = {0};
    const struct kvc_group *group = &geometry->groups[findings->first.group];
    kvc_stamp_place_describe(geometry, &findings->first, &text);
    kvc_fail(err, KVC_EMISMATCH, "%" PRId64 " of %" PRId64 " elements are wrong, the first is %s",
             findings->wrong, findings->total, kvc_buffer_text(&text));
    if (findings->block >= 0)
        kvc_error_set_where(err, "block %" PRId64 " slot %" PRId64, findings->block,
                            findings->slot);
    kvc_buffer_clear(&text);
    describe_expected(geometry, search->source, &findings->first, &text);
    kvc_error_set_expected(err, "%s", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
    kvc_stamp_search(search, findings->held, findings->held_size, &findings->first, &text);
    append_element(&text, findings->held, group->dtype->size);
    kvc_error_set_got(err, "%s", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
    return KVC_EMISMATCH;
}

kvc_status kvc_stamp_check_blocks(const struct kvc_paged *paged, struct kvc_stamp_source source,
                                  int64_t first_token, const int64_t *block_ids, size_t block_count,
                                  const struct kvc_stamp_source *others, size_t other_count,
                                  struct kvc_error *err)
{
    struct findings findings = {.wrong = 0};
    visit_blocks(paged, source, first_token, block_ids, block_count, visit_to_check, &findings);
    if (findings.wrong == 0)
        return KVC_OK;
    const struct kvc_stamp_search search = {
        .geometry = &paged->geometry,
        .source = source,
        .others = others,
        .other_count = other_count,
        .first_token = first_token,
        .token_count = (int64_t)block_count * paged->geometry.groups[0].block_size,
    };
    return report(&paged->geometry, &findings, &search, err);
}

kvc_status kvc_stamp_check_chunk(const struct kvc_geometry *geometry,
                                 struct kvc_stamp_source source, int64_t first_token,
                                 int64_t chunk_tokens, const uint8_t *chunk,
                                 const struct kvc_stamp_source *others, size_t other_count,
                                 struct kvc_error *err)
{
    struct findings findings = {.wrong = 0};
    /* Checking only reads the chunk. */
    visit_chunk(geometry, source, first_token, chunk_tokens, (uint8_t *)chunk, visit_to_check,
                &findings);
    if (findings.wrong == 0)
        return KVC_OK;
    const struct kvc_stamp_search search = {
        .geometry = geometry,
        .source = source,
        .others = others,
        .other_count = other_count,
        .first_token = first_token,
        .token_count = chunk_tokens,
    };
    return report(geometry, &findings, &search, err);
}
