#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/unit/link/peer.h"

#define ANY_PORT "tcp://127.0.0.1:0"

/* ---- what goes over the wire ---- */

static void round_trip(const char *url)
{
    struct peer peer;
    peer_start(&peer, url, peer_answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    const uint64_t uid = send_op(client, "15");
    cr_assert_eq(uid, 0);
    cr_assert_eq(wait_for_reply(client, uid, 5000, &reply), KVC_OK);
    struct kvc_frames expected = frames_from("00", "15", "a24f4b");
    cr_assert(kvc_frames_equal(&reply, &expected));
    kvc_frames_clear(&expected);
    kvc_frames_clear(&reply);
    expect_counters(client, 0, 0, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, one_round_trip_over_tcp)
{
    round_trip(ANY_PORT);
}

Test(client, one_round_trip_over_ipc)
{
    char url[64];
    snprintf(url, sizeof(url), "ipc:///tmp/kvconform-test-%d", (int)getpid());
    round_trip(url);
    cr_assert_neq(access(url + strlen("ipc://"), F_OK), 0, "the socket is left behind");
}

/* uids as msgpack writes them: fixint, uint8, uint16 (msgpack specification). */
static void check_uid_bytes(struct peer *peer, const struct kvc_frames *message)
{
    static const struct {
        size_t nth;
        const char *uid;
    } golden[] = {{1, "00"}, {128, "7f"}, {129, "cc80"}, {256, "ccff"}, {257, "cd0100"}};
    for (size_t i = 0; i < KVC_COUNT_OF(golden); i++) {
        if (golden[i].nth == peer->received && !frame_is(message, 0, golden[i].uid))
            return; /* and the wait for it times out */
    }
    if (message->count == 3 && frame_is(message, 1, "08") && frame_is(message, 2, "a172"))
        peer_answer(peer, message, NULL);
}

Test(client, requests_carry_a_msgpack_uid_from_0_and_then_the_body)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, check_uid_bytes, NULL);
    struct kvc_client *client = client_for(&peer);
    uint64_t uid = 0;
    for (size_t i = 0; i < 300; i++) {
        struct kvc_frames body = frames_from("08", "a172");
        cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_OK);
        cr_assert_eq(body.count, 0);
        cr_assert_eq(uid, i);
    }
    for (uid = 0; uid < 300; uid++) {
        struct kvc_frames reply;
        cr_assert_eq(wait_for_reply(client, uid, 2000, &reply), KVC_OK, "uid %llu",
                     (unsigned long long)uid);
        cr_assert_eq(reply.count, 2);
        kvc_frames_clear(&reply);
    }
    kvc_client_close(client);
    peer_stop(&peer);
}

static int released;

static void count_release(void *owner)
{
    released++;
    free(owner);
}

static void answer_with_length(struct peer *peer, const struct kvc_frames *message)
{
    const struct kvc_frame *data = &message->items[2];
    bool intact = data->size == 8u << 20;
    for (size_t i = 0; intact && i < data->size; i += 4099)
        intact = data->data[i] == (uint8_t)(i % 251);
    peer_answer(peer, message, intact ? "c3" : "c2");
}

Test(client, large_frames_arrive_whole_and_are_released_once)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_with_length, NULL);
    struct kvc_client *client = client_for(&peer);
    const size_t size = 8u << 20;
    uint8_t *data = kvc_alloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i % 251);
    struct kvc_frames body = frames_from("11");
    kvc_frames_append(&body, (struct kvc_frame){data, size, count_release, data});
    uint64_t uid;
    cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_OK);
    expect_answer(client, uid, "c3");
    kvc_client_close(client);
    peer_stop(&peer);
    cr_assert_eq(released, 1);
}

Test(client, borrowed_bytes_may_change_after_send)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_with_length, NULL);
    struct kvc_client *client = client_for(&peer);
    const size_t size = 8u << 20;
    uint8_t *data = kvc_alloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i % 251);
    struct kvc_frames body = frames_from("11");
    kvc_frames_append_view(&body, data, size);
    uint64_t uid;
    cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_OK);
    memset(data, 0xff, size);
    expect_answer(client, uid, "c3");
    free(data);
    kvc_client_close(client);
    peer_stop(&peer);
}

/* ---- matching ---- */

/* Keeps three requests, then answers them last to first, each with its own op as the result. */
static void answer_in_reverse(struct peer *peer, const struct kvc_frames *message)
{
    kvc_frames_copy(message, &peer->kept[peer->received - 1]);
    if (peer->received < 3)
        return;
    for (size_t i = 3; i-- > 0;) {
        struct kvc_buffer op = {0};
        kvc_hex_encode(kvc_frames_view(&peer->kept[i], 1), &op);
        peer_answer(peer, &peer->kept[i], kvc_buffer_text(&op));
        kvc_buffer_clear(&op);
    }
}

