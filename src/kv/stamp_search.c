#include "src/kv/stamp_search.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/kv/stamp_plan.h"

/* Rows looked at beside those that were checked. */
enum { MAX_ROWS = 1 << 18 };
/* With fewer bytes, looking at every byte offset finds anything anywhere. */
enum { HALF = KVC_STAMP_EVIDENCE / 2 };

void kvc_stamp_place_describe(const struct kvc_geometry *geometry,
                              const struct kvc_stamp_place *place, struct kvc_buffer *out)
{
    if (geometry->group_count > 1)
        kvc_buffer_printf(out, "group %zu ", place->group);
    const char *kv = geometry->groups[place->group].kv_size == 1 ? ""
                     : place->kv == 0                            ? "K "
                                                                 : "V ";
    kvc_buffer_printf(out,
                      "layer %" PRId64 " %stoken %" PRId64 " head %" PRId64 " element %" PRId64,
                      place->layer, kv, place->token, place->head, place->element);
}

/* ---- the rows of one source ---- */

struct hunt {
    const struct kvc_stamp_place *expected;
    const uint8_t *held;
    size_t held_size;
    bool any_offset; /* else only at the same element */
    int64_t matches;
    struct kvc_stamp_place best;
    size_t best_shift; /* bytes beyond the start of best.element */
    uint64_t best_distance;
};

/* A place that differs in fewer coordinates is the likelier one, then the nearer token. */
static uint64_t distance(const struct kvc_stamp_place *a, const struct kvc_stamp_place *b)
{
    const uint64_t changed =
        (uint64_t)((a->group != b->group) + (a->layer != b->layer) + (a->kv != b->kv) +
                   (a->token != b->token) + (a->head != b->head) + (a->element != b->element));
    const int64_t tokens = a->token - b->token;
    return changed << 48 | (uint64_t)(tokens < 0 ? -tokens : tokens);
}

static void note_match(struct hunt *hunt, const struct kvc_stamp_place *place, size_t shift)
{
    const uint64_t far = distance(place, hunt->expected);
    if (hunt->matches++ > 0 && far >= hunt->best_distance)
        return;
    hunt->best = *place;
    hunt->best_shift = shift;
    hunt->best_distance = far;
}

static bool bytes_match(const uint64_t *row, uint64_t key, size_t offset, const struct hunt *hunt)
{
    for (size_t i = 0; i < hunt->held_size; i++, offset++) {
        const uint64_t word = row[offset / 8] ^ key;
        if ((uint8_t)(word >> (8 * (offset % 8))) != hunt->held[i])
            return false;
    }
    return true;
}

static void hunt_row(struct hunt *hunt, const struct kvc_stamp_plan *plan, uint64_t key,
                     struct kvc_stamp_place *place)
{
    const uint64_t *row = kvc_stamp_row(plan, place->head);
    const size_t size = plan->group->dtype->size;
    const size_t row_size = (size_t)plan->group->head_size * size;
    const size_t same = (size_t)hunt->expected->element * size;
    const size_t first = hunt->any_offset ? 0 : same;
    const size_t last = hunt->any_offset ? row_size : same;
    for (size_t offset = first; offset <= last && offset + hunt->held_size <= row_size; offset++) {
        if (!bytes_match(row, key, offset, hunt))
            continue;
        place->element = (int64_t)(offset / size);
        note_match(hunt, place, offset % size);
    }
}

static void hunt_group(struct hunt *hunt, struct kvc_stamp_source source,
                       const struct kvc_group *group, size_t group_index, int64_t first_token,
                       int64_t token_count)
{
    struct kvc_stamp_plan plan;
    kvc_stamp_plan_open(source, group, group_index, first_token, token_count, &plan);
    struct kvc_stamp_place place = {.group = group_index};
    for (int64_t i = 0; i < group->num_layers * group->kv_size; i++) {
        place.layer = i / group->kv_size;
        place.kv = i % group->kv_size;
        for (int64_t token = 0; token < token_count; token++) {
            place.token = first_token + token;
            const uint64_t key = kvc_stamp_key(&plan, i, token);
            for (place.head = 0; place.head < group->num_heads; place.head++)
                hunt_row(hunt, &plan, key, &place);
        }
    }
    kvc_stamp_plan_close(&plan);
}

