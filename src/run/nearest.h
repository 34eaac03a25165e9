/* "Did you mean …?": the names that are nearest to a misspelt one. For select, expectations, the
 * command line. */
#ifndef KVC_RUN_NEAREST_H
#define KVC_RUN_NEAREST_H

#include "src/base/bytes.h"

enum { KVC_NEAREST_MAX = 3 };

/* Appends up to KVC_NEAREST_MAX of the names, nearest first, joined by ", ". Nothing when none is
 * near: more than about half of the letters would have to change, and none holds the other. */
void kvc_nearest_append(const char *name, const char *const *candidates, size_t count,
                        struct kvc_buffer *out);

#endif
