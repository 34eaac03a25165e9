#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/unit/link/peer.h"

#define ANY_PORT "tcp://127.0.0.1:0"

static kvc_status wait_for(struct kvc_client *client, uint64_t uid, int64_t timeout_ms,
                           struct kvc_frames *reply)
{
    *reply = (struct kvc_frames){0};
    return kvc_client_wait(client, uid, timeout_ms, reply, NULL);
}

static void expect_answer(struct kvc_client *client, uint64_t uid, const char *result)
{
    struct kvc_frames reply;
    cr_assert_eq(wait_for(client, uid, 5000, &reply), KVC_OK);
    cr_assert_eq(reply.count, 3);
    cr_assert(frame_is(&reply, 2, result));
    kvc_frames_clear(&reply);
}

static void expect_counters(const struct kvc_client *client, uint64_t late, uint64_t duplicate,
                            uint64_t unknown)
{
    const struct kvc_client_counters counters = kvc_client_counters(client);
    cr_assert_eq(counters.late, late, "late %llu", (unsigned long long)counters.late);
    cr_assert_eq(counters.duplicate, duplicate);
    cr_assert_eq(counters.unknown, unknown);
}

/* ---- what goes over the wire ---- */

static void answer_ok(struct peer *peer, const struct kvc_frames *message)
{
    peer_answer(peer, message, "a24f4b");
}

static void round_trip(const char *url)
{
    struct peer peer;
    peer_start(&peer, url, answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    const uint64_t uid = send_op(client, "15");
    cr_assert_eq(uid, 0);
    cr_assert_eq(wait_for(client, uid, 5000, &reply), KVC_OK);
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
        cr_assert_eq(wait_for(client, uid, 2000, &reply), KVC_OK, "uid %llu",
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
    cr_assert_eq(wait_for(client, first, 50, &reply), KVC_EUSAGE, "it was given up");
    expect_answer(client, send_op(client, "15"), "02");
    expect_counters(client, 1, 1, 0); /* the first was answered again */
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, poll_keeps_the_request_in_flight)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_late, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply = {0};
    const uint64_t first = send_op(client, "15");
    cr_assert_eq(kvc_client_poll(client, first, 30, &reply, NULL), KVC_ETIMEOUT);
    cr_assert_eq(kvc_client_poll(client, first, 0, &reply, NULL), KVC_ETIMEOUT);
    send_op(client, "15");
    expect_answer(client, first, "01");
    expect_counters(client, 0, 0, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

static void answer_twice(struct peer *peer, const struct kvc_frames *message)
{
    peer_answer(peer, message, "01");
    peer_answer(peer, message, "02");
}

Test(client, the_first_of_two_replies_counts)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_twice, NULL);
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
    cr_assert_eq(wait_for(client, send_op(client, "15"), 5000, &reply), KVC_OK);
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
    cr_assert_eq(wait_for(client, send_op(client, "15"), 300, &reply), KVC_ETIMEOUT);
    cr_assert_lt(kvc_now_ms() - started, 2000);
    cr_assert_gt(kvc_client_counters(client).unknown, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, a_request_that_is_not_in_flight_cannot_be_waited_for)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    cr_assert_eq(wait_for(client, 0, 10, &reply), KVC_EUSAGE);
    const uint64_t uid = send_op(client, "15");
    expect_answer(client, uid, "a24f4b");
    cr_assert_eq(wait_for(client, uid, 10, &reply), KVC_EUSAGE);
    cr_assert_eq(wait_for(client, UINT64_MAX, 10, &reply), KVC_EUSAGE);
    kvc_client_close(client);
    peer_stop(&peer);
}

/* ---- raw ---- */

Test(client, raw_requests_choose_their_uid_and_are_answered_in_order)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames empty_uid = frames_from("", "15");
    struct kvc_frames text_uid = frames_from("a568656c6c6f", "15");
    struct kvc_frames again = frames_from("a568656c6c6f", "15");
    cr_assert_eq(kvc_client_send_raw(client, &empty_uid, NULL), KVC_OK);
    cr_assert_eq(kvc_client_send_raw(client, &text_uid, NULL), KVC_OK);
    cr_assert_eq(kvc_client_send_raw(client, &again, NULL), KVC_OK);
    static const char *const uids[] = {"", "a568656c6c6f", "a568656c6c6f"};
    for (size_t i = 0; i < KVC_COUNT_OF(uids); i++) {
        struct kvc_frames reply = {0};
        cr_assert_eq(kvc_client_receive_raw(client, 5000, &reply, NULL), KVC_OK);
        cr_assert(frame_is(&reply, 0, uids[i]));
        cr_assert(frame_is(&reply, 2, "a24f4b"));
        kvc_frames_clear(&reply);
    }
    expect_counters(client, 0, 0, 0);
    struct kvc_frames none = {0};
    cr_assert_eq(kvc_client_receive_raw(client, 20, &none, NULL), KVC_ETIMEOUT);
    cr_assert_eq(kvc_client_send_raw(client, &none, NULL), KVC_EUSAGE);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, raw_replies_that_come_twice_are_duplicates)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_twice, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames request = frames_from("c4", "15");
    cr_assert_eq(kvc_client_send_raw(client, &request, NULL), KVC_OK);
    for (size_t i = 0; i < 2; i++) {
        struct kvc_frames reply = {0};
        cr_assert_eq(kvc_client_receive_raw(client, 5000, &reply, NULL), KVC_OK);
        kvc_frames_clear(&reply);
    }
    expect_counters(client, 0, 1, 0);
    kvc_client_close(client);
    peer_stop(&peer);
}

