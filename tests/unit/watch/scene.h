/* A scripted client and server that only exist as messages: what they say is fed to a watch, and the rules
 * that it finds broken are collected by name. */
#ifndef KVC_TESTS_UNIT_WATCH_SCENE_H
#define KVC_TESTS_UNIT_WATCH_SCENE_H

#include "src/watch/watch.h"
#include "src/wire/message.h"

enum { CHUNK = 16, MAX_TOKENS = 8 * CHUNK };

struct scene {
    struct kvc_watch *watch;
    const struct kvc_dialect *dialect;
    struct kvc_str client;
    int64_t now_ms;
    int64_t uid;             /* of the next request */
    struct kvc_buffer found; /* names of rules, one a line */
    struct kvc_buffer details;
};

/* A scene in which the chunk size is known to be CHUNK, or is not known. */
void scene_open(struct scene *scene, const char *release);
void scene_open_unknown(struct scene *scene, const char *release);
/* Nothing more comes: the rules found broken, in order, joined by ", ", are `expected`. Closes. */
void scene_expect(struct scene *scene, const char *expected);

/* Sends a request, and returns its uid; or sends frames as they are (and clears them). */
int64_t scene_ask(struct scene *scene, const struct kvc_request *request);
void scene_send(struct scene *scene, struct kvc_frames *frames);
/* Answers the request of that uid. */
void scene_answer(struct scene *scene, int64_t uid, const struct kvc_reply *reply);
/* Both. */
void scene_call(struct scene *scene, const struct kvc_request *request,
                const struct kvc_reply *reply);

/* ---- what a client does, done right and answered; instance 1 of model "m" ---- */

/* A key of `chunks` chunks of tokens from 0 on, [start, end) in chunks, of worker 0. */
struct kvc_key scene_key(const char *request_id, int64_t chunks, int64_t start, int64_t end);
void scene_enroll(struct scene *scene, bool has_pool);
void scene_enroll_mapped(struct scene *scene); /* 8 blocks of 4 tokens */
void scene_leave(struct scene *scene);
void scene_leave_mapped(struct scene *scene);
/* LOOKUP and its result. */
void scene_look_up(struct scene *scene, const char *request_id, int64_t chunks, int64_t hits);
void scene_end(struct scene *scene, const char *request_id);
void scene_prepare_store(struct scene *scene, const struct kvc_key *key, size_t slots);
void scene_commit_store(struct scene *scene, const struct kvc_key *key);
void scene_prepare_retrieve(struct scene *scene, const struct kvc_key *key, size_t slots);
void scene_commit_retrieve(struct scene *scene, const struct kvc_key *key);
/* STORE and RETRIEVE of [start, end) chunks with blocks 0, 1, … */
struct kvc_request scene_mapped(enum kvc_op op, const struct kvc_key *key);
void scene_transfer(struct scene *scene, enum kvc_op op, const struct kvc_key *key);

#endif
