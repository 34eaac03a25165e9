/* Makes the stamps of a region piece by piece, in the order of memory: to be written there, or
 * compared with what is there. For the stamp files of kv only. */
#ifndef KVC_KV_STAMP_ROWS_H
#define KVC_KV_STAMP_ROWS_H

#include "src/kv/region.h"
#include "src/kv/stamp_plan.h"

/* Bytes made at a time, at most: they and what they are compared with stay in the nearest cache. */
enum { KVC_STAMP_TILE = 1024 };

/* A region as runs of bytes that share a key, one behind the other. */
struct kvc_stamp_runs {
    const uint64_t *pattern; /* of the first run */
    const uint64_t *tokens;  /* what the first run's token adds to the key */
    uint64_t layer_key;
    int64_t run_size;
    int64_t inner_count;                  /* runs: outer by outer, in each all inner ones */
    int64_t outer_pattern, inner_pattern; /* words from one run's pattern to the next one's */
    int64_t outer_token, inner_token;     /* tokens */
};

/* layer_kv: layer x kv_size + kv; first_token counts from the plan's first one. */
struct kvc_stamp_runs kvc_stamp_runs_of(const struct kvc_stamp_plan *plan,
                                        const struct kvc_region *region, int64_t layer_kv,
                                        int64_t first_token);

/* Makes the bytes of the region from offset `at` on and returns how many: all that are left, or as
 * many as a tile holds. tile has room for KVC_STAMP_TILE bytes and one word. at: 0, or where the
 * last tile ended. */
int64_t kvc_stamp_make_tile(const struct kvc_stamp_runs *runs, int64_t region_size, int64_t at,
                            uint8_t *tile);
/* The same for comparing: whether the region has there what it must; *size is how much was
 * compared. */
bool kvc_stamp_tile_is_right(const struct kvc_stamp_runs *runs, const uint8_t *region,
                             int64_t region_size, int64_t at, int64_t *size);

#endif
