/* What the pages share: one file that needs nothing else, readable on a phone, in the dark, and without
 * scripts. For the reports of runs and benches. */
#ifndef KVC_REPORT_HTML_PAGE_H
#define KVC_REPORT_HTML_PAGE_H

#include "src/base/bytes.h"

/* Appends everything up to what the body holds, with CSS besides what every page has, and what comes after
 * the body. */
void kvc_html_begin(const char *title, const char *style, struct kvc_buffer *out);
void kvc_html_end(struct kvc_buffer *out);

/* Appends text as kvc_report_clean leaves it, with &, <, > and quotes as entities: as the content of an element or of a quoted attribute. */
void kvc_html_escape(const char *text, struct kvc_buffer *out);
/* A term of a list and what it is; nothing when value is NULL or empty. */
void kvc_html_row(struct kvc_buffer *out, const char *name, const char *value);

#endif
