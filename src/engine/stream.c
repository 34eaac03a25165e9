#include "src/engine/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "src/base/clock.h"
#include "src/engine/transfer.h"

enum {
    MAX_REFUSAL = 16 << 10,    /* of an error's body; the rest is not read */
    MAX_TEXT = 4 << 20,        /* of a kept text */
    MAX_STREAM = 1 << 30,      /* bytes of one stream */
    SPARE_EVENTS = 64,         /* beyond one for each token asked for */
    CLOSING_TIMEOUT_MS = 5000, /* from [DONE] to the end of the response */
};

/* ---- events ---- */

static kvc_status take_text(struct kvc_engine_stream *stream, int64_t now, struct kvc_error *err)
{
    struct kvc_engine_reply *reply = &stream->reply;
    if (reply->text_events == 0)
        reply->first_token_ns = now;
    else if (stream->request.on_token != NULL)
        stream->request.on_token(stream->request.user, now - reply->last_token_ns);
    reply->last_token_ns = now;
    reply->text_events++;
    stream->progress_ns = now;
    if (reply->text_events > stream->request.max_tokens + SPARE_EVENTS)
        return kvc_fail(err, KVC_EFORMAT,
                        "the engine does not stop: %lld events with text for %lld tokens",
                        (long long)reply->text_events, (long long)stream->request.max_tokens);
    if (!stream->request.keep_text)
        return KVC_OK;
    if (stream->event.text.size > MAX_TEXT - stream->text.size)
        return kvc_fail(err, KVC_EFORMAT, "the text is longer than %d MiB", MAX_TEXT >> 20);
    kvc_buffer_append(&stream->text, stream->event.text.data, stream->event.text.size);
    return KVC_OK;
}

static kvc_status take_event(void *user, struct kvc_str data, struct kvc_error *err)
{
    struct kvc_engine_stream *stream = user;
    struct kvc_engine_reply *reply = &stream->reply;
    struct kvc_engine_event *event = &stream->event;
    if (stream->is_ended)
        return KVC_OK;
    KVC_GUARD(kvc_engine_event_read(data, event, err));
    const int64_t now = kvc_now_ns();
    if (event->text.size > 0)
        KVC_GUARD(take_text(stream, now, err));
    if (event->prompt_tokens >= 0) {
        reply->prompt_tokens = event->prompt_tokens;
        reply->completion_tokens = event->completion_tokens;
    }
    /* A token without text, such as the end of the sequence, is there when the choice is finished. An
     * event before that may be a greeting sent before the engine has done anything. */
    if (reply->first_token_ns == 0 && event->is_finish)
        reply->first_token_ns = now;
    if (event->is_finish || event->is_end) {
        stream->progress_ns = now;
        reply->finished_ns = now;
    }
    stream->is_finished = stream->is_finished || event->is_finish;
    stream->is_ended = event->is_end;
    return KVC_OK;
}

/* ---- bytes ---- */

static kvc_status look_at_head(struct kvc_engine_stream *stream, struct kvc_error *err)
{
    static const char expected[] = "text/event-stream";
    long code = 0;
    const char *type = NULL;
    curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_getinfo(stream->curl, CURLINFO_CONTENT_TYPE, &type);
    stream->has_head = true;
    stream->is_stream = code == 200;
    if (!stream->is_stream ||
        (type != NULL && strncasecmp(type, expected, sizeof(expected) - 1) == 0))
        return KVC_OK;
    return kvc_fail(err, KVC_EFORMAT, "the answer is no event stream: its Content-Type is %s",
                    type == NULL ? "missing" : kvc_text_show(kvc_str_of(type)).text);
}

static kvc_status take_bytes(struct kvc_engine_stream *stream, struct kvc_str bytes)
{
    if (!stream->has_head)
        KVC_GUARD(look_at_head(stream, &stream->err));
    if (stream->is_stream) {
        if (stream->sse.received > MAX_STREAM)
            return kvc_fail(&stream->err, KVC_EFORMAT, "the stream is longer than %d MiB",
                            MAX_STREAM >> 20);
        return kvc_sse_feed(&stream->sse, bytes, &stream->err);
    }
    if (bytes.size > MAX_REFUSAL - stream->refusal.size)
        bytes.size = MAX_REFUSAL - stream->refusal.size;
    kvc_buffer_append(&stream->refusal, bytes.data, bytes.size);
    return stream->refusal.size < MAX_REFUSAL ? KVC_OK : KVC_EREFUSED;
}

/* Taking fewer bytes than came ends the transfer. */
static size_t on_bytes(char *data, size_t size, size_t count, void *user)
{
    const struct kvc_str bytes = {data, size * count};
    return take_bytes(user, bytes) == KVC_OK ? bytes.size : 0;
}

