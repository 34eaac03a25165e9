#include "src/kv/stamp.h"

#include "src/kv/row_copy.h"
#include "src/kv/stamp_findings.h"
#include "src/kv/stamp_rows.h"

/* Data from this size on are written past the caches. */
enum { STREAM_FROM = 1 << 20 };
/* What will be compared is fetched so many bytes ahead: blocks lie in no order that the processor
 * could guess. */
enum { AHEAD = 16 << 10 };

/* One region in its turn. */
struct visit {
    const struct kvc_stamp_plan *plan;
    struct kvc_stamp_site site;
    const uint8_t *ahead; /* what comes AHEAD bytes later, as far as whole regions make that up */
};

typedef void (*visitor)(void *context, const struct visit *visit);

/* ---- all regions of a set of blocks, or of a chunk ---- */

/* The index-th region of a group's tensors: all blocks of the first layer's K, then of its V, … */
static struct kvc_stamp_site site_at(const struct kvc_group *group,
                                     const struct kvc_tensor *tensors, const int64_t *block_ids,
                                     int64_t block_count, int64_t index)
{
    const int64_t i = index % block_count, layer_kv = index / block_count;
    const int64_t layer = layer_kv / group->kv_size, kv = layer_kv % group->kv_size;
    return (struct kvc_stamp_site){
        .region = kvc_region_of(group, tensors[layer].data, kv, block_ids[i]),
        .layer_kv = layer_kv,
        .first_token = i * group->block_size,
        .block = block_ids[i],
    };
}

static void visit_group(const struct kvc_stamp_plan *plan, const struct kvc_tensor *tensors,
                        const int64_t *block_ids, int64_t block_count, visitor act, void *context)
{
    const struct kvc_group *group = plan->group;
    const int64_t count = group->num_layers * group->kv_size * block_count;
    const int64_t region_size = kvc_group_block_bytes(group) / group->kv_size;
    const int64_t distance = region_size < AHEAD ? AHEAD / region_size : 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t later = i + distance < count ? i + distance : count - 1;
        const struct visit visit = {
            .plan = plan,
            .site = site_at(group, tensors, block_ids, block_count, i),
            .ahead = site_at(group, tensors, block_ids, block_count, later).region.data,
        };
        act(context, &visit);
    }
}

static void visit_blocks(const struct kvc_paged *paged, struct kvc_stamp_source source,
                         int64_t first_token, const int64_t *block_ids, size_t block_count,
                         visitor act, void *context)
{
    const struct kvc_tensor *tensors = paged->tensors;
    for (size_t g = 0; g < paged->geometry.group_count; g++) {
        const struct kvc_group *group = &paged->geometry.groups[g];
        struct kvc_stamp_plan plan;
        kvc_stamp_plan_open(source, group, g, first_token, (int64_t)block_count * group->block_size,
                            &plan);
        visit_group(&plan, tensors, block_ids, (int64_t)block_count, act, context);
        kvc_stamp_plan_close(&plan);
        tensors += group->num_layers;
    }
}

static void visit_chunk(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                        int64_t first_token, int64_t chunk_tokens, uint8_t *chunk, visitor act,
                        void *context)
{
    for (size_t g = 0; g < geometry->group_count; g++) {
        const struct kvc_group *group = &geometry->groups[g];
        struct kvc_stamp_plan plan;
        kvc_stamp_plan_open(source, group, g, first_token, chunk_tokens, &plan);
        for (int64_t i = 0; i < group->num_layers * group->kv_size; i++) {
            const int64_t layer = i / group->kv_size, kv = i % group->kv_size;
            const struct kvc_region region =
                kvc_region_of_chunk(group, chunk, chunk_tokens, kv, layer);
            const struct visit visit = {
                .plan = &plan,
                .site = {.region = region, .layer_kv = i, .block = -1},
                .ahead = region.data,
            };
            act(context, &visit);
        }
        chunk += kvc_group_chunk_bytes(group, chunk_tokens);
        kvc_stamp_plan_close(&plan);
    }
}

/* ---- writing ---- */

/* context: whether so much is written that it goes past the caches. */
static void write_region(void *context, const struct visit *visit)
{
    const bool *large = context;
    const struct kvc_region *region = &visit->site.region;
    const struct kvc_stamp_runs runs =
        kvc_stamp_runs_of(visit->plan, region, visit->site.layer_kv, visit->site.first_token);
    const bool whole_lines = ((uintptr_t)region->data | (uintptr_t)region->size) % KVC_LINE == 0;
    uint8_t tile[KVC_STAMP_TILE + sizeof(uint64_t)];
    struct kvc_rows rows = {.from = tile, .outer_count = 1, .inner_count = 1};
    for (int64_t at = 0; at < region->size; at += rows.row_size) {
        rows.to = region->data + at;
        rows.row_size = kvc_stamp_make_tile(&runs, region->size, at, tile);
        kvc_row_copy(&rows, *large && whole_lines && rows.row_size % KVC_LINE == 0);
    }
}

