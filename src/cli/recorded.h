/* A recording that a command was given, and the dialect it is read in. For decode, record and replay. */
#ifndef KVC_CLI_RECORDED_H
#define KVC_CLI_RECORDED_H

#include "src/wire/dialect.h"
#include "src/wire/recording.h"

/* The help of a --dialect that is guessed from a recording. */
#define KVC_RECORDED_DIALECT_HELP                                                                  \
    "what was spoken, by any release that speaks it; auto (default): the newest in which most "    \
    "requests make sense"

/* Loads a file. dialect_text is the --dialect; NULL and "auto" guess. KVC_EUSAGE otherwise; the recording
 * is cleared by the caller either way. */
kvc_status kvc_recorded_load(const char *path, const char *dialect_text,
                             struct kvc_recording *recording, const struct kvc_dialect **dialect,
                             struct kvc_error *err);

#endif
