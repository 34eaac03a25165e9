/* Places in the picture, worked out by hand: the frame is 58 … 466 across and 252 … 12 down. */
#include <criterion/criterion.h>

#include <string.h>

#include "src/report/html_plot.h"

static const char *drawn(const struct kvc_plot *plot)
{
    static struct kvc_buffer out;
    out.size = 0;
    kvc_plot_write(plot, &out);
    return kvc_buffer_text(&out);
}

Test(plot, straight_axes)
{
    struct kvc_plot_line line = {.name = "a<b", .color = 1};
    kvc_plot_add_point(&line, 0, 0);
    kvc_plot_add_point(&line, 5, 20);
    kvc_plot_add_point(&line, 10, 5);
    const struct kvc_plot plot = {
        .title = "T", .x = {.label = "x"}, .y = {.label = "y"}, .lines = &line, .line_count = 1};
    const char *text = drawn(&plot);
    cr_assert_not_null(strstr(text, "d=\"M58.0 252.0L262.0 12.0L466.0 192.0\""), "%s", text);
    cr_assert_not_null(strstr(text, "x=\"139.6\" y=\"270\" text-anchor=\"middle\">2</text>"));
    cr_assert_not_null(strstr(text, "a&lt;b"));
    cr_assert_null(strstr(text, ">-0<"));
    kvc_plot_line_clear(&line);
}

/* 1 … 100: a factor of ten is half of the frame. */
Test(plot, logarithmic_axes)
{
    struct kvc_plot_line line = {.name = "a", .dashed = true, .dots = true};
    kvc_plot_add_point(&line, 1, 1);
    kvc_plot_add_point(&line, 10, 100);
    kvc_plot_add_point(&line, 100, 10);
    const struct kvc_plot plot = {.title = "T",
                                  .x = {.label = "x", .is_log = true},
                                  .y = {.label = "y", .is_log = true},
                                  .lines = &line,
                                  .line_count = 1,
                                  .limit = 10};
    const char *text = drawn(&plot);
    cr_assert_not_null(strstr(text, "d=\"M58.0 252.0L262.0 12.0L466.0 132.0\""), "%s", text);
    cr_assert_not_null(strstr(text, "<path class=\"limit\" d=\"M58 132.0H466\"/>"));
    cr_assert_not_null(strstr(text, "line c0 dash"));
    static const char *const ticks[] = {">1<", ">2<", ">5<", ">10<", ">20<", ">50<", ">100<"};
    for (size_t i = 0; i < KVC_COUNT_OF(ticks); i++)
        cr_assert_not_null(strstr(text, ticks[i]), "%s", ticks[i]);
    kvc_plot_line_clear(&line);
}

Test(plot, one_value_still_has_a_range)
{
    struct kvc_plot_line line = {.name = "a"};
    kvc_plot_add_point(&line, 0, 5);
    const struct kvc_plot plot = {.title = "T",
                                  .x = {.label = "x"},
                                  .y = {.label = "y", .is_log = true},
                                  .lines = &line,
                                  .line_count = 1};
    const char *text = drawn(&plot);
    cr_assert_null(strstr(text, "nan"));
    cr_assert_null(strstr(text, "inf"));
    kvc_plot_line_clear(&line);
}

Test(plot, nothing_to_draw)
{
    const struct kvc_plot_line line = {.name = "a"};
    const struct kvc_plot plot = {
        .title = "T", .x = {.label = "x"}, .y = {.label = "y"}, .lines = &line, .line_count = 1};
    cr_assert_str_eq(drawn(&plot), "");
}
