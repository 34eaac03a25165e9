#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/mock/child.h"

static kvc_status run(struct kvc_mock_options options, struct kvc_error *err)
{
    options.ready_fd = -1;
    options.stop_fd = -1;
    return kvc_mock_run(&options, err);
}

Test(options, an_unknown_defect_is_a_wrong_use)
{
    const char *const defects[] = {"no-such-defect", NULL};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        run((struct kvc_mock_options){.bind = "tcp://127.0.0.1:0", .defects = defects}, &err),
        KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "no-such-defect"));
}

Test(options, addresses_that_are_none_are_a_wrong_use)
{
    static const char *const http[] = {
        "",           "127.0.0.1",       ":80",         "no such host:1", "127.0.0.1:port",
        "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1"};
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(run((struct kvc_mock_options){.bind = "udp://x"}, &err), KVC_EUSAGE);
    for (size_t i = 0; i < KVC_COUNT_OF(http); i++)
        cr_assert_eq(
            run((struct kvc_mock_options){.bind = "tcp://127.0.0.1:0", .http = http[i]}, &err),
            KVC_EUSAGE, "%s", http[i]);
}

Test(options, chunks_and_pools_have_limits)
{
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(
        run((struct kvc_mock_options){.bind = "tcp://127.0.0.1:0", .chunk_size = -1}, &err),
        KVC_EUSAGE);
    cr_assert_eq(run((struct kvc_mock_options){.bind = "tcp://127.0.0.1:0", .pool_size = -1}, &err),
                 KVC_EUSAGE);
}

Test(options, taken_addresses_are_said_to_be_taken)
{
    struct child child = {0};
    struct kvc_error err = KVC_ERROR_INIT;
    child_start(&child, (struct kvc_mock_options){0});
    cr_assert_eq(run((struct kvc_mock_options){.bind = child.rpc_url}, &err), KVC_ESYSTEM);
    cr_assert_eq(run((struct kvc_mock_options){.bind = "tcp://127.0.0.1:0",
                                               .http = child.http_url + strlen("http://")},
                     &err),
                 KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "in use"), "%s", err.what);
    cr_assert_eq(child_stop(&child), 0);
}

/* Segments that process pid has made. */
static size_t segments_of(int pid)
{
    char part[32];
    size_t count = 0;
    snprintf(part, sizeof(part), "-%d-", pid);
    DIR *folder = opendir("/dev/shm");
    cr_assert_not_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += strstr(entry->d_name, "kvconform-") != NULL && strstr(entry->d_name, part) != NULL;
    closedir(folder);
    return count;
}

static void expect_clean_end(int signal)
{
    struct child child = {0};
    child_start(&child, (struct kvc_mock_options){.pool_size = 1 << 20});
    cr_assert_eq(segments_of(child.pid), 1u);
    if (signal != 0)
        kill(child.pid, signal);
    cr_assert_eq(child_stop(&child), 0);
    cr_assert_eq(segments_of(child.pid), 0u);
}

Test(options, ends_cleanly_when_its_parent_closes_the_pipe)
{
    expect_clean_end(0);
}

Test(options, ends_cleanly_by_sigterm)
{
    expect_clean_end(SIGTERM);
}

Test(options, ends_cleanly_by_sigint)
{
    expect_clean_end(SIGINT);
}

Test(options, a_name_that_no_pool_can_have)
{
    struct kvc_error err = KVC_ERROR_INIT;
    struct kvc_mock_options options = {.bind = "tcp://127.0.0.1:0", .pool_size = 1 << 20};
    options.pool_name = "a/b";
    cr_assert_eq(run(options, &err), KVC_EUSAGE);
    cr_assert_not_null(strstr(err.what, "slash"), "%s", err.what);
    options.pool_name = "..";
    cr_assert_eq(run(options, &err), KVC_ESYSTEM);
}

Test(options, a_name_for_the_pool_is_used)
{
    struct child child = {0};
    char name[64], path[128];
    snprintf(name, sizeof(name), "kvc_test_named_pool_%d", (int)getpid());
    snprintf(path, sizeof(path), "/dev/shm/%s", name);
    child_start(&child, (struct kvc_mock_options){.pool_size = 1 << 20, .pool_name = name});
    cr_assert_eq(access(path, F_OK), 0);
    cr_assert_eq(child_stop(&child), 0);
    cr_assert_neq(access(path, F_OK), 0);
}
