/* Plays the client's part of a recording against a server. For replay.c. */
#ifndef KVC_CLI_PLAYER_H
#define KVC_CLI_PLAYER_H

#include <stdio.h>

#include "src/wire/dialect.h"
#include "src/wire/recording.h"

struct kvc_player_options {
    const char *rpc_url;
    const struct kvc_dialect *dialect;
    int64_t connect_timeout_ms;
    int64_t timeout_ms; /* for each reply */
    FILE *out;          /* differences */
};

struct kvc_played {
    size_t requests;
    size_t compared;    /* replies, with the recorded ones */
    size_t differences; /* replies that differ, are missing, or came where none was recorded */
};

/* Sends the recorded requests in order, on as many connections, and waits for a reply where the recording
 * has one. Segments that registrations name are created here under other names, and removed at the end.
 * KVC_ECONNECT, KVC_ELOST; KVC_ESYSTEM when there is no room for a segment; KVC_EINTERRUPTED. */
kvc_status kvc_play(const struct kvc_recording *recording, const struct kvc_player_options *options,
                    struct kvc_played *played, struct kvc_error *err);

#endif
