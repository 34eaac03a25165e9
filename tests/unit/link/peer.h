/* A server for tests: a thread that hands each message to a script. */
#ifndef KVC_TESTS_UNIT_LINK_PEER_H
#define KVC_TESTS_UNIT_LINK_PEER_H

#include <pthread.h>

#include "src/link/client.h"
#include "src/link/server.h"

struct peer;

/* Called for every message, with what the client sent: [uid, op, payload…]. */
typedef void peer_script(struct peer *peer, const struct kvc_frames *message);

struct peer {
    struct kvc_server *server;
    const char *url;
    peer_script *script;
    void *user;
    int stop_pipe[2];
    pthread_t thread;
    size_t received;           /* messages so far, the one being served included */
    struct kvc_bytes identity; /* of the client that sent the current message */
    struct kvc_frames kept[8]; /* for scripts that answer later */
};

/* Listens on url ("tcp://127.0.0.1:0") and serves until peer_stop. */
void peer_start(struct peer *peer, const char *url, peer_script *script, void *user);
void peer_stop(struct peer *peer);

/* Sends one message to the current client; the strings are frames in hex. */
#define peer_send(peer, ...)                                                                       \
    peer_send_hex(peer, (const char *const[]){__VA_ARGS__},                                        \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
void peer_send_hex(struct peer *peer, const char *const *hex, size_t count);
/* Echoes uid and op, and the result in hex if it is not NULL. */
void peer_answer(struct peer *peer, const struct kvc_frames *message, const char *result);

/* Scripts: answer "OK"; answer 1, and then 2 to the same request; be silent. */
void peer_answer_ok(struct peer *peer, const struct kvc_frames *message);
void peer_answer_twice(struct peer *peer, const struct kvc_frames *message);
void peer_stay_silent(struct peer *peer, const struct kvc_frames *message);

/* Appends frames given in hex. */
#define frames_from(...)                                                                           \
    frames_from_hex((const char *const[]){__VA_ARGS__},                                            \
                    sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
struct kvc_frames frames_from_hex(const char *const *hex, size_t count);
/* True when the frame is these bytes. */
bool frame_is(const struct kvc_frames *frames, size_t index, const char *hex);

/* A connected client, or a failed test. */
struct kvc_client *client_for(const struct peer *peer);
/* Sends [op] and returns the uid. */
uint64_t send_op(struct kvc_client *client, const char *op_hex);
/* kvc_client_wait into a fresh *reply. */
kvc_status wait_for_reply(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                          struct kvc_frames *reply);
/* The reply to uid comes, and its result is this. */
void expect_answer(struct kvc_client *client, uint64_t uid, const char *result_hex);
void expect_counters(const struct kvc_client *client, uint64_t late, uint64_t duplicate,
                     uint64_t unknown);

#endif