struct kvc_engine_stream *kvc_engine_stream_new(const char *url, struct curl_slist *headers,
                                                const struct kvc_engine_request *request)
{
    struct kvc_engine_stream *stream = kvc_alloc_zero(1, sizeof(*stream));
    stream->request = *request;
    stream->reply.prompt_tokens = stream->reply.completion_tokens = -1;
    stream->sse.take = take_event;
    stream->sse.user = stream;
    stream->curl = kvc_engine_transfer_new(url, headers, stream->problem);
    curl_easy_setopt(stream->curl, CURLOPT_PRIVATE, stream);
    curl_easy_setopt(stream->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.size);
    curl_easy_setopt(stream->curl, CURLOPT_POSTFIELDS, request->body.data);
    curl_easy_setopt(stream->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(stream->curl, CURLOPT_WRITEDATA, stream);
    return stream;
}

/* ---- the outcome ---- */

/* More than any engine takes, and few enough to be added up. */
enum { MOST_PROMPT_TOKENS = 1 << 30 };

static kvc_status judge_tokens(const struct kvc_engine_stream *stream, struct kvc_error *err)
{
    const struct kvc_engine_reply *reply = &stream->reply;
    if (reply->completion_tokens < 0)
        return kvc_fail(err, KVC_EFORMAT, "the engine sent no usage: its tokens cannot be counted");
    if (reply->prompt_tokens < 1 || reply->prompt_tokens > MOST_PROMPT_TOKENS)
        return kvc_fail(err, KVC_EFORMAT,
                        "the usage counts %lld prompt tokens, which no prompt has",
                        (long long)reply->prompt_tokens);
    if (reply->completion_tokens == 0)
        return kvc_fail(err, KVC_EFORMAT, "the engine generated no token");
    if (reply->completion_tokens > stream->request.max_tokens)
        return kvc_fail(err, KVC_EFORMAT,
                        "the usage counts %lld generated tokens, at most %lld were asked for",
                        (long long)reply->completion_tokens, (long long)stream->request.max_tokens);
    return KVC_OK;
}

/* A response that ended as HTTP ends. */
static kvc_status judge(struct kvc_engine_stream *stream, struct kvc_error *err)
{
    if (!stream->has_head)
        KVC_GUARD(look_at_head(stream, err));
    if (!stream->is_stream)
        return kvc_engine_refusal(
            stream->curl,
            (struct kvc_str){(const char *)stream->refusal.data, stream->refusal.size}, err);
    if (!stream->is_ended && (kvc_sse_is_cut(&stream->sse) || !stream->is_finished))
        return kvc_fail(err, KVC_ELOST, "the stream ended halfway, after %lld events with text",
                        (long long)stream->reply.text_events);
    return judge_tokens(stream, err);
}

static void fail(struct kvc_engine_stream *stream, const struct kvc_error *err)
{
    char line[sizeof(*err)];
    kvc_error_line(err, line, sizeof(line));
    stream->reply.is_ok = false;
    stream->reply.status = err->status;
    snprintf(stream->reply.problem, sizeof(stream->reply.problem), "%.*s",
             (int)sizeof(stream->reply.problem) - 1, line);
}

static void finish(struct kvc_engine_stream *stream)
{
    struct kvc_engine_reply *reply = &stream->reply;
    if (reply->finished_ns == 0 || !reply->is_ok)
        reply->finished_ns = kvc_now_ns();
    reply->text = (struct kvc_str){(const char *)stream->text.data, stream->text.size};
}

void kvc_engine_stream_conclude(struct kvc_engine_stream *stream, CURLcode code)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_status status;
    if (stream->err.status != KVC_OK)
        status = (err = stream->err).status;
    else if (code == CURLE_OK || stream->is_ended || stream->refusal.size >= MAX_REFUSAL)
        status = judge(stream, &err);
    else
        status = kvc_engine_transfer_fail(stream->curl, code, stream->problem, &err);
    stream->reply.is_ok = status == KVC_OK;
    if (status != KVC_OK)
        fail(stream, &err);
    finish(stream);
}

int64_t kvc_engine_stream_deadline(const struct kvc_engine_stream *stream, int64_t timeout_ms)
{
    return stream->progress_ns +
           (stream->is_ended ? CLOSING_TIMEOUT_MS : timeout_ms) * INT64_C(1000000);
}

void kvc_engine_stream_expire(struct kvc_engine_stream *stream, int64_t timeout_ms)
{
    struct kvc_error err = KVC_ERROR_INIT;
    if (stream->is_ended) {
        kvc_engine_stream_conclude(stream, CURLE_OK);
        return;
    }
    kvc_fail(&err, KVC_ETIMEOUT, "nothing came for %.3g s, after %lld events with text",
             (double)timeout_ms / 1000, (long long)stream->reply.text_events);
    fail(stream, &err);
    finish(stream);
}

void kvc_engine_stream_drop(struct kvc_engine_stream *stream)
{
    struct kvc_error err = KVC_ERROR_INIT;
    kvc_fail(&err, KVC_EINTERRUPTED, "interrupted");
    fail(stream, &err);
    finish(stream);
}

void kvc_engine_stream_free(struct kvc_engine_stream *stream)
{
    curl_easy_cleanup(stream->curl);
    kvc_sse_clear(&stream->sse);
    kvc_engine_event_clear(&stream->event);
    kvc_buffer_clear(&stream->request.body);
    kvc_buffer_clear(&stream->refusal);
    kvc_buffer_clear(&stream->text);
    free(stream);
}
