/* The table of families against axis values, and text made safe for HTML. For html.c. */
#ifndef KVC_REPORT_HTML_MATRIX_H
#define KVC_REPORT_HTML_MATRIX_H

#include "src/report/kept.h"

/* Appends text as kvc_report_clean leaves it, with &, <, > and quotes as entities. */
void kvc_html_escape(const char *text, struct kvc_buffer *out);
/* Appends a table: one row a family, one column for all its checks and for each path, layout and
 * dtype that occurs; each cell "passed/carried out". The results are sorted by id. */
void kvc_html_matrix(const struct kvc_kept_run *kept, struct kvc_buffer *out);

#endif
