#include <criterion/criterion.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/target/identify.h"
#include "tests/unit/link/peer.h"
#include "tests/unit/link/web.h"

/* What releases answer to the questions, in hex; NULL: nothing. As probed on the real servers
 * (protocol.md 1.8). Any other operation fails the test: it could hurt. */
struct release {
    const char *on_9, *on_11, *on_18, *on_19, *on_21, *on_32;
    bool may_get_32; /* a server that does not know 32 dies of it */
};

static const char *const dangerous = "dangerous";

static const char *answer_to(const struct release *release, const struct kvc_frames *message)
{
    static const struct {
        const char *op;
        size_t frames;
        size_t offset;
    } questions[] = {
        {"09", 3, offsetof(struct release, on_9)},  {"0b", 3, offsetof(struct release, on_11)},
        {"12", 2, offsetof(struct release, on_18)}, {"13", 2, offsetof(struct release, on_19)},
        {"15", 2, offsetof(struct release, on_21)}, {"20", 2, offsetof(struct release, on_32)},
    };
    for (size_t i = 0; i < KVC_COUNT_OF(questions); i++) {
        if (frame_is(message, 1, questions[i].op) && message->count == questions[i].frames)
            return *(const char *const *)((const char *)release + questions[i].offset);
    }
    return dangerous;
}

static bool hurt;

static void serve_release(struct peer *peer, const struct kvc_frames *message)
{
    const struct release *release = peer->user;
    const char *answer = answer_to(release, message);
    if (answer == dangerous || (frame_is(message, 1, "20") && !release->may_get_32))
        hurt = true;
    else if (answer != NULL)
        peer_answer(peer, message, answer);
}

static kvc_status identify(const struct release *release, int64_t timeout_ms,
                           struct kvc_identity *identity, struct kvc_error *err)
{
    struct peer peer;
    peer_start(&peer, "tcp://127.0.0.1:0", serve_release, (void *)(uintptr_t)release);
    const kvc_status status = kvc_identify(peer.url, NULL, 3000, timeout_ms, identity, err);
    peer_stop(&peer);
    cr_assert_not(hurt, "a question that could hurt was asked");
    return status;
}

static void expect_dialect(const struct release *release, int64_t timeout_ms, const char *name,
                           const char *how)
{
    struct kvc_identity identity;
    struct kvc_error err = KVC_ERROR_INIT;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(identify(release, timeout_ms, &identity, &err), KVC_OK, "%s", err.what);
    cr_assert_str_eq(identity.dialect->name, name);
    cr_assert_eq(identity.chunk_size, 256);
    cr_assert_str_eq(identity.how, how);
    cr_assert_lt(kvc_now_ms() - started, 1500, "silence must not cost the whole limit");
}

Test(identify, releases_0_5_0_to_0_5_2)
{
    const struct release release = {.on_18 = "cd0100", .on_21 = "a24f4b"};
    expect_dialect(&release, 3000, "0.5.0", "id 21: a text");
}

Test(identify, releases_0_5_3_and_0_5_4)
{
    const struct release release = {
        .on_9 = "00", .on_11 = "00", .on_21 = "cd0100", .may_get_32 = true};
    expect_dialect(&release, 3000, "0.5.3", "id 21: a number; id 32: is silent");
}

Test(identify, release_0_5_5)
{
    const struct release release = {
        .on_9 = "00", .on_11 = "00", .on_21 = "cd0100", .on_32 = "90", .may_get_32 = true};
    expect_dialect(&release, 3000, "0.5.5", "id 21: a number; id 32: a list; id 11: a number");
}

Test(identify, release_0_5_6)
{
    const struct release release = {.on_9 = "00",
                                    .on_21 = "cd0100",
                                    .on_32 = "91af6b765f6576656e745f73747265616d",
                                    .may_get_32 = true};
    expect_dialect(&release, 3000, "0.5.6", "id 21: a number; id 32: a list; id 11: is silent");
}

Test(identify, a_0_5_1_whose_noop_is_broken)
{
    const struct release release = {.on_18 = "cd0100"};
    expect_dialect(&release, 200, "0.5.0", "id 21: is silent; id 19: is silent; id 18: a number");
}

static struct kvc_error expect_failure(const struct release *release, kvc_status status)
{
    struct kvc_identity identity;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(identify(release, 200, &identity, &err), status, "%s", err.what);
    return err;
}

