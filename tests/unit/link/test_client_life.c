#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "tests/unit/link/peer.h"

#define ANY_PORT "tcp://127.0.0.1:0"

/* ---- raw ---- */

Test(client, raw_requests_choose_their_uid_and_are_answered_in_order)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, peer_answer_ok, NULL);
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
    peer_start(&peer, ANY_PORT, peer_answer_twice, NULL);
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
    peer_start(&peer, ANY_PORT, peer_answer_twice, NULL);
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
    peer_start(&peer, ANY_PORT, peer_stay_silent, NULL);
    struct kvc_client *client = client_for(&peer);
    struct kvc_frames reply;
    const uint64_t uid = send_op(client, "15");
    kvc_link_set_stop_flag(&stop);
    pthread_t thread;
    pthread_create(&thread, NULL, raise_stop, NULL);
    const int64_t started = kvc_now_ms();
    cr_assert_eq(wait_for_reply(client, uid, 20000, &reply), KVC_EINTERRUPTED);
    cr_assert_lt(kvc_now_ms() - started, 2000);
    pthread_join(thread, NULL);
    kvc_client_close(client);
    peer_stop(&peer);
}

Test(client, a_server_that_goes_ends_the_wait_at_once)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, peer_stay_silent, NULL);
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
    peer_start(&peer, ANY_PORT, peer_answer_ok, NULL);
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
    peer_start(&peer, ANY_PORT, peer_stay_silent, NULL);
    char *url = kvc_strdup(peer.url);
    struct kvc_client *client = client_for(&peer);
    peer_stop(&peer);
    kvc_sleep_ms(20);
    struct kvc_frames body = frames_from("15");
    uint64_t uid;
    cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_ELOST);
    peer_start(&peer, url, peer_stay_silent, NULL);
    kvc_sleep_ms(300);
    cr_assert_eq(peer.received, 0);
    kvc_client_close(client);
    peer_stop(&peer);
    free(url);
}

Test(client, a_forked_child_opens_its_own_and_leaves_the_parents_alone)
{
    struct peer peer;
    peer_start(&peer, ANY_PORT, peer_answer_ok, NULL);
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
