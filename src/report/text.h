/* Text from servers and checks made harmless for terminals, XML and JSON. For the reports. */
#ifndef KVC_REPORT_TEXT_H
#define KVC_REPORT_TEXT_H

#include "src/base/bytes.h"

/* Appends text as valid UTF-8: bytes that are none, control characters other than newline and tab,
 * and characters that XML 1.0 forbids become \xNN, byte by byte. */
void kvc_report_clean(const char *text, struct kvc_buffer *out);
/* The same with newlines and tabs as spaces: one line. */
void kvc_report_clean_line(const char *text, struct kvc_buffer *out);
/* The same as kvc_report_clean, each line after `indent`; ends with a newline unless empty. */
void kvc_report_clean_block(const char *text, const char *indent, struct kvc_buffer *out);

#endif
