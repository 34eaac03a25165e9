#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/link/bare.h"

Test(bare, a_message_comes_back)
{
    int ends[2];
    char url[64] = "";
    cr_assert_eq(pipe(ends), 0);
    const pid_t echo = fork();
    if (echo == 0) {
        kvc_bare_echo(ends[1]);
        _exit(1);
    }
    cr_assert_gt(read(ends[0], url, sizeof(url) - 1), 0);
    url[strcspn(url, "\n")] = '\0';

    struct kvc_bare *bare = NULL;
    struct kvc_frames frames = {0};
    kvc_frames_append_copy(&frames, "a", 1);
    kvc_frames_append_copy(&frames, "", 0);
    kvc_frames_append_copy(&frames, "bc", 2);
    cr_assert_eq(kvc_bare_open(url, 5000, &bare, NULL), KVC_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kvc_bare_call(bare, &frames, NULL), KVC_OK);
    kvc_bare_close(bare);
    kvc_frames_clear(&frames);
    kill(echo, SIGKILL);
    waitpid(echo, NULL, 0);
}

Test(bare, nobody_answers)
{
    struct kvc_bare *bare = NULL;
    struct kvc_frames frames = {0};
    kvc_frames_append_copy(&frames, "a", 1);
    cr_assert_eq(kvc_bare_open("tcp://127.0.0.1:1", 50, &bare, NULL), KVC_OK);
    cr_assert_eq(kvc_bare_call(bare, &frames, NULL), KVC_ETIMEOUT);
    kvc_bare_close(bare);
    kvc_frames_clear(&frames);
}

Test(bare, no_url)
{
    struct kvc_bare *bare = NULL;
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_bare_open("nonsense", 50, &bare, &err), KVC_ESYSTEM);
    cr_assert_not_null(strstr(err.what, "nonsense"));
}
