/* A report's file: written beside its place and moved there when it is complete, so that nobody reads
 * half of one. For junit, json and html. */
#ifndef KVC_REPORT_FILE_H
#define KVC_REPORT_FILE_H

#include <stdio.h>

#include "src/base/bytes.h"

struct kvc_report_file {
    FILE *stream;
    char *path;      /* NULL: stdout */
    char *temporary; /* NULL: stdout, or moved, or written in place */
};

/* Makes the temporary file. "-" is stdout; a device or pipe is opened instead, and what a link leads
 * to is meant. KVC_EUSAGE when it cannot be made, or path is a folder. */
kvc_status kvc_report_file_open(const char *path, struct kvc_report_file *file,
                                struct kvc_error *err);
/* Writes text, closes, and moves the file to its path. KVC_ESYSTEM. */
kvc_status kvc_report_file_commit(struct kvc_report_file *file, struct kvc_bytes text,
                                  struct kvc_error *err);
/* Removes what is unfinished. Safe after commit. */
void kvc_report_file_close(struct kvc_report_file *file);

#endif
