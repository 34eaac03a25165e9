/* The two ends of Redis' protocol where bytes are many, with a peer that says what it likes. Replies
 * as https://redis.io/docs/latest/develop/reference/protocol-spec/ gives them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "src/l2/resp_bulk.h"
#include "tests/unit/l2/store.h"

static int ends[2];
static uint8_t data[64];
static struct kvc_resp_input input;

static void set_up(void)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

TestSuite(l2_resp, .init = set_up);

static kvc_status receive(const char *reply, size_t size, bool *found, struct kvc_error *err)
{
    if (reply != NULL)
        cr_assert_eq(write(ends[1], reply, strlen(reply)), (ssize_t)strlen(reply));
    return kvc_resp_receive_bulk(ends[0], &input, data, size, found, err);
}

Test(l2_resp, a_set_is_what_redis_wants)
{
    static const char expected[] = "*3\r\n$3\r\nSET\r\n$4\r\na\0bc\r\n$2\r\nxy\r\n";
    char got[128];
    cr_assert_eq(kvc_resp_send_set(ends[0], (struct kvc_bytes){(const uint8_t *)"a\0bc", 4},
                                   (struct kvc_bytes){(const uint8_t *)"xy", 2}, NULL),
                 KVC_OK);
    cr_assert_eq(read(ends[1], got, sizeof(got)), (ssize_t)sizeof(expected) - 1);
    cr_assert_arr_eq(got, expected, sizeof(expected) - 1);
}

Test(l2_resp, replies_to_get)
{
    struct kvc_error err = KVC_ERROR_INIT;
    bool found = false;
    cr_assert_eq(receive("$5\r\nhello\r\n$-1\r\n$0\r\n\r\n", 5, &found, &err), KVC_OK);
    cr_assert(found);
    cr_assert_arr_eq(data, "hello", 5);
    cr_assert_eq(receive(NULL, 5, &found, &err), KVC_OK);
    cr_assert_not(found);
    cr_assert_eq(receive(NULL, 0, &found, &err), KVC_OK);
    cr_assert(found);
}

Test(l2_resp, another_size_and_an_error_are_passed_over)
{
    struct kvc_error err = KVC_ERROR_INIT;
    bool found = false;
    cr_assert_eq(receive("$5\r\nhello\r\n-ERR no\r\n$2\r\nok\r\n", 4, &found, &err), KVC_EFORMAT);
    cr_assert_str_eq(err.what, "GET: 5 bytes, not 4");
    cr_assert_eq(receive(NULL, 4, &found, &err), KVC_EREFUSED);
    cr_assert_str_eq(err.what, "GET: ERR no");
    cr_assert_eq(receive(NULL, 2, &found, &err), KVC_OK);
    cr_assert_arr_eq(data, "ok", 2);
}

Test(l2_resp, what_is_no_reply_ends_the_connection)
{
    static const char *const bad[] = {"hello\r\n",
                                      ":5\r\n",
                                      "$\r\n",
                                      "$x\r\n",
                                      "$-2\r\n",
                                      "$99999999999999999999\r\n",
                                      "$9999999999999\r\n",
                                      "*1\r\n$1\r\nx\r\n",
                                      "\r\n"};
    for (size_t i = 0; i < KVC_COUNT_OF(bad); i++) {
        bool found;
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        input = (struct kvc_resp_input){0};
        cr_assert_eq(receive(bad[i], 5, &found, NULL), KVC_ELOST, "%s", bad[i]);
    }
}

Test(l2_resp, a_line_without_end)
{
    char line[5000];
    bool found;
    memset(line, 'x', sizeof(line));
    cr_assert_eq(write(ends[1], line, sizeof(line)), (ssize_t)sizeof(line));
    cr_assert_eq(receive(NULL, 5, &found, NULL), KVC_ELOST);
}

Test(l2_resp, a_server_that_hangs_up)
{
    struct kvc_error err = KVC_ERROR_INIT;
    bool found;
    cr_assert_eq(write(ends[1], "$5\r\nhel", 7), 7);
    close(ends[1]);
    cr_assert_eq(receive(NULL, 5, &found, &err), KVC_ELOST);
    cr_assert_str_eq(err.what, "the server hung up");
    cr_assert_eq(
        kvc_resp_send_set(ends[0], (struct kvc_bytes){data, 1}, (struct kvc_bytes){data, 1}, NULL),
        KVC_ELOST);
}

Test(l2_resp, nobody_there)
{
    struct store store;
    cr_assert_eq(
        store_try_open(&store, "{\"type\":\"resp\",\"host\":\"127.0.0.1\",\"port\":1}", 1, 1),
        KVC_ECONNECT);
    cr_assert_not_null(strstr(store.err.what, "127.0.0.1:1"));
    store.config.adapter->close(store.opened, NULL);
    kvc_l2_config_clear(&store.config);
}

Test(l2_resp, a_password_is_not_for_reports)
{
    struct kvc_l2_config config;
    cr_assert_eq(kvc_l2_config_parse("{\"type\":\"resp\",\"host\":\"h\",\"port\":1,"
                                     "\"password\":\"secret\"}",
                                     &config, NULL),
                 KVC_OK);
    cr_assert_null(strstr(config.shown, "secret"));
    cr_assert_not_null(strstr(config.shown, "***"));
    kvc_l2_config_clear(&config);
}