/* ---- traces, interruption, loss, fork ---- */

static void trace(void *user, bool received, const struct kvc_frames *frames, int64_t now_ns)
{
    struct kvc_buffer *log = user;
    cr_assert_gt(now_ns, 0);
    kvc_buffer_append_text(log, received ? "<" : ">");
    for (size_t i = 0; i < frames->count; i++) {
        kvc_hex_encode(kvc_frames_view(frames, i), log);
        kvc_buffer_append_text(log, "|");
    }
}

Test(client, a_trace_sees_every_message_whole_and_in_order)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_twice, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_buffer log = {0};
    kvc_client_set_trace(client, trace, &log);
    expect_answer(client, send_op(client, "15"), "01");
    struct kvc_frames request = frames_from("c4", "15");
    cr_assert_eq(kvc_client_send_raw(client, &request, NULL), KVC_OK);
    struct kvc_frames reply = {0};
    cr_assert_eq(kvc_client_receive_raw(client, 5000, &reply, NULL), KVC_OK);
    kvc_frames_clear(&reply);
    const char *text = kvc_buffer_text(&log);
    cr_assert_eq(strncmp(text, ">00|15|<00|15|01|", 17), 0, "%s", text);
    cr_assert_not_null(strstr(text, ">c4|15|"), "%s", text);
    cr_assert_not_null(strstr(text, "<c4|15|01|"), "%s", text);
    cr_assert_not_null(strstr(text, "<00|15|02|"), "duplicates too: %s", text);
    kvc_buffer_clear(&log);
    kvc_client_close(client);
    peer_stop(&peer);
}

static void stay_silent(struct peer *peer, const struct kvc_frames *message)
{
    (void)peer, (void)message;
}

static volatile int stop;

static void *raise_stop(void *user)
{
    (void)user;
    kvc_sleep_ms(50);
    stop = 1;
    return NULL;
}

Test(client, the_stop_flag_ends_a_wait)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, stay_silent, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    const uint64_t uid = send_op(client, "15");
    kvc_link_set_stop_flag(&stop);
    pthread_t thread;
    pthread_create(&thread, NULL, raise_stop, NULL);
    const int64_t started = kvc_now_ms();
    cr_assert_eq(wait_for(client, uid, 20000, &reply), KVC_EINTERRUPTED);
    cr_assert_lt(kvc_now_ms() - started, 2000);
    pthread_join(thread, NULL);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, a_server_that_goes_ends_the_wait_at_once)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, stay_silent, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_error err = KVC_ERROR_INIT;
    const uint64_t uid = send_op(client, "15");
    peer_stop(&peer);
    struct kvc_frames reply = {0};
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_client_wait(client, uid, 20000, &reply, &err), KVC_ELOST);
    cr_assert_str_eq(err.what, "the server closed the connection");
    cr_assert_lt(kvc_now_ms() - started, 2000);
    struct kvc_frames body = frames_from("15");
    uint64_t other;
    cr_assert_eq(kvc_client_send(client, &body, &other, NULL), KVC_ELOST);
    cr_assert_eq(body.count, 0);
    kvc_client_close(client);
}

Test(client, what_came_before_the_server_went_is_not_lost)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    const uint64_t first = send_op(client, "15");
    const uint64_t second = send_op(client, "15");
    while (__atomic_load_n(&peer.received, __ATOMIC_SEQ_CST) < 2)
        kvc_sleep_ms(1);
    peer_stop(&peer);
    kvc_sleep_ms(50);
    struct kvc_frames body = frames_from("15");
    uint64_t third;
    cr_assert_eq(kvc_client_send(client, &body, &third, NULL), KVC_ELOST);
    expect_answer(client, second, "a24f4b");
    expect_answer(client, first, "a24f4b");
    kvc_client_close(client);
}

Test(client, a_restarted_server_never_gets_what_the_old_one_should_have)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, stay_silent, NULL);
    char *url = kvc_strdup(peer.url);
    struct kvc_client *client = client_for(&peer);
    peer_stop(&peer);
    kvc_sleep_ms(20);
    struct kvc_frames body = frames_from("15");
    uint64_t uid;
    cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_ELOST);
    peer_start(&peer, url, stay_silent, NULL);
    kvc_sleep_ms(300);
    cr_assert_eq(peer.received, 0);
    kvc_client_close(client);
    peer_stop(&peer);
    free(url);
}

Test(client, a_forked_child_opens_its_own_and_leaves_the_parents_alone)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, answer_ok, NULL);
    struct kvc_client *client = client_for(&peer);
    expect_answer(client, send_op(client, "15"), "a24f4b");
    const pid_t child = fork();
    if (child == 0) {
        kvc_client_close(client);
        struct kvc_client *own = NULL;
        struct kvc_frames body = {0}, reply = {0};
        uint64_t uid;
        kvc_frames_append_copy(&body, "\x15", 1);
        const bool fine = kvc_client_open(peer.url, 5000, &own, NULL) == KVC_OK &&
                          kvc_client_send(own, &body, &uid, NULL) == KVC_OK &&
                          kvc_client_wait(own, uid, 5000, &reply, NULL) == KVC_OK;
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    expect_answer(client, send_op(client, "15"), "a24f4b");
    kvc_client_close(client);
    peer_stop(&peer);
}
