#include "src/engine/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "src/base/clock.h"

enum { NEWS_AT_ONCE = 256, KEPT_CONNECTIONS = 1 << 16 };

/* The last parameter is what curl_multi_assign set for the socket: not NULL once it is watched. */
static int watch_socket(CURL *easy, curl_socket_t socket, int what, void *user, void *watched)
{
    struct kvc_engine_loop *loop = user;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = socket};
    if ((what & CURL_POLL_IN) != 0)
        event.events |= EPOLLIN;
    if ((what & CURL_POLL_OUT) != 0)
        event.events |= EPOLLOUT;
    const int change = watched == NULL ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (epoll_ctl(loop->epoll, change, socket, &event) != 0)
        return -1;
    curl_multi_assign(loop->multi, socket, loop);
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *user)
{
    struct kvc_engine_loop *loop = user;
    (void)multi;
    loop->timer_ns = timeout_ms < 0 ? -1 : kvc_now_ns() + (int64_t)timeout_ms * 1000000;
    return 0;
}

kvc_status kvc_engine_loop_open(struct kvc_engine_loop *loop, struct kvc_error *err)
{
    *loop = (struct kvc_engine_loop){.epoll = epoll_create1(EPOLL_CLOEXEC), .timer_ns = -1};
    if (loop->epoll < 0)
        return kvc_fail_errno(err, "cannot wait for connections");
    loop->multi = curl_multi_init();
    if (loop->multi == NULL) {
        close(loop->epoll);
        return kvc_fail(err, KVC_ESYSTEM, "libcurl does not start");
    }
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop);
    curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, (long)KEPT_CONNECTIONS);
    return KVC_OK;
}

/* A wait ends before the deadline and not after it: the rest, below a millisecond, is not slept. */
static int wait_ms(const struct kvc_engine_loop *loop, int64_t deadline_ns)
{
    const int64_t now = kvc_now_ns();
    int64_t wait = (deadline_ns - now) / 1000000;
    if (loop->timer_ns >= 0 && (loop->timer_ns - now + 999999) / 1000000 < wait)
        wait = (loop->timer_ns - now + 999999) / 1000000;
    return wait < 0 ? 0 : wait > 60000 ? 60000 : (int)wait;
}

static int action_mask(uint32_t events)
{
    return ((events & (EPOLLIN | EPOLLHUP)) != 0 ? CURL_CSELECT_IN : 0) |
           ((events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
           ((events & EPOLLERR) != 0 ? CURL_CSELECT_ERR : 0);
}

static kvc_status act(struct kvc_engine_loop *loop, curl_socket_t socket, int mask,
                      struct kvc_error *err)
{
    int running;
    const CURLMcode code = curl_multi_socket_action(loop->multi, socket, mask, &running);
    return code == CURLM_OK ? KVC_OK
                            : kvc_fail(err, KVC_ESYSTEM, "libcurl: %s", curl_multi_strerror(code));
}

kvc_status kvc_engine_loop_step(struct kvc_engine_loop *loop, int64_t deadline_ns,
                                struct kvc_error *err)
{
    struct epoll_event news[NEWS_AT_ONCE];
    const int count = epoll_wait(loop->epoll, news, NEWS_AT_ONCE, wait_ms(loop, deadline_ns));
    if (count < 0 && errno != EINTR)
        return kvc_fail_errno(err, "cannot wait for connections");
    for (int i = 0; i < count; i++)
        KVC_GUARD(act(loop, news[i].data.fd, action_mask(news[i].events), err));
    if (loop->timer_ns >= 0 && kvc_now_ns() >= loop->timer_ns) {
        loop->timer_ns = -1;
        KVC_GUARD(act(loop, CURL_SOCKET_TIMEOUT, 0, err));
    }
    return KVC_OK;
}

void kvc_engine_loop_close(struct kvc_engine_loop *loop)
{
    curl_multi_cleanup(loop->multi);
    close(loop->epoll);
}
