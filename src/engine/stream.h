/* One streamed completion under way: what came so far, and what it amounts to. For client.c. */
#ifndef KVC_ENGINE_STREAM_H
#define KVC_ENGINE_STREAM_H

#include <curl/curl.h>

#include "src/engine/client.h"
#include "src/engine/event.h"
#include "src/engine/sse.h"

struct kvc_engine_stream {
    struct kvc_engine_stream *next, *previous;
    CURL *curl;
    struct kvc_engine_request request;
    struct kvc_engine_reply reply;
    struct kvc_sse sse;
    struct kvc_engine_event event; /* its text buffer is used again for each */
    struct kvc_buffer refusal;     /* the start of a body that is no stream */
    struct kvc_buffer text;        /* if keep_text */
    struct kvc_error err;          /* why the stream was given up */
    char problem[CURL_ERROR_SIZE]; /* libcurl's own words */
    bool has_head;                 /* status and content type were looked at */
    bool is_stream;                /* and promise one */
    bool is_finished;              /* a finish_reason came */
    bool is_ended;                 /* [DONE] came: nothing behind it counts */
    int64_t progress_ns;           /* when it last brought something, or was sent */
};

/* Makes a stream and its transfer; takes request->body over. */
struct kvc_engine_stream *kvc_engine_stream_new(const char *url, struct curl_slist *headers,
                                                const struct kvc_engine_request *request);
/* When the stream is given up unless it brings something. */
int64_t kvc_engine_stream_deadline(const struct kvc_engine_stream *stream, int64_t timeout_ms);
/* Fills stream->reply: of a transfer that ended with code, was given up at its deadline, or dropped. */
void kvc_engine_stream_conclude(struct kvc_engine_stream *stream, CURLcode code);
void kvc_engine_stream_expire(struct kvc_engine_stream *stream, int64_t timeout_ms);
void kvc_engine_stream_drop(struct kvc_engine_stream *stream);
void kvc_engine_stream_free(struct kvc_engine_stream *stream);

#endif
