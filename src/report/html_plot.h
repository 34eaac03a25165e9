/* Lines in a frame with two axes, as inline SVG. For pages of benches. */
#ifndef KVC_REPORT_HTML_PLOT_H
#define KVC_REPORT_HTML_PLOT_H

#include "src/base/bytes.h"

enum { KVC_PLOT_COLORS = 4 };

struct kvc_plot_point {
    double x, y;
};

struct kvc_plot_line {
    const char *name; /* in the legend */
    int color;        /* 0 … KVC_PLOT_COLORS - 1 */
    bool dashed;
    bool dots; /* a mark at each point */
    struct kvc_plot_point *points;
    size_t count, capacity;
};

struct kvc_plot_tick {
    double at;
    const char *text;
};

struct kvc_plot_axis {
    const char *label;
    bool is_log;                       /* then every value is above 0 */
    const struct kvc_plot_tick *ticks; /* in ascending order; NULL: round numbers */
    size_t tick_count;
};

struct kvc_plot {
    const char *title;
    struct kvc_plot_axis x, y;
    const struct kvc_plot_line *lines;
    size_t line_count;
    double limit; /* a line across at this y; 0: none */
};

/* What a page with plots needs besides what every page has. */
extern const char kvc_plot_style[];

/* Free points with kvc_plot_line_clear. */
void kvc_plot_add_point(struct kvc_plot_line *line, double x, double y);
void kvc_plot_line_clear(struct kvc_plot_line *line);

/* Appends a figure with the plot and a legend; nothing when no line has a point. */
void kvc_plot_write(const struct kvc_plot *plot, struct kvc_buffer *out);

#endif