Test(identify, release_0_4_6)
{
    const struct release release = {.on_19 = "a24f4b"};
    cr_assert_not_null(strstr(expect_failure(&release, KVC_EUNSUPPORTED).what, "older than 0.5.0"));
}

Test(identify, release_0_4_7)
{
    const struct release release = {.on_18 = "c3"};
    cr_assert_not_null(strstr(expect_failure(&release, KVC_EUNSUPPORTED).what, "older than 0.5.0"));
}

Test(identify, a_server_that_answers_nothing)
{
    const struct release release = {0};
    const struct kvc_error err = expect_failure(&release, KVC_ETIMEOUT);
    cr_assert_str_eq(err.what, "the server accepts connections, but does not answer");
}

Test(identify, answers_that_no_release_gives)
{
    const struct release list = {.on_21 = "90"};
    cr_assert_not_null(strstr(expect_failure(&list, KVC_EUNSUPPORTED).what, "a list"));
    const struct release zero = {.on_21 = "00"};
    expect_failure(&zero, KVC_EFORMAT);
    const struct release broken = {.on_21 = "c1"};
    expect_failure(&broken, KVC_EUNSUPPORTED);
}

Test(identify, a_server_that_dies_of_a_question)
{
    const struct release release = {.on_21 = "cd0100", .on_32 = "90", .may_get_32 = true};
    const struct kvc_error err = expect_failure(&release, KVC_ETIMEOUT);
    cr_assert_not_null(strstr(err.what, "stopped answering after operation id 11"), "%s", err.what);
}

Test(identify, nobody_there)
{
    struct kvc_identity identity;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_identify("tcp://127.0.0.1:1", NULL, 100, 200, &identity, &err), KVC_ECONNECT);
    cr_assert_eq(kvc_identify("nonsense", NULL, 100, 200, &identity, &err), KVC_EUSAGE);
}

/* ---- what HTTP adds ---- */

#define ANSWER_200 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

static const struct release release_0_5_1 = {.on_18 = "cd0100", .on_21 = "a24f4b"};

static struct kvc_identity identify_with_http(const struct release *release, const char *answer,
                                              kvc_status status, struct kvc_error *err)
{
    struct peer peer;
    struct web web = {0};
    struct kvc_identity identity;
    peer_start(&peer, "tcp://127.0.0.1:0", serve_release, (void *)(uintptr_t)release);
    web_start(&web, answer);
    cr_assert_eq(kvc_identify(peer.url, web.url, 3000, 200, &identity, err), status);
    cr_assert_eq(strncmp(web.request, "GET /lmc_version ", 17), 0);
    web_stop(&web);
    peer_stop(&peer);
    return identity;
}

Test(identify, http_gives_the_release)
{
    const struct kvc_identity identity =
        identify_with_http(&release_0_5_1, ANSWER_200 "\"0.5.1\"", KVC_OK, NULL);
    cr_assert_str_eq(identity.version, "0.5.1");
    cr_assert_str_eq(identity.how, "id 21: a text; HTTP says 0.5.1");
}

Test(identify, zmq_decides_when_http_says_something_else)
{
    const struct kvc_identity identity =
        identify_with_http(&release_0_5_1, ANSWER_200 "\"0.5.6\"", KVC_OK, NULL);
    cr_assert_str_eq(identity.dialect->name, "0.5.0");
    cr_assert_not_null(strstr(identity.how, "0.5.6, which speaks otherwise"), "%s", identity.how);
}

Test(identify, http_that_is_of_no_use)
{
    static const char *const answers[] = {
        "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n0.5.1", ANSWER_200 "{}",
        ANSWER_200 "\"\"",
        ANSWER_200 "\"0123456789012345678901234567890123456789012345678901234567890123456789\"",
        "nonsense"};
    for (size_t i = 0; i < KVC_COUNT_OF(answers); i++) {
        const struct kvc_identity identity =
            identify_with_http(&release_0_5_1, answers[i], KVC_OK, NULL);
        cr_assert_str_empty(identity.version);
        cr_assert_str_eq(identity.how, "id 21: a text; HTTP does not say its version");
    }
}

Test(identify, http_tells_an_old_release_from_a_silent_server)
{
    static const struct release silent = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    identify_with_http(&silent, ANSWER_200 "\"0.4.7\"", KVC_EUNSUPPORTED, &err);
    cr_assert_str_eq(err.what, "the server is release 0.4.7; the oldest supported is 0.5.0");
}