void kvc_stamp_blocks(struct kvc_paged *paged, struct kvc_stamp_source source, int64_t first_token,
                      const int64_t *block_ids, size_t block_count)
{
    const int64_t tokens = (int64_t)block_count * paged->geometry.groups[0].block_size;
    bool large = kvc_geometry_chunk_bytes(&paged->geometry, tokens) >= STREAM_FROM;
    visit_blocks(paged, source, first_token, block_ids, block_count, write_region, &large);
    kvc_row_copy_finish();
}

void kvc_stamp_chunk(const struct kvc_geometry *geometry, struct kvc_stamp_source source,
                     int64_t first_token, int64_t chunk_tokens, uint8_t *chunk)
{
    bool large = kvc_geometry_chunk_bytes(geometry, chunk_tokens) >= STREAM_FROM;
    visit_chunk(geometry, source, first_token, chunk_tokens, chunk, write_region, &large);
    kvc_row_copy_finish();
}

/* ---- checking ---- */

/* Inlined, or else gcc takes it for a function that does nothing and leaves the calls out. */
static inline __attribute__((always_inline)) void fetch(const struct visit *visit, int64_t at,
                                                        int64_t size)
{
    const struct kvc_region *region = &visit->site.region;
    const uint8_t *from = visit->ahead + at;
    if (region->size > AHEAD && at + AHEAD + size <= region->size)
        from = region->data + at + AHEAD;
    else if (region->size > AHEAD)
        from = visit->ahead + (at + AHEAD + size - region->size);
    for (int64_t i = 0; i < size; i += KVC_LINE)
        __builtin_prefetch(from + i);
}

static bool region_is_right(const struct visit *visit)
{
    const struct kvc_region *region = &visit->site.region;
    const struct kvc_stamp_runs runs =
        kvc_stamp_runs_of(visit->plan, region, visit->site.layer_kv, visit->site.first_token);
    int64_t size = 0;
    for (int64_t at = 0; at < region->size; at += size) {
        if (!kvc_stamp_tile_is_right(&runs, region->data, region->size, at, &size))
            return false;
        fetch(visit, at, size);
    }
    return true;
}

static void check_region(void *context, const struct visit *visit)
{
    struct kvc_stamp_findings *findings = context;
    findings->total += visit->site.region.size / (int64_t)visit->plan->group->dtype->size;
    if (!region_is_right(visit))
        kvc_stamp_findings_add(findings, visit->plan, &visit->site);
}

static kvc_status report(struct kvc_stamp_findings *findings, struct kvc_error *err)
{
    const kvc_status status = kvc_stamp_findings_report(findings, err);
    kvc_stamp_findings_close(findings);
    return status;
}

kvc_status kvc_stamp_check_blocks(const struct kvc_paged *paged, struct kvc_stamp_source source,
                                  int64_t first_token, const int64_t *block_ids, size_t block_count,
                                  const struct kvc_stamp_source *others, size_t other_count,
                                  struct kvc_error *err)
{
    const struct kvc_stamp_search search = {
        .geometry = &paged->geometry,
        .source = source,
        .others = others,
        .other_count = other_count,
        .first_token = first_token,
        .token_count = (int64_t)block_count * paged->geometry.groups[0].block_size,
    };
    struct kvc_stamp_findings findings = {.search = &search};
    visit_blocks(paged, source, first_token, block_ids, block_count, check_region, &findings);
    return report(&findings, err);
}

kvc_status kvc_stamp_check_chunk(const struct kvc_geometry *geometry,
                                 struct kvc_stamp_source source, int64_t first_token,
                                 int64_t chunk_tokens, const uint8_t *chunk,
                                 const struct kvc_stamp_source *others, size_t other_count,
                                 struct kvc_error *err)
{
    const struct kvc_stamp_search search = {
        .geometry = geometry,
        .source = source,
        .others = others,
        .other_count = other_count,
        .first_token = first_token,
        .token_count = chunk_tokens,
    };
    struct kvc_stamp_findings findings = {.search = &search};
    /* Checking only reads the chunk. */
    visit_chunk(geometry, source, first_token, chunk_tokens, (uint8_t *)chunk, check_region,
                &findings);
    return report(&findings, err);
}
