/* The table of families against axis values. For html.c. */
#ifndef KVC_REPORT_HTML_MATRIX_H
#define KVC_REPORT_HTML_MATRIX_H

#include "src/report/kept.h"

/* Appends a table: one row a family, one column for all its checks and for each path, layout and
 * dtype that occurs; each cell "passed/carried out". The results are sorted by id. */
void kvc_html_matrix(const struct kvc_kept_run *kept, struct kvc_buffer *out);

#endif
