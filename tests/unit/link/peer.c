#include "tests/unit/link/peer.h"

#include <criterion/criterion.h>
#include <unistd.h>

struct kvc_frames frames_from_hex(const char *const *hex, size_t count)
{
    struct kvc_frames frames = {0};
    for (size_t i = 0; i < count; i++) {
        struct kvc_buffer bytes = {0};
        cr_assert_eq(kvc_hex_decode(kvc_str_of(hex[i]), &bytes, NULL), KVC_OK);
        kvc_frames_append_copy(&frames, bytes.data, bytes.size);
        kvc_buffer_clear(&bytes);
    }
    return frames;
}

bool frame_is(const struct kvc_frames *frames, size_t index, const char *hex)
{
    struct kvc_frames expected = frames_from_hex(&hex, 1);
    const bool same = index < frames->count && kvc_bytes_equal(kvc_frames_view(frames, index),
                                                               kvc_frames_view(&expected, 0));
    kvc_frames_clear(&expected);
    return same;
}

void peer_send_hex(struct peer *peer, const char *const *hex, size_t count)
{
    struct kvc_frames frames = frames_from_hex(hex, count);
    cr_assert_eq(kvc_server_send(peer->server, peer->identity, &frames, NULL), KVC_OK);
}

void peer_answer(struct peer *peer, const struct kvc_frames *message, const char *result)
{
    struct kvc_frames frames = {0};
    for (size_t i = 0; i < 2 && i < message->count; i++)
        kvc_frames_append_copy(&frames, message->items[i].data, message->items[i].size);
    if (result != NULL) {
        struct kvc_frames third = frames_from_hex(&result, 1);
        kvc_frames_append_copy(&frames, third.items[0].data, third.items[0].size);
        kvc_frames_clear(&third);
    }
    cr_assert_eq(kvc_server_send(peer->server, peer->identity, &frames, NULL), KVC_OK);
}

void peer_answer_ok(struct peer *peer, const struct kvc_frames *message)
{
    peer_answer(peer, message, "a24f4b");
}

void peer_answer_twice(struct peer *peer, const struct kvc_frames *message)
{
    peer_answer(peer, message, "01");
    peer_answer(peer, message, "02");
}

void peer_stay_silent(struct peer *peer, const struct kvc_frames *message)
{
    (void)peer, (void)message;
}

static void *serve(void *user)
{
    struct peer *peer = user;
    kvc_status status;
    do {
        struct kvc_buffer identity = {0};
        struct kvc_frames message = {0};
        status = kvc_server_receive(peer->server, -1, &identity, &message, NULL);
        if (status == KVC_OK) {
            peer->received++;
            peer->identity = kvc_buffer_view(&identity);
            peer->script(peer, &message);
        }
        kvc_frames_clear(&message);
        kvc_buffer_clear(&identity);
    } while (status != KVC_EINTERRUPTED);
    kvc_server_close(peer->server);
    return NULL;
}

void peer_start(struct peer *peer, const char *url, peer_script *script, void *user)
{
    struct kvc_error err = KVC_ERROR_INIT;
    *peer = (struct peer){.script = script, .user = user};
    cr_assert_eq(kvc_server_open(url, &peer->server, &err), KVC_OK, "%s", err.what);
    peer->url = kvc_strdup(kvc_server_url(peer->server));
    cr_assert_eq(pipe(peer->stop_pipe), 0);
    kvc_server_set_wake_fd(peer->server, peer->stop_pipe[0]);
    cr_assert_eq(pthread_create(&peer->thread, NULL, serve, peer), 0);
}

void peer_stop(struct peer *peer)
{
    close(peer->stop_pipe[1]);
    pthread_join(peer->thread, NULL);
    close(peer->stop_pipe[0]);
    for (size_t i = 0; i < KVC_COUNT_OF(peer->kept); i++)
        kvc_frames_clear(&peer->kept[i]);
    free((char *)(uintptr_t)peer->url);
}

struct kvc_client *client_for(const struct peer *peer)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_client *client = NULL;
    cr_assert_eq(kvc_client_open(peer->url, 5000, &client, &err), KVC_OK, "%s", err.what);
    return client;
}

uint64_t send_op(struct kvc_client *client, const char *op_hex)
{
    struct kvc_frames body = frames_from_hex(&op_hex, 1);
    uint64_t uid = 0;
    cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_OK);
    return uid;
}

kvc_status wait_for_reply(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                          struct kvc_frames *reply)
{
    *reply = (struct kvc_frames){0};
    return kvc_client_wait(client, uid, timeout_ms, reply, NULL);
}

void expect_answer(struct kvc_client *client, uint64_t uid, const char *result_hex)
{
    struct kvc_frames reply;
    cr_assert_eq(wait_for_reply(client, uid, 5000, &reply), KVC_OK);
    cr_assert_eq(reply.count, 3);
    cr_assert(frame_is(&reply, 2, result_hex));
    kvc_frames_clear(&reply);
}

void expect_counters(const struct kvc_client *client, uint64_t late, uint64_t duplicate,
                     uint64_t unknown)
{
    const struct kvc_client_counters counters = kvc_client_counters(client);
    cr_assert_eq(counters.late, late);
    cr_assert_eq(counters.duplicate, duplicate);
    cr_assert_eq(counters.unknown, unknown);
}
