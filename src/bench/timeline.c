#include "src/bench/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/bytes.h"

void kvc_timeline_add(struct kvc_timeline *timeline, size_t lane, int64_t second,
                      int64_t nanoseconds)
{
    if (second < 0 || (size_t)second < timeline->second_count)
        return;
    const size_t place = (size_t)second - timeline->second_count;
    if (place >= timeline->open_count) {
        timeline->open = kvc_realloc(timeline->open, (place + 1) * sizeof(*timeline->open));
        memset(timeline->open + timeline->open_count, 0,
               (place + 1 - timeline->open_count) * sizeof(*timeline->open));
        timeline->open_count = place + 1;
    }
    kvc_histogram_add(&timeline->open[place][lane], nanoseconds);
}

static struct kvc_timeline_cell cell_of(const struct kvc_histogram *histogram)
{
    return (struct kvc_timeline_cell){
        .count = histogram->count,
        .p50 = kvc_histogram_percentile(histogram, 0.5),
        .p99 = kvc_histogram_percentile(histogram, 0.99),
        .max = histogram->max,
    };
}

void kvc_timeline_close_before(struct kvc_timeline *timeline, int64_t second)
{
    if (second <= 0 || (size_t)second <= timeline->second_count)
        return;
    const size_t closing = (size_t)second - timeline->second_count;
    const size_t lanes = timeline->lane_count;
    timeline->cells =
        kvc_realloc(timeline->cells, (size_t)second * lanes * sizeof(*timeline->cells));
    struct kvc_timeline_cell *cell = timeline->cells + timeline->second_count * lanes;
    memset(cell, 0, closing * lanes * sizeof(*cell));
    const size_t had = closing < timeline->open_count ? closing : timeline->open_count;
    for (size_t i = 0; i < had; i++) {
        for (size_t lane = 0; lane < lanes; lane++) {
            cell[i * lanes + lane] = cell_of(&timeline->open[i][lane]);
            kvc_histogram_clear(&timeline->open[i][lane]);
        }
    }
    timeline->open_count -= had;
    if (timeline->open_count > 0)
        memmove(timeline->open, timeline->open + had,
                timeline->open_count * sizeof(*timeline->open));
    timeline->second_count = (size_t)second;
}

const struct kvc_timeline_cell *kvc_timeline_row(const struct kvc_timeline *timeline, size_t second)
{
    return timeline->cells + second * timeline->lane_count;
}

void kvc_timeline_clear(struct kvc_timeline *timeline)
{
    kvc_timeline_close_before(timeline, (int64_t)(timeline->second_count + timeline->open_count));
    free(timeline->cells);
    free(timeline->open);
    *timeline = (struct kvc_timeline){.lane_count = timeline->lane_count};
}
