#include "src/report/html_plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/report/html_page.h"

/* In units of the picture, which is scaled to the width that there is. */
enum {
    WIDTH = 480,
    HEIGHT = 300,
    LEFT = 58,
    RIGHT = 14,
    TOP = 12,
    BOTTOM = 48,
    MAX_TICKS = 16,
};

const char kvc_plot_style[] =
    ":root{--c0:#0b6bcb;--c1:#c4420a;--c2:#0f7b54;--c3:#9b3a9b}"
    "@media(prefers-color-scheme:dark){:root{--c0:#6cb6ff;--c1:#ff9f6b;--c2:#5bd399;--c3:#e29bd6}}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:1rem}"
    "figure{margin:0;border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem}"
    "figcaption{font-weight:600}svg{display:block;width:100%;height:auto}"
    "svg text{fill:var(--soft);font:14px system-ui,sans-serif}"
    ".grid{stroke:var(--line)}.limit{stroke:var(--bad);stroke-dasharray:2 4}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}.dash{stroke-dasharray:6 4}\n"
    ".c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}"
    "circle{fill:var(--bg);stroke-width:2}"
    ".legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;margin:.3rem 0 0;padding:0;list-style:none;"
    "font-size:.9rem}.legend svg{display:inline-block;width:1.6rem;height:.6rem;margin-right:.4rem}\n";

void kvc_plot_add_point(struct kvc_plot_line *line, double x, double y)
{
    if (line->count == line->capacity) {
        line->capacity = line->capacity == 0 ? 64 : 2 * line->capacity;
        line->points = kvc_realloc(line->points, line->capacity * sizeof(*line->points));
    }
    line->points[line->count++] = (struct kvc_plot_point){x, y};
}

void kvc_plot_line_clear(struct kvc_plot_line *line)
{
    free(line->points);
    line->points = NULL;
    line->count = line->capacity = 0;
}

/* ---- the range of an axis, and where on it something is ---- */

struct range {
    double min, max;
    bool is_log;
};

static double place_in(const struct range *range, double value)
{
    if (range->is_log)
        return log(value / range->min) / log(range->max / range->min);
    return (value - range->min) / (range->max - range->min);
}

static double picture_x(const struct range *range, double value)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * place_in(range, value);
}

static double picture_y(const struct range *range, double value)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - place_in(range, value));
}

/* The next of 1, 2, 5, 10, 20, … that is at least (or, with `below`, at most) value. */
static double round_number(double value, bool below)
{
    static const double steps[] = {1, 2, 5, 10};
    const double decade = pow(10, floor(log10(value) + 1e-9));
    double last = decade;
    for (size_t i = 0; i < KVC_COUNT_OF(steps); i++) {
        const double step = steps[i] * decade;
        if (step >= value * (1 - 1e-9) && (!below || step <= value * (1 + 1e-9)))
            return step;
        if (below && step > value)
            return last;
        last = step;
    }
    return last;
}

static void take_in(struct range *range, double value)
{
    range->min = value < range->min ? value : range->min;
    range->max = value > range->max ? value : range->max;
}

/* A little more than the data need, and never empty. */
static void widen(struct range *range)
{
    if (range->is_log) {
        range->min = round_number(range->min, true);
        range->max = round_number(range->max, false);
        if (range->max <= range->min)
            range->max = 2 * range->min;
    } else if (range->max <= range->min) {
        range->max = range->min + 1;
    }
}

static struct range find_range(const struct kvc_plot *plot, bool of_x)
{
    const struct kvc_plot_axis *axis = of_x ? &plot->x : &plot->y;
    struct range range = {HUGE_VAL, -HUGE_VAL, axis->is_log};
    for (size_t i = 0; i < plot->line_count; i++)
        for (size_t j = 0; j < plot->lines[i].count; j++)
            take_in(&range, of_x ? plot->lines[i].points[j].x : plot->lines[i].points[j].y);
    if (!of_x && plot->limit > 0)
        take_in(&range, plot->limit);
    if (!axis->is_log)
        take_in(&range, 0);
    widen(&range);
    return range;
}

/* ---- ticks ---- */

struct ticks {
    double at[MAX_TICKS];
    size_t count;
};

static void add_tick(struct ticks *ticks, double at)
{
    if (ticks->count < MAX_TICKS)
        ticks->at[ticks->count++] = at;
}

/* 1, 2, 5, 10 and so on; only powers of ten when there would be too many. */
static void find_log_ticks(const struct range *range, struct ticks *ticks)
{
    enum { MAX_DECADES = 3 };
    const bool only_decades = range->max / range->min > pow(10, MAX_DECADES) * 1.001;
    double at = round_number(range->min, false);
    while (at <= range->max * (1 + 1e-9)) {
        const double decade = pow(10, round(log10(at)));
        if (!only_decades || fabs(at / decade - 1) < 1e-6)
            add_tick(ticks, at);
        at = round_number(at * 1.5, false);
    }
}

static void find_linear_ticks(const struct range *range, struct ticks *ticks)
{
    enum { WANTED = 6 };
    const double step = round_number((range->max - range->min) / WANTED, false);
    for (double i = ceil(range->min / step - 1e-9); i * step <= range->max * (1 + 1e-9); i++)
        add_tick(ticks, i * step + 0.0); /* not -0 */
}

