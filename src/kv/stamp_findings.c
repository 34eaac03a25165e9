#include "src/kv/stamp_findings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Takes down the first wrong element and those that follow it without a right one between. */
static void note_first(struct kvc_stamp_findings *findings, const struct kvc_stamp_plan *plan,
                       const struct kvc_stamp_site *site, int64_t slot, int64_t head,
                       const uint8_t *row, const uint8_t *expected, size_t at)
{
    const struct kvc_group *group = plan->group;
    const size_t size = group->dtype->size;
    findings->first = (struct kvc_stamp_place){
        .group = plan->group_index,
        .layer = site->layer_kv / group->kv_size,
        .kv = site->layer_kv % group->kv_size,
        .token = plan->first_token + site->first_token + slot,
        .head = head,
        .element = (int64_t)(at / size),
    };
    findings->block = site->block;
    findings->slot = slot;
    const size_t row_size = (size_t)site->region.row_size;
    while (at < row_size && findings->held_size + size <= sizeof(findings->held) &&
           memcmp(row + at, expected + at, size) != 0) {
        memcpy(findings->held + findings->held_size, row + at, size);
        findings->held_size += size;
        at += size;
    }
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
    const size_t row_size = (size_t)region->row_size, size = plan->group->dtype->size;
    uint64_t *words = kvc_alloc(plan->row_words * sizeof(uint64_t));
    const uint8_t *expected = (const uint8_t *)words;
    for (int64_t slot = 0; slot < region->block_size; slot++) {
        for (int64_t head = 0; head < region->num_heads; head++) {
            const uint8_t *row =
                region->data + slot * region->slot_stride + head * region->head_stride;
            make_row(plan, head, kvc_stamp_key(plan, site->layer_kv, site->first_token + slot),
                     words);
            for (size_t at = 0; at < row_size; at += size) {
                if (memcmp(row + at, expected + at, size) == 0)
                    continue;
                if (findings->wrong++ == 0)
                    note_first(findings, plan, site, slot, head, row, expected, at);
            }
        }
    }
    free(words);
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

kvc_status kvc_stamp_findings_report(const struct kvc_stamp_findings *findings,
                                     const struct kvc_stamp_search *search, struct kvc_error *err)
{
    if (findings->wrong == 0)
        return KVC_OK;
    const struct kvc_geometry *geometry = search->geometry;
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
