/* Recorded exchanges: the JSON files in fixtures/frames (a list of {t, dir, client, frames in hex}).
 * For record, decode, replay, traces of checks, and the tests. */
#ifndef KVC_WIRE_RECORDING_H
#define KVC_WIRE_RECORDING_H

#include "src/wire/frames.h"

struct kvc_recorded_message {
    double seconds;   /* since the recorder started */
    bool from_server; /* dir "s2c" */
    int64_t client;   /* connection number */
    struct kvc_frames frames;
};

struct kvc_recording {
    struct kvc_recorded_message *messages;
    size_t count;
};

/* KVC_EUSAGE when the file cannot be read or is no recording, with file and message in where. */
kvc_status kvc_recording_load(const char *path, struct kvc_recording *recording,
                              struct kvc_error *err);
void kvc_recording_clear(struct kvc_recording *recording);

/* Appends one message as it stands in the file, without what separates it from the next. */
void kvc_recording_append(const struct kvc_recorded_message *message, struct kvc_buffer *out);

#endif
