/* What the files of `compare` share. */
#ifndef KVC_BENCH_COMPARE_PARTS_H
#define KVC_BENCH_COMPARE_PARTS_H

#include "src/bench/compare.h"

/* The two kinds of comparison; see kvc_compare. */
kvc_status kvc_compare_benches(const struct kvc_compare_options *options,
                               struct kvc_comparison *comparison, struct kvc_error *err);
kvc_status kvc_compare_runs(const struct kvc_compare_options *options,
                            struct kvc_comparison *comparison, struct kvc_error *err);

/* Fails with KVC_EUSAGE when a member differs between two reports; with `force` that is only noted. */
kvc_status kvc_compare_same_member(const struct kvc_saved *old, const json_t *old_value,
                                   const struct kvc_saved *new, const json_t *new_value,
                                   const char *place, bool force, struct kvc_buffer *notes,
                                   struct kvc_error *err);
/* Adds a line to the notes, harmless whatever the reports hold. */
void kvc_compare_note(struct kvc_buffer *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds one when a text differs. */
void kvc_compare_note_text(const struct kvc_saved *old, const struct kvc_saved *new,
                           const char *place, const char *what, struct kvc_buffer *notes);

#endif
