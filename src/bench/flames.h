/* Flame graphs of a process while a bench measures: a recorder for each mode, all at once. The command line says which,
 * the bench when, and the command line draws them. */
#ifndef KVC_BENCH_FLAMES_H
#define KVC_BENCH_FLAMES_H

#include "src/bench/flame_recorder.h"

/* Zero-initialise, set what is wanted; free with kvc_flames_clear. */
struct kvc_flames {
    pid_t process;
    enum kvc_flame_mode modes[KVC_FLAME_MODE_COUNT];
    size_t count;
    struct kvc_flame_recorder recorders[KVC_FLAME_MODE_COUNT];
    size_t started;
};

/* Returns when every recorder records. KVC_ESYSTEM, with a profiler's words. Does nothing for NULL, and without modes. */
kvc_status kvc_flames_start(struct kvc_flames *flames, struct kvc_error *err);
/* What comes now is not measured any more. */
void kvc_flames_stop(struct kvc_flames *flames);
/* Appends the SVG of modes[index]; title is its heading. KVC_ESYSTEM, also when nothing was seen. */
kvc_status kvc_flames_draw(const struct kvc_flames *flames, size_t index, const char *title,
                           struct kvc_buffer *out, struct kvc_error *err);
void kvc_flames_clear(struct kvc_flames *flames);

#endif
