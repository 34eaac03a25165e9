#include "src/engine/client.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "src/base/clock.h"
#include "src/engine/loop.h"
#include "src/engine/stream.h"
#include "src/engine/transfer.h"

enum { EXPIRY_INTERVAL_MS = 100 };

struct kvc_engine_client {
    struct kvc_engine_loop loop;
    struct curl_slist *headers;
    char *url;
    int64_t timeout_ms;
    struct kvc_engine_stream streams; /* the head of a ring; only next and previous are used */
    size_t in_flight;
    int64_t expiry_ns; /* when to look for streams past their deadline next */
};

/* A stream is a connection is a descriptor. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

kvc_status kvc_engine_client_open(const struct kvc_engine_options *options,
                                  struct kvc_engine_client **out, struct kvc_error *err)
{
    struct kvc_engine_client *client = kvc_alloc_zero(1, sizeof(*client));
    const kvc_status status = kvc_engine_loop_open(&client->loop, err);
    if (status != KVC_OK) {
        free(client);
        return status;
    }
    raise_file_limit();
    client->url = kvc_format("%s/chat/completions", options->base_url);
    client->headers = kvc_engine_headers_new(options->api_key);
    client->timeout_ms = options->timeout_ms;
    client->streams.next = client->streams.previous = &client->streams;
    *out = client;
    return KVC_OK;
}

void kvc_engine_client_send(struct kvc_engine_client *client,
                            const struct kvc_engine_request *request)
{
    struct kvc_engine_stream *stream = kvc_engine_stream_new(client->url, client->headers, request);
    stream->previous = client->streams.previous;
    stream->next = &client->streams;
    stream->previous->next = client->streams.previous = stream;
    client->in_flight++;
    stream->reply.sent_ns = stream->progress_ns = kvc_now_ns();
    curl_multi_add_handle(client->loop.multi, stream->curl);
}

/* Takes the stream out before on_done is called, which may send again. */
static void end_stream(struct kvc_engine_client *client, struct kvc_engine_stream *stream)
{
    curl_multi_remove_handle(client->loop.multi, stream->curl);
    stream->previous->next = stream->next;
    stream->next->previous = stream->previous;
    client->in_flight--;
}

static void report(struct kvc_engine_stream *stream)
{
    stream->request.on_done(stream->request.user, &stream->reply);
    kvc_engine_stream_free(stream);
}

static void take_ended(struct kvc_engine_client *client)
{
    int left;
    const CURLMsg *message;
    while ((message = curl_multi_info_read(client->loop.multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        struct kvc_engine_stream *stream = NULL;
        const CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &stream);
        kvc_engine_stream_conclude(stream, code);
        end_stream(client, stream);
        report(stream);
    }
}

static void take_expired(struct kvc_engine_client *client)
{
    const int64_t now = kvc_now_ns();
    if (now < client->expiry_ns)
        return;
    client->expiry_ns = now + EXPIRY_INTERVAL_MS * INT64_C(1000000);
    struct kvc_engine_stream *next;
    for (struct kvc_engine_stream *stream = client->streams.next; stream != &client->streams;
         stream = next) {
        next = stream->next;
        if (now < kvc_engine_stream_deadline(stream, client->timeout_ms))
            continue;
        kvc_engine_stream_expire(stream, client->timeout_ms);
        end_stream(client, stream);
        report(stream);
    }
}

kvc_status kvc_engine_client_step(struct kvc_engine_client *client, int64_t deadline_ns,
                                  struct kvc_error *err)
{
    const int64_t until =
        client->in_flight > 0 && client->expiry_ns < deadline_ns ? client->expiry_ns : deadline_ns;
    KVC_GUARD(kvc_engine_loop_step(&client->loop, until, err));
    take_ended(client);
    take_expired(client);
    return KVC_OK;
}

size_t kvc_engine_client_in_flight(const struct kvc_engine_client *client)
{
    return client->in_flight;
}

void kvc_engine_client_drop(struct kvc_engine_client *client)
{
    while (client->streams.next != &client->streams) {
        struct kvc_engine_stream *stream = client->streams.next;
        kvc_engine_stream_drop(stream);
        end_stream(client, stream);
        report(stream);
    }
}

void kvc_engine_client_close(struct kvc_engine_client *client)
{
    if (client == NULL)
        return;
    kvc_engine_client_drop(client);
    kvc_engine_loop_close(&client->loop);
    curl_slist_free_all(client->headers);
    free(client->url);
    free(client);
}
