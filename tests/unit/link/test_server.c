#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/link/client.h"
#include "src/link/server.h"

static struct kvc_server *open_server(const char *url)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_server *server = NULL;
    cr_assert_eq(kvc_server_open(url, &server, &err), KVC_OK, "%s", err.what);
    return server;
}

Test(server, says_the_port_it_was_given)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:*");
    const char *url = kvc_server_url(server);
    cr_assert_eq(strncmp(url, "tcp://127.0.0.1:", 16), 0);
    cr_assert_gt(atoi(url + 16), 0);
    kvc_server_close(server);
}

Test(server, a_taken_address_is_said_to_be_taken)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:0");
    struct kvc_server *second = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_server_open(kvc_server_url(server), &second, &err), KVC_ESYSTEM);
    cr_assert_null(second);
    cr_assert_not_null(strstr(err.what, "in use"), "%s", err.what);
    kvc_server_close(server);
}

Test(server, an_ipc_path_is_not_taken_from_its_server_nor_from_a_file)
{
    char url[64];
    snprintf(url, sizeof(url), "ipc:///tmp/kvconform-server-%d", (int)getpid());
    const char *path = url + strlen("ipc://");
    struct kvc_server *server = open_server(url);
    struct kvc_server *second = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_server_open(url, &second, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "taken"), "%s", err.what);
    kvc_server_close(server);
    cr_assert_neq(access(path, F_OK), 0, "closing removes the path");

    const int file = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_eq(kvc_server_open(url, &second, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "a file is in the way"), "%s", err.what);
    cr_assert_eq(access(path, F_OK), 0, "and the file is still there");
    close(file);
    unlink(path);
}

Test(server, waits_no_longer_than_asked)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:0");
    struct kvc_buffer identity;
    struct kvc_frames frames;
    const int64_t started = kvc_now_ms();
    cr_assert_eq(kvc_server_receive(server, 60, &identity, &frames, NULL), KVC_ETIMEOUT);
    const int64_t took = kvc_now_ms() - started;
    cr_assert(took >= 60 && took < 1000, "%lld ms", (long long)took);
    cr_assert_eq(kvc_server_receive(server, 0, &identity, &frames, NULL), KVC_ETIMEOUT);
    kvc_server_close(server);
}

Test(server, the_wake_descriptor_ends_a_wait_for_ever)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:0");
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    kvc_server_set_wake_fd(server, ends[0]);
    close(ends[1]);
    struct kvc_buffer identity;
    struct kvc_frames frames;
    cr_assert_eq(kvc_server_receive(server, -1, &identity, &frames, NULL), KVC_EINTERRUPTED);
    close(ends[0]);
    kvc_server_close(server);
}

Test(server, the_wake_descriptor_is_seen_under_load)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:0");
    struct kvc_client *client = NULL;
    cr_assert_eq(kvc_client_open(kvc_server_url(server), 5000, &client, NULL), KVC_OK);
    uint64_t uid;
    for (size_t i = 0; i < 500; i++) {
        struct kvc_frames body = {0};
        kvc_frames_append_copy(&body, "\x15", 1);
        cr_assert_eq(kvc_client_send(client, &body, &uid, NULL), KVC_OK);
    }
    kvc_sleep_ms(50);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    kvc_server_set_wake_fd(server, ends[0]);
    close(ends[1]);
    size_t served = 0;
    kvc_status status = KVC_OK;
    while (status == KVC_OK && served < 500) {
        struct kvc_buffer identity = {0};
        struct kvc_frames frames = {0};
        status = kvc_server_receive(server, 1000, &identity, &frames, NULL);
        served += status == KVC_OK;
        kvc_frames_clear(&frames);
        kvc_buffer_clear(&identity);
    }
    cr_assert_eq(status, KVC_EINTERRUPTED);
    cr_assert_lt(served, 500);
    kvc_client_close(client);
    kvc_server_close(server);
    close(ends[0]);
}

Test(server, a_peer_that_is_gone_is_no_error)
{
    struct kvc_server *server = open_server("tcp://127.0.0.1:0");
    struct kvc_frames frames = {0};
    kvc_frames_append_copy(&frames, "\x00", 1);
    const struct kvc_bytes nobody = {(const uint8_t *)"\x00who", 4};
    cr_assert_eq(kvc_server_send(server, nobody, &frames, NULL), KVC_OK);
    cr_assert_eq(frames.count, 0);
    kvc_frames_append_copy(&frames, "\x00", 1);
    cr_assert_eq(kvc_server_send(server, (struct kvc_bytes){NULL, 0}, &frames, NULL), KVC_EUSAGE);
    cr_assert_eq(frames.count, 0);
    kvc_server_close(server);
}
