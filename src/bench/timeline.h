/* How latencies went over time: for each second of a run, figures of each operation. For benches. */
#ifndef KVC_BENCH_TIMELINE_H
#define KVC_BENCH_TIMELINE_H

#include "src/bench/histogram.h"

enum { KVC_TIMELINE_MAX_LANES = 8 };

/* Nanoseconds; all 0 where nothing ended in that second. */
struct kvc_timeline_cell {
    uint64_t count;
    int64_t p50, p99, max;
};

/* Zero-initialise but for lane_count; free with kvc_timeline_clear. Second i of the run is
 * seconds[i]: a row of lane_count cells, final once the second is closed. */
struct kvc_timeline {
    size_t lane_count;               /* at most KVC_TIMELINE_MAX_LANES */
    struct kvc_timeline_cell *cells; /* second_count x lane_count, row after row */
    size_t second_count;             /* closed seconds */
    struct kvc_histogram (*open)[KVC_TIMELINE_MAX_LANES]; /* of the seconds after those */
    size_t open_count;
};

/* Counts a sample that ended `second` seconds after the start. A second that is closed takes none. */
void kvc_timeline_add(struct kvc_timeline *timeline, size_t lane, int64_t second,
                      int64_t nanoseconds);
/* Closes every second before `second`: all of their samples have been added. Seconds in which
 * nothing ended become rows of zeros. */
void kvc_timeline_close_before(struct kvc_timeline *timeline, int64_t second);
/* The row of a closed second. */
const struct kvc_timeline_cell *kvc_timeline_row(const struct kvc_timeline *timeline,
                                                 size_t second);
void kvc_timeline_clear(struct kvc_timeline *timeline);

#endif