static void hunt_source(struct hunt *hunt, const struct kvc_stamp_search *search,
                        struct kvc_stamp_source source)
{
    const struct kvc_geometry *geometry = search->geometry;
    int64_t rows = 0; /* of one token */
    for (size_t g = 0; g < geometry->group_count; g++) {
        const struct kvc_group *group = &geometry->groups[g];
        rows += group->num_layers * group->kv_size * group->num_heads;
    }
    const int64_t margin = MAX_ROWS / rows;
    const int64_t first = search->first_token > margin ? search->first_token - margin : 0;
    const int64_t end = search->first_token + search->token_count + margin;
    for (size_t g = 0; g < geometry->group_count; g++)
        hunt_group(hunt, source, &geometry->groups[g], g, first, end - first);
}

/* ---- what to say ---- */

static void describe_source(const struct kvc_stamp_search *search, struct kvc_stamp_source source,
                            struct kvc_buffer *out)
{
    if (source.request != search->source.request)
        kvc_buffer_printf(out, "request %" PRIu64 " ", source.request);
    else if (source.seed != search->source.seed)
        kvc_buffer_printf(out, "seed %" PRIu64 " ", source.seed);
}

static bool hunt_all(const struct kvc_stamp_search *search, const struct hunt *wanted,
                     const char *prefix, struct kvc_buffer *out)
{
    for (size_t i = 0; i <= search->other_count; i++) {
        const struct kvc_stamp_source source = i == 0 ? search->source : search->others[i - 1];
        struct hunt hunt = *wanted;
        hunt_source(&hunt, search, source);
        if (hunt.matches == 0)
            continue;
        kvc_buffer_append_text(out, prefix);
        describe_source(search, source, out);
        kvc_stamp_place_describe(search->geometry, &hunt.best, out);
        if (hunt.best_shift != 0)
            kvc_buffer_printf(out, " from its byte %zu on", hunt.best_shift);
        if (hunt.matches > 1)
            kvc_buffer_printf(out, ", or one of %" PRId64 " other places", hunt.matches - 1);
        return true;
    }
    return false;
}

static bool describe_constant(const uint8_t *held, size_t held_size, struct kvc_buffer *out)
{
    if (memcmp(held, held + 1, held_size - 1) != 0)
        return false;
    if (held[0] == 0)
        kvc_buffer_append_text(out, "zero");
    else
        kvc_buffer_printf(out, "poison 0x%02x", held[0]);
    return true;
}

/* Looks at every byte offset of a row: for what was shifted. The first element may be the odd one
 * out (what lay before the shifted bytes), so the second half of the evidence gets a try as well. */
static bool hunt_shifted(const struct kvc_stamp_search *search, const struct hunt *wanted,
                         struct kvc_buffer *out)
{
    struct hunt hunt = *wanted;
    hunt.any_offset = true;
    if (hunt.held_size < HALF)
        return false;
    hunt.held_size = HALF;
    if (hunt_all(search, &hunt, "", out))
        return true;
    hunt.held += HALF;
    const size_t size = search->geometry->groups[wanted->expected->group].dtype->size;
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "nothing we wrote here; %zu elements on, ", HALF / size);
    return wanted->held_size == KVC_STAMP_EVIDENCE && hunt_all(search, &hunt, prefix, out);
}

void kvc_stamp_search(const struct kvc_stamp_search *search, const uint8_t *held, size_t held_size,
                      const struct kvc_stamp_place *place, struct kvc_buffer *out)
{
    const struct hunt hunt = {.expected = place, .held = held, .held_size = held_size};
    const size_t size = search->geometry->groups[place->group].dtype->size;
    /* One byte alone is a stamp of many places, too, and those say more. */
    if (held_size > 1 && describe_constant(held, held_size, out))
        return;
    if (hunt_all(search, &hunt, "", out) || hunt_shifted(search, &hunt, out))
        return;
    if (!describe_constant(held, size, out))
        kvc_buffer_append_text(out, "nothing we wrote");
}
