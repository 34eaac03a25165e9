#include "src/kv/stamp_findings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A row as it was found and as it should be. */
struct row {
    const uint8_t *held;
    const uint8_t *expected;
    size_t size, element_size;
    struct kvc_stamp_place place; /* of its first element */
    int64_t block, slot;
};

static bool is_wrong(const struct row *row, size_t at)
{
    return memcmp(row->held + at, row->expected + at, row->element_size) != 0;
}

/* Takes down the first wrong element and those that follow it without a right one between. */
static void note_first(struct kvc_stamp_findings *findings, const struct row *row, size_t at)
{
    const size_t size = row->element_size;
    findings->first = row->place;
    findings->first.element = (int64_t)(at / size);
    findings->block = row->block;
    findings->slot = row->slot;
    while (at < row->size && findings->held_size + size <= sizeof(findings->held) &&
           is_wrong(row, at)) {
        memcpy(findings->held + findings->held_size, row->held + at, size);
        findings->held_size += size;
        at += size;
    }
}

/* The wrong elements of a word of a row. */
struct wrong {
    int64_t count;
    int byte; /* that they consist of; negative when there is none */
};

static struct wrong wrong_in_word(const struct row *row, size_t at)
{
    const size_t size = row->element_size;
    const size_t end = at + sizeof(uint64_t) < row->size ? at + sizeof(uint64_t) : row->size;
    struct wrong wrong = {.byte = -1};
    bool uniform = true;
    for (; at < end; at += size) {
        if (!is_wrong(row, at))
            continue;
        wrong.byte = wrong.count++ == 0 ? row->held[at] : wrong.byte;
        for (size_t i = 0; i < size; i++)
            uniform = uniform && row->held[at + i] == wrong.byte;
    }
    /* One byte alone says nothing, unless there is no more. */
    if (!uniform || (wrong.count == 1 && size == 1 && row->size > 1))
        wrong.byte = -1;
    return wrong;
}

static void count_word(struct kvc_stamp_findings *findings, const struct kvc_stamp_plan *plan,
                       const struct row *row, size_t at)
{
    const struct wrong wrong = wrong_in_word(row, at);
    if (wrong.count == 0)
        return;
    if (findings->origins == NULL)
        findings->origins = kvc_stamp_origins_open(findings->search);
    struct kvc_stamp_origin origin;
    const bool known = kvc_stamp_origins_find(findings->origins, plan, row->held, at, &origin);
    kvc_stamp_histogram_add(&findings->histogram, known ? &origin : NULL, wrong.byte, &row->place,
                            wrong.count);
    if (findings->wrong == 0) {
        while (!is_wrong(row, at))
            at += row->element_size;
        note_first(findings, row, at);
    }
    findings->wrong += wrong.count;
}

static void make_row(const struct kvc_stamp_plan *plan, int64_t head, uint64_t key, uint64_t *row)
{
    for (size_t i = 0; i < plan->row_words; i++)
        row[i] = kvc_stamp_row(plan, head)[i] ^ key;
}

void kvc_stamp_findings_add(struct kvc_stamp_findings *findings, const struct kvc_stamp_plan *plan,
                            const struct kvc_stamp_site *site)
{
    const struct kvc_region *region = &site->region;
    const int64_t kv_size = plan->group->kv_size;
    uint64_t *words = kvc_alloc(plan->row_words * sizeof(uint64_t));
    for (int64_t i = 0; i < region->block_size * region->num_heads; i++) {
        const int64_t slot = i / region->num_heads, head = i % region->num_heads;
        const int64_t token = site->first_token + slot;
        const struct row row = {
            .held = region->data + slot * region->slot_stride + head * region->head_stride,
            .expected = (const uint8_t *)words,
            .size = (size_t)region->row_size,
            .element_size = plan->group->dtype->size,
            .place = {.group = plan->group_index,
                      .layer = site->layer_kv / kv_size,
                      .kv = site->layer_kv % kv_size,
                      .token = plan->first_token + token,
                      .head = head},
            .block = site->block,
            .slot = slot,
        };
        make_row(plan, head, kvc_stamp_key(plan, site->layer_kv, token), words);
        for (size_t at = 0; at < row.size; at += sizeof(uint64_t))
            count_word(findings, plan, &row, at);
    }
    free(words);
}

void kvc_stamp_findings_close(struct kvc_stamp_findings *findings)
{
    kvc_stamp_origins_close(findings->origins);
    findings->origins = NULL;
}

/* ---- the report ---- */

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

static void describe_wrong(const struct kvc_stamp_findings *findings, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "%" PRId64 " of %" PRId64 " elements are wrong, the first is ",
                      findings->wrong, findings->total);
    kvc_stamp_place_describe(findings->search->geometry, &findings->first, out);
    if (findings->wrong == 1)
        return;
    kvc_buffer_append_text(out, "; ");
    kvc_stamp_histogram_describe(&findings->histogram, findings->search, out);
}

kvc_status kvc_stamp_findings_report(const struct kvc_stamp_findings *findings,
                                     struct kvc_error *err)
{
    if (findings->wrong == 0)
        return KVC_OK;
    const struct kvc_geometry *geometry = findings->search->geometry;
    const struct kvc_group *group = &geometry->groups[findings->first.group];
    struct kvc_buffer text = {0};
    describe_wrong(findings, &text);
    kvc_fail(err, KVC_EMISMATCH, "%s", kvc_buffer_text(&text));
    if (findings->block >= 0)
        kvc_error_set_where(err, "block %" PRId64 " slot %" PRId64, findings->block,
                            findings->slot);
    kvc_buffer_clear(&text);
    describe_expected(geometry, findings->search->source, &findings->first, &text);
    kvc_error_set_expected(err, "%s", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
    kvc_stamp_search(findings->search, findings->held, findings->held_size, &findings->first,
                     &text);
    append_element(&text, findings->held, group->dtype->size);
    kvc_error_set_got(err, "%s", kvc_buffer_text(&text));
    kvc_buffer_clear(&text);
    return KVC_EMISMATCH;
}
