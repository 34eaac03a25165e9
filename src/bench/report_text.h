/* The lines of which the reports of LMCache's benches for a person are made. For the reports of benches. */
#ifndef KVC_BENCH_REPORT_TEXT_H
#define KVC_BENCH_REPORT_TEXT_H

#include "src/base/bytes.h"

enum { KVC_BENCH_REPORT_WIDTH = 64 };

/* A line filled with one character, the title in its middle; "": none. */
void kvc_bench_write_rule(struct kvc_buffer *out, const char *title, char fill);
/* "label:      value", the value at the right edge. */
void kvc_bench_write_row(struct kvc_buffer *out, const char *label, const char *value);

#endif
