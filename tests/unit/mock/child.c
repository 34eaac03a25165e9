#include "tests/unit/mock/child.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/bytes.h"

static _Noreturn void be_mock(const struct child *child, struct kvc_mock_options options)
{
    if (child->stderr_path != NULL) {
        const int file = open(child->stderr_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        dup2(file, STDERR_FILENO);
        close(file);
    }
    _exit(kvc_mock_run(&options, NULL) == KVC_OK ? 0 : 1);
}

static void read_urls(struct child *child, int ready_fd)
{
    char text[300];
    size_t size = 0;
    ssize_t got = 1;
    while (got > 0 && size < sizeof(text) - 1 &&
           (size == 0 || text[size - 1] != '\n' || memchr(text, '\n', size - 1) == NULL)) {
        got = read(ready_fd, text + size, sizeof(text) - 1 - size);
        size += got > 0 ? (size_t)got : 0;
    }
    text[size] = '\0';
    cr_assert_eq(sscanf(text, "%127s\n%127s", child->rpc_url, child->http_url), 2,
                 "the mock did not start: \"%s\"", text);
}

void child_start(struct child *child, struct kvc_mock_options options)
{
    int ready[2], stop[2];
    cr_assert_eq(pipe2(ready, O_CLOEXEC) | pipe2(stop, O_CLOEXEC), 0);
    if (options.dialect == NULL)
        options.dialect = kvc_dialects[kvc_dialect_count - 1];
    options.bind = "tcp://127.0.0.1:0";
    options.http = "127.0.0.1:0";
    options.ready_fd = ready[1];
    options.stop_fd = stop[0];
    child->pid = fork();
    cr_assert_geq(child->pid, 0);
    if (child->pid == 0) {
        close(ready[0]);
        close(stop[1]);
        be_mock(child, options);
    }
    close(ready[1]);
    close(stop[0]);
    child->stop_fd = stop[1];
    read_urls(child, ready[0]);
    close(ready[0]);
    struct kvc_error err = KVC_ERROR_INIT;
    cr_assert_eq(kvc_client_open(child->rpc_url, 5000, &child->client, &err), KVC_OK, "%s",
                 err.what);
    child->rpc = (struct kvc_rpc){child->client, options.dialect, 5000};
}

int child_stop(struct child *child)
{
    int status = 0;
    kvc_client_close(child->client);
    close(child->stop_fd);
    cr_assert_eq(waitpid(child->pid, &status, 0), child->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