Test(client, replies_in_any_order_reach_their_requests)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_in_reverse, NULL);
    struct kvc_client *client = client_for(&peer);
    const uint64_t first = send_op(client, "01");
    const uint64_t second = send_op(client, "02");
    const uint64_t third = send_op(client, "03");
    expect_answer(client, first, "01");
    expect_answer(client, third, "03");
    expect_answer(client, second, "02");
    expect_counters(client, 0, 0, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

/* Is silent on the first request; answers it together with each later one, and first. */
static void answer_late(struct peer *peer, const struct kvc_frames *message)
{
    if (peer->received == 1) {
        kvc_frames_copy(message, &peer->kept[0]);
        return;
    }
    peer_answer(peer, &peer->kept[0], "01");
    peer_answer(peer, message, "02");
}

Test(client, a_late_reply_is_counted_and_is_nobodys_answer)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_late, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    struct kvc_error err = KVC_ERROR_INIT;
    const uint64_t first = send_op(client, "15");
    cr_assert_eq(kvc_client_wait(client, first, 50, &reply, &err), KVC_ETIMEOUT);
    cr_assert_not_null(strstr(err.what, "50 ms"));
    expect_answer(client, send_op(client, "15"), "02");
    expect_counters(client, 1, 0, 0);
    cr_assert_eq(wait_for_reply(client, first, 50, &reply), KVC_EUSAGE, "it was given up");
    expect_answer(client, send_op(client, "15"), "02");
    expect_counters(client, 1, 1, 0); /* the first was answered again */
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, awaiting_keeps_the_request_in_flight)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_late, NULL);
    struct kvc_client *client = client_for(&peer);
    const uint64_t first = send_op(client, "15");
    cr_assert_eq(kvc_client_await(client, first, 30, NULL), KVC_ETIMEOUT);
    cr_assert_eq(kvc_client_await(client, first, 0, NULL), KVC_ETIMEOUT);
    send_op(client, "15");
    expect_answer(client, first, "01");
    expect_counters(client, 0, 0, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, the_first_of_two_replies_counts)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, peer_answer_twice, NULL);
    struct kvc_client *client = client_for(&peer);
    expect_answer(client, send_op(client, "15"), "01");
    expect_answer(client, send_op(client, "15"), "01");
    const struct kvc_client_counters counters = kvc_client_counters(client);
    cr_assert_geq(counters.duplicate, 1);
    cr_assert_eq(counters.late + counters.unknown, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

/* Uid 0 in another width, as a negative number, with a byte after it; a uid that was never sent; a
 * message with one empty frame. Then the right one. */
static void answer_wrongly(struct peer *peer, const struct kvc_frames *message)
{
    peer_send(peer, "cc00", "15", "01");
    peer_send(peer, "d000", "15", "02");
    peer_send(peer, "0000", "15", "03");
    peer_send(peer, "05", "15", "04");
    peer_send(peer, "");
    peer_answer(peer, message, "c3");
}

Test(client, replies_with_another_uid_are_counted_and_kept_apart)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_wrongly, NULL);
    struct kvc_client *client = client_for(&peer);
    expect_answer(client, send_op(client, "15"), "c3");
    expect_counters(client, 0, 0, 5);
    static const char *const uids[] = {"cc00", "d000", "0000", "05", ""};
    for (size_t i = 0; i < KVC_COUNT_OF(uids); i++) {
        struct kvc_frames reply = {0};
        cr_assert_eq(kvc_client_receive_raw(client, 1000, &reply, NULL), KVC_OK);
        cr_assert(frame_is(&reply, 0, uids[i]));
        kvc_frames_clear(&reply);
    }
    kvc_client_close(client);
    peer_stop(&peer);
}

static void answer_without_op(struct peer *peer, const struct kvc_frames *message)
{
    (void)message;
    peer_send(peer, "00");
}

Test(client, a_reply_that_is_a_uid_alone_is_handed_over)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_without_op, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    cr_assert_eq(wait_for_reply(client, send_op(client, "15"), 5000, &reply), KVC_OK);
    cr_assert_eq(reply.count, 1);
    kvc_frames_clear(&reply);
    kvc_client_close(client);
    peer_stop(&peer);
}

static void flood(struct peer *peer, const struct kvc_frames *message)
{
    (void)message;
    for (size_t i = 0; i < 20000; i++)
        peer_send(peer, "ff", "15", "c3");
}

Test(client, a_flood_of_strangers_does_not_outlast_the_limit)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, flood, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(wait_for_reply(client, send_op(client, "15"), 300, &reply), KVC_ETIMEOUT);
    cr_assert_lt(kvc_now_ms() - started, 2000);
    cr_assert_gt(kvc_client_counters(client).unknown, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, a_request_that_is_not_in_flight_cannot_be_waited_for)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, peer_answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    cr_assert_eq(wait_for_reply(client, 0, 10, &reply), KVC_EUSAGE);
    const uint64_t uid = send_op(client, "15");
    expect_answer(client, uid, "a24f4b");
    cr_assert_eq(wait_for_reply(client, uid, 10, &reply), KVC_EUSAGE);
    cr_assert_eq(wait_for_reply(client, UINT64_MAX, 10, &reply), KVC_EUSAGE);
    kvc_client_close(client);
    peer_stop(&peer);
}
