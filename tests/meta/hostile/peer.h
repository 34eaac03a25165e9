/* A peer that lies to its client in one named way. Requests go to a mock server behind it; what that
 * answers is spoiled on the way back, so that a client gets as far as the lie. For this folder. */
#ifndef KVC_TESTS_META_HOSTILE_PEER_H
#define KVC_TESTS_META_HOSTILE_PEER_H

#include "src/kv/segment.h"
#include "src/link/server.h"
#include "src/wire/message.h"

struct behaviour;

struct peer {
    const struct behaviour *behaviour;
    const struct kvc_dialect *dialect;
    struct kvc_server *front; /* what the client talks to */
    struct kvc_segment decoy; /* a pool of the peer's own, for behaviours that offer one */
    char made_path[128];      /* something else in the folder of segments; removed at the end */
    size_t spoiled;           /* replies spoiled so far */
    struct kvc_buffer held;   /* who waits for somebody else's reply */
    struct kvc_frames held_reply;
};

/* One answer of the mock on its way. */
struct exchange {
    struct kvc_bytes identity;        /* the client's */
    const struct kvc_frames *request; /* [uid, op, payload…] */
    enum kvc_op op;
    struct kvc_frames reply; /* [uid, op] or [uid, op, result]; what is left in it is sent */
};

#define OP_BIT(op)   ((uint64_t)1 << (op))
#define ALL_OPS      (~(uint64_t)0)
#define REGISTER_OPS (OP_BIT(KVC_OP_REGISTER_ENGINE_DRIVEN) | OP_BIT(KVC_OP_REGISTER_KV_CACHE))
#define SESSION_OPS                                                                                \
    (OP_BIT(KVC_OP_LOOKUP) | OP_BIT(KVC_OP_FREE_LOOKUP_LOCKS) | OP_BIT(KVC_OP_END_SESSION))
#define TRANSFER_OPS                                                                               \
    (OP_BIT(KVC_OP_PREPARE_STORE) | OP_BIT(KVC_OP_COMMIT_STORE) |                                  \
     OP_BIT(KVC_OP_PREPARE_RETRIEVE) | OP_BIT(KVC_OP_COMMIT_RETRIEVE) | OP_BIT(KVC_OP_STORE) |     \
     OP_BIT(KVC_OP_RETRIEVE))

/* How a behaviour lies: by one of the functions, or by bytes. */
struct behaviour {
    const char *name;
    const char *summary;
    /* What `identify`, `run`, `bench server` over engine_driven and over lmcache_driven end with. */
    const char *exits;
    uint64_t ops; /* whose replies are spoiled */
    /* Changes exchange->reply, or sends something else before it. */
    void (*spoil)(struct peer *peer, struct exchange *exchange);
    /* Changes a reply that has been decoded; views may point into its arena. */
    void (*revise)(struct peer *peer, struct kvc_reply *reply);
    struct kvc_bytes result;    /* becomes the result frame */
    bool inline_only;           /* the mock behind offers no pool */
    int64_t decoy_bytes;        /* > 0: the registration offers the decoy, of that size */
    void (*serve_zmq)(int fd);  /* speaks on a TCP connection instead of the ZMQ server */
    void (*serve_http)(int fd); /* speaks on a TCP connection instead of the HTTP server */
};

struct behaviours {
    const struct behaviour *items;
    size_t count;
};

/* The tables. A row of hostile_frames is for any operation: peer.c sets its ops. */
extern const struct behaviours hostile_frames; /* shapes and bytes of any reply */
extern const struct behaviours hostile_values; /* what a reply says of pools, chunk sizes, counts */
extern const struct behaviours hostile_slots;  /* where chunks are */
extern const struct behaviours hostile_inline; /* pickles */
extern const struct behaviours hostile_sockets; /* below ZMQ */
extern const struct behaviours hostile_web;     /* HTTP */

/* For spoil functions: sends a copy of frames to a client. */
void peer_send(struct peer *peer, struct kvc_bytes identity, const struct kvc_frames *frames);
/* For revise functions: a text of that many characters, in the arena. */
struct kvc_str reply_repeat(struct kvc_reply *reply, char c, size_t count);
/* Replaces, adds or removes the result frame. Takes the buffer over. */
void exchange_set_result(struct exchange *exchange, struct kvc_buffer *result);
void exchange_drop_result(struct exchange *exchange);

/* A thread that accepts on a free TCP port of 127.0.0.1 and gives each connection to serve, in a thread
 * of its own. Writes "SCHEME://127.0.0.1:PORT" to url. */
void hostile_listen(void (*serve)(int fd), const char *scheme, char *url, size_t url_size);
/* For serve functions. False when the other side is gone. */
bool hostile_write(int fd, const void *data, size_t size);
bool hostile_write_text(int fd, const char *text);
/* Reads until there is nothing for a moment, or until the other side is gone. */
void hostile_read_some(int fd);
/* Waits until the other side is gone. */
void hostile_wait_gone(int fd);
/* Writes a byte again and again until the other side is gone, or `bytes` are written (0: for ever). */
void hostile_write_filler(int fd, char filler, uint64_t bytes);

#endif
