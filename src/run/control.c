#include "src/run/control.h"

#include <errno.h>
#include <sys/socket.h>

kvc_status kvc_control_open(int *runner_fd, int *check_fd, struct kvc_error *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return kvc_fail_errno(err, "cannot make a socket pair");
    *runner_fd = fds[0];
    *check_fd = fds[1];
    return KVC_OK;
}

kvc_status kvc_control_ask(int check_fd, const struct kvc_control_request *request,
                           struct kvc_control_reply *reply, struct kvc_error *err)
{
    if (send(check_fd, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
        return kvc_fail_errno(err, "cannot ask the runner");
    ssize_t got;
    do {
        got = recv(check_fd, reply, sizeof(*reply), 0);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof(*reply))
        return kvc_fail(err, KVC_ESYSTEM, "the runner does not answer");
    return reply->done ? KVC_OK : kvc_fail(err, KVC_ESYSTEM, "%s", reply->problem);
}

bool kvc_control_take(int runner_fd, struct kvc_control_request *request)
{
    return recv(runner_fd, request, sizeof(*request), MSG_DONTWAIT) == sizeof(*request);
}

void kvc_control_answer(int runner_fd, const struct kvc_control_reply *reply)
{
    send(runner_fd, reply, sizeof(*reply), MSG_NOSIGNAL);
}
