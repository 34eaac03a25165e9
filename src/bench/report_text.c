#include "src/bench/report_text.h"

#include <string.h>

void kvc_bench_write_rule(struct kvc_buffer *out, const char *title, char fill)
{
    const size_t used = title[0] == '\0' ? 0 : strlen(title) + 2;
    const size_t left = used < KVC_BENCH_REPORT_WIDTH ? (KVC_BENCH_REPORT_WIDTH - used) / 2 : 0;
    for (size_t i = 0; i < left; i++)
        kvc_buffer_append_byte(out, (uint8_t)fill);
    if (used > 0)
        kvc_buffer_printf(out, " %s ", title);
    for (size_t i = left + used; i < KVC_BENCH_REPORT_WIDTH; i++)
        kvc_buffer_append_byte(out, (uint8_t)fill);
    kvc_buffer_append_byte(out, '\n');
}

void kvc_bench_write_row(struct kvc_buffer *out, const char *label, const char *value)
{
    const int gap = KVC_BENCH_REPORT_WIDTH - (int)strlen(label) - 1 - (int)strlen(value);
    kvc_buffer_printf(out, "%s:%*s%s\n", label, gap < 1 ? 1 : gap, "", value);
}
