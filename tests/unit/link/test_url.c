#include <criterion/criterion.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/link/client.h"
#include "src/link/server.h"
#include "src/link/url.h"

/* URLs that are none, with a word of the line that says why. */
static const struct {
    const char *text;
    const char *problem;
} malformed[] = {
    {"", "must begin with"},
    {"localhost:5555", "must begin with"},
    {"http://localhost:5555", "must begin with"},
    {"inproc://a", "must begin with"},
    {"TCP://localhost:5555", "must begin with"},
    {"tcp://", "port is missing"},
    {"tcp://localhost", "port is missing"},
    {"tcp://:5555", "host is missing"},
    {"tcp://[]:5555", "host is missing"},
    {"tcp://a b:5555", "host is none"},
    {"tcp://a/b:5555", "host is none"},
    {"tcp://eth0;server:5555", "host is none"},
    {"tcp://::1:5555", "host is none"},
    {"tcp://[::1 ]:5555", "host is none"},
    {"tcp://localhost:", "port must be"},
    {"tcp://localhost:0", "port must be"},
    {"tcp://localhost:*", "port must be"},
    {"tcp://localhost:-1", "port must be"},
    {"tcp://localhost:65536", "port must be"},
    {"tcp://localhost:99999999999", "port must be"},
    {"tcp://localhost:5555/", "port must be"},
    {"tcp://localhost:5 5", "port must be"},
    {"tcp://*:5555", "host is none"},
    {"ipc://", "path is missing"},
    {"ipc://*", "path is missing"},
};

Test(url, malformed_ones_are_refused_with_one_clear_line)
{
    for (size_t i = 0; i < KVC_COUNT_OF(malformed); i++) {
        struct kvc_error err = KVC_ERROR_INIT;
        struct kvc_client *client = NULL;
        cr_assert_eq(kvc_client_open(malformed[i].text, 10, &client, &err), KVC_EUSAGE, "%s",
                     malformed[i].text);
        cr_assert_null(client);
        cr_assert_not_null(strstr(err.what, malformed[i].problem), "%s: %s", malformed[i].text,
                           err.what);
        cr_assert_not_null(strstr(err.what, malformed[i].text), "%s", err.what);
        cr_assert_str_eq(err.expected, "tcp://HOST:PORT or ipc://PATH");
    }
}

Test(url, control_characters_and_length_do_not_break_the_line)
{
    char text[400] = "tcp://a\nb\x1b[31m:";
    memset(text + strlen(text), 'x', 300);
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_url url;
    cr_assert_eq(kvc_url_parse(text, KVC_URL_CONNECT, &url, &err), KVC_EUSAGE);
    cr_assert_null(strpbrk(err.what, "\n\x1b"));
    cr_assert_not_null(strstr(err.what, "host is none"));
}

Test(url, a_path_longer_than_a_socket_address_is_refused)
{
    char text[6 + 108 + 1] = "ipc://";
    memset(text + 6, 'a', 108);
    struct kvc_url url;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_url_parse(text, KVC_URL_CONNECT, &url, &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "107"));
    text[6 + 107] = '\0';
    cr_assert_eq(kvc_url_parse(text, KVC_URL_CONNECT, &url, &err), KVC_OK);
    cr_assert_eq(strlen(url.path), 107);
}

Test(url, the_parts_of_good_ones)
{
    struct kvc_url url;
    cr_assert_eq(kvc_url_parse("tcp://my-host_1.example:65535", KVC_URL_CONNECT, &url, NULL),
                 KVC_OK);
    cr_assert_str_eq(url.host, "my-host_1.example");
    cr_assert_eq(url.port, 65535);
    cr_assert_not(url.is_ipc || url.is_ipv6);
    cr_assert_eq(kvc_url_parse("tcp://[fe80::1%eth0]:1", KVC_URL_CONNECT, &url, NULL), KVC_OK);
    cr_assert_str_eq(url.host, "fe80::1%eth0");
    cr_assert(url.is_ipv6);
    cr_assert_eq(kvc_url_parse("ipc:///tmp/a b", KVC_URL_CONNECT, &url, NULL), KVC_OK);
    cr_assert_str_eq(url.path, "/tmp/a b");
    cr_assert(url.is_ipc);
    cr_assert_eq(kvc_url_parse("tcp://*:*", KVC_URL_BIND, &url, NULL), KVC_OK);
    cr_assert_eq(url.port, 0);
}

Test(url, servers_refuse_malformed_ones_too)
{
    struct kvc_server *server = NULL;
    cr_assert_eq(kvc_server_open("udp://127.0.0.1:0", &server, NULL), KVC_EUSAGE);
    cr_assert_eq(kvc_server_open("tcp://127.0.0.1:70000", &server, NULL), KVC_EUSAGE);
    cr_assert_null(server);
}
