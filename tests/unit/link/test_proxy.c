#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "src/base/clock.h"
#include "src/link/proxy.h"
#include "tests/unit/link/peer.h"

/* A proxy in a thread of its own, in front of a peer, and what it has shown. */
struct scene {
    struct peer peer;
    struct kvc_proxy *proxy;
    pthread_t thread;
    volatile bool stop;
    char shown[4096]; /* "0>5 0<5 …": client, direction, first byte of the uid in hex */
    struct kvc_client *client;
};

static struct scene scene;

static void show(void *user, int64_t client, bool from_server, const struct kvc_frames *frames,
                 int64_t now_ns)
{
    (void)user, (void)now_ns;
    const size_t used = strlen(scene.shown);
    snprintf(scene.shown + used, sizeof(scene.shown) - used, "%lld%c%x ", (long long)client,
             from_server ? '<' : '>', frames->items[0].size > 0 ? frames->items[0].data[0] : 0);
}

static void *serve(void *unused)
{
    while (!scene.stop)
        kvc_proxy_serve(scene.proxy, 20, NULL);
    return unused;
}

static struct kvc_client *connect_client(void)
{
    struct kvc_client *client = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_client_open(kvc_proxy_url(scene.proxy), 5000, &client, &err), KVC_OK, "%s",
                 err.what);
    return client;
}

static void start(peer_script *script)
{
    struct kvc_error err = KVC_ERROR_INIT;
    peer_start(&scene.peer, "tcp://127.0.0.1:0", script, NULL);
    cr_assert_eq(
        kvc_proxy_open("tcp://127.0.0.1:0", scene.peer.url, 5000, show, NULL, &scene.proxy, &err),
        KVC_OK, "%s", err.what);
    pthread_create(&scene.thread, NULL, serve, NULL);
    scene.client = connect_client();
}

static void finish(void)
{
    kvc_client_close(scene.client);
    scene.stop = true;
    pthread_join(scene.thread, NULL);
    kvc_proxy_close(scene.proxy);
    peer_stop(&scene.peer);
}

static void echo(struct peer *peer, const struct kvc_frames *message)
{
    peer_answer(peer, message, "c3");
}

static void expect_answered(struct kvc_client *client, uint64_t uid)
{
    struct kvc_frames reply = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_client_wait(client, uid, 5000, &reply, &err), KVC_OK, "%s", err.what);
    cr_assert_eq(reply.count, 3u);
    cr_assert(frame_is(&reply, 2, "c3"));
    kvc_frames_clear(&reply);
}

Test(proxy, passes_messages_both_ways_and_shows_them)
{
    start(echo);
    expect_answered(scene.client, send_op(scene.client, "18"));
    expect_answered(scene.client, send_op(scene.client, "18"));
    finish();
    cr_assert_str_eq(scene.shown, "0>0 0<0 0>1 0<1 ");
}

Test(proxy, passes_many_messages_in_flight_in_order)
{
    enum { MESSAGES = 500 };
    uint64_t uids[MESSAGES];
    start(echo);
    for (int i = 0; i < MESSAGES; i++)
        uids[i] = send_op(scene.client, "18");
    for (int i = 0; i < MESSAGES; i++)
        expect_answered(scene.client, uids[i]);
    cr_assert_eq(scene.peer.received, (size_t)MESSAGES);
    finish();
}

Test(proxy, passes_large_frames_whole)
{
    enum { SIZE = 8 << 20 };
    start(echo);
    struct kvc_frames body = {0};
    struct kvc_buffer large = {0};
    uint64_t uid = 0;
    kvc_buffer_reserve(&large, SIZE);
    memset(large.data, 7, SIZE);
    large.size = SIZE;
    kvc_frames_append_copy(&body, "\x18", 1);
    kvc_frames_append_buffer(&body, &large);
    cr_assert_eq(kvc_client_send(scene.client, &body, &uid, NULL), KVC_OK);
    expect_answered(scene.client, uid);
    finish();
}

static void keep_first_then_answer_both(struct peer *peer, const struct kvc_frames *message)
{
    static struct kvc_buffer first;
    if (peer->received == 1) {
        kvc_frames_copy(message, &peer->kept[0]);
        kvc_buffer_append(&first, peer->identity.data, peer->identity.size);
        return;
    }
    peer_answer(peer, message, "c3");
    peer->identity = kvc_buffer_view(&first);
    peer_answer(peer, &peer->kept[0], "c3");
    kvc_frames_clear(&peer->kept[0]);
    kvc_buffer_clear(&first);
}

