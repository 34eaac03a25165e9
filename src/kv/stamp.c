#include "src/kv/stamp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "src/kv/region.h"
#include "src/kv/stamp_plan.h"
#include "src/kv/stamp_search.h"

/* ---- one run of bytes with one key ---- */

/* Memory is read and written through copies of words, so that a run may start at any byte. */
enum { WORD = sizeof(uint64_t), VECTOR = 2 * WORD };
typedef uint64_t vector __attribute__((vector_size(VECTOR)));

static inline uint64_t read_word(const uint8_t *from, size_t size)
{
    uint64_t word = 0;
    memcpy(&word, from, size);
    return word;
}

static inline vector read_vector(const void *from)
{
    vector words;
    memcpy(&words, from, VECTOR);
    return words;
}

static inline void write_run(const uint64_t *pattern, uint64_t key, uint8_t *run, size_t size)
{
    const vector keys = {key, key};
    size_t at = 0;
    for (; at + VECTOR <= size; at += VECTOR) {
        const vector words = read_vector(pattern + at / WORD) ^ keys;
        memcpy(run + at, &words, VECTOR);
    }
    for (; at < size; at += WORD) {
        const uint64_t word = pattern[at / WORD] ^ key;
        memcpy(run + at, &word, size - at < WORD ? size - at : WORD);
    }
}

/* Adds a bit to *different for each bit that is not what it must be. Meanwhile fetches what will be
 * compared later, as blocks lie in no order that the processor could guess. */
static inline void compare_run(const uint64_t *pattern, uint64_t key, const uint8_t *run,
                               size_t size, const uint8_t *later, uint64_t *different)
{
    const vector keys = {key, key};
    vector even = {0}, odd = {0}; /* two, so that they need not wait for one another */
    size_t at = 0;
    for (; at + 2 * VECTOR <= size; at += 2 * VECTOR) {
        const uint64_t *expected = pattern + at / WORD;
        __builtin_prefetch(later + at);
        even |= read_vector(run + at) ^ read_vector(expected) ^ keys;
        odd |= read_vector(run + at + VECTOR) ^ read_vector(expected + VECTOR / WORD) ^ keys;
    }
    even |= odd;
    uint64_t all = even[0] | even[1];
    for (; at + WORD <= size; at += WORD)
        all |= read_word(run + at, WORD) ^ pattern[at / WORD] ^ key;
    if (at < size) {
        const uint64_t expected = pattern[at / WORD] ^ key;
        all |= read_word(run + at, size - at) ^ read_word((const uint8_t *)&expected, size - at);
    }
    *different |= all;
}

/* ---- the rows of a region ---- */

/* Where a region of memory belongs. */
struct place {
    struct kvc_region region;
    const uint8_t *later; /* the next region */
    int64_t layer_kv;     /* layer x kv_size + kv */
    int64_t first_token;  /* counted from the plan's first */
    int64_t block;        /* -1: in a chunk */
};

/* A region as runs of one key each: a token's rows where they lie side by side as in the pattern,
 * else single rows; in either case with the heads outside, which is the order of memory. */
struct runs {
    int64_t heads; /* 1 for whole tokens */
    size_t size;
};

static struct runs runs_of(const struct kvc_region *region)
{
    const bool whole_tokens = region->token_major && region->row_size % WORD == 0;
    return whole_tokens ? (struct runs){1, (size_t)(region->row_size * region->num_heads)}
                        : (struct runs){region->num_heads, (size_t)region->row_size};
}

static void write_region(const struct kvc_stamp_plan *plan, const struct place *place)
{
    const struct kvc_region *region = &place->region;
    const struct runs runs = runs_of(region);
    for (int64_t head = 0; head < runs.heads; head++) {
        for (int64_t slot = 0; slot < region->block_size; slot++)
            write_run(kvc_stamp_row(plan, head),
                      kvc_stamp_key(plan, place->layer_kv, place->first_token + slot),
                      region->data + slot * region->slot_stride + head * region->head_stride,
                      runs.size);
    }
}

static bool region_is_right(const struct kvc_stamp_plan *plan, const struct place *place)
{
    const struct kvc_region *region = &place->region;
    const struct runs runs = runs_of(region);
    uint64_t different = 0;
    for (int64_t head = 0; head < runs.heads; head++) {
        for (int64_t slot = 0; slot < region->block_size; slot++) {
            const int64_t at = slot * region->slot_stride + head * region->head_stride;
            compare_run(kvc_stamp_row(plan, head),
                        kvc_stamp_key(plan, place->layer_kv, place->first_token + slot),
                        region->data + at, runs.size, place->later + at, &different);
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
                    const int64_t next = block_ids[i + 1 < block_count ? i + 1 : i];
                    const struct place place = {
                        .region = kvc_region_of(group, tensor->data, kv, block_ids[i]),
                        .later = kvc_region_of(group, tensor->data, kv, next).data,
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
                const struct kvc_region region =
                    kvc_region_of_chunk(group, chunk, chunk_tokens, kv, layer);
                const struct place place = {
                    .region = region,
                    .later = region.data,
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
            write_run(kvc_stamp_row(plan, head),
                      kvc_stamp_key(plan, place->layer_kv, place->first_token + slot), expected,
                      row_size);
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
