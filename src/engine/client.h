/* Streamed chat completions from an OpenAI-compatible engine: any number in flight in one thread, each
 * followed event by event. For the bench. */
#ifndef KVC_ENGINE_CLIENT_H
#define KVC_ENGINE_CLIENT_H

#include "src/base/bytes.h"

struct kvc_engine_client;

/* What became of a request. Times are of kvc_now_ns; 0: it did not get there. */
struct kvc_engine_reply {
    bool is_ok;
    char problem[512]; /* why it is not */
    kvc_status
        status; /* what kind of problem: KVC_ECONNECT, KVC_ELOST, KVC_ETIMEOUT, KVC_EREFUSED (the
                          engine said no), KVC_EFORMAT (what it sent is no such stream) */
    int64_t sent_ns;
    int64_t first_token_ns;
    int64_t last_token_ns;
    int64_t finished_ns;
    int64_t text_events;       /* events with text; one may hold several tokens */
    int64_t prompt_tokens;     /* as the engine reports them; -1: it did not */
    int64_t completion_tokens; /* likewise */
    struct kvc_str text;       /* what was generated, if keep_text; lives until done returns */
};

struct kvc_engine_request {
    struct kvc_buffer body; /* JSON; the client takes it over */
    int64_t max_tokens;     /* that the body asks for: whoever sends many more is stopped */
    bool keep_text;
    /* Called for each event with text but the first: nanoseconds since the one before. May be NULL. */
    void (*on_token)(void *user, int64_t gap_ns);
    /* Called once, from kvc_engine_client_step. May send further requests. */
    void (*on_done)(void *user, const struct kvc_engine_reply *reply);
    void *user;
};

struct kvc_engine_options {
    const char *base_url; /* of kvc_engine_base_url */
    const char *api_key;  /* NULL or "": none */
    int64_t timeout_ms;   /* for a stream to bring no further text before it is given up */
};

/* The address requests go to: "http://" is put in front if there is no scheme, "http://localhost:" if
 * text is a port, and with_v1 appends "/v1" unless it ends so. The caller frees *url. KVC_EUSAGE. */
kvc_status kvc_engine_base_url(const char *text, bool with_v1, char **url, struct kvc_error *err);
/* KVC_EUSAGE if the key of OPENAI_API_KEY cannot be sent as it is. */
kvc_status kvc_engine_check_api_key(const char *api_key, struct kvc_error *err);

/* Opens a client; nothing is connected yet. As many files may be open afterwards as the system allows.
 * KVC_ESYSTEM. */
kvc_status kvc_engine_client_open(const struct kvc_engine_options *options,
                                  struct kvc_engine_client **client, struct kvc_error *err);
/* Starts a request. It moves in kvc_engine_client_step only. */
void kvc_engine_client_send(struct kvc_engine_client *client,
                            const struct kvc_engine_request *request);
/* Waits for news until deadline_ns (kvc_now_ns) or a signal, moves every stream on, and calls on_done for
 * those that ended. Returns at once when none is in flight and the deadline has passed. KVC_ESYSTEM. */
kvc_status kvc_engine_client_step(struct kvc_engine_client *client, int64_t deadline_ns,
                                  struct kvc_error *err);
size_t kvc_engine_client_in_flight(const struct kvc_engine_client *client);
/* Gives up what is in flight: on_done is told KVC_EINTERRUPTED, and must not send. */
void kvc_engine_client_drop(struct kvc_engine_client *client);
/* Drops what is in flight, and closes. client may be NULL. */
void kvc_engine_client_close(struct kvc_engine_client *client);

#endif