static void write_x_tick(const struct range *range, double at, const char *text,
                         struct kvc_buffer *out)
{
    const double x = picture_x(range, at);
    kvc_buffer_printf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, TOP, HEIGHT - BOTTOM);
    kvc_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", x,
                      HEIGHT - BOTTOM + 18, text);
}

static void write_y_tick(const struct range *range, double at, const char *text,
                         struct kvc_buffer *out)
{
    const double y = picture_y(range, at);
    kvc_buffer_printf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
    kvc_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                      y + 5, text);
}

static void write_ticks(const struct kvc_plot_axis *axis, const struct range *range, bool of_x,
                        struct kvc_buffer *out)
{
    struct ticks ticks = {.count = 0};
    void (*const write)(const struct range *, double, const char *, struct kvc_buffer *) =
        of_x ? write_x_tick : write_y_tick;
    for (size_t i = 0; i < axis->tick_count; i++)
        if (axis->ticks[i].at <= range->max * (1 + 1e-9))
            write(range, axis->ticks[i].at, axis->ticks[i].text, out);
    if (axis->ticks != NULL)
        return;
    if (range->is_log)
        find_log_ticks(range, &ticks);
    else
        find_linear_ticks(range, &ticks);
    for (size_t i = 0; i < ticks.count; i++) {
        char text[32];
        snprintf(text, sizeof(text), "%g", ticks.at[i]);
        write(range, ticks.at[i], text, out);
    }
}

/* ---- lines ---- */

/* Points that would lie on the one before are left out: nobody could see them. */
static void write_line(const struct kvc_plot_line *line, const struct range *x_range,
                       const struct range *y_range, struct kvc_buffer *out)
{
    double last_x = -WIDTH, last_y = -HEIGHT;
    kvc_buffer_printf(out, "<path class=\"line c%d%s\" d=\"", line->color,
                      line->dashed ? " dash" : "");
    for (size_t i = 0; i < line->count; i++) {
        const double x = picture_x(x_range, line->points[i].x);
        const double y = picture_y(y_range, line->points[i].y);
        if (fabs(x - last_x) < 0.5 && fabs(y - last_y) < 0.5 && i + 1 < line->count)
            continue;
        kvc_buffer_printf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x, y);
        last_x = x;
        last_y = y;
    }
    kvc_buffer_append_text(out, "\"/>\n");
    for (size_t i = 0; line->dots && i < line->count; i++)
        kvc_buffer_printf(out, "<circle class=\"c%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                          line->color, picture_x(x_range, line->points[i].x),
                          picture_y(y_range, line->points[i].y));
}

static void write_legend(const struct kvc_plot *plot, struct kvc_buffer *out)
{
    kvc_buffer_append_text(out, "<ul class=\"legend\">\n");
    for (size_t i = 0; i < plot->line_count; i++) {
        if (plot->lines[i].count == 0)
            continue;
        kvc_buffer_printf(out,
                          "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"line "
                          "c%d%s\" d=\"M0 5H26\"/></svg>",
                          plot->lines[i].color, plot->lines[i].dashed ? " dash" : "");
        kvc_html_escape(plot->lines[i].name, out);
        kvc_buffer_append_text(out, "</li>\n");
    }
    kvc_buffer_append_text(out, "</ul>\n");
}

static void write_labels(const struct kvc_plot *plot, struct kvc_buffer *out)
{
    kvc_buffer_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                      (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    kvc_html_escape(plot->x.label, out);
    kvc_buffer_printf(out,
                      "</text><text transform=\"translate(14 %d) rotate(-90)\" "
                      "text-anchor=\"middle\">",
                      (TOP + HEIGHT - BOTTOM) / 2);
    kvc_html_escape(plot->y.label, out);
    kvc_buffer_append_text(out, "</text>\n");
}

static bool is_empty(const struct kvc_plot *plot)
{
    size_t points = 0;
    for (size_t i = 0; i < plot->line_count; i++)
        points += plot->lines[i].count;
    return points == 0;
}

void kvc_plot_write(const struct kvc_plot *plot, struct kvc_buffer *out)
{
    if (is_empty(plot))
        return;
    const struct range x_range = find_range(plot, true), y_range = find_range(plot, false);
    kvc_buffer_append_text(out, "<figure><figcaption>");
    kvc_html_escape(plot->title, out);
    kvc_buffer_printf(out, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                      WIDTH, HEIGHT);
    kvc_html_escape(plot->title, out);
    kvc_buffer_append_text(out, "\">\n");
    write_ticks(&plot->x, &x_range, true, out);
    write_ticks(&plot->y, &y_range, false, out);
    write_labels(plot, out);
    if (plot->limit > 0)
        kvc_buffer_printf(out, "<path class=\"limit\" d=\"M%d %.1fH%d\"/>\n", LEFT,
                          picture_y(&y_range, plot->limit), WIDTH - RIGHT);
    for (size_t i = 0; i < plot->line_count; i++)
        if (plot->lines[i].count > 0)
            write_line(&plot->lines[i], &x_range, &y_range, out);
    kvc_buffer_append_text(out, "</svg>\n");
    write_legend(plot, out);
    kvc_buffer_append_text(out, "</figure>\n");
}
