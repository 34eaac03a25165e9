#include "tests/mock_server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "tests/mock_server/http_routes.h"

enum { MAX_BODY = 16 << 20, MAX_CONNECTIONS = 64, IDLE_SECONDS = 30 };

struct mock_http {
    struct MHD_Daemon *daemon;
    struct mock *mock;
    int epoll_fd;
    char url[128];
};

/* One request while its body arrives. */
struct arriving {
    struct kvc_buffer body;
    bool too_large;
};

static const char *query_value(const struct mock_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static enum MHD_Result respond(struct MHD_Connection *connection,
                               const struct mock_http_reply *reply)
{
    char *text = json_dumps(reply->body, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        return MHD_NO;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    const enum MHD_Result result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *data_size, void **request_user)
{
    const struct mock_http *http = user;
    struct arriving *arriving = *request_user;
    (void)version;
    if (arriving == NULL) {
        *request_user = kvc_alloc_zero(1, sizeof(*arriving));
        return MHD_YES;
    }
    if (*data_size > 0) {
        arriving->too_large |= *data_size > MAX_BODY - arriving->body.size;
        if (!arriving->too_large)
            kvc_buffer_append(&arriving->body, data, *data_size);
        *data_size = 0;
        return MHD_YES;
    }
    const struct mock_http_request request = {
        .method = method,
        .path = url,
        .body = kvc_buffer_view(&arriving->body),
        .query = query_value,
        .connection = connection,
    };
    struct mock_http_reply reply = {0};
    if (arriving->too_large)
        mock_http_detail(&reply, MHD_HTTP_CONTENT_TOO_LARGE, "at most %d bytes are read", MAX_BODY);
    else
        mock_http_route(http->mock, &request, &reply);
    const enum MHD_Result result = respond(connection, &reply);
    json_decref(reply.body);
    return result;
}

static void on_completed(void *user, struct MHD_Connection *connection, void **request_user,
                         enum MHD_RequestTerminationCode code)
{
    struct arriving *arriving = *request_user;
    (void)user, (void)connection, (void)code;
    if (arriving != NULL)
        kvc_buffer_clear(&arriving->body);
    free(arriving);
    *request_user = NULL;
}

/* getaddrinfo takes "" for 0, and cuts what is too large. */
static bool is_port(const char *text)
{
    const size_t size = strlen(text);
    return size > 0 && size <= 5 && strspn(text, "0123456789") == size && atoi(text) <= 65535;
}

/* "HOST:PORT" to an address to bind. HOST may be a name; an IPv6 address is in brackets. */
static kvc_status resolve(const char *address, struct addrinfo **found, struct kvc_error *err)
{
    char host[128];
    const char *colon = strrchr(address, ':');
    const size_t host_size = colon != NULL ? (size_t)(colon - address) : 0;
    if (colon == NULL || host_size == 0 || host_size >= sizeof(host) || !is_port(colon + 1)) {
        kvc_fail(err, KVC_EUSAGE, "\"%s\" is no address to listen on", address);
        return kvc_error_set_expected(err, "HOST:PORT, such as 127.0.0.1:8080");
    }
    snprintf(host, sizeof(host), "%.*s", (int)host_size, address);
    if (host[0] == '[' && host[host_size - 1] == ']') {
        host[host_size - 1] = '\0';
        memmove(host, host + 1, host_size - 1);
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const int failure = getaddrinfo(host, colon + 1, &hints, found);
    if (failure != 0) {
        kvc_fail(err, KVC_EUSAGE, "cannot listen on %s: %s", address, gai_strerror(failure));
        return kvc_error_set_expected(err, "HOST:PORT, such as 127.0.0.1:8080");
    }
    return KVC_OK;
}

static kvc_status listen_on(const char *address, const struct addrinfo *target, int *fd,
                            struct kvc_error *err)
{
    const int on = 1;
    *fd = socket(target->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return kvc_fail_errno(err, "cannot listen on %s", address);
    setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(*fd, target->ai_addr, target->ai_addrlen) == 0 && listen(*fd, SOMAXCONN) == 0)
        return KVC_OK;
    kvc_fail_errno(err, "cannot listen on %s", address);
    close(*fd);
    return KVC_ESYSTEM;
}

static void describe_url(struct mock_http *http, int fd)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[64] = "", port[16] = "";
    getsockname(fd, (struct sockaddr *)&bound, &size);
    getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    const bool is_ipv6 = strchr(host, ':') != NULL;
    snprintf(http->url, sizeof(http->url), "http://%s%s%s:%s", is_ipv6 ? "[" : "", host,
             is_ipv6 ? "]" : "", port);
}

/* Takes the listening socket over, also when it fails. */
static kvc_status start_daemon(struct mock_http *http, int fd, struct kvc_error *err)
{
    http->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET,
                         fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_CONNECTIONS,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    if (http->daemon == NULL) {
        close(fd);
        return kvc_fail(err, KVC_ESYSTEM, "cannot start the HTTP server");
    }
    http->epoll_fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return KVC_OK;
}

kvc_status mock_http_open(const char *address, struct mock *mock, struct mock_http **http,
                          struct kvc_error *err)
{
    struct addrinfo *targets = NULL;
    int fd = -1;
    KVC_GUARD(resolve(address, &targets, err));
    kvc_status status = listen_on(address, targets, &fd, err);
    freeaddrinfo(targets);
    if (status != KVC_OK)
        return status;
    struct mock_http *opened = kvc_alloc_zero(1, sizeof(*opened));
    opened->mock = mock;
    describe_url(opened, fd);
    status = start_daemon(opened, fd, err);
    if (status != KVC_OK) {
        free(opened);
        return status;
    }
    *http = opened;
    return KVC_OK;
}

void mock_http_close(struct mock_http *http)
{
    MHD_stop_daemon(http->daemon);
    free(http);
}

const char *mock_http_url(const struct mock_http *http)
{
    return http->url;
}

int mock_http_fd(const struct mock_http *http)
{
    return http->epoll_fd;
}

void mock_http_serve(struct mock_http *http)
{
    MHD_run(http->daemon);
}

int64_t mock_http_wait_ms(const struct mock_http *http)
{
    MHD_UNSIGNED_LONG_LONG wait_ms = 0;
    if (MHD_get_timeout(http->daemon, &wait_ms) != MHD_YES || wait_ms > INT_MAX)
        return INT64_MAX;
    return (int64_t)wait_ms;
}
