/* What a client of an MP server may do, as a model: fed with the messages that pass on the wire, it says
 * what the client does wrong (rules.h). It knows no sockets and never changes a message.
 * For `mock --strict`, `record --check` and `decode --check`. */
#ifndef KVC_WATCH_WATCH_H
#define KVC_WATCH_WATCH_H

#include "src/watch/rules.h"
#include "src/wire/dialect.h"
#include "src/wire/frames.h"

struct kvc_watch;

/* One thing that a client did wrong. Everything in it is valid during the call only. */
struct kvc_finding {
    const struct kvc_rule *rule;
    const char *detail;    /* what exactly; escaped, one line */
    struct kvc_str client; /* as it was given to kvc_watch_request; empty: nobody's in particular */
    enum kvc_op op;        /* of the request at hand; KVC_OP_NONE: none */
    const struct kvc_frames *frames; /* the request at hand; NULL: none */
};

typedef void kvc_watch_func(void *user, const struct kvc_finding *finding);

struct kvc_watch_options {
    const struct kvc_dialect *dialect;
    int64_t
        chunk_size; /* tokens; 0: what a GET_CHUNK_SIZE says, and until then nothing about windows */
    int64_t patience_ms;    /* a request unanswered for so long is given up by its client; 0: 5 s */
    int64_t session_ttl_ms; /* a session that old was forgotten; 0: 600 s */
    kvc_watch_func *found;
    void *user;
};

/* The watch is closed with kvc_watch_close. */
struct kvc_watch *kvc_watch_open(const struct kvc_watch_options *options);
void kvc_watch_close(struct kvc_watch *watch);

/* A message from a client, or to it. client tells connections apart and is shown to people; frames begin
 * with the uid; now_ms is any clock that does not run backwards. To be called in the order of the wire. */
void kvc_watch_request(struct kvc_watch *watch, struct kvc_str client,
                       const struct kvc_frames *frames, int64_t now_ms);
void kvc_watch_reply(struct kvc_watch *watch, struct kvc_str client,
                     const struct kvc_frames *frames);
/* The server will not answer that request, and why. A finding unless the request already was one. */
void kvc_watch_refused(struct kvc_watch *watch, struct kvc_str client,
                       const struct kvc_frames *frames, const char *reason);
/* What somebody else has seen a client do. client and frames may be empty and NULL. */
void kvc_watch_saw(struct kvc_watch *watch, enum kvc_rule_id rule, struct kvc_str client,
                   const struct kvc_frames *frames, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The server has dropped an instance of either mode by itself. */
void kvc_watch_dropped(struct kvc_watch *watch, int64_t instance_id);
/* Nothing more will come: what clients have left behind. */
void kvc_watch_finish(struct kvc_watch *watch);

size_t kvc_watch_findings(const struct kvc_watch *watch);
/* Requests that are, or were when their clients gave up, without a reply. */
size_t kvc_watch_unanswered(const struct kvc_watch *watch);

#endif