Test(proxy, each_client_is_one_of_its_own_to_the_server)
{
    start(keep_first_then_answer_both);
    struct kvc_client *second = connect_client();
    const uint64_t uid = send_op(scene.client, "18");
    while (scene.peer.received < 1)
        kvc_sleep_ms(1);
    expect_answered(second, send_op(second, "18"));
    expect_answered(scene.client, uid);
    kvc_client_close(second);
    finish();
    cr_assert_eq(strncmp(scene.shown, "0>0 1>0 ", 8), 0, "%s", scene.shown);
}

static struct kvc_buffer seen_identity;

static void keep_identity(struct peer *peer, const struct kvc_frames *message)
{
    kvc_buffer_append(&seen_identity, peer->identity.data, peer->identity.size);
    peer_answer(peer, message, "c3");
}

Test(proxy, keeps_an_identity_that_the_client_has_chosen)
{
    start(keep_identity);
    void *context = zmq_ctx_new();
    void *dealer = zmq_socket(context, ZMQ_DEALER);
    const int no_linger = 0;
    char byte[8];
    zmq_setsockopt(dealer, ZMQ_LINGER, &no_linger, sizeof(no_linger));
    zmq_setsockopt(dealer, ZMQ_ROUTING_ID, "worker-7", 8);
    cr_assert_eq(zmq_connect(dealer, kvc_proxy_url(scene.proxy)), 0);
    zmq_send(dealer, "\x01", 1, ZMQ_SNDMORE);
    zmq_send(dealer, "\x18", 1, 0);
    cr_assert_eq(zmq_recv(dealer, byte, sizeof(byte), 0), 1);
    zmq_close(dealer);
    zmq_ctx_term(context);
    cr_assert_str_eq(kvc_buffer_text(&seen_identity), "worker-7");
    kvc_buffer_clear(&seen_identity);
    finish();
}

Test(proxy, messages_of_one_frame_pass_as_well)
{
    start(echo);
    struct kvc_frames one = {0};
    kvc_frames_append_copy(&one, "\x2a", 1);
    cr_assert_eq(kvc_client_send_raw(scene.client, &one, NULL), KVC_OK);
    expect_answered(scene.client, send_op(scene.client, "18"));
    finish();
    cr_assert_eq(strncmp(scene.shown, "0>2a 0>0 ", 9), 0, "%s", scene.shown);
}

Test(proxy, finds_a_server_again_that_went_away)
{
    start(echo);
    char url[128];
    snprintf(url, sizeof(url), "%s", scene.peer.url);
    expect_answered(scene.client, send_op(scene.client, "18"));
    peer_stop(&scene.peer);
    scene.peer = (struct peer){0};
    peer_start(&scene.peer, url, echo, NULL);
    expect_answered(scene.client, send_op(scene.client, "18"));
    finish();
}

/* ---- what cannot be opened ---- */

Test(proxy, says_that_nobody_answers)
{
    struct kvc_proxy *proxy = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        kvc_proxy_open("tcp://127.0.0.1:0", "tcp://127.0.0.1:1", 200, show, NULL, &proxy, &err),
        KVC_ECONNECT);
    cr_assert_null(proxy);
    cr_assert_not_null(strstr(err.what, "refused"), "%s", err.what);
}

Test(proxy, says_that_its_address_is_taken)
{
    struct kvc_proxy *proxy = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    struct peer peer = {0};
    peer_start(&peer, "tcp://127.0.0.1:0", echo, NULL);
    cr_assert_eq(kvc_proxy_open(peer.url, peer.url, 5000, show, NULL, &proxy, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "in use"), "%s", err.what);
    cr_assert_eq(kvc_proxy_open("tcp://nowhere", peer.url, 5000, show, NULL, &proxy, &err),
                 KVC_EUSAGE);
    peer_stop(&peer);
}

Test(proxy, waits_no_longer_than_asked_and_stops_when_told)
{
    static volatile int stop;
    struct kvc_proxy *proxy = NULL;
    struct peer peer = {0};
    peer_start(&peer, "tcp://127.0.0.1:0", echo, NULL);
    cr_assert_eq(kvc_proxy_open("tcp://127.0.0.1:0", peer.url, 5000, show, NULL, &proxy, NULL),
                 KVC_OK);
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_proxy_serve(proxy, 60, NULL), KVC_ETIMEOUT);
    const int64_t took = kvc_now_ms() - started;
    cr_assert(took >= 60 && took < 2000, "%lld ms", (long long)took);
    stop = 1;
    kvc_link_set_stop_flag(&stop);
    cr_assert_eq(kvc_proxy_serve(proxy, 60000, NULL), KVC_EINTERRUPTED);
    kvc_link_set_stop_flag(NULL);
    kvc_proxy_close(proxy);
    peer_stop(&peer);
}
